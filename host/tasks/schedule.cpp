#include "host/tasks/schedule.h"

#include <algorithm>

namespace dtr {

TaskSchedule::TaskSchedule(const TaskJob& job, size_t workers)
    : workers_(workers), end_(job.count), is_stream_(job.is_stream), finished_(job.count, false) {
  if (!is_stream_)
    for (size_t i = 0; i < std::min(job.known.size(), job.count); ++i) finished_[i] = job.known[i];
  open_ = static_cast<size_t>(std::ranges::count(finished_, false));
  if (is_stream_) {
    if (job.count > 0) waiting_.push_back({0, job.count});
    return;
  }
  put_back({0, job.count});
}

// The runs of tasks without a result.
void TaskSchedule::put_back(TaskRange range) {
  range.end = std::min(range.end, end_);
  std::vector<TaskRange> runs;
  for (size_t i = range.begin; i < range.end; ++i) {
    if (finished_[i]) continue;
    if (runs.empty() || runs.back().end != i) runs.push_back({i, i});
    ++runs.back().end;
  }
  // What was begun first goes first.
  waiting_.insert(waiting_.begin(), runs.begin(), runs.end());
}

std::optional<TaskRange> TaskSchedule::next() {
  while (!waiting_.empty()) {
    TaskRange& front = waiting_.front();
    front.end = std::min(front.end, end_);
    if (!is_stream_)
      while (front.begin < front.end && finished_[front.begin]) ++front.begin;
    if (front.begin >= front.end) {
      waiting_.pop_front();
      continue;
    }
    size_t size = front.end - front.begin;
    if (!is_stream_) size = std::min({size, kMostTasks, std::max<size_t>(1, open_ / workers_ / 4)});
    const TaskRange range{front.begin, front.begin + size};
    front.begin = range.end;
    return range;
  }
  return std::nullopt;
}

bool TaskSchedule::finish(size_t task) {
  if (task >= finished_.size() || finished_[task]) return false;
  finished_[task] = true;
  ++finished_count_;
  if (task < end_) --open_;
  return true;
}

size_t TaskSchedule::first_open(TaskRange range) const {
  size_t task = range.begin;
  while (task < range.end && finished_[task]) ++task;
  return task;
}

bool TaskSchedule::give_back(TaskRange range) {
  const size_t task = first_open(range);
  bool lost = false;
  if (task < range.end && task < end_ && ++deaths_[task] >= kMostDeaths) {
    given_up_.push_back(task);
    finished_[task] = true;
    --open_;
    lost = true;
    if (is_stream_) fail_at(task);
  }
  lose_contact(range);
  return lost;
}

void TaskSchedule::lose_contact(TaskRange range) {
  if (is_stream_) {
    if (open_ > 0) waiting_.push_front({0, end_});
    return;
  }
  put_back(range);
}

void TaskSchedule::fail_at(size_t task) {
  if (task >= end_) return;
  for (size_t i = task; i < end_; ++i)
    if (!finished_[i]) --open_;
  end_ = task;
}

}  // namespace dtr
