// Tasks and their executors: results in order, whoever runs them.
#include "host/tasks/tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "compiler/support/cancellation.h"
#include "host/tasks/packing.h"
#include "test/unit/function_tasks.h"

namespace dtr {
namespace {

using namespace std::chrono_literals;
using test::Bytes;
using test::job_of;

Bytes number(uint64_t value) {
  Packer packer;
  packer.add(value);
  return packer.take();
}

uint64_t value_of(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  Unpacker unpacker(bytes);
  EXPECT_TRUE(unpacker.take(value) && unpacker.at_end());
  return value;
}

tl::unexpected<Diagnostic> failure(const std::string& reason) {
  return fail(DiagnosticId::kRunFailed, reason);
}

// The tasks whose results were taken, in the order in which they were; each squares its number.
struct Taken {
  std::vector<size_t> tasks;
  TakeResult function() {
    return [this](size_t task, std::span<const std::byte> result) -> Result<void> {
      EXPECT_EQ(value_of(result), task * task);
      tasks.push_back(task);
      return {};
    };
  }
};

void expect_first(const std::vector<size_t>& tasks, size_t count) {
  ASSERT_EQ(tasks.size(), count);
  for (size_t i = 0; i < count; ++i) EXPECT_EQ(tasks[i], i);
}

// Early tasks take longest, so that later ones end before them.
Result<Bytes> slow_square(size_t task) {
  if (task % 7 == 0) std::this_thread::sleep_for(3ms);
  return number(task * task);
}

constexpr unsigned kThreads[] = {0, 1, 2, 5, 16};

TEST(ThreadTasks, AreTakenInOrder) {
  for (const unsigned threads : kThreads) {
    Taken taken;
    size_t last = 0;
    const ProgressFunction progress = [&](size_t done, size_t total) {
      EXPECT_EQ(done, ++last);
      EXPECT_EQ(total, 300U);
    };
    ASSERT_TRUE(
        make_thread_executor(threads)->run(job_of(300, slow_square), taken.function(), progress));
    expect_first(taken.tasks, 300);
    EXPECT_EQ(last, 300U);
  }
}

TEST(ThreadTasks, MayBeNone) {
  Taken taken;
  ASSERT_TRUE(make_thread_executor(3)->run(job_of(0, slow_square), taken.function(), {}));
  EXPECT_TRUE(taken.tasks.empty());
}

// Task 20 fails long after task 23 did.
TEST(ThreadTasks, FailWithTheFirstFailingTaskInOrder) {
  for (const unsigned threads : kThreads) {
    Taken taken;
    std::atomic<size_t> most = 0;
    const auto run = [&](size_t task) -> Result<Bytes> {
      for (size_t seen = most; seen < task && !most.compare_exchange_weak(seen, task);) {
      }
      if (task == 20) std::this_thread::sleep_for(20ms);
      if (task == 20 || task == 23) return failure("task " + std::to_string(task));
      return number(task * task);
    };
    const Result<void> result =
        make_thread_executor(threads)->run(job_of(5000, run), taken.function(), {});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().reason, "task 20") << threads << " threads";
    expect_first(taken.tasks, 20);
    EXPECT_LT(most, 4999U) << "tasks behind a failing one begin";
  }
}

TEST(ThreadTasks, EndWhenAResultIsRefused) {
  for (const unsigned threads : kThreads) {
    size_t calls = 0;
    const TakeResult take = [&](size_t task, std::span<const std::byte>) -> Result<void> {
      ++calls;
      if (task == 11) return failure("full");
      return {};
    };
    const Result<void> result =
        make_thread_executor(threads)->run(job_of(100, slow_square), take, {});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().reason, "full");
    EXPECT_EQ(calls, 12U);
  }
}

TEST(ThreadTasks, FailIfAWorkerDoesNotOpen) {
  TaskJob job = job_of(100, slow_square);
  job.open = []() -> Result<std::unique_ptr<TaskWorker>> { return failure("no memory"); };
  Taken taken;
  const Result<void> result = make_thread_executor(4)->run(job, taken.function(), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().reason, "no memory");
  EXPECT_TRUE(taken.tasks.empty());
}

TEST(ThreadTasks, OfAStreamHaveOneWorker) {
  std::atomic<size_t> opened = 0;
  size_t next = 0;
  TaskJob job = job_of(50, [&](size_t task) {
    EXPECT_EQ(task, next++);
    return slow_square(task);
  });
  job.is_stream = true;
  job.open = [&, open = job.open] {
    ++opened;
    return open();
  };
  Taken taken;
  ASSERT_TRUE(make_thread_executor(8)->run(job, taken.function(), {}));
  expect_first(taken.tasks, 50);
  EXPECT_EQ(opened, 1U);
}

// While task 0 runs, other threads begin no more than the window.
TEST(ThreadTasks, KeepFewResultsWaiting) {
  std::atomic<size_t> begun = 0, at_end = 0;
  const auto run = [&](size_t task) -> Result<Bytes> {
    ++begun;
    if (task == 0) {
      std::this_thread::sleep_for(100ms);
      at_end = begun.load();
    }
    return number(task * task);
  };
  Taken taken;
  ASSERT_TRUE(make_thread_executor(2)->run(job_of(10'000, run), taken.function(), {}));
  expect_first(taken.tasks, 10'000);
  EXPECT_LE(at_end, 2 * 64U);
  EXPECT_GE(at_end, 2U);
}

TEST(ThreadTasks, EndSoonWhenTheWorkIsCancelled) {
  Cancellation cancellation;
  std::jthread user([&] {
    std::this_thread::sleep_for(50ms);
    cancellation.cancel();
  });
  const CancellationScope scope(&cancellation);
  const auto run = [](size_t task) -> Result<Bytes> {
    std::this_thread::sleep_for(1ms);
    check_cancelled();
    return number(task * task);
  };
  Taken taken;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW((void)make_thread_executor(4)->run(job_of(1'000'000, run), taken.function(), {}),
               Cancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

}  // namespace
}  // namespace dtr
