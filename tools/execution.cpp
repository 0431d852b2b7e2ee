#include "tools/execution.h"

#include "tools/verb.h"

namespace dtr::tools {

void add_executor(CLI::App* verb, ExecutorOptions& options, const std::string& work,
                  const std::string& task) {
  add_threads(verb, options.threads);
  verb->add_option("--processes", options.processes,
                   work +
                       " in this many child processes in place of threads (0: one for each "
                       "processor). Another one takes the " +
                       task + " of a process that dies")
      ->check(CLI::Range(0, 1024))
      ->excludes("--threads");
}

}  // namespace dtr::tools
