#include "compiler/program/tensor_file_writer.h"

#include <fmt/format.h>

#include <cstring>

#include "compiler/ir/constant_pool.h"
#include "compiler/program/file_bytes.h"
#include "compiler/program/scalar_types.h"
#include "device/numerics/crc32.h"
#include "device/pte/flat_tensor_generated.h"
#include "device/pte/manifest.h"

namespace dtr {
namespace {

using Bytes = FileBytes;

constexpr uint32_t kHeaderBytes = 40;
constexpr uint32_t kInserted = align_in_file(kHeaderBytes);

}  // namespace

std::string TensorFileWriter::add(const std::string& name, const Type& type, Bytes data) {
  uint64_t hash = content_hash(data, static_cast<uint64_t>(type.dtype));
  for (const int64_t size : type.shape)
    hash = content_hash(std::as_bytes(std::span(&size, 1)), hash);
  const std::vector<uint8_t> order = file_dim_order(type);
  hash = content_hash(std::as_bytes(std::span(order)), hash);
  const auto [first, last] = known_.equal_range(hash);
  size_t collisions = 0;
  for (auto known = first; known != last; ++known, ++collisions) {
    const Entry& entry = entries_[known->second];
    if (entry.data == data && entry.type.dtype == type.dtype && entry.type.shape == type.shape &&
        entry.type.layout == type.layout)
      return entry.key;
  }
  std::string key = fmt::format("{}.{:016x}", name, hash);
  if (collisions > 0) key += fmt::format(".{}", collisions);
  bytes_ += data.size();
  known_.emplace(hash, entries_.size());
  entries_.push_back({key, type, std::move(data)});
  return key;
}

Bytes TensorFileWriter::finish() const {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<ptd::DataSegment>> segments;
  std::map<std::string_view, flatbuffers::Offset<ptd::NamedData>> named;  // keys are distinct
  size_t end = 0;
  const auto add_entry = [&](std::string_view key, size_t size,
                             flatbuffers::Offset<ptd::TensorLayout> layout) {
    const auto index = static_cast<uint32_t>(segments.size());
    const size_t offset = align_in_file(end);
    segments.push_back(ptd::CreateDataSegment(builder, offset, size));
    named.emplace(key, ptd::CreateNamedData(builder, builder.CreateString(key.data(), key.size()),
                                            index, layout));
    end = offset + size;
    return offset;
  };
  for (const Entry& entry : entries_) {
    const std::vector<int32_t> sizes(entry.type.shape.begin(), entry.type.shape.end());
    const auto sizes_vector = builder.CreateVector(sizes);
    const auto order = builder.CreateVector(file_dim_order(entry.type));
    const auto dtype = static_cast<int8_t>(scalar_type(entry.type.dtype));
    add_entry(entry.key, entry.data.size(),
              ptd::CreateTensorLayout(builder, dtype, sizes_vector, order));
  }
  const size_t checksum_offset = add_entry(pte::kChecksumKey, sizeof(uint32_t), {});
  const auto segment_vector = builder.CreateVector(segments);
  std::vector<flatbuffers::Offset<ptd::NamedData>> ascending;
  for (const auto& [key, entry] : named) ascending.push_back(entry);
  const auto named_vector = builder.CreateVector(ascending);
  ptd::FinishFlatTensorBuffer(builder,
                              ptd::CreateFlatTensor(builder, 0, segment_vector, named_vector));

  const std::span structure(reinterpret_cast<const std::byte*>(builder.GetBufferPointer()),
                            builder.GetSize());
  const size_t segment_base = align_in_file(structure.size() + kInserted);
  Bytes header;
  for (const char letter : std::string_view("FH01")) append(header, letter);
  append(header, kHeaderBytes);
  append(header, uint64_t{kInserted});
  append(header, static_cast<uint64_t>(structure.size()));
  append(header, static_cast<uint64_t>(segment_base));
  append(header, static_cast<uint64_t>(end));
  header.resize(kInserted);
  Bytes file;
  file.reserve(segment_base + end);
  append_with_header(file, structure, header);
  file.resize(segment_base);
  for (const Entry& entry : entries_) {
    file.resize(align_in_file(file.size()));
    file.insert(file.end(), entry.data.begin(), entry.data.end());
  }
  const size_t checksum_at = segment_base + checksum_offset;
  file.resize(checksum_at + sizeof(uint32_t));
  const uint32_t crc = crc32_with_hole(file, checksum_at);
  std::memcpy(file.data() + checksum_at, &crc, sizeof crc);
  return file;
}

}  // namespace dtr
