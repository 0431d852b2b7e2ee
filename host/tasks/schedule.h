// Which tasks a worker gets next, and what becomes of those of a worker that died. No I/O.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "host/tasks/tasks.h"

namespace dtr {

// Tasks [begin, end).
struct TaskRange {
  size_t begin = 0, end = 0;
  bool operator==(const TaskRange&) const = default;
};

class TaskSchedule {
 public:
  static constexpr size_t kMostTasks = 1024;  // of a range
  static constexpr int kMostDeaths = 3;       // of one task

  // `workers`: at least 1.
  TaskSchedule(const TaskJob& job, size_t workers);

  // The tasks for a worker that has none: a quarter of an equal share of what is left, so that all
  // workers end at about the same time; all tasks of a stream. std::nullopt: none is left, or they
  // are with other workers.
  std::optional<TaskRange> next();
  // A result of the task came. False if there was one already.
  bool finish(size_t task);
  // The worker that had these tasks died; it ran the first one without a result. Returns true if
  // that task is given up.
  bool give_back(TaskRange range);
  // The worker that had them can no longer be reached; what it ran is not to blame.
  void lose_contact(TaskRange range);
  // A task failed: none behind it is needed.
  void fail_at(size_t task);

  // All tasks are finished or given up, or stand behind one that failed.
  bool done() const { return open_ == 0; }
  const std::vector<size_t>& given_up() const { return given_up_; }
  size_t finished() const { return finished_count_; }

 private:
  void put_back(TaskRange range);
  size_t first_open(TaskRange range) const;

  size_t workers_, end_;
  bool is_stream_;
  std::vector<bool> finished_;  // or known, or given up
  size_t open_ = 0;             // tasks before end_ that are not
  size_t finished_count_ = 0;
  std::deque<TaskRange> waiting_;
  std::map<size_t, int> deaths_;  // by task
  std::vector<size_t> given_up_;
};

}  // namespace dtr
