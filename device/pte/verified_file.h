// A verified program file: everything that `open` accepts can be read through the schema without
// further checks. The only verifier of the format, used by the host's reader and the device's
// loader. Freestanding; refers to the bytes, which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "device/pte/manifest.h"
#include "device/pte/status.h"

namespace dtr::pte {

struct Program;  // device/pte/program.fbs
struct ExecutionPlan;
struct BackendDelegate;
struct SubsegmentOffsets;
struct Tensor;

inline constexpr size_t kFileAlignment = 16;  // of the file's first byte, constants and payloads

class VerifiedFile {
 public:
  enum class Checksum : uint8_t { kAbsent, kGood, kUnchecked };
  // crc32_with_hole (device/numerics/crc32.h); null: the checksum is not verified, and its code is
  // not linked.
  using ChecksumFunction = uint32_t (*)(std::span<const std::byte> bytes, size_t hole);

  VerifiedFile() = default;
  // Verifies header, structure, segments, checksum (if present and `function` is not null), all
  // plans, values, lists and instructions. Errors: kTruncated, kNotAProgram, kNewerVersion,
  // kMalformed, kBadChecksum, kMisaligned, kUnsupported, kNull.
  static Status open(std::span<const std::byte> bytes, ChecksumFunction function,
                     VerifiedFile* file);

  const Program& program() const { return *program_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  Checksum checksum() const { return checksum_; }
  const Manifest* manifest() const { return manifest_; }  // null: not written by Deuteron

  // The bytes of a segment; empty and null if there is none, as for the next two functions.
  std::span<const std::byte> segment(uint32_t index) const;
  // The bytes of a named-data entry.
  std::span<const std::byte> named_data(std::string_view key) const;
  std::span<const std::byte> payload(const BackendDelegate& delegate) const;
  // From the first byte of a constant (data_buffer_idx > 0) to the end of its segment or inline
  // buffer.
  std::span<const std::byte> constant(uint32_t index) const;
  // The same of the initial value of a state: a planned tensor with data_buffer_idx > 0.
  std::span<const std::byte> initial_state(const Tensor& tensor) const;

 private:
  std::span<const std::byte> part(const SubsegmentOffsets& of, uint32_t index) const;
  Error check(ChecksumFunction function, Status* where);
  Error check_header();
  Error check_checksum(ChecksumFunction function);
  Error check_manifest(Status* where);

  std::span<const std::byte> bytes_;
  std::span<const std::byte> segment_data_;
  size_t program_size_ = 0;
  const Program* program_ = nullptr;
  const Manifest* manifest_ = nullptr;
  Checksum checksum_ = Checksum::kAbsent;
};

// True if the data of a tensor are in a tensor file (device/pte/tensor_file.h), and the name of its
// entry there.
bool is_external(const Tensor& tensor);
std::string_view external_name(const Tensor& tensor);

// The size of a verified tensor in bytes.
size_t tensor_bytes(const Tensor& tensor);

}  // namespace dtr::pte
