#include "device/pte/tensor_file.h"

#include <cstring>

#include "device/numerics/crc32.h"
#include "device/pte/flat_tensor_generated.h"
#include "device/pte/flatbuffer.h"
#include "device/pte/manifest.h"
#include "device/pte/program_generated.h"
#include "device/pte/scalar_type.h"
#include "device/pte/verified_file.h"

namespace dtr::pte {
namespace {

// Extended header, behind the FlatBuffer's identifier.
struct Header {
  char magic[4];  // "FH01"
  uint32_t length;
  uint64_t flatbuffer_offset;
  uint64_t flatbuffer_size;
  uint64_t segment_base_offset;
  uint64_t segment_data_size;
};
constexpr size_t kHeaderAt = 8;

// device/pte/flat_tensor.fbs, as device/pte/program_schema.h is of programs.
enum Table : uint8_t { kRoot, kSegment, kEntry, kLayout };
constexpr SchemaField kSchema[] = {
    {kRoot, ptd::FlatTensor::VT_VERSION, FieldKind::kScalar, 4},
    {kRoot, ptd::FlatTensor::VT_SEGMENTS, FieldKind::kTables, kSegment},
    {kRoot, ptd::FlatTensor::VT_NAMED_DATA, FieldKind::kTables, kEntry},
    {kSegment, ptd::DataSegment::VT_OFFSET, FieldKind::kScalar, 8},
    {kSegment, ptd::DataSegment::VT_SIZE, FieldKind::kScalar, 8},
    {kEntry, ptd::NamedData::VT_KEY, FieldKind::kText, 0, kRequired},
    {kEntry, ptd::NamedData::VT_SEGMENT_INDEX, FieldKind::kScalar, 4},
    {kEntry, ptd::NamedData::VT_TENSOR_LAYOUT, FieldKind::kTable, kLayout},
    {kLayout, ptd::TensorLayout::VT_SCALAR_TYPE, FieldKind::kScalar, 1},
    {kLayout, ptd::TensorLayout::VT_SIZES, FieldKind::kVector, 4},
    {kLayout, ptd::TensorLayout::VT_DIM_ORDER, FieldKind::kVector, 1},
};
static_assert(depth(kSchema) <= kMaxSchemaDepth);

template <class A, class B>
bool same_items(const A* a, const B* b) {
  const uint32_t size = a == nullptr ? 0 : a->size();
  if (size != (b == nullptr ? 0 : b->size())) return false;
  for (uint32_t i = 0; i < size; ++i) {
    if (a->Get(i) != b->Get(i)) return false;
  }
  return true;
}

}  // namespace

Status TensorFile::open(std::span<const std::byte> bytes, bool check_checksum, TensorFile* file) {
  *file = {};
  if (bytes.size() < kHeaderAt + sizeof(Header)) return {Error::kTruncated};
  if (bytes.data() == nullptr) return {Error::kNull};
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kFileAlignment != 0) return {Error::kMisaligned};
  if (std::memcmp(bytes.data() + 4, ptd::FlatTensorIdentifier(), 4) != 0)
    return {Error::kNotATensorFile};
  Header header{};
  std::memcpy(&header, bytes.data() + kHeaderAt, sizeof header);
  if (std::memcmp(header.magic, "FH01", 4) != 0 || header.length < sizeof header)
    return {Error::kMalformed};
  if (header.segment_base_offset > bytes.size() ||
      header.segment_data_size > bytes.size() - header.segment_base_offset) {
    return {Error::kTruncated};
  }
  if (header.flatbuffer_offset > header.segment_base_offset ||
      header.flatbuffer_size > header.segment_base_offset - header.flatbuffer_offset) {
    return {Error::kMalformed};
  }
  const auto structure = static_cast<size_t>(header.flatbuffer_offset + header.flatbuffer_size);
  if (structure >= INT32_MAX || !verify_flatbuffer(kSchema, bytes.first(structure)))
    return {Error::kMalformed};
  const ptd::FlatTensor* root = ptd::GetFlatTensor(bytes.data());
  if (root->version() != 0) return {Error::kNewerVersion, 0, root->version()};
  const uint64_t size = header.segment_data_size;
  const uint32_t segments = root->segments() == nullptr ? 0 : root->segments()->size();
  for (uint32_t i = 0; i < segments; ++i) {
    const ptd::DataSegment& segment = *root->segments()->Get(i);
    if (segment.offset() > size || segment.size() > size - segment.offset())
      return {Error::kTruncated, i};
  }
  for (uint32_t i = 0; root->named_data() != nullptr && i < root->named_data()->size(); ++i) {
    const ptd::NamedData& entry = *root->named_data()->Get(i);
    if (entry.segment_index() >= segments) return {Error::kMalformed, i};
  }
  TensorFile opened;
  opened.segment_data_ =
      bytes.subspan(static_cast<size_t>(header.segment_base_offset), static_cast<size_t>(size));
  opened.root_ = root;
  opened.names_ascend_ = true;
  for (size_t i = 1; i < opened.count() && opened.names_ascend_; ++i)
    opened.names_ascend_ = opened.name(i - 1) <= opened.name(i);
  if (const ptd::NamedData* entry = opened.find(kChecksumKey); entry != nullptr && check_checksum) {
    const std::span<const std::byte> stored = opened.data(*entry);
    uint32_t expected = 0;
    if (stored.size() != sizeof expected) return {Error::kMalformed};
    std::memcpy(&expected, stored.data(), sizeof expected);
    if (crc32_with_hole(bytes, static_cast<size_t>(stored.data() - bytes.data())) != expected)
      return {Error::kBadChecksum};
  }
  *file = opened;
  return {};
}

size_t TensorFile::count() const {
  return root_ == nullptr || root_->named_data() == nullptr ? 0 : root_->named_data()->size();
}

const ptd::NamedData& TensorFile::entry(size_t index) const {
  return *root_->named_data()->Get(static_cast<uint32_t>(index));
}

std::string_view TensorFile::name(size_t index) const {
  const flatbuffers::String& key = *entry(index).key();
  return {key.c_str(), key.size()};
}

const ptd::NamedData* TensorFile::find(std::string_view key) const {
  if (!names_ascend_ && order_.empty()) {
    for (size_t i = 0; i < count(); ++i) {
      if (name(i) == key) return &entry(i);
    }
    return nullptr;
  }
  const auto at = [this](size_t place) { return order_.empty() ? place : order_[place]; };
  size_t first = 0;
  for (size_t end = count(); first < end;) {
    const size_t middle = first + (end - first) / 2;
    if (name(at(middle)) < key) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  return first < count() && name(at(first)) == key ? &entry(at(first)) : nullptr;
}

std::span<const std::byte> TensorFile::data(const ptd::NamedData& entry) const {
  const ptd::DataSegment& segment = *root_->segments()->Get(entry.segment_index());
  return segment_data_.subspan(static_cast<size_t>(segment.offset()),
                               static_cast<size_t>(segment.size()));
}

bool TensorFile::fits(const ptd::NamedData& entry, const Tensor& tensor) const {
  const ptd::TensorLayout* layout = entry.tensor_layout();
  const std::span<const std::byte> bytes = data(entry);
  return layout != nullptr && layout->scalar_type() == static_cast<int8_t>(tensor.scalar_type()) &&
         same_items(layout->sizes(), tensor.sizes()) &&
         same_items(layout->dim_order(), tensor.dim_order()) &&
         bytes.size() == tensor_bytes(tensor) &&
         reinterpret_cast<uintptr_t>(bytes.data()) %
                 byte_size(static_cast<dtr::ScalarType>(tensor.scalar_type())) ==
             0;
}

const std::byte* TensorFiles::search(std::span<const TensorFile> files, const Tensor& tensor) {
  for (const TensorFile& file : files) {
    const ptd::NamedData* entry = file.find(external_name(tensor));
    if (entry != nullptr && file.fits(*entry, tensor)) return file.data(*entry).data();
  }
  return nullptr;
}

}  // namespace dtr::pte
