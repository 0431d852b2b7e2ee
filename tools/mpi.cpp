// The command `deuteron-mpi`: samples and programs run on all ranks of an MPI job (docs/scale.md).
// Rank 0 coordinates: it gives ranges of tasks to the workers of all ranks and prints the result.
// Every rank reads the files itself, forks its workers before it starts MPI, and passes
// messages between them and rank 0. A worker that dies therefore does not end its rank.
#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "compiler/support/encode.h"
#include "compiler/support/thread_pool.h"
#include "host/tasks/packing.h"
#include "host/tasks/processes.h"
#include "tools/execution.h"
#include "tools/print.h"

namespace dtr::tools {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

// Each message is at most this long. MPI then copies it on its way (the eager protocol), so that no
// rank waits inside MPI for one that died.
constexpr size_t kMessageBytes = 2000;
constexpr auto kLook = 1ms;                     // for messages of other ranks
constexpr auto kCollect = 100ms;                // results travel together
constexpr auto kAlive = 500ms;                  // a rank without results says that it is there
constexpr auto kLost = 10s;                     // a rank that says nothing is given up
constexpr auto kAbandoned = 30s;                // a rank without a coordinator ends
constexpr auto kLeave = 10s;                    // for the end of all ranks
constexpr int kToRank = 1, kToCoordinator = 2;  // tags

// A rank's message to the coordinator, in a stream that is cut into MPI's messages.
struct Report {
  enum class Kind : uint32_t { kWorkers = 1, kResult, kFailure, kDied, kAbsent, kLeaving };
  Kind kind;
  uint32_t worker = 0;  // of the rank; of kWorkers: their number
  uint64_t task = 0, size = 0;
};
// The coordinator's message to a rank, also in a stream. The inputs of the tasks follow.
struct Order {
  enum class Kind : uint32_t { kRange = 1, kEnd, kThere } kind;
  uint32_t worker = 0;
  TaskRange range = {};
  uint64_t size = 0;
};

// The rank, from the environment of those who start ranks: needed before MPI starts. 0: none.
int given_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return 0;
}

// What this process knows of its job. MPI has one state a process, and so has this.
struct State {
  int rank = 0, ranks = 1;
  bool started = false;
  bool all_left = true;  // no rank was lost: MPI can be ended in order
  int printed = -1;      // where a rank that does not coordinate prints to
  std::deque<std::pair<MPI_Request, Bytes>> sent;
  std::mutex mutex;  // of MPI: one thread at a time
};
State& state() {
  static State instance;
  return instance;
}

void start_mpi() {
  State& self = state();
  if (self.started) return;
  self.started = true;
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &self.ranks);
  if (rank == self.rank) return;
  print_error("deuteron-mpi: rank {} was started as rank {}: use the mpirun of its MPI\n", rank,
              self.rank);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

// Sends one message without waiting: the receiver may be dead.
void post_message(int rank, int tag, std::span<const std::byte> bytes) {
  const std::scoped_lock lock(state().mutex);
  std::deque<std::pair<MPI_Request, Bytes>>& sent = state().sent;
  sent.emplace_back(MPI_REQUEST_NULL, Bytes(bytes.begin(), bytes.end()));
  const Bytes& kept = sent.back().second;
  MPI_Isend(kept.data(), static_cast<int>(kept.size()), MPI_BYTE, rank, tag, MPI_COMM_WORLD,
            &sent.back().first);
  for (int done = 1; done != 0 && sent.size() > 1;) {
    MPI_Test(&sent.front().first, &done, MPI_STATUS_IGNORE);
    if (done != 0) sent.pop_front();
  }
}
// Sends bytes of any number, as messages of a stream.
void post(int rank, int tag, std::span<const std::byte> bytes) {
  for (size_t at = 0; at == 0 || at < bytes.size(); at += kMessageBytes)
    post_message(rank, tag, bytes.subspan(at, std::min(kMessageBytes, bytes.size() - at)));
}
template <class T>
void post_value(int rank, int tag, const T& value) {
  post(rank, tag, std::as_bytes(std::span(&value, 1)));
}

// The next message with a tag, if one is there: (rank, bytes).
std::optional<std::pair<int, Bytes>> receive(int tag) {
  const std::scoped_lock lock(state().mutex);
  int there = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &there, &status) != MPI_SUCCESS || there == 0)
    return std::nullopt;
  int size = 0;
  MPI_Get_count(&status, MPI_BYTE, &size);
  Bytes bytes(static_cast<size_t>(std::max(size, 0)));
  if (MPI_Recv(bytes.data(), size, MPI_BYTE, status.MPI_SOURCE, tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE) != MPI_SUCCESS)
    return std::nullopt;
  return std::pair(status.MPI_SOURCE, std::move(bytes));
}

// ---- a rank that does not coordinate

// Reports that are collected, and when they leave.
class Outbox {
 public:
  void add(Report report, std::span<const std::byte> bytes, bool at_once) {
    report.size = bytes.size();
    if (packed_.empty()) since_ = Clock::now();
    const auto append = [&](std::span<const std::byte> part) {
      packed_.insert(packed_.end(), part.begin(), part.end());
    };
    append(std::as_bytes(std::span(&report, 1)));
    append(bytes);
    urgent_ = urgent_ || at_once || packed_.size() >= kMessageBytes;
  }
  void send() {
    const Clock::time_point now = Clock::now();
    const bool due = !packed_.empty() && (urgent_ || now - since_ >= kCollect);
    if (!due && now - last_ < kAlive) return;
    post(0, kToCoordinator, packed_);
    packed_.clear();
    urgent_ = false;
    last_ = now;
  }

 private:
  Bytes packed_;
  bool urgent_ = false;
  Clock::time_point since_ = Clock::now(), last_ = Clock::now() - kAlive;
};

[[noreturn]] void leave() {
  post_value(0, kToCoordinator, Report{.kind = Report::Kind::kLeaving});
  MPI_Finalize();
  ::_exit(0);
}

// The orders of the coordinator, from its messages.
class Orders {
 public:
  // The next one, with the inputs; none, if it has not arrived yet. If the coordinator has been
  // silent for long it was killed, and this process ends.
  std::optional<std::pair<Order, Bytes>> next() {
    while (const auto message = receive(kToRank)) {
      heard_ = Clock::now();
      stream_.insert(stream_.end(), message->second.begin(), message->second.end());
    }
    if (Clock::now() - heard_ > kAbandoned) ::_exit(1);
    for (;;) {
      Unpacker rest(stream_);
      Order order{.kind = Order::Kind::kEnd};
      std::span<const std::byte> inputs;
      if (!rest.take(order) || !rest.take_bytes(order.size, inputs)) return std::nullopt;
      std::pair<Order, Bytes> found{order, Bytes(inputs.begin(), inputs.end())};
      const size_t used = sizeof order + inputs.size();
      stream_.erase(stream_.begin(), stream_.begin() + static_cast<std::ptrdiff_t>(used));
      if (order.kind != Order::Kind::kThere) return found;
    }
  }

 private:
  Bytes stream_;
  Clock::time_point heard_ = Clock::now();
};

// Passes orders to the workers and their reports to the coordinator, to the end of the job.
[[noreturn]] void relay(ProcessGroup& group) {
  Outbox outbox;
  Orders orders;
  std::vector<size_t> ends(group.size(), 0);
  outbox.add({.kind = Report::Kind::kWorkers, .worker = static_cast<uint32_t>(group.size())}, {},
             true);
  for (;;) {
    const Result<std::vector<WorkerEvent>> events = group.wait(kLook);
    if (!events) {  // no worker can be made any more
      const std::string why = to_text(events.error());
      outbox.add({.kind = Report::Kind::kAbsent}, std::as_bytes(std::span(why)), true);
      outbox.send();
      while (true) {
        const auto order = orders.next();
        if (order && order->first.kind == Order::Kind::kEnd) leave();
        ::usleep(100'000);
      }
    }
    for (const WorkerEvent& event : *events) {
      const auto worker = static_cast<uint32_t>(event.worker);
      switch (event.kind) {
        case WorkerEvent::Kind::kResult:
          outbox.add({.kind = Report::Kind::kResult, .worker = worker, .task = event.task},
                     event.bytes, event.task + 1 == ends[event.worker]);
          break;
        case WorkerEvent::Kind::kFailure:
          outbox.add({.kind = Report::Kind::kFailure, .worker = worker, .task = event.task},
                     event.bytes, true);
          break;
        default:
          outbox.add({.kind = Report::Kind::kDied, .worker = worker},
                     std::as_bytes(std::span(event.why)), true);
      }
    }
    while (const auto found = orders.next()) {
      const Order& order = found->first;
      if (order.kind == Order::Kind::kEnd) leave();
      if (order.worker >= group.size()) continue;
      ends[order.worker] = order.range.end;
      group.give(order.worker, order.range, found->second);
    }
    outbox.send();
  }
}

// ---- the coordinator

// The workers of this rank, and behind them those of the others in the order in which they came.
class MpiGroup final : public WorkerGroup {
 public:
  MpiGroup(ProcessGroup& own, std::string_view noun)
      : own_(own), noun_(noun), ranks_(static_cast<size_t>(state().ranks)) {}

  size_t size() const override { return own_.size() + remote_.size(); }
  size_t expected() const override { return own_.size() * ranks_.size(); }

  void give(size_t worker, TaskRange range, std::span<const std::byte> inputs) override {
    if (worker < own_.size()) return own_.give(worker, range, inputs);
    const auto [rank, index] = remote_[worker - own_.size()];
    Packer packer;
    packer.add(
        Order{.kind = Order::Kind::kRange, .worker = index, .range = range, .size = inputs.size()});
    packer.add_bytes(inputs);
    post(static_cast<int>(rank), kToRank, packer.take());
  }

  // The coordinator did something else meanwhile: what ranks sent is unread, not missing.
  void listen_again() {
    for (Rank& rank : ranks_) rank.heard = Clock::now();
  }

  Result<std::vector<WorkerEvent>> wait(std::chrono::milliseconds most) override {
    const Clock::time_point end = Clock::now() + most;
    for (;;) {
      DTR_ASSIGN(std::vector<WorkerEvent> events, own_.wait(kLook));
      while (const auto message = receive(kToCoordinator))
        read(static_cast<size_t>(message->first), message->second, events);
      give_up_silent(events);
      if (!events.empty() || Clock::now() >= end) return events;
    }
  }

  // Ends the other ranks. False if one of them was lost.
  bool end() {
    for (size_t rank = 1; rank < ranks_.size(); ++rank)
      post_value(static_cast<int>(rank), kToRank, Order{.kind = Order::Kind::kEnd});
    const auto has_left = [](const Rank& rank) { return rank.left; };
    std::vector<WorkerEvent> ignored;
    for (const Clock::time_point end = Clock::now() + kLeave; Clock::now() < end;) {
      while (const auto message = receive(kToCoordinator))
        read(static_cast<size_t>(message->first), message->second, ignored);
      if (std::ranges::all_of(ranks_.begin() + 1, ranks_.end(), has_left)) return true;
      std::this_thread::sleep_for(kLook);
    }
    return false;
  }

 private:
  struct Rank {
    Bytes stream;
    std::vector<size_t> workers;  // their numbers in the group
    Clock::time_point heard = Clock::now();
    bool is_there = false, left = false;
  };

  void read(size_t number, const Bytes& bytes, std::vector<WorkerEvent>& events) {
    Rank& rank = ranks_[number];
    rank.heard = Clock::now();
    if (!rank.is_there && !rank.workers.empty()) arrive(rank, events);
    rank.stream.insert(rank.stream.end(), bytes.begin(), bytes.end());
    Unpacker rest(rank.stream);
    size_t used = 0;
    for (Report report{}; rest.take(report);) {
      std::span<const std::byte> payload;
      if (!rest.take_bytes(report.size, payload)) break;
      used += sizeof report + payload.size();
      handle(number, report, payload, events);
    }
    rank.stream.erase(rank.stream.begin(), rank.stream.begin() + static_cast<std::ptrdiff_t>(used));
  }

  void handle(size_t number, const Report& report, std::span<const std::byte> payload,
              std::vector<WorkerEvent>& events) {
    Rank& rank = ranks_[number];
    const std::string text(reinterpret_cast<const char*>(payload.data()), payload.size());
    if (report.kind == Report::Kind::kWorkers) {
      for (uint32_t i = 0; i < report.worker; ++i) {
        rank.workers.push_back(size());
        remote_.emplace_back(number, i);
      }
      return arrive(rank, events);
    }
    if (report.kind == Report::Kind::kLeaving) {
      rank.left = true;
      return;
    }
    if (report.kind == Report::Kind::kAbsent) {
      print_error("note: rank {} runs no {}: {}\n", number, noun_, EncodedLines{text});
      return lose(rank, events);
    }
    if (report.worker >= rank.workers.size()) return;
    WorkerEvent event{.kind = WorkerEvent::Kind::kDied,
                      .worker = rank.workers[report.worker],
                      .task = report.task};
    if (report.kind == Report::Kind::kDied) {
      event.why = text;
    } else {
      event.kind = report.kind == Report::Kind::kResult ? WorkerEvent::Kind::kResult
                                                        : WorkerEvent::Kind::kFailure;
      event.bytes.assign(payload.begin(), payload.end());
    }
    events.push_back(std::move(event));
  }

  static void arrive(Rank& rank, std::vector<WorkerEvent>& events) {
    rank.is_there = true;
    for (const size_t worker : rank.workers)
      events.push_back({.kind = WorkerEvent::Kind::kArrived, .worker = worker});
  }
  static void lose(Rank& rank, std::vector<WorkerEvent>& events) {
    rank.is_there = false;
    for (const size_t worker : rank.workers)
      events.push_back({.kind = WorkerEvent::Kind::kLost, .worker = worker});
    rank.workers.clear();
  }

  void give_up_silent(std::vector<WorkerEvent>& events) {
    const Clock::time_point now = Clock::now();
    for (size_t number = 1; number < ranks_.size(); ++number) {
      Rank& rank = ranks_[number];
      if (!rank.is_there || now - rank.heard < kLost) continue;
      print_error("note: rank {} has been silent for {} s: its {} are given to others\n", number,
                  std::chrono::seconds(kLost).count(), noun_);
      rank.is_there = false;
      for (const size_t worker : rank.workers)
        events.push_back({.kind = WorkerEvent::Kind::kLost, .worker = worker});
    }
  }

  ProcessGroup& own_;
  const std::string_view noun_;
  std::vector<Rank> ranks_;
  std::vector<std::pair<size_t, uint32_t>> remote_;  // (rank, worker of it)
};

// The workers of all ranks; at its end the other ranks end.
class MpiPool final : public TaskPool {
 public:
  explicit MpiPool(const TaskJob& job) : job_(job) {}
  ~MpiPool() override {
    beat_ = {};
    if (group_) state().all_left = group_->end();
  }
  MpiPool(const MpiPool&) = delete;
  MpiPool& operator=(const MpiPool&) = delete;

  // Returns on the coordinator alone.
  Result<void> start(size_t workers) {
    DTR_ASSIGN(own_, ProcessGroup::start(job_, workers));
    start_mpi();
    if (state().rank != 0) relay(*own_);
    group_.emplace(*own_, job_.noun);
    coordinator_.emplace(*group_);
    // Also while this process compiles.
    beat_ = std::jthread([](const std::stop_token& stop) {
      std::mutex mutex;
      std::condition_variable_any wake;
      std::unique_lock lock(mutex);
      while (!wake.wait_for(lock, stop, kAlive, [&] { return stop.stop_requested(); }))
        for (int rank = 1; rank < state().ranks; ++rank)
          post_value(rank, kToRank, Order{.kind = Order::Kind::kThere});
    });
    return {};
  }
  size_t size() const override { return group_->expected(); }
  Result<std::vector<Bytes>> run(std::span<const Bytes> inputs) override {
    group_->listen_again();
    return run_inputs(*coordinator_, job_, inputs);
  }
  Result<void> run(const TaskJob& job, const TakeResult& take, const ProgressFunction& progress) {
    return coordinator_->run(job, take, progress);
  }

 private:
  const TaskJob job_;
  std::unique_ptr<ProcessGroup> own_;
  std::optional<MpiGroup> group_;
  std::optional<Coordinator> coordinator_;
  std::jthread beat_;  // tells the ranks that there is a coordinator
};

class MpiExecutor final : public TaskExecutor {
 public:
  explicit MpiExecutor(unsigned workers) : workers_(workers) {}
  bool is_coordinator() const override { return state().rank == 0; }

  Result<void> run(const TaskJob& job, const TakeResult& take,
                   const ProgressFunction& progress) override {
    MpiPool pool(job);
    DTR_TRY(pool.start(workers_));
    return pool.run(job, take, progress);
  }
  Result<std::unique_ptr<TaskPool>> start(const TaskJob& job) override {
    auto pool = std::make_unique<MpiPool>(job);
    DTR_TRY(pool->start(workers_));
    return pool;
  }

 private:
  const unsigned workers_;
};

// Tells the coordinator why this rank, whose command ended before it ran samples, runs none.
[[noreturn]] void be_absent() {
  std::fflush(nullptr);
  std::string text(2000, '\0');
  const ssize_t size = ::pread(state().printed, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  start_mpi();
  Outbox outbox;
  outbox.add({.kind = Report::Kind::kAbsent}, std::as_bytes(std::span(text)), true);
  for (Orders orders;;) {
    outbox.send();
    if (orders.next()) leave();  // the only order is to end
    ::usleep(20'000);
  }
}

}  // namespace

const char* const kCommandName = "deuteron-mpi";

const bool kHasRanks = true;

// Verbs that leave everything but their samples, or the programs of their search, to the
// coordinator.
bool offers_verb(std::string_view name) {
  return name == "eval" || name == "verify" || name == "explore" || name == "compile";
}

void begin_command() {
  State& self = state();
  self.rank = given_rank();
  if (self.rank == 0) return;
  self.printed = ::memfd_create("printed", MFD_CLOEXEC);
  ::dup2(self.printed, STDOUT_FILENO);
  ::dup2(self.printed, STDERR_FILENO);
}

std::unique_ptr<TaskExecutor> make_executor(const ExecutorOptions& options) {
  const unsigned given = options.processes.value_or(options.threads == 0 ? 1 : options.threads);
  return std::make_unique<MpiExecutor>(given == 0 ? default_threads() : given);
}

int end_command(int code) {
  if (state().rank != 0) be_absent();
  if (!state().started) {  // the coordinator's command ended before it ran samples
    start_mpi();
    for (int rank = 1; rank < state().ranks; ++rank)
      post_value(rank, kToRank, Order{.kind = Order::Kind::kEnd});
  }
  std::fflush(nullptr);
  // MPI waits for every rank when it ends, which a lost one never does.
  if (!state().all_left) ::_exit(code);
  ::alarm(30);
  MPI_Finalize();
  return code;
}

}  // namespace dtr::tools
