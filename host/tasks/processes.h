// Workers that are child processes of this one.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/tasks/group.h"

namespace dtr {

// Frames of the stream between a worker and those who give it tasks.
struct Frame {
  enum class Kind : uint32_t { kResult = 0x52455331, kFailure };
  Kind kind = Kind::kResult;
  uint32_t unused = 0;
  uint64_t task = 0, size = 0;  // bytes behind the frame
};

// Collects the bytes of a stream and takes events from it. `worker`: their number in the events.
class FrameReader {
 public:
  static constexpr uint64_t kMostBytes = uint64_t{1} << 31;

  void add(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  // The complete frames. False if the bytes are no frames.
  [[nodiscard]] bool take(size_t worker, std::vector<WorkerEvent>& events);
  void clear() { bytes_.clear(); }

 private:
  std::vector<std::byte> bytes_;
};

// A socket that the object owns.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { close(); }
  void close();
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Child processes that run a job's tasks. A process forks them that has no threads and is forked
// when the object is made, before libraries of this one start any; so that a worker can be replaced
// later. All of them end when this process ends, however it does.
class ProcessGroup final : public WorkerGroup {
 public:
  // The job must outlive the group. Error: kProcessFailed, if no process can be made.
  static Result<std::unique_ptr<ProcessGroup>> start(const TaskJob& job, size_t workers);
  // For `start`.
  explicit ProcessGroup(const TaskJob& job) : job_(job) {}
  ~ProcessGroup() override;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  size_t size() const override { return workers_.size(); }
  void give(size_t worker, TaskRange range, std::span<const std::byte> inputs) override;
  Result<std::vector<WorkerEvent>> wait(std::chrono::milliseconds most) override;

 private:
  struct Worker {
    Socket socket;
    pid_t process = 0;
    FrameReader reader;
  };
  Result<void> start_forker();
  Result<void> fork_worker(Worker& worker);
  std::string end_of(pid_t process);

  const TaskJob& job_;
  Socket forker_;
  pid_t forker_process_ = 0;
  std::vector<Worker> workers_;
};

}  // namespace dtr
