#include "device/pte/verified_file.h"

#include <bit>
#include <cstring>

#include "device/pte/plan_access.h"
#include "device/pte/program_schema.h"
#include "device/pte/scalar_type.h"
#include "device/pte/verify_plan.h"

namespace dtr::pte {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is read in place");

// The first bytes: of the FlatBuffer, then ExecuTorch's extended header, if its magic is there.
struct Start {
  uint32_t root;
  uint32_t identifier;
  uint32_t magic;
  uint32_t length;
  uint64_t program_size;
  uint64_t segment_base_offset;
  uint64_t segment_data_size;  // only if length says so
};
constexpr uint32_t kIdentifier = 0x32315445, kMagic = 0x30306865;  // "ET12", "eh00"
constexpr size_t kHeaderAt = offsetof(Start, magic);
constexpr size_t kShortHeader = 24;
constexpr size_t kMaxProgramBytes =
    (size_t{1} << 31) - 2;  // of the FlatBuffer: its offsets are 32 bits wide

bool aligned(const void* data, size_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

std::span<const std::byte> bytes_of(const void* table, flatbuffers::voffset_t slot) {
  const auto& bytes = list<uint8_t>(table, slot);
  return {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

const void* list_at(const void* table, flatbuffers::voffset_t slot) {
  static constexpr uint32_t kEmpty = 0;
  const void* found = static_cast<const flatbuffers::Table*>(table)->GetPointer<const void*>(slot);
  return found == nullptr ? &kEmpty : found;
}

uint32_t word(const void* table, flatbuffers::voffset_t slot) {
  return static_cast<const flatbuffers::Table*>(table)->GetField<uint32_t>(slot, 0);
}

Status VerifiedFile::open(std::span<const std::byte> bytes, ChecksumFunction function,
                          VerifiedFile* file) {
  *file = {};
  file->bytes_ = bytes;
  Status status;
  status.error = file->check(function, &status);
  return status.ok() ? verify_plans(*file) : status;
}

// Of a failed check, `where` gets index and detail.
Error VerifiedFile::check(ChecksumFunction function, Status* where) {
  if (const Error error = check_header(); error != Error::kOk) return error;
  const std::span<const std::byte> structure = bytes_.first(program_size_);
  if (!verify_flatbuffer(kProgramSchema, structure)) return Error::kMalformed;
  program_ = GetProgram(structure.data());
  where->detail = program_->version();
  if (where->detail != 0) return Error::kNewerVersion;
  const auto& segments = tables<DataSegment>(program_, Program::VT_SEGMENTS);
  for (uint32_t i = 0; i < segments.size(); ++i) {
    where->index = i;
    const DataSegment& at = *segments.Get(i);
    if (at.offset() > segment_data_.size() || at.size() > segment_data_.size() - at.offset())
      return Error::kTruncated;
  }
  const auto& named = tables<NamedData>(program_, Program::VT_NAMED_DATA);
  for (uint32_t i = 0; i < named.size(); ++i) {
    where->index = i;
    if (word(named.Get(i), NamedData::VT_SEGMENT_INDEX) >= segments.size())
      return Error::kMalformed;
  }
  where->index = 0;
  if (const Error error = check_checksum(function); error != Error::kOk) return error;
  return check_manifest(where);
}

Error VerifiedFile::check_header() {
  if (bytes_.size() < sizeof(Start)) return Error::kTruncated;
  if (bytes_.data() == nullptr) return Error::kNull;
  if (!aligned(bytes_.data(), kFileAlignment)) return Error::kMisaligned;
  const Start& start = *reinterpret_cast<const Start*>(bytes_.data());
  if (start.identifier != kIdentifier)
    return (start.identifier ^ kIdentifier) << 16 == 0 ? Error::kNewerVersion : Error::kNotAProgram;
  program_size_ = bytes_.size();
  if (start.magic == kMagic) {
    if (start.length < kShortHeader) return Error::kMalformed;
    if (start.program_size > bytes_.size() || start.segment_base_offset > bytes_.size())
      return Error::kTruncated;
    program_size_ = static_cast<size_t>(start.program_size);
    if (program_size_ < kHeaderAt + kShortHeader) return Error::kMalformed;
    if (const auto base = static_cast<size_t>(start.segment_base_offset); base != 0) {
      if (base < program_size_) return Error::kMalformed;
      segment_data_ = bytes_.subspan(base);
      if (start.length >= sizeof start - kHeaderAt &&
          start.segment_data_size > segment_data_.size())
        return Error::kTruncated;
    }
  }
  return program_size_ > kMaxProgramBytes ? Error::kMalformed : Error::kOk;
}

Error VerifiedFile::check_checksum(ChecksumFunction function) {
  const std::span<const std::byte> stored = named_data(kChecksumKey);
  if (stored.empty()) return Error::kOk;
  checksum_ = Checksum::kUnchecked;
  uint32_t expected = 0;
  if (stored.size() != sizeof expected) return Error::kMalformed;
  if (function == nullptr) return Error::kOk;
  std::memcpy(&expected, stored.data(), sizeof expected);
  checksum_ = Checksum::kGood;
  return function(bytes_, static_cast<size_t>(stored.data() - bytes_.data())) == expected
             ? Error::kOk
             : Error::kBadChecksum;
}

Error VerifiedFile::check_manifest(Status* where) {
  const std::span<const std::byte> stored = named_data(kManifestKey);
  if (stored.empty()) return Error::kOk;
  if (stored.size() < sizeof(Manifest) || !aligned(stored.data(), alignof(Manifest)))
    return Error::kMalformed;
  const auto* manifest = reinterpret_cast<const Manifest*>(stored.data());
  if (manifest->magic != kManifestMagic) return Error::kMalformed;
  where->detail = manifest->major;
  if (manifest->major != kManifestMajor) return Error::kNewerVersion;
  if (manifest->target[sizeof manifest->target - 1] != 0 ||
      manifest->tool[sizeof manifest->tool - 1] != 0)
    return Error::kMalformed;
  manifest_ = manifest;
  return Error::kOk;
}

std::span<const std::byte> VerifiedFile::segment(uint32_t index) const {
  const auto& segments = tables<DataSegment>(program_, Program::VT_SEGMENTS);
  if (index >= segments.size()) return {};
  const DataSegment& segment = *segments.Get(index);
  return segment_data_.subspan(static_cast<size_t>(segment.offset()),
                               static_cast<size_t>(segment.size()));
}

std::span<const std::byte> VerifiedFile::named_data(std::string_view key) const {
  for (const NamedData* entry : tables<NamedData>(program_, Program::VT_NAMED_DATA)) {
    if (entry->key()->string_view() == key) return segment(entry->segment_index());
  }
  return {};
}

std::span<const std::byte> VerifiedFile::payload(const BackendDelegate& delegate) const {
  const BackendDelegateDataReference& at = *delegate.processed();
  if (at.location() == DataLocation::Segment) return segment(at.index());
  const auto& inlined =
      tables<BackendDelegateInlineData>(program_, Program::VT_BACKEND_DELEGATE_DATA);
  if (at.location() != DataLocation::Inline || at.index() >= inlined.size()) return {};
  return bytes_of(inlined.Get(at.index()), BackendDelegateInlineData::VT_DATA);
}

std::span<const std::byte> VerifiedFile::part(const SubsegmentOffsets& of, uint32_t index) const {
  const std::span<const std::byte> data = segment(of.segment_index());
  const auto& offsets = list<uint64_t>(&of, SubsegmentOffsets::VT_OFFSETS);
  if (index >= offsets.size() || offsets.Get(index) > data.size()) return {};
  return data.subspan(static_cast<size_t>(offsets.Get(index)));
}

std::span<const std::byte> VerifiedFile::initial_state(const Tensor& tensor) const {
  const auto& states = tables<SubsegmentOffsets>(program_, Program::VT_MUTABLE_DATA_SEGMENTS);
  const ExtraTensorInfo* extra = tensor.extra_tensor_info();
  const uint64_t index = extra == nullptr ? 0 : extra->mutable_data_segments_idx();
  if (index >= states.size()) return {};
  return part(*states.Get(static_cast<uint32_t>(index)), word(&tensor, Tensor::VT_DATA_BUFFER_IDX));
}

std::span<const std::byte> VerifiedFile::constant(uint32_t index) const {
  if (const SubsegmentOffsets* at = program_->constant_segment();
      at != nullptr && at->offsets() != nullptr)
    return part(*at, index);
  const auto& buffers = tables<Buffer>(program_, Program::VT_CONSTANT_BUFFER);
  if (index >= buffers.size()) return {};
  return bytes_of(buffers.Get(index), Buffer::VT_STORAGE);
}

bool is_external(const Tensor& tensor) {
  return tensor.extra_tensor_info() != nullptr &&
         tensor.extra_tensor_info()->location() == TensorDataLocation::External;
}

std::string_view external_name(const Tensor& tensor) {
  return tensor.extra_tensor_info()->fully_qualified_name()->string_view();
}

size_t tensor_bytes(const Tensor& tensor) {
  size_t bytes = byte_size(static_cast<dtr::ScalarType>(tensor.scalar_type()));
  if (tensor.sizes() == nullptr) return bytes;
  for (const int32_t size : *tensor.sizes()) bytes *= static_cast<size_t>(size);
  return bytes;
}

}  // namespace dtr::pte
