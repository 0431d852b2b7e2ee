// A group of child processes. This process asks one child, the forker, for workers; the forker
// sends this process a socket to each. The forker is their parent and tells how a worker ended.
#include "host/tasks/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "compiler/support/thread_pool.h"
#include "host/tasks/packing.h"

namespace dtr {
namespace {

// What this process asks of the forker, and its answer: the process, or how it ended (waitpid).
struct Request {
  enum class Kind : int32_t { kFork, kEnd } kind = Kind::kFork;
  pid_t process = 0;
};
struct Answer {
  pid_t process = -1;
  int32_t status = 0;
};

template <class Call>
ssize_t restarted(const Call& call) {
  ssize_t done = 0;
  do done = call();
  while (done < 0 && errno == EINTR);
  return done;
}

bool send_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        restarted([&] { return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return true;
}
template <class T>
bool send_value(int fd, const T& value) {
  return send_all(fd, std::as_bytes(std::span(&value, 1)));
}
template <class T>
bool receive_value(int fd, T& value) {
  return restarted([&] { return ::recv(fd, &value, sizeof value, MSG_WAITALL); }) ==
         static_cast<ssize_t>(sizeof value);
}

// An answer, with a socket that the receiver gets.
bool send_socket(int fd, const Answer& answer, int socket) {
  Answer copy = answer;
  iovec part{&copy, sizeof copy};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &socket, sizeof socket);
  return restarted([&] { return ::sendmsg(fd, &message, MSG_NOSIGNAL); }) > 0;
}
int receive_socket(int fd, Answer& answer) {
  iovec part{&answer, sizeof answer};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (restarted([&] { return ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC); }) <= 0) return -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int socket = -1;
  std::memcpy(&socket, CMSG_DATA(header), sizeof socket);
  return socket;
}

std::optional<std::pair<Socket, Socket>> socket_pair(int type) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0) return std::nullopt;
  return std::pair(Socket(ends[0]), Socket(ends[1]));
}

// In a child: signals have their default effect again, whatever the threads of the parent do with
// them, and the child ends with its parent.
void become_child(pid_t parent) {
  for (const int signal : {SIGHUP, SIGTERM, SIGPIPE, SIGCHLD}) ::signal(signal, SIG_DFL);
  ::signal(SIGINT, SIG_IGN);  // ^C is for the parent, which may still need the child
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);  // it ended before
}

bool send_frame(int fd, Frame::Kind kind, size_t task, std::span<const std::byte> bytes) {
  const Frame frame{.kind = kind, .task = task, .size = bytes.size()};
  return send_value(fd, frame) && send_all(fd, bytes);
}

// What a worker is given; the bytes of pack_inputs follow.
struct Given {
  TaskRange range;
  uint64_t input_bytes = 0;
};

bool receive_given(int fd, Given& given, std::vector<std::byte>& inputs) {
  if (!receive_value(fd, given) || given.input_bytes > FrameReader::kMostBytes) return false;
  inputs.resize(given.input_bytes);
  return inputs.empty() || restarted([&] {
                             return ::recv(fd, inputs.data(), inputs.size(), MSG_WAITALL);
                           }) == static_cast<ssize_t>(inputs.size());
}

// Runs the tasks of one range. False: nobody reads the results.
bool run_range(int fd, const TaskJob& job, std::unique_ptr<TaskWorker>& worker, TaskRange range,
               std::span<const std::byte> inputs) {
  if (job.is_stream) worker.reset();  // from its beginning
  Unpacker rest(inputs);
  for (size_t task = range.begin; task < range.end; ++task) {
    std::span<const std::byte> input;
    if (!inputs.empty() && !rest.take_sized(input)) return false;
    const Result<std::vector<std::byte>> result = [&]() -> Result<std::vector<std::byte>> {
      if (!worker) {
        DTR_ASSIGN(worker, job.open());
      }
      return worker->run(task, input);
    }();
    if (!result)
      return send_frame(fd, Frame::Kind::kFailure, task, pack_diagnostic(result.error()));
    if (!send_frame(fd, Frame::Kind::kResult, task, *result)) return false;
  }
  return true;
}

// A worker: runs ranges until nobody gives more. It writes nothing to standard output and leaves
// without the destructors of its parent's objects.
[[noreturn]] void work(int fd, const TaskJob& job) {
  std::unique_ptr<TaskWorker> worker;
  try {
    if (job.opens_at_once)  // an error is that of the first task, for which it is opened again
      if (Result<std::unique_ptr<TaskWorker>> opened = job.open(); opened)
        worker = std::move(*opened);
    Given given;
    std::vector<std::byte> inputs;
    while (receive_given(fd, given, inputs) && run_range(fd, job, worker, given.range, inputs)) {
    }
  } catch (const std::exception&) {  // out of memory, most likely: another process tries again
    ::_exit(1);
  }
  ::_exit(0);
}

// The forker: makes workers until nobody wants more.
[[noreturn]] void make_workers(int control, const TaskJob& job) {
  const pid_t self = ::getpid();
  Request request;
  while (receive_value(control, request)) {
    if (request.kind == Request::Kind::kEnd) {
      Answer answer{.process = request.process};
      restarted([&] { return ::waitpid(request.process, &answer.status, 0); });
      if (!send_value(control, answer)) break;
      continue;
    }
    std::optional<std::pair<Socket, Socket>> ends = socket_pair(SOCK_STREAM);
    const pid_t process = ends ? ::fork() : -1;
    if (process == 0) {
      become_child(self);
      ::close(control);
      ends->first.close();
      work(ends->second.fd(), job);
    }
    const bool sent = process > 0 && ends
                          ? send_socket(control, {.process = process}, ends->first.fd())
                          : send_value(control, Answer{});
    if (!sent) break;
  }
  ::_exit(0);
}

std::string text_of_status(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

tl::unexpected<Diagnostic> no_process() {
  return fail(DiagnosticId::kProcessFailed,
              fmt::format("no process can be made: {}", std::strerror(errno)),
              "allow more processes, or use threads");
}

class ProcessPool final : public TaskPool {
 public:
  explicit ProcessPool(const TaskJob& job) : job_(job) {}
  Result<void> start(size_t processes) {
    DTR_ASSIGN(group_, ProcessGroup::start(job_, processes));
    coordinator_.emplace(*group_);
    return {};
  }
  size_t size() const override { return group_->size(); }
  Result<std::vector<std::vector<std::byte>>> run(
      std::span<const std::vector<std::byte>> inputs) override {
    return run_inputs(*coordinator_, job_, inputs);
  }

 private:
  const TaskJob job_;
  std::unique_ptr<ProcessGroup> group_;
  std::optional<Coordinator> coordinator_;
};

class ProcessExecutor final : public TaskExecutor {
 public:
  explicit ProcessExecutor(unsigned processes)
      : processes_(processes == 0 ? default_threads() : processes) {}
  Result<void> run(const TaskJob& job, const TakeResult& take,
                   const ProgressFunction& progress) override {
    DTR_ASSIGN(const std::unique_ptr<ProcessGroup> group,
               ProcessGroup::start(job, job.is_stream ? 1 : std::min(processes_, job.count)));
    return Coordinator(*group).run(job, take, progress);
  }
  Result<std::unique_ptr<TaskPool>> start(const TaskJob& job) override {
    auto pool = std::make_unique<ProcessPool>(job);
    DTR_TRY(pool->start(processes_));
    return pool;
  }

 private:
  const size_t processes_;
};

}  // namespace

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

bool FrameReader::take(size_t worker, std::vector<WorkerEvent>& events) {
  Unpacker rest(bytes_);
  size_t used = 0;
  for (Frame frame; rest.take(frame);) {
    if ((frame.kind != Frame::Kind::kResult && frame.kind != Frame::Kind::kFailure) ||
        frame.size > kMostBytes)
      return false;
    std::span<const std::byte> payload;
    if (!rest.take_bytes(frame.size, payload)) break;
    used += sizeof frame + frame.size;
    events.push_back({.kind = frame.kind == Frame::Kind::kResult ? WorkerEvent::Kind::kResult
                                                                 : WorkerEvent::Kind::kFailure,
                      .worker = worker,
                      .task = static_cast<size_t>(frame.task),
                      .bytes = {payload.begin(), payload.end()}});
  }
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(used));
  return true;
}

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::start(const TaskJob& job, size_t workers) {
  auto group = std::make_unique<ProcessGroup>(job);
  DTR_TRY(group->start_forker());
  group->workers_.resize(workers);
  for (Worker& worker : group->workers_) DTR_TRY(group->fork_worker(worker));
  return group;
}

ProcessGroup::~ProcessGroup() {
  for (Worker& worker : workers_) worker.socket.close();
  forker_.close();
  if (forker_process_ <= 0) return;
  // Its workers end with it.
  ::kill(forker_process_, SIGKILL);
  int status = 0;
  restarted([&] { return ::waitpid(forker_process_, &status, 0); });
}

Result<void> ProcessGroup::start_forker() {
  std::optional<std::pair<Socket, Socket>> ends = socket_pair(SOCK_STREAM);
  if (!ends) return no_process();
  std::fflush(nullptr);
  const pid_t self = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) return no_process();
  if (process == 0) {
    become_child(self);
    ends->first.close();
    for (Worker& worker : workers_) worker.socket.close();
    make_workers(ends->second.fd(), job_);
  }
  forker_ = std::move(ends->first);
  forker_process_ = process;
  return {};
}

Result<void> ProcessGroup::fork_worker(Worker& worker) {
  worker.reader.clear();
  for (int attempt = 0; attempt < 2; ++attempt) {
    Answer answer;
    if (send_value(forker_.fd(), Request{})) {
      const int socket = receive_socket(forker_.fd(), answer);
      if (socket >= 0) {
        worker.socket = Socket(socket);
        worker.process = answer.process;
        return {};
      }
    }
    if (attempt > 0) break;
    // The forker itself was killed, and its workers ended with it.
    int status = 0;
    ::kill(forker_process_, SIGKILL);
    restarted([&] { return ::waitpid(forker_process_, &status, 0); });
    DTR_TRY(start_forker());
  }
  return no_process();
}

std::string ProcessGroup::end_of(pid_t process) {
  Answer answer;
  if (!send_value(forker_.fd(), Request{.kind = Request::Kind::kEnd, .process = process}) ||
      !receive_value(forker_.fd(), answer))
    return "killed";
  return text_of_status(answer.status);
}

// A worker that died is noticed by `wait`.
void ProcessGroup::give(size_t worker, TaskRange range, std::span<const std::byte> inputs) {
  const int fd = workers_[worker].socket.fd();
  if (send_value(fd, Given{.range = range, .input_bytes = inputs.size()}))
    (void)send_all(fd, inputs);
}

Result<std::vector<WorkerEvent>> ProcessGroup::wait(std::chrono::milliseconds most) {
  std::vector<pollfd> watched;
  for (const Worker& worker : workers_)
    watched.push_back({.fd = worker.socket.fd(), .events = POLLIN, .revents = 0});
  std::vector<WorkerEvent> events;
  if (::poll(watched.data(), watched.size(), static_cast<int>(most.count())) <= 0) return events;
  std::array<std::byte, 65536> buffer;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (watched[i].revents == 0) continue;
    Worker& worker = workers_[i];
    const ssize_t got = restarted(
        [&] { return ::recv(worker.socket.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT); });
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    bool good = got > 0;
    if (good) {
      worker.reader.add(std::span(buffer).first(static_cast<size_t>(got)));
      good = worker.reader.take(i, events);
    }
    if (good) continue;
    worker.socket.close();
    if (got > 0) ::kill(worker.process, SIGKILL);  // it sends no frames
    events.push_back(
        {.kind = WorkerEvent::Kind::kDied, .worker = i, .why = end_of(worker.process)});
    DTR_TRY(fork_worker(worker));
  }
  return events;
}

std::unique_ptr<TaskExecutor> make_process_executor(unsigned processes) {
  return std::make_unique<ProcessExecutor>(processes);
}

}  // namespace dtr
