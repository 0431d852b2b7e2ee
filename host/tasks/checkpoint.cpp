#include "host/tasks/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "compiler/support/file_contents.h"
#include "device/numerics/crc32.h"
#include "host/tasks/packing.h"

namespace dtr {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::array<char, 8> kMagic = {'D', 'T', 'R', 'T', 'A', 'S', 'K', '1'};
constexpr uint32_t kRecord = 0x44524543;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint64_t identity = 0, tasks = 0;
  uint32_t unused = 0, checksum = 0;  // of the bytes before it
};

// Before each result; the checksum is of the other fields and of the result.
struct Record {
  uint32_t magic = kRecord, checksum = 0;
  uint64_t task = 0, size = 0;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

uint32_t checksum_of(Record record, std::span<const std::byte> result) {
  record.checksum = 0;
  return crc32(result, crc32(bytes_of(record)));
}

Bytes header_of(uint64_t identity, size_t tasks) {
  Header header{.identity = identity, .tasks = tasks};
  header.checksum = crc32(bytes_of(header).first(offsetof(Header, checksum)));
  Packer packer;
  packer.add(header);
  return packer.take();
}

// An open checkpoint, to which results are appended.
class CheckpointFile {
 public:
  CheckpointFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~CheckpointFile() { ::close(fd_); }
  CheckpointFile(const CheckpointFile&) = delete;
  CheckpointFile& operator=(const CheckpointFile&) = delete;

  // `exclusive`: no file may be there.
  static Result<std::unique_ptr<CheckpointFile>> open(const std::string& path, bool exclusive) {
    const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | (exclusive ? O_CREAT | O_EXCL : 0);
    const int fd = ::open(path.c_str(), flags, 0666);
    if (fd >= 0) {
      auto file = std::make_unique<CheckpointFile>(path, fd);
      // Two runs that append to one file would each read only their own half.
      if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return file;
      return fail(DiagnosticId::kCheckpointInUse, "another run writes to this checkpoint",
                  "wait for its end, or give another file", {.file = path});
    }
    if (errno == EEXIST)
      return fail(DiagnosticId::kCheckpointExists, "there is a file, which may hold results",
                  "go on with it (--resume), or remove it", {.file = path});
    return refuse(path, errno);
  }

  Result<void> cut(size_t bytes) {
    if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return refuse(path_, errno);
    return {};
  }
  // One write appends all of it.
  Result<void> append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return refuse(path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return {};
  }

 private:
  static tl::unexpected<Diagnostic> refuse(const std::string& path, int error) {
    return fail(DiagnosticId::kFileNotWritable,
                fmt::format("the checkpoint cannot be written: {}", std::strerror(error)),
                "make room or choose another file; --resume goes on with the results that the file "
                "holds",
                {.file = path});
  }
  std::string path_;
  int fd_;
};

class CheckpointedExecutor final : public TaskExecutor {
 public:
  CheckpointedExecutor(TaskExecutor& executor, CheckpointOptions options,
                       std::function<void(const std::string&)> note)
      : executor_(executor), options_(std::move(options)), note_(std::move(note)) {}

  bool is_coordinator() const override { return executor_.is_coordinator(); }
  unsigned threads_for_each(size_t tasks, bool is_stream) const override {
    return executor_.threads_for_each(tasks, is_stream);
  }

  Result<void> run(const TaskJob& job, const TakeResult& take,
                   const ProgressFunction& progress) override {
    if (!is_coordinator() || options_.path.empty()) return executor_.run(job, take, progress);
    if (job.is_stream) {
      if (note_) note_(fmt::format("the {} are a stream: no checkpoint is written", job.noun));
      return executor_.run(job, take, progress);
    }
    CheckpointContent content;
    DTR_ASSIGN(const std::unique_ptr<CheckpointFile> file, open(job, content));
    TaskJob rest = job;
    rest.known.assign(job.count, false);
    for (const auto& [task, result] : content.results) rest.known[task] = true;
    rest.arrived = [&](size_t task, std::span<const std::byte> result) -> Result<void> {
      Record record{.task = task, .size = result.size()};
      record.checksum = checksum_of(record, result);
      Packer packer;
      packer.add(record);
      packer.add_bytes(result);
      return file->append(packer.take());
    };
    // What is known is taken at its place among the others.
    auto known = content.results.begin();
    const auto take_known_before = [&](size_t task) -> Result<void> {
      for (; known != content.results.end() && known->first < task; ++known)
        DTR_TRY(take(known->first, known->second));
      return {};
    };
    const size_t before = content.results.size();
    const auto take_rest = [&](size_t task, std::span<const std::byte> result) -> Result<void> {
      DTR_TRY(take_known_before(task));
      return take(task, result);
    };
    const auto show = [&](size_t done, size_t total) { progress(before + done, total); };
    DTR_TRY(executor_.run(rest, take_rest, progress ? ProgressFunction(show) : progress));
    return take_known_before(job.count);
  }

 private:
  Result<std::unique_ptr<CheckpointFile>> open(const TaskJob& job,
                                               CheckpointContent& content) const {
    const size_t tasks = job.count;
    if (!options_.resume) {
      DTR_ASSIGN(std::unique_ptr<CheckpointFile> file, CheckpointFile::open(options_.path, true));
      DTR_TRY(file->append(header_of(options_.identity, tasks)));
      return file;
    }
    DTR_TRY(FileContents::read(options_.path));  // the error of a file that is not there
    DTR_ASSIGN(std::unique_ptr<CheckpointFile> file, CheckpointFile::open(options_.path, false));
    DTR_ASSIGN(const FileContents read, FileContents::read(options_.path));
    const std::span<const std::byte> bytes = read.bytes();
    // A run that was killed before it wrote the header.
    if (bytes.size() < sizeof(Header)) {
      DTR_TRY(file->cut(0));
      DTR_TRY(file->append(header_of(options_.identity, tasks)));
      return file;
    }
    DTR_ASSIGN(content, parse_checkpoint(bytes, options_.identity, tasks, options_.path));
    const size_t damaged = bytes.size() - content.good_bytes;
    if (damaged > 0) DTR_TRY(file->cut(content.good_bytes));
    if (note_)
      note_(fmt::format("the checkpoint holds {} of {} {}{}", content.results.size(), tasks,
                        job.noun,
                        damaged == 0 ? ""
                                     : fmt::format("; {} bytes behind them are damaged, and their "
                                                   "{} run again",
                                                   damaged, job.noun)));
    return file;
  }

  TaskExecutor& executor_;
  CheckpointOptions options_;
  std::function<void(const std::string&)> note_;
};

}  // namespace

Result<CheckpointContent> parse_checkpoint(std::span<const std::byte> bytes, uint64_t identity,
                                           size_t tasks, const std::string& path) {
  const auto refuse = [&](DiagnosticId id, std::string reason) {
    return fail(id, std::move(reason),
                "give the file of this run, or another name without --resume", {.file = path});
  };
  Unpacker rest(bytes);
  Header header;
  if (!rest.take(header) || header.magic != kMagic ||
      header.checksum != crc32(bytes_of(header).first(offsetof(Header, checksum))))
    return refuse(DiagnosticId::kCheckpointDamaged, "the file is no checkpoint");
  if (header.identity != identity || header.tasks != tasks)
    return refuse(
        DiagnosticId::kCheckpointMismatch,
        "the checkpoint is that of another run: its program, data or options were different");
  CheckpointContent content{.results = {}, .good_bytes = sizeof header};
  for (Record record; rest.take(record);) {
    std::span<const std::byte> result;
    if (record.magic != kRecord || record.task >= tasks || !rest.take_bytes(record.size, result) ||
        record.checksum != checksum_of(record, result))
      break;
    content.good_bytes += sizeof record + result.size();
    content.results.insert_or_assign(record.task, Bytes(result.begin(), result.end()));
  }
  return content;
}

std::unique_ptr<TaskExecutor> with_checkpoint(TaskExecutor& executor, CheckpointOptions options,
                                              std::function<void(const std::string&)> note) {
  return std::make_unique<CheckpointedExecutor>(executor, std::move(options), std::move(note));
}

}  // namespace dtr
