#include "compiler/frontends/onnx/tensors.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "compiler/ops/ops.h"
#include "compiler/support/half.h"

namespace dtr::onnx {
namespace {

constexpr std::string_view kExportAgain = "Export or download the model again.";

// Bytes of an element in `raw_data`; 0 for types that are not read. Two elements of four bits share
// a byte.
size_t raw_size(int32_t type) {
  switch (type) {
    case kUint8:
    case kInt8:
    case kBool:
    case kUint4:
    case kInt4:
      return 1;
    case kUint16:
    case kInt16:
    case kFloat16:
    case kBfloat16:
      return 2;
    case kFloat:
    case kInt32:
    case kUint32:
      return 4;
    case kDouble:
    case kInt64:
    case kUint64:
      return 8;
    default:
      return 0;
  }
}
bool has_four_bits(int32_t type) { return type == kUint4 || type == kInt4; }

int8_t nibble(uint32_t byte, size_t index, int32_t type) {
  const auto code = static_cast<int32_t>(index % 2 == 0 ? byte & 15u : byte >> 4 & 15u);
  return static_cast<int8_t>(type == kInt4 && code > 7 ? code - 16 : code);
}

template <class From>
From raw_element(std::span<const std::byte> raw, size_t index) {
  From value;
  std::memcpy(&value, raw.data() + index * sizeof value, sizeof value);
  return value;
}

template <class From, class To, class Convert>
void convert_raw(std::span<const std::byte> raw, Tensor& to, Convert convert) {
  const std::span<To> values = to.values<To>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = convert(raw_element<From>(raw, i));
}

// `raw` holds as many elements as `to`.
void fill_from_raw(std::span<const std::byte> raw, int32_t type, Tensor& to) {
  switch (type) {
    case kFloat16:
      return convert_raw<uint16_t, float>(raw, to, from_half);
    case kBfloat16:
      return convert_raw<uint16_t, float>(raw, to, from_bfloat);
    case kDouble:
      return convert_raw<double, float>(raw, to, [](double x) { return static_cast<float>(x); });
    case kUint16:
      return convert_raw<uint16_t, int32_t>(raw, to, [](uint16_t x) { return int32_t{x}; });
    case kUint32:
      return convert_raw<uint32_t, int64_t>(raw, to, [](uint32_t x) { return int64_t{x}; });
    case kBool:
      return convert_raw<uint8_t, uint8_t>(raw, to,
                                           [](uint8_t x) { return static_cast<uint8_t>(x != 0); });
    case kUint4:
    case kInt4: {
      const std::span<int8_t> values = to.values<int8_t>();
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = nibble(std::to_integer<uint32_t>(raw[i / 2]), i, type);
      return;
    }
    default:
      std::memcpy(to.view().data, raw.data(), raw.size());
  }
}

template <class To, class Values>
void copy_list(const Values& list, Tensor& to) {
  const std::span<To> values = to.values<To>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<To>(list.Get(static_cast<int>(i)));
}

// The list of a type's elements holds as many as `to`.
void fill_from_list(const pb::TensorProto& tensor, Tensor& to) {
  const auto& integers = tensor.int32_data();
  switch (tensor.data_type()) {
    case kFloat:
      return copy_list<float>(tensor.float_data(), to);
    case kDouble:
      return copy_list<float>(tensor.double_data(), to);
    case kInt64:
      return copy_list<int64_t>(tensor.int64_data(), to);
    case kUint32:
    case kUint64:
      return copy_list<int64_t>(tensor.uint64_data(), to);
    case kInt32:
    case kUint16:
      return copy_list<int32_t>(integers, to);
    case kInt16:
      return copy_list<int16_t>(integers, to);
    case kInt8:
      return copy_list<int8_t>(integers, to);
    case kUint8:
      return copy_list<uint8_t>(integers, to);
    case kFloat16:
    case kBfloat16: {
      const std::span<float> values = to.values<float>();
      for (size_t i = 0; i < values.size(); ++i) {
        const auto bits = static_cast<uint16_t>(integers.Get(static_cast<int>(i)));
        values[i] = tensor.data_type() == kFloat16 ? from_half(bits) : from_bfloat(bits);
      }
      return;
    }
    case kUint4:
    case kInt4: {
      const std::span<int8_t> values = to.values<int8_t>();
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = nibble(static_cast<uint32_t>(integers.Get(static_cast<int>(i / 2))), i,
                           tensor.data_type());
      return;
    }
    default: {  // bool
      const std::span<uint8_t> values = to.values<uint8_t>();
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = integers.Get(static_cast<int>(i)) != 0 ? 1 : 0;
    }
  }
}

// Entries of the list that holds a type's elements.
int64_t list_size(const pb::TensorProto& tensor) {
  switch (tensor.data_type()) {
    case kFloat:
      return tensor.float_data_size();
    case kDouble:
      return tensor.double_data_size();
    case kInt64:
      return tensor.int64_data_size();
    case kUint32:
    case kUint64:
      return tensor.uint64_data_size();
    default:
      return tensor.int32_data_size();
  }
}

std::optional<uint64_t> number(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string name_of_type(int32_t type) {
  constexpr std::string_view kNames[] = {
      "UNDEFINED",      "FLOAT",    "UINT8",        "INT8",           "UINT16",
      "INT16",          "INT32",    "INT64",        "STRING",         "BOOL",
      "FLOAT16",        "DOUBLE",   "UINT32",       "UINT64",         "COMPLEX64",
      "COMPLEX128",     "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
      "FLOAT8E5M2FNUZ", "UINT4",    "INT4",         "FLOAT4E2M1",     "FLOAT8E8M0",
      "UINT2",          "INT2"};
  if (type >= 0 && static_cast<size_t>(type) < std::size(kNames))
    return std::string(kNames[static_cast<size_t>(type)]);
  return fmt::format("element type {}", type);
}

std::optional<DType> dtype_of(int32_t type) {
  switch (type) {
    case kFloat:
    case kFloat16:
    case kBfloat16:
    case kDouble:
      return DType::kFloat32;
    case kUint8:
      return DType::kUint8;
    case kInt8:
    case kUint4:
    case kInt4:
      return DType::kInt8;
    case kInt16:
      return DType::kInt16;
    case kUint16:
    case kInt32:
      return DType::kInt32;
    case kUint32:
    case kInt64:
    case kUint64:
      return DType::kInt64;
    case kBool:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

Result<pb::ModelProto> parse(std::span<const std::byte> bytes, const std::string& path) {
  pb::ModelProto model;
  if (bytes.size() > INT32_MAX)
    return fail(DiagnosticId::kOnnxInvalid, "the file has 2 GiB or more, which the format excludes",
                "Save the model with external data.", {.file = path});
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model.has_graph())
    return fail(DiagnosticId::kOnnxInvalid, "it is no ONNX model, or truncated or damaged",
                std::string(kExportAgain), {.file = path});
  return model;
}

tl::unexpected<Diagnostic> TensorReader::invalid(const std::string& tensor,
                                                 std::string reason) const {
  return fail(DiagnosticId::kOnnxInvalid, std::move(reason), std::string(kExportAgain),
              {.file = path_, .node = tensor});
}

Result<Shape> TensorReader::shape_of(const pb::TensorProto& tensor) const {
  Shape shape(tensor.dims().begin(), tensor.dims().end());
  const auto elements = checked_element_count(shape);
  if (shape.size() > kMaxRank || !elements || *elements > INT32_MAX)
    return invalid(tensor.name(),
                   fmt::format("a stored tensor has shape [{}]", fmt::join(shape, ", ")));
  return shape;
}

// A file beside the model: another place could be anything that the user can read.
Result<std::span<const std::byte>> TensorReader::external(const pb::TensorProto& tensor) {
  namespace fs = std::filesystem;
  const auto refuse = [&](std::string reason, std::string fix) {
    return fail(DiagnosticId::kOnnxExternalData, std::move(reason), std::move(fix),
                {.file = path_, .node = tensor.name()});
  };
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  for (const pb::StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    const std::optional<uint64_t> value = number(entry.value());
    if (!value)
      return refuse(fmt::format("its {} in the external data is no number", entry.key()),
                    std::string(kExportAgain));
    if (entry.key() == "offset") offset = *value;
    if (entry.key() == "length") length = *value;
  }
  const fs::path relative(location);
  bool inside = !location.empty() && relative.is_relative();
  for (const fs::path& part : relative) inside = inside && part != "..";
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(
      fs::path(path_).parent_path().empty() ? fs::path(".") : fs::path(path_).parent_path(), error);
  const fs::path file = fs::weakly_canonical(folder / relative, error);
  const fs::path below = file.lexically_relative(folder);
  if (!inside || error || below.empty() || *below.begin() == "..")
    return refuse(fmt::format("its elements are in `{}`, outside of the model's folder", location),
                  "Save the model again, with its external data beside it.");
  auto at = files_.find(location);
  if (at == files_.end()) {
    Result<FileContents> contents = FileContents::read(file.string());
    if (!contents)
      return refuse(fmt::format("its elements are in `{}`, which is not there", location),
                    "Copy the file with the external data into the model's folder.");
    at = files_.emplace(location, *std::move(contents)).first;
  }
  const std::span<const std::byte> bytes = at->second.bytes();
  if (offset > bytes.size() || length.value_or(bytes.size() - offset) > bytes.size() - offset)
    return refuse(
        fmt::format("its elements end behind the {} bytes of `{}`", bytes.size(), location),
        "Copy the file with the external data again.");
  return bytes.subspan(offset, length.value_or(bytes.size() - offset));
}

Result<Tensor> TensorReader::read(const pb::TensorProto& tensor) {
  constexpr int32_t kExternal = 1;
  const int32_t type = tensor.data_type();
  const std::optional<DType> dtype = dtype_of(type);
  if (!dtype)
    return fail(DiagnosticId::kOnnxUnsupportedDtype,
                fmt::format("a stored tensor has elements of {}", name_of_type(type)),
                "Export the model with floats, integers and bools alone.",
                {.file = path_, .node = tensor.name()});
  DTR_ASSIGN(const Shape shape, shape_of(tensor));
  const auto elements = static_cast<size_t>(element_count(shape));
  const size_t stored = has_four_bits(type) ? (elements + 1) / 2 : elements;
  std::span<const std::byte> raw = std::as_bytes(std::span(tensor.raw_data()));
  const bool outside = tensor.data_location() == kExternal;
  if (outside) {
    DTR_ASSIGN(raw, external(tensor));
  }
  if (outside || tensor.has_raw_data()) {
    if (raw.size() != stored * raw_size(type))
      return invalid(tensor.name(), fmt::format("{} bytes for {} elements of {}", raw.size(),
                                                elements, name_of_type(type)));
    Tensor result(*dtype, shape);
    fill_from_raw(raw, type, result);
    return result;
  }
  if (list_size(tensor) != static_cast<int64_t>(stored))
    return invalid(tensor.name(), fmt::format("{} stored numbers for {} elements of {}",
                                              list_size(tensor), elements, name_of_type(type)));
  Tensor result(*dtype, shape);
  fill_from_list(tensor, result);
  return result;
}

Result<Tensor> TensorReader::read(const pb::SparseTensorProto& sparse) {
  const std::string& name = sparse.values().name();
  pb::TensorProto dense;
  dense.mutable_dims()->CopyFrom(sparse.dims());
  dense.set_name(name);
  DTR_ASSIGN(const Shape shape, shape_of(dense));
  DTR_ASSIGN(const Tensor values, read(sparse.values()));
  DTR_ASSIGN(const Tensor indices, read(sparse.indices()));
  const int64_t count = values.elements(), elements = element_count(shape);
  const auto rank = static_cast<int64_t>(shape.size());
  const bool flat = indices.shape() == Shape{count};
  if (indices.dtype() != DType::kInt64 || (!flat && indices.shape() != Shape{count, rank}))
    return invalid(name, "the places of its sparse elements do not fit its shape");
  constexpr int64_t kMostBytes = int64_t{1} << 28;
  const size_t size = byte_size(values.dtype());
  if (elements > kMostBytes / static_cast<int64_t>(size))
    return invalid(name, fmt::format("it is sparse, and dense it has {} elements", elements));
  Tensor result(values.dtype(), shape);
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    if (flat) {
      place = indices.values<int64_t>()[static_cast<size_t>(i)];
    } else {
      for (int64_t d = 0; d < rank; ++d) {
        const int64_t index = indices.values<int64_t>()[static_cast<size_t>(i * rank + d)];
        const int64_t extent = shape[static_cast<size_t>(d)];
        if (index < 0 || index >= extent)
          return invalid(name, fmt::format("index {} of {} elements", index, extent));
        place = place * extent + index;
      }
    }
    if (place < 0 || place >= elements)
      return invalid(name, fmt::format("index {} of {} elements", place, elements));
    std::memcpy(result.view().data + static_cast<size_t>(place) * size,
                values.bytes().data() + static_cast<size_t>(i) * size, size);
  }
  return result;
}

}  // namespace dtr::onnx
