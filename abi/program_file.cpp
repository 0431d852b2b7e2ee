#include "abi/program_file.h"

#include <bit>
#include <cstring>

#include "abi/crc32.h"
#include "abi/program_generated.h"
#include "abi/scalar_type.h"
#include "abi/verify_plan.h"

namespace dtr::pte {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is read in place");

// Extended header, as ExecuTorch writes it behind the FlatBuffer's identifier.
struct ExtendedHeader {
  char magic[4];  // "eh00"
  uint32_t length;
  uint64_t program_size;
  uint64_t segment_base_offset;
  uint64_t segment_data_size;  // only if length says so
};
constexpr size_t kHeaderAt = 8;
constexpr size_t kShortHeader = 24;
constexpr size_t kMaxProgramBytes = (size_t{1} << 31) - 2;  // of the FlatBuffer: its offsets are 32 bits wide

constexpr Status fail(Error error, uint32_t index = 0, uint32_t detail = 0) { return {error, index, detail}; }

std::string_view view(const flatbuffers::String* text) { return {text->c_str(), text->size()}; }

}  // namespace

Status ProgramFile::open(std::span<const std::byte> bytes, bool check_checksum, ProgramFile* file) {
  *file = {};
  file->bytes_ = bytes;
  if (const Status status = file->read_header(); !status.ok()) return status;
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, file->program_size_);
  if (!verifier.VerifyBuffer<Program>(ProgramIdentifier())) return fail(Error::kMalformed);
  file->program_ = GetProgram(data);
  if (file->program_->version() != 0) return fail(Error::kNewerVersion, 0, file->program_->version());
  if (const Status status = file->check_segments(); !status.ok()) return status;
  if (const Status status = file->check_named_data(check_checksum); !status.ok()) return status;
  return verify_plans(*file);
}

Status ProgramFile::read_header() {
  if (bytes_.size() < kHeaderAt + sizeof(uint32_t)) return fail(Error::kTruncated);
  const std::byte* data = bytes_.data();
  if (reinterpret_cast<uintptr_t>(data) % kFileAlignment != 0) return fail(Error::kMisaligned);
  if (std::memcmp(data + 4, ProgramIdentifier(), 4) != 0) {
    return fail(std::memcmp(data + 4, ProgramIdentifier(), 2) == 0 ? Error::kNewerVersion : Error::kNotAProgram);
  }
  program_size_ = bytes_.size();
  if (std::memcmp(data + kHeaderAt, "eh00", 4) == 0) {
    if (bytes_.size() < kHeaderAt + kShortHeader) return fail(Error::kTruncated);
    ExtendedHeader header{};
    std::memcpy(&header, data + kHeaderAt, kShortHeader);
    if (header.length < kShortHeader) return fail(Error::kMalformed);
    if (header.length >= sizeof header) {
      if (bytes_.size() < kHeaderAt + sizeof header) return fail(Error::kTruncated);
      std::memcpy(&header, data + kHeaderAt, sizeof header);
    }
    if (header.program_size > bytes_.size() || header.segment_base_offset > bytes_.size()) return fail(Error::kTruncated);
    if (header.program_size < kHeaderAt + kShortHeader) return fail(Error::kMalformed);
    program_size_ = static_cast<size_t>(header.program_size);
    if (header.segment_base_offset != 0) {
      if (header.segment_base_offset < header.program_size) return fail(Error::kMalformed);
      segment_data_ = bytes_.subspan(static_cast<size_t>(header.segment_base_offset));
      if (header.segment_data_size > segment_data_.size()) return fail(Error::kTruncated);
    }
  }
  return program_size_ > kMaxProgramBytes ? fail(Error::kMalformed) : Status{};
}

Status ProgramFile::check_segments() {
  if (program_->segments() == nullptr) return {};
  for (uint32_t i = 0; i < program_->segments()->size(); ++i) {
    const DataSegment& segment = *program_->segments()->Get(i);
    if (segment.offset() > segment_data_.size() || segment.size() > segment_data_.size() - segment.offset()) {
      return fail(Error::kTruncated, i);
    }
  }
  return {};
}

Status ProgramFile::check_named_data(bool check_checksum) {
  if (program_->named_data() == nullptr) return {};
  const uint32_t segments = program_->segments() == nullptr ? 0 : program_->segments()->size();
  for (uint32_t i = 0; i < program_->named_data()->size(); ++i) {
    const NamedData& entry = *program_->named_data()->Get(i);
    if (entry.key() == nullptr || entry.segment_index() >= segments) return fail(Error::kMalformed, i);
  }
  if (const auto stored = named_data(kChecksumKey); !stored.empty()) {
    uint32_t expected = 0;
    if (stored.size() != sizeof expected) return fail(Error::kMalformed);
    std::memcpy(&expected, stored.data(), sizeof expected);
    checksum_ = Checksum::kUnchecked;
    if (check_checksum) {
      if (crc32_with_hole(bytes_, static_cast<size_t>(stored.data() - bytes_.data())) != expected) return fail(Error::kBadChecksum);
      checksum_ = Checksum::kGood;
    }
  }
  if (const auto stored = named_data(kManifestKey); !stored.empty()) {
    if (stored.size() < sizeof(Manifest) || reinterpret_cast<uintptr_t>(stored.data()) % alignof(Manifest) != 0) {
      return fail(Error::kMalformed);
    }
    const auto* manifest = reinterpret_cast<const Manifest*>(stored.data());
    if (manifest->magic != kManifestMagic) return fail(Error::kMalformed);
    if (manifest->major != kManifestMajor) return fail(Error::kNewerVersion, 0, manifest->major);
    if (manifest->target[sizeof manifest->target - 1] != 0 || manifest->tool[sizeof manifest->tool - 1] != 0) {
      return fail(Error::kMalformed);
    }
    manifest_ = manifest;
  }
  return {};
}

std::span<const std::byte> ProgramFile::segment(uint32_t index) const {
  const DataSegment& segment = *program_->segments()->Get(index);
  return segment_data_.subspan(static_cast<size_t>(segment.offset()), static_cast<size_t>(segment.size()));
}

std::span<const std::byte> ProgramFile::named_data(std::string_view key) const {
  if (program_->named_data() == nullptr) return {};
  for (const NamedData* entry : *program_->named_data()) {
    if (view(entry->key()) == key) return segment(entry->segment_index());
  }
  return {};
}

std::span<const std::byte> ProgramFile::payload(const BackendDelegate& delegate) const {
  const BackendDelegateDataReference& at = *delegate.processed();
  if (at.location() == DataLocation::Segment) return segment(at.index());
  const auto* data = program_->backend_delegate_data()->Get(at.index())->data();
  if (data == nullptr) return {};
  return {reinterpret_cast<const std::byte*>(data->data()), data->size()};
}

const std::byte* ProgramFile::constant(const Tensor& tensor) const {
  const uint32_t index = tensor.data_buffer_idx();
  if (program_->constant_segment() != nullptr && program_->constant_segment()->offsets() != nullptr) {
    const SubsegmentOffsets& at = *program_->constant_segment();
    return segment(at.segment_index()).data() + at.offsets()->Get(index);
  }
  return reinterpret_cast<const std::byte*>(program_->constant_buffer()->Get(index)->storage()->data());
}

bool is_external(const Tensor& tensor) {
  return tensor.extra_tensor_info() != nullptr && tensor.extra_tensor_info()->location() == TensorDataLocation::External;
}

std::string_view external_name(const Tensor& tensor) { return view(tensor.extra_tensor_info()->fully_qualified_name()); }

size_t tensor_bytes(const Tensor& tensor) {
  size_t bytes = byte_size(static_cast<dtr::ScalarType>(tensor.scalar_type()));
  if (tensor.sizes() == nullptr) return bytes;
  for (const int32_t size : *tensor.sizes()) bytes *= static_cast<size_t>(size);
  return bytes;
}

}  // namespace dtr::pte
