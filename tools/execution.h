// What runs the samples of a verb, and what differs between the commands `deuteron` (local.cpp) and
// `deuteron-mpi` (mpi.cpp), which have this part each.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string_view>

#include "host/tasks/tasks.h"

namespace dtr::tools {

struct ExecutorOptions {
  unsigned threads = 0;
  std::optional<unsigned> processes = std::nullopt;
};

// --threads and --processes. `work`: what the processes do; their tasks are `task`s.
void add_executor(CLI::App* verb, ExecutorOptions& options, const std::string& work = "Run samples",
                  const std::string& task = "sample");

// ---- of each command

extern const char* const kCommandName;
// Whether the command runs on ranks: it then has a verb for its tasks alone.
extern const bool kHasRanks;
// Whether the command has this verb.
bool offers_verb(std::string_view name);
// Before anything else in `main`.
void begin_command();
std::unique_ptr<TaskExecutor> make_executor(const ExecutorOptions& options);
// After everything else; returns the exit code.
int end_command(int code);

}  // namespace dtr::tools
