// A group of workers that are not threads of this process, and the loop that gives them tasks.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/tasks/schedule.h"

namespace dtr {

// What a worker tells.
struct WorkerEvent {
  enum class Kind : uint8_t {
    kResult,   // of `task`
    kFailure,  // of `task`, which a diagnostic describes
    kDied,     // it is replaced; what it had is to be given again
    kLost,     // there is no contact with it any more
    kArrived,  // a worker that was not there before, or that was lost
  };
  Kind kind;
  size_t worker = 0;
  size_t task = 0;
  std::vector<std::byte> bytes = {};  // of kResult: the result; of kFailure: pack_diagnostic
  std::string why = {};               // of kDied: "signal 11"
};

class WorkerGroup {
 public:
  virtual ~WorkerGroup() = default;
  // Workers are numbered from 0; the number may grow.
  virtual size_t size() const = 0;
  // The number that will be there.
  virtual size_t expected() const { return size(); }
  // Gives a worker that has none the tasks of a range. `inputs`: pack_inputs.
  virtual void give(size_t worker, TaskRange range, std::span<const std::byte> inputs) = 0;
  // Waits for events, at most this long. Error: there are no workers any more.
  virtual Result<std::vector<WorkerEvent>> wait(std::chrono::milliseconds most) = 0;
};

// Gives the tasks of jobs to the workers of a group.
class Coordinator {
 public:
  explicit Coordinator(WorkerGroup& group) : group_(group) {}
  // Runs a job. A worker may still have tasks of one that was ended before; what becomes of them is
  // ignored. Errors: those of TaskExecutor::run and of make_process_executor.
  Result<void> run(const TaskJob& job, const TakeResult& take, const ProgressFunction& progress);

 private:
  class Run;
  struct Slot {
    std::optional<TaskRange> range;
    bool is_there = true;
  };

  WorkerGroup& group_;
  std::vector<Slot> slots_;  // by worker
  // Workers know tasks by numbers that go on from job to job; the number of the job's first one.
  size_t first_ = 0;
};

// TaskPool::run, by a coordinator. Errors: those of TaskPool::run.
Result<std::vector<std::vector<std::byte>>> run_inputs(
    Coordinator& coordinator, const TaskJob& job, std::span<const std::vector<std::byte>> inputs);

// The inputs of tasks that a worker gets together; nothing, if the tasks have none.
std::vector<std::byte> pack_inputs(std::span<const std::vector<std::byte>> inputs);

std::vector<std::byte> pack_diagnostic(const Diagnostic& diagnostic);
// For damaged bytes a diagnostic that says so.
Diagnostic unpack_diagnostic(std::span<const std::byte> bytes);

}  // namespace dtr
