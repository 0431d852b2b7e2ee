// Tasks: independent pieces of work, numbered from 0, whose results are bytes. A verb describes its
// tasks; an executor distributes them over threads or processes and passes the results on in the
// order of their numbers, so that no result depends on the executor. A search, whose later tasks
// depend on earlier results, starts workers once and gives them one batch of tasks after the other.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/support/progress.h"
#include "compiler/support/result.h"

namespace dtr {

// Runs tasks, one after the other, on one thread.
class TaskWorker {
 public:
  virtual ~TaskWorker() = default;
  // `input`: that of the task in a pool; else empty. Error: why the task has no result; it ends the
  // run of all.
  virtual Result<std::vector<std::byte>> run(size_t task, std::span<const std::byte> input) = 0;
};

struct TaskJob {
  size_t count = 0;
  // Each task depends on those before it: one worker runs all of them, in order.
  bool is_stream = false;
  // Opens the worker of a thread or process, which calls this itself, perhaps beside others.
  std::function<Result<std::unique_ptr<TaskWorker>>()> open = {};
  // A worker process opens it before it gets a task: beside what the caller prepares.
  bool opens_at_once = false;
  // Tasks that are not run, because their results are known; empty: none. Of a stream all run.
  std::vector<bool> known = {};
  // Receives each result as soon as it is there, in any order, before `take` does; may be empty.
  // One call at a time, on any thread. An error ends the run.
  std::function<Result<void>(size_t task, std::span<const std::byte> result)> arrived = {};
  // For each task what it works on; empty: the number says it.
  std::span<const std::vector<std::byte>> inputs = {};
  std::string_view noun = "samples";  // what tasks are called in messages
};

// Receives the results, in order and one at a time, on any thread. An error ends the run.
using TakeResult = std::function<Result<void>(size_t task, std::span<const std::byte> result)>;

// Workers that wait for tasks until the object is gone.
class TaskPool {
 public:
  virtual ~TaskPool() = default;
  // The number of workers, at least 1.
  virtual size_t size() const = 0;
  // Runs a task for each input; the results are in the same order. Errors: those of
  // TaskExecutor::run.
  virtual Result<std::vector<std::vector<std::byte>>> run(
      std::span<const std::vector<std::byte>> inputs) = 0;
};

class TaskExecutor {
 public:
  virtual ~TaskExecutor() = default;
  // False in a process that only runs tasks for another one, in which `run` does not return.
  virtual bool is_coordinator() const { return true; }
  // Runs all tasks that are not known; `take` receives nothing of those. `progress` may be empty.
  // Errors: that of the failing task with the lowest number, before which `take` has received all
  // results and after which it receives none; those of `open` and `take`.
  virtual Result<void> run(const TaskJob& job, const TakeResult& take,
                           const ProgressFunction& progress) = 0;
  // How many threads each task may have, beside the others of so many tasks, or of a stream.
  virtual unsigned threads_for_each(size_t tasks, bool is_stream) const {
    (void)tasks, (void)is_stream;
    return 1;
  }
  // Starts workers, which `job.open` opens. Does not return in a process that is no coordinator.
  // Null: tasks would only run in this process, whose caller knows
  // better how to use its threads. Error: kProcessFailed.
  virtual Result<std::unique_ptr<TaskPool>> start(const TaskJob& job) {
    (void)job;
    return nullptr;
  }
};

// Runs tasks on so many threads (0: default_threads()) of this process. Results that wait for one
// with a lower number are at most 64 a thread. Work that is cancelled throws Cancelled.
std::unique_ptr<TaskExecutor> make_thread_executor(unsigned threads);

// Runs tasks in so many child processes (0: default_threads()), which share this one's memory until
// they write to it. A process that dies loses the task that it was running, which another one runs
// again. Errors, besides those of run: kProcessFailed; kResultsLost, if three processes died of one
// task, which names all such tasks, and all others have been run.
std::unique_ptr<TaskExecutor> make_process_executor(unsigned processes);

}  // namespace dtr
