#include "test/fuzz/resumed.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include "compiler/support/file_contents.h"
#include "compiler/support/temporary_folder.h"
#include "device/numerics/crc32.h"
#include "host/tasks/tasks.h"
#include "test/fuzz/sample.h"

namespace dtr::fuzz {
namespace {

// The format of host/tasks/checkpoint.cpp: a header of 32 bytes, then records, the result of each
// behind it.
constexpr size_t kIdentityAt = 8, kHeaderChecksumAt = 28, kHeaderBytes = 32;
constexpr size_t kChecksumAt = 4, kSizeAt = 16, kRecordBytes = 24;

template <class T>
T read(const std::vector<std::byte>& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
template <class T>
void write(std::vector<std::byte>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// Calls `visit` with the place and the bytes of each whole record.
void for_each_record(const std::vector<std::byte>& bytes,
                     const std::function<void(size_t at, size_t size)>& visit) {
  for (size_t at = kHeaderBytes; bytes.size() >= at + kRecordBytes;) {
    const auto size = read<uint64_t>(bytes, at + kSizeAt);
    if (size > bytes.size() - at - kRecordBytes) return;
    visit(at, kRecordBytes + static_cast<size_t>(size));
    at += kRecordBytes + static_cast<size_t>(size);
  }
}

std::vector<NamedTensor> make_arrays() {
  constexpr int64_t kSamples = 4, kClasses = 5;
  Tensor x(DType::kFloat32, {kSamples, 3, 6, 7}), outputs(DType::kFloat32, {kSamples, kClasses}),
      labels(DType::kInt64, {kSamples});
  int step = 0;
  for (float& value : x.values<float>()) value = static_cast<float>(step++ * 37 % 101) / 50 - 1;
  for (float& value : outputs.values<float>()) value = static_cast<float>(step++ * 37 % 101) / 101;
  for (int64_t& label : labels.values<int64_t>()) label = step++ % kClasses;
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", std::move(x)});
  arrays.push_back({"float_output", std::move(outputs)});
  arrays.push_back({"label", std::move(labels)});
  return arrays;
}

uint64_t own_identity() {
  const auto folder = TemporaryFolder::create();
  DTR_CHECK(folder.has_value());
  const std::string path = folder->path() + "/own";
  DTR_CHECK(evaluate_sample(path, false, nullptr).has_value());
  const auto file = FileContents::read(path);
  DTR_CHECK(file.has_value() && file->bytes().size() > kHeaderBytes);
  return read<uint64_t>({file->bytes().begin(), file->bytes().end()}, kIdentityAt);
}

}  // namespace

Result<EvaluationResult> evaluate_sample(const std::string& path, bool resume, std::string* note) {
  static const std::unique_ptr<Session> session = [] {
    auto loaded = Session::load(compile_sample("image", "imxrt700").written.bytes, "image.pte");
    DTR_CHECK(loaded.has_value());
    return *std::move(loaded);
  }();
  static const std::vector<NamedTensor> arrays = make_arrays();
  const std::unique_ptr<TaskExecutor> executor = make_thread_executor(1);
  return evaluate({.program = {.path = "image.pte"},
                   .data = {.path = "data.npz", .arrays = arrays},
                   .executor = *executor,
                   .checkpoint = {.path = path, .resume = resume},
                   .note =
                       [note](const std::string& sentence) {
                         if (note != nullptr) *note += sentence + "\n";
                       }},
                  *session);
}

std::vector<std::byte> without_checksums(std::vector<std::byte> checkpoint) {
  write(checkpoint, kIdentityAt, uint64_t{0});
  write(checkpoint, kHeaderChecksumAt, uint32_t{0});
  for_each_record(checkpoint,
                  [&](size_t at, size_t) { write(checkpoint, at + kChecksumAt, uint32_t{0}); });
  return checkpoint;
}

std::vector<std::byte> with_checksums(std::vector<std::byte> input) {
  static const uint64_t identity = own_identity();
  if (input.size() < kHeaderBytes) return input;
  if (read<uint64_t>(input, kIdentityAt) == 0) write(input, kIdentityAt, identity);
  if (read<uint32_t>(input, kHeaderChecksumAt) == 0)
    write(input, kHeaderChecksumAt, crc32(std::span(input).first(kHeaderChecksumAt)));
  for_each_record(input, [&](size_t at, size_t size) {
    if (read<uint32_t>(input, at + kChecksumAt) != 0) return;
    const std::span<const std::byte> record = std::span(input).subspan(at, size);
    write(input, at + kChecksumAt,
          crc32(record.subspan(kRecordBytes), crc32(record.first(kRecordBytes))));
  });
  return input;
}

}  // namespace dtr::fuzz
