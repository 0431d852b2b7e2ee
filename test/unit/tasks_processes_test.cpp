// Tasks in child processes that die, the schedule behind them, and checkpoints of any bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "compiler/support/cancellation.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/temporary_folder.h"
#include "host/tasks/checkpoint.h"
#include "host/tasks/packing.h"
#include "host/tasks/processes.h"
#include "test/unit/function_tasks.h"

namespace dtr {
namespace {

using namespace std::chrono_literals;
using test::Bytes;
using test::FunctionWorker;
using test::job_of;

// The square of the task, and as many bytes behind it as its number: results of many sizes.
Result<Bytes> square(size_t task) {
  Packer packer;
  packer.add(uint64_t{task * task});
  packer.add_bytes(Bytes(task % 301, std::byte{7}));
  return packer.take();
}

// Takes results and expects squares in order.
struct Squares {
  size_t next = 0;
  TakeResult function() {
    return [this](size_t task, std::span<const std::byte> result) -> Result<void> {
      uint64_t value = 0;
      Unpacker unpacker(result);
      EXPECT_TRUE(unpacker.take(value));
      EXPECT_EQ(task, next++);
      EXPECT_EQ(value, task * task);
      EXPECT_EQ(result.size(), sizeof value + task % 301);
      return {};
    };
  }
};

// True for one process only, however many try: the first makes the file.
bool is_first(const std::string& path) {
  const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

constexpr unsigned kProcesses[] = {1, 2, 5};

TEST(ProcessTasks, AreTakenInOrder) {
  for (const unsigned processes : kProcesses) {
    Squares squares;
    size_t last = 0;
    const ProgressFunction progress = [&](size_t done, size_t) { EXPECT_EQ(done, ++last); };
    ASSERT_TRUE(
        make_process_executor(processes)->run(job_of(1000, square), squares.function(), progress));
    EXPECT_EQ(squares.next, 1000U);
    EXPECT_EQ(last, 1000U);
  }
}

TEST(ProcessTasks, MayBeNone) {
  Squares squares;
  ASSERT_TRUE(make_process_executor(3)->run(job_of(0, square), squares.function(), {}));
}

TEST(ProcessTasks, FailWithTheFirstFailingTaskInOrder) {
  for (const unsigned processes : kProcesses) {
    Squares squares;
    const auto run = [&](size_t task) -> Result<Bytes> {
      if (task == 20) std::this_thread::sleep_for(20ms);
      if (task == 20 || task == 700)
        return fail(DiagnosticId::kDataShape, "task " + std::to_string(task), "mend it",
                    {.file = "a.npz", .node = "x"});
      return square(task);
    };
    const Result<void> result =
        make_process_executor(processes)->run(job_of(1000, run), squares.function(), {});
    ASSERT_FALSE(result);
    EXPECT_EQ(to_text(result.error()), "error[data-shape]: a.npz: `x`: task 20\n  fix: mend it");
    EXPECT_EQ(squares.next, 20U);
  }
}

// Each of 12 tasks kills its process at the first try.
TEST(ProcessTasks, OfAProcessThatDiesRunAgain) {
  for (const unsigned processes : kProcesses) {
    auto folder = TemporaryFolder::create();
    ASSERT_TRUE(folder);
    const auto run = [&](size_t task) -> Result<Bytes> {
      if (task % 17 == 3 && is_first(folder->path() + "/" + std::to_string(task)))
        ::kill(::getpid(), task % 2 == 0 ? SIGKILL : SIGSEGV);
      return square(task);
    };
    Squares squares;
    const Result<void> result =
        make_process_executor(processes)->run(job_of(200, run), squares.function(), {});
    ASSERT_TRUE(result) << to_text(result.error());
    EXPECT_EQ(squares.next, 200U);
  }
}

TEST(ProcessTasks, ThatAlwaysKillTheirProcessAreNamedAndTheOthersRun) {
  const auto run = [&](size_t task) -> Result<Bytes> {
    if (task == 40 || task == 7) ::kill(::getpid(), SIGKILL);
    return square(task);
  };
  size_t arrived = 0;
  TaskJob job = job_of(100, run);
  job.arrived = [&](size_t, std::span<const std::byte>) -> Result<void> {
    ++arrived;
    return {};
  };
  Squares squares;
  const Result<void> result = make_process_executor(2)->run(job, squares.function(), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().id, DiagnosticId::kResultsLost);
  EXPECT_NE(result.error().reason.find("2 of 100 samples have no result"), std::string::npos)
      << result.error().reason;
  EXPECT_NE(result.error().reason.find("(signal 9): 7, 40"), std::string::npos)
      << result.error().reason;
  EXPECT_EQ(arrived, 98U);
  EXPECT_EQ(squares.next, 7U);
}

TEST(ProcessTasks, RunWithoutTheForkerThatWasKilled) {
  auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  const auto run = [&](size_t task) -> Result<Bytes> {
    if (task == 30 && is_first(folder->path() + "/killed")) {
      ::kill(::getppid(), SIGKILL);  // this process ends with its parent
      std::this_thread::sleep_for(10s);
    }
    return square(task);
  };
  Squares squares;
  const Result<void> result =
      make_process_executor(3)->run(job_of(100, run), squares.function(), {});
  ASSERT_TRUE(result) << to_text(result.error());
  EXPECT_EQ(squares.next, 100U);
}

// A stream begins again in the process that replaces a dead one.
TEST(ProcessTasks, OfAStreamStartAgainFromItsBeginning) {
  auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  TaskJob job{.count = 60, .is_stream = true, .open = [&]() -> Result<std::unique_ptr<TaskWorker>> {
                return std::make_unique<FunctionWorker>(
                    [&, sum = uint64_t{0}](size_t task) mutable -> Result<Bytes> {
                      if (task == 33 && is_first(folder->path() + "/killed"))
                        ::kill(::getpid(), SIGKILL);
                      sum += task;
                      Packer packer;
                      packer.add(sum);
                      return packer.take();
                    });
              }};
  size_t next = 0;
  const TakeResult take = [&](size_t task, std::span<const std::byte> result) -> Result<void> {
    uint64_t sum = 0;
    Unpacker unpacker(result);
    EXPECT_TRUE(unpacker.take(sum));
    EXPECT_EQ(task, next++);
    EXPECT_EQ(sum, task * (task + 1) / 2);
    return {};
  };
  const Result<void> result = make_process_executor(4)->run(job, take, {});
  ASSERT_TRUE(result) << to_text(result.error());
  EXPECT_EQ(next, 60U);
}

TEST(ProcessTasks, EndSoonWhenTheWorkIsCancelled) {
  Cancellation cancellation;
  std::jthread user([&] {
    std::this_thread::sleep_for(50ms);
    cancellation.cancel();
  });
  const CancellationScope scope(&cancellation);
  const auto run = [](size_t task) -> Result<Bytes> {
    std::this_thread::sleep_for(60s);
    return square(task);
  };
  Squares squares;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW((void)make_process_executor(2)->run(job_of(10'000, run), squares.function(), {}),
               Cancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

// ---- pools

// Reverses its input; the worker's number of tasks so far comes before it. An input of one byte is
// an order: 1 kills the worker for the first time, 2 fails, 3 takes long.
class ReversingWorker final : public TaskWorker {
 public:
  explicit ReversingWorker(std::string path) : path_(std::move(path)) {}
  Result<Bytes> run(size_t /*task*/, std::span<const std::byte> input) override {
    ++count_;
    if (input.size() == 1) {
      if (input[0] == std::byte{1} && is_first(path_)) ::kill(::getpid(), SIGKILL);
      if (input[0] == std::byte{2}) return fail(DiagnosticId::kRunFailed, "asked to fail");
      if (input[0] == std::byte{3}) std::this_thread::sleep_for(300ms);
    }
    Packer packer;
    packer.add(count_);
    packer.add_bytes(Bytes(input.rbegin(), input.rend()));
    return packer.take();
  }

 private:
  std::string path_;
  uint64_t count_ = 0;
};

class PoolTest : public testing::Test {
 protected:
  PoolTest()
      : folder_(*TemporaryFolder::create()),
        job_{.open = [this]() -> Result<std::unique_ptr<TaskWorker>> {
               return std::make_unique<ReversingWorker>(folder_.path() + "/killed");
             },
             .noun = "programs"} {}
  static std::vector<Bytes> inputs(size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Bytes> made(count);
    for (size_t i = 0; i < count; ++i) {
      made[i].resize(i % 5 == 0 ? 0 : 2 + random() % (i % 7 == 0 ? 200'000 : 300));
      for (std::byte& byte : made[i]) byte = static_cast<std::byte>(random());
    }
    return made;
  }
  // Returns the tasks that the busiest worker has run.
  static uint64_t expect_reversed(const std::vector<Bytes>& results,
                                  const std::vector<Bytes>& inputs) {
    EXPECT_EQ(results.size(), inputs.size());
    uint64_t most = 0;
    for (size_t i = 0; i < std::min(results.size(), inputs.size()); ++i) {
      uint64_t count = 0;
      std::span<const std::byte> rest;
      Unpacker unpacker(results[i]);
      EXPECT_TRUE(unpacker.take(count) && unpacker.take_bytes(inputs[i].size(), rest));
      EXPECT_TRUE(std::ranges::equal(rest, Bytes(inputs[i].rbegin(), inputs[i].rend()))) << i;
      most = std::max(most, count);
    }
    return most;
  }
  TemporaryFolder folder_;
  TaskJob job_;
};

TEST_F(PoolTest, ThreadsHaveNone) {
  const auto pool = make_thread_executor(3)->start(job_);
  ASSERT_TRUE(pool);
  EXPECT_EQ(*pool, nullptr);
}

TEST_F(PoolTest, KeepsItsWorkersFromBatchToBatch) {
  for (const unsigned processes : kProcesses) {
    const auto pool = make_process_executor(processes)->start(job_);
    ASSERT_TRUE(pool);
    EXPECT_EQ((*pool)->size(), processes);
    uint64_t most = 0;
    for (unsigned batch = 0; batch < 20; ++batch) {
      const std::vector<Bytes> given = inputs(batch, batch);
      const auto results = (*pool)->run(given);
      ASSERT_TRUE(results) << to_text(results.error());
      most = std::max(most, expect_reversed(*results, given));
    }
    EXPECT_GE(most, 190 / processes);  // of 190 tasks
  }
}

TEST_F(PoolTest, GivesTheTaskOfAWorkerThatDiesToAnother) {
  const auto pool = make_process_executor(2)->start(job_);
  ASSERT_TRUE(pool);
  std::vector<Bytes> given = inputs(30, 1);
  given[11] = {std::byte{1}};
  for (int batch = 0; batch < 2; ++batch) {
    const auto results = (*pool)->run(given);
    ASSERT_TRUE(results) << to_text(results.error());
    expect_reversed(*results, given);
  }
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/killed"));
}

// What workers still have of a batch that ended early does not come into the next one.
TEST_F(PoolTest, GoesOnAfterABatchThatFailed) {
  const auto pool = make_process_executor(3)->start(job_);
  ASSERT_TRUE(pool);
  for (unsigned batch = 0; batch < 5; ++batch) {
    std::vector<Bytes> given = inputs(60, batch);
    given[1] = {std::byte{3}};
    given[4] = {std::byte{2}};
    given[8] = {std::byte{3}};
    const auto failed = (*pool)->run(given);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().reason, "asked to fail");
    given = inputs(10, batch + 100);
    const auto results = (*pool)->run(given);
    ASSERT_TRUE(results) << to_text(results.error());
    expect_reversed(*results, given);
  }
}

TEST_F(PoolTest, GoesOnAfterABatchThatWasCancelled) {
  const auto pool = make_process_executor(2)->start(job_);
  ASSERT_TRUE(pool);
  {
    Cancellation cancellation;
    const CancellationScope scope(&cancellation);
    std::jthread user([&] {
      std::this_thread::sleep_for(100ms);
      cancellation.cancel();
    });
    const std::vector<Bytes> slow(20, Bytes{std::byte{3}});
    EXPECT_THROW((void)(*pool)->run(slow), Cancelled);
  }
  const std::vector<Bytes> given = inputs(25, 9);
  const auto results = (*pool)->run(given);
  ASSERT_TRUE(results) << to_text(results.error());
  expect_reversed(*results, given);
}

TEST_F(PoolTest, TellsWhyItsWorkersCannotBeOpened) {
  for (const bool at_once : {false, true}) {
    job_.opens_at_once = at_once;
    job_.open = []() -> Result<std::unique_ptr<TaskWorker>> {
      return fail(DiagnosticId::kFileNotFound, "no model");
    };
    const auto pool = make_process_executor(2)->start(job_);
    ASSERT_TRUE(pool);
    const auto results = (*pool)->run(inputs(3, 1));
    ASSERT_FALSE(results);
    EXPECT_EQ(results.error().reason, "no model");
  }
}

TEST(Schedule, GivesSmallerRangesTowardsTheEnd) {
  TaskSchedule schedule({.count = 800}, 2);
  size_t next = 0, last = 1000;
  while (const auto range = schedule.next()) {
    EXPECT_EQ(range->begin, next);
    EXPECT_LE(range->end - range->begin, last);
    last = range->end - range->begin;
    next = range->end;
    for (size_t i = range->begin; i < range->end; ++i) EXPECT_TRUE(schedule.finish(i));
  }
  EXPECT_EQ(next, 800U);
  EXPECT_EQ(last, 1U);
  EXPECT_TRUE(schedule.done());
}

TEST(Schedule, GivesAWorkersTasksToOthersOnce) {
  TaskSchedule schedule({.count = 10}, 1);
  const auto range = schedule.next();
  ASSERT_EQ(range, (TaskRange{0, 2}));
  EXPECT_TRUE(schedule.finish(0));
  EXPECT_FALSE(schedule.finish(0));  // from a worker that was thought to be lost
  EXPECT_FALSE(schedule.give_back(*range));
  EXPECT_EQ(schedule.next(), (TaskRange{1, 2}));
  EXPECT_FALSE(schedule.give_back({1, 2}));
  EXPECT_TRUE(schedule.give_back({1, 2}));  // for the third time
  EXPECT_EQ(schedule.given_up(), std::vector<size_t>{1});
}

TEST(Schedule, SkipsWhatIsKnown) {
  TaskJob job{.count = 6};
  job.known = {true, false, false, true, false, true};
  TaskSchedule schedule(job, 1);
  std::vector<size_t> given;
  while (const auto range = schedule.next())
    for (size_t i = range->begin; i < range->end; ++i) {
      given.push_back(i);
      schedule.finish(i);
    }
  EXPECT_EQ(given, (std::vector<size_t>{1, 2, 4}));
  EXPECT_TRUE(schedule.done());
}

// ---- checkpoints

constexpr uint64_t kIdentity = 0x1234'5678'9ABC'DEF0;

Result<void> run_checkpointed(const std::string& path, bool resume, size_t count,
                              const std::function<Result<Bytes>(size_t)>& run, Squares& squares,
                              uint64_t identity = kIdentity) {
  const auto threads = make_thread_executor(3);
  return with_checkpoint(*threads, {.path = path, .resume = resume, .identity = identity}, {})
      ->run(job_of(count, run), squares.function(), {});
}

// Runs 50 tasks, of which number 30 fails, into a checkpoint.
void leave_unfinished(const std::string& path) {
  Squares squares;
  const auto run = [](size_t task) -> Result<Bytes> {
    if (task == 30) return fail(DiagnosticId::kRunFailed, "no power");
    return square(task);
  };
  EXPECT_FALSE(run_checkpointed(path, false, 50, run, squares));
  EXPECT_EQ(squares.next, 30U);
}

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : folder_(*TemporaryFolder::create()), path_(folder_.path() + "/c") {}
  Bytes content() const {
    const auto read = FileContents::read(path_);
    return {read->bytes().begin(), read->bytes().end()};
  }
  void write(std::span<const std::byte> bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  TemporaryFolder folder_;
  std::string path_;
};

TEST_F(CheckpointTest, GoesOnWithWhatIsMissing) {
  leave_unfinished(path_);
  std::atomic<size_t> ran = 0, least = 1000;
  const auto run = [&](size_t task) {
    ++ran;
    for (size_t seen = least; task < seen && !least.compare_exchange_weak(seen, task);) {
    }
    return square(task);
  };
  Squares squares;
  const auto result = run_checkpointed(path_, true, 50, run, squares);
  ASSERT_TRUE(result) << to_text(result.error());
  EXPECT_EQ(squares.next, 50U);
  EXPECT_LE(ran, 20U);
  EXPECT_EQ(least, 30U);
  Squares again;
  ran = 0;
  ASSERT_TRUE(run_checkpointed(path_, true, 50, run, again));
  EXPECT_EQ(again.next, 50U);
  EXPECT_EQ(ran, 0U);
}

TEST_F(CheckpointTest, IsNotOverwrittenNorMixed) {
  leave_unfinished(path_);
  const Bytes before = content();
  Squares squares;
  const auto present = run_checkpointed(path_, false, 50, square, squares);
  ASSERT_FALSE(present);
  EXPECT_EQ(present.error().id, DiagnosticId::kCheckpointExists);
  const auto other = run_checkpointed(path_, true, 50, square, squares, kIdentity + 1);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().id, DiagnosticId::kCheckpointMismatch);
  EXPECT_NE(other.error().reason.find("that of another run"), std::string::npos);
  EXPECT_FALSE(run_checkpointed(path_, true, 51, square, squares));
  EXPECT_EQ(content(), before);
  const auto missing = run_checkpointed(path_ + "x", true, 50, square, squares);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().id, DiagnosticId::kFileNotFound);
  write(std::as_bytes(std::span("a text of somebody that is longer than a header is")));
  const auto text = run_checkpointed(path_, true, 50, square, squares);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().id, DiagnosticId::kCheckpointDamaged);
  EXPECT_NE(text.error().reason.find("no checkpoint"), std::string::npos);
  EXPECT_EQ(squares.next, 0U);
}

TEST_F(CheckpointTest, IsWrittenByOneRunAtATime) {
  const auto run = [&](size_t task) -> Result<Bytes> {
    Squares squares;
    const auto second = run_checkpointed(path_, true, 50, square, squares);
    if (second || second.error().id != DiagnosticId::kCheckpointInUse)
      return fail(DiagnosticId::kRunFailed, "two runs write to one file");
    return square(task);
  };
  Squares squares;
  const auto result = run_checkpointed(path_, false, 50, run, squares);
  ASSERT_TRUE(result) << to_text(result.error());
  EXPECT_EQ(squares.next, 50U);
}

// As a killed process leaves it: cut off anywhere.
TEST_F(CheckpointTest, ThatWasCutOffGoesOn) {
  leave_unfinished(path_);
  const Bytes whole = content();
  for (size_t size = 0; size <= whole.size(); size += size < 100 ? 1 : 97) {
    write(std::span(whole).first(size));
    Squares squares;
    const auto result = run_checkpointed(path_, true, 50, square, squares);
    ASSERT_TRUE(result) << size << ": " << to_text(result.error());
    ASSERT_EQ(squares.next, 50U) << size;
  }
}

// Whatever the bytes are, a result that is read is one that was written.
TEST_F(CheckpointTest, ThatIsDamagedHoldsNoWrongResult) {
  leave_unfinished(path_);
  const Bytes whole = content();
  std::mt19937 random(19);
  size_t refused = 0, read = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes = whole;
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % (round % 2 == 0 ? bytes.size() : 200);
      switch (random() % 4) {
        case 0:
          bytes[at] ^= static_cast<std::byte>(1U << random() % 8);
          break;
        case 1:
          bytes[at] = random() % 2 == 0 ? std::byte{0xFF} : std::byte{0};
          break;
        case 2:
          bytes.resize(std::max<size_t>(at, 200));
          break;
        default:
          bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), std::byte{0x43});
      }
    }
    const auto content = parse_checkpoint(bytes, kIdentity, 50, path_);
    if (!content) {
      ++refused;
      continue;
    }
    ASSERT_LE(content->good_bytes, bytes.size());
    for (const auto& [task, result] : content->results) {
      ++read;
      ASSERT_LT(task, 50U);
      ASSERT_EQ(result, *square(task));
    }
  }
  EXPECT_GT(refused, 100U);
  EXPECT_GT(read, 1000U);
}

TEST(Frames, OfAnyBytesAreReadOrRefused) {
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    FrameReader reader;
    std::vector<WorkerEvent> events;
    Bytes bytes(random() % 200);
    for (std::byte& each : bytes) each = static_cast<std::byte>(random());
    if (round % 2 == 0 && bytes.size() > 24) {
      const Frame frame{.task = 3, .size = random() % 64};
      std::memcpy(bytes.data(), &frame, sizeof frame);
    }
    reader.add(bytes);
    (void)reader.take(0, events);
    for (const WorkerEvent& event : events) (void)unpack_diagnostic(event.bytes);
  }
}

TEST(Diagnostics, ArriveAsTheyWereSent) {
  const Diagnostic sent{.id = DiagnosticId::kDataShape,
                        .reason = "a",
                        .fix = "b",
                        .place = {.file = "c", .node = "d", .module_path = "e", .source_line = "f"},
                        .severity = Severity::kWarning};
  EXPECT_EQ(to_json(unpack_diagnostic(pack_diagnostic(sent))), to_json(sent));
  Bytes cut = pack_diagnostic(sent);
  cut.pop_back();
  EXPECT_EQ(unpack_diagnostic(cut).id, DiagnosticId::kProcessFailed);
}

}  // namespace
}  // namespace dtr
