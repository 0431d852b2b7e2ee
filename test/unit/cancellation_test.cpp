// Work that its caller ends: who notices, and that nothing is left.
#include "compiler/support/cancellation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "compiler/support/interruption.h"
#include "compiler/support/process.h"
#include "compiler/support/thread_pool.h"

namespace dtr {
namespace {

using Clock = std::chrono::steady_clock;

TEST(Cancellation, EndsNothingWithoutAScope) {
  Cancellation cancellation;
  cancellation.cancel();
  EXPECT_NO_THROW(check_cancelled());
  {
    const CancellationScope scope(&cancellation);
    EXPECT_THROW(check_cancelled(), Cancelled);
    const CancellationScope inner(nullptr);
    EXPECT_NO_THROW(check_cancelled());
  }
  EXPECT_NO_THROW(check_cancelled());
}

TEST(Cancellation, ReachesTheThreadsOfAParallelLoop) {
  Cancellation cancellation;
  const CancellationScope scope(&cancellation);
  std::atomic<size_t> done{0};
  const auto body = [&](size_t i) {
    check_cancelled();
    if (i == 5) cancellation.cancel();
    ++done;
  };
  EXPECT_THROW(parallel_for(1000, 3, body), Cancelled);
  EXPECT_GE(done, 1U);
  EXPECT_LT(done, 1000U);
}

TEST(Interrupt, EndsASearchOnceAndOnlyThatOfItsWork) {
  Cancellation mine, other, search, later;
  const CancellationScope scope(&mine);
  EXPECT_FALSE(interrupt(&mine));
  {
    const InterruptScope keeps_the_best(search);
    EXPECT_FALSE(interrupt(&other));
    EXPECT_FALSE(search.cancelled());
    EXPECT_TRUE(interrupt(&mine));
    EXPECT_TRUE(search.cancelled());
    EXPECT_FALSE(interrupt(&mine));
  }
  {
    const InterruptScope keeps_the_best(later);
    EXPECT_TRUE(interrupt(nullptr));
    EXPECT_TRUE(later.cancelled());
  }
  EXPECT_FALSE(interrupt(nullptr));
  EXPECT_FALSE(mine.cancelled());
}

TEST(Cancellation, EndsAProgramThatRuns) {
  Cancellation cancellation;
  std::jthread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cancellation.cancel();
  });
  const CancellationScope scope(&cancellation);
  const Clock::time_point start = Clock::now();
  EXPECT_THROW((void)run_process({"sleep", "60"}, "/", std::chrono::seconds(60)), Cancelled);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
}

// So that they are removed with it when a program that is killed leaves them.
TEST(Processes, HaveTheirTemporaryFilesInTheirFolder) {
  const std::vector<std::string> command{"sh", "-c", "echo $TMPDIR"};
  const auto in_folder = run_process(command, "/usr", std::chrono::seconds(60));
  ASSERT_TRUE(in_folder);
  EXPECT_EQ(in_folder->output, "/usr\n");
}

}  // namespace
}  // namespace dtr
