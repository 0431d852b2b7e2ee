// The command `deuteron`: samples run on this machine.
#include "tools/execution.h"

namespace dtr::tools {

const char* const kCommandName = "deuteron";
const bool kHasRanks = false;
bool offers_verb(std::string_view) { return true; }
void begin_command() {}
int end_command(int code) { return code; }

std::unique_ptr<TaskExecutor> make_executor(const ExecutorOptions& options) {
  return options.processes ? make_process_executor(*options.processes)
                           : make_thread_executor(options.threads);
}

}  // namespace dtr::tools
