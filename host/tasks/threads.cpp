#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "compiler/support/thread_pool.h"
#include "host/tasks/tasks.h"

namespace dtr {
namespace {

using Bytes = std::vector<std::byte>;

constexpr size_t kWaitingPerThread = 64;

// One run of a job. Threads take the task with the lowest number that is left. Therefore all tasks
// before a failing one have begun when it fails, and only they must still end.
class ThreadRun {
 public:
  ThreadRun(const TaskJob& job, const TakeResult& take, const ProgressFunction& progress,
            size_t threads)
      : job_(job),
        take_(take),
        progress_(progress),
        window_(threads * kWaitingPerThread),
        end_(job.count),
        next_(unknown_from(0)),
        taken_(next_) {}

  // The loop of a thread.
  void work() {
    std::unique_ptr<TaskWorker> worker;
    try {
      while (const std::optional<size_t> task = next()) finish(*task, run(worker, *task));
    } catch (...) {
      stop();
      throw;
    }
  }

  Result<void> result() {
    if (failure_) return tl::unexpected(*std::move(failure_));
    return {};
  }

 private:
  // The first task from this one on that is to be run.
  size_t unknown_from(size_t task) const {
    if (!job_.is_stream)
      while (task < job_.known.size() && job_.known[task]) ++task;
    return task;
  }

  Result<Bytes> run(std::unique_ptr<TaskWorker>& worker, size_t task) const {
    if (!worker) {
      DTR_ASSIGN(worker, job_.open());
    }
    return worker->run(task, {});
  }

  std::optional<size_t> next() {
    std::unique_lock lock(mutex_);
    // The thread that runs task `taken_` never waits here.
    changed_.wait(lock, [&] { return stopped_ || next_ >= end_ || next_ < taken_ + window_; });
    if (stopped_ || next_ >= end_) return std::nullopt;
    const size_t task = next_;
    next_ = unknown_from(next_ + 1);
    return task;
  }

  void finish(size_t task, Result<Bytes> result) {
    const std::scoped_lock lock(mutex_);
    if (result && job_.arrived)
      if (Result<void> arrived = job_.arrived(task, *result); !arrived)
        result = tl::unexpected(std::move(arrived.error()));
    if (result) {
      waiting_.emplace(task, *std::move(result));
      if (progress_ && !failure_) progress_(++done_, job_.count);
    } else {
      fail_at(task, std::move(result.error()));
    }
    for (auto at = waiting_.begin(); at != waiting_.end() && at->first == taken_ && taken_ < end_;
         at = waiting_.erase(at)) {
      if (Result<void> taken = take_(taken_, at->second); !taken)
        fail_at(taken_, std::move(taken.error()));
      else
        taken_ = unknown_from(taken_ + 1);
    }
    changed_.notify_all();
  }

  void fail_at(size_t task, Diagnostic failure) {
    if (task >= end_) return;
    end_ = task;
    failure_ = std::move(failure);
  }

  void stop() {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

  const TaskJob& job_;
  const TakeResult& take_;
  const ProgressFunction& progress_;
  const size_t window_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t end_;                       // no task from here on begins
  size_t next_;                      // the first task that has not begun
  size_t taken_;                     // the first task whose result was not passed on
  size_t done_ = 0;                  // for the progress
  std::map<size_t, Bytes> waiting_;  // results behind one that is missing
  std::optional<Diagnostic> failure_;
  bool stopped_ = false;
};

class ThreadExecutor final : public TaskExecutor {
 public:
  explicit ThreadExecutor(unsigned threads) : threads_(threads) {}

  Result<void> run(const TaskJob& job, const TakeResult& take,
                   const ProgressFunction& progress) override {
    const size_t most = threads_ == 0 ? default_threads() : threads_;
    const size_t threads = job.is_stream ? 1 : std::min(most, job.count);
    ThreadRun running(job, take, progress, std::max<size_t>(threads, 1));
    parallel_for(threads, static_cast<unsigned>(threads), [&](size_t) { running.work(); });
    return running.result();
  }

  unsigned threads_for_each(size_t tasks, bool is_stream) const override {
    const unsigned most = threads_ == 0 ? default_threads() : threads_;
    const size_t workers = is_stream ? 1 : std::clamp<size_t>(tasks, 1, most);
    return most / static_cast<unsigned>(workers);
  }

 private:
  const unsigned threads_;
};

}  // namespace

std::unique_ptr<TaskExecutor> make_thread_executor(unsigned threads) {
  return std::make_unique<ThreadExecutor>(threads);
}

}  // namespace dtr
