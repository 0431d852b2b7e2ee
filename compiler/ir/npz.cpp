// Format: NumPy enhancement proposal 1: magic, version, length of the header, then a Python
// dictionary literal with the keys 'descr', 'fortran_order' and 'shape', padded to 64 bytes, then
// the elements.
#include "compiler/ir/npz.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

#include "compiler/support/file_contents.h"
#include "compiler/support/half.h"
#include "compiler/support/output_file.h"
#include "compiler/support/zip_writer.h"

namespace dtr {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxRank = 32;  // NumPy's own limit

struct Element {
  std::string_view descr;  // without the byte order
  DType dtype;
  size_t size;       // in the file
  size_t parts = 1;  // numbers of one element: real and imaginary part
};
constexpr std::array<Element, 11> kElements{{{"b1", DType::kBool, 1},
                                             {"u1", DType::kUint8, 1},
                                             {"i1", DType::kInt8, 1},
                                             {"i2", DType::kInt16, 2},
                                             {"i4", DType::kInt32, 4},
                                             {"i8", DType::kInt64, 8},
                                             {"f4", DType::kFloat32, 4},
                                             {"f8", DType::kFloat64, 8},
                                             {"f2", DType::kFloat32, 2},
                                             {"c8", DType::kFloat32, 8, 2},
                                             {"c16", DType::kFloat64, 16, 2}}};

struct Header {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
};

// Reads the dictionary literal of a header; only what NumPy writes, any spacing, any order of keys.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::optional<Header> parse() {
    Header header;
    unsigned seen = 0;
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      const auto key = string();
      if (!key || !take(':')) return std::nullopt;
      bool good = false;
      if (*key == "descr") {
        const auto descr = string();
        good = descr.has_value();
        if (good) header.descr = *descr;
        seen |= 1;
      } else if (*key == "fortran_order") {
        header.fortran_order = word("True");
        good = header.fortran_order || word("False");
        seen |= 2;
      } else if (*key == "shape") {
        good = shape(header.shape);
        seen |= 4;
      }
      if (!good) return std::nullopt;
      if (!take(',') && !peek('}')) return std::nullopt;
    }
    space();
    if (seen != 7 || !text_.empty()) return std::nullopt;
    return header;
  }

 private:
  void space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool peek(char c) {
    space();
    return !text_.empty() && text_[0] == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view expected) {
    space();
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }
  std::optional<std::string_view> string() {
    space();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view content = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return content;
  }
  bool shape(Shape& out) {
    if (!take('(')) return false;
    while (!take(')')) {
      space();
      int64_t extent = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
      if (error != std::errc{} || extent < 0 || out.size() == kMaxRank) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      out.push_back(extent);
      if (!take(',') && !peek(')')) return false;
    }
    return true;
  }

  std::string_view text_;
};

// Element `i` of the file in C order; `fortran` files count the first dimension fastest.
template <class Store>
void for_each_index(const Shape& shape, bool fortran, Store store) {
  const auto count = static_cast<size_t>(element_count(shape));
  if (!fortran || shape.size() < 2) {
    for (size_t i = 0; i < count; ++i) store(i, i);
    return;
  }
  std::vector<size_t> index(shape.size(), 0);
  std::vector<size_t> stride(shape.size(), 1);
  for (size_t d = 1; d < shape.size(); ++d)
    stride[d] = stride[d - 1] * static_cast<size_t>(shape[d - 1]);
  size_t source = 0;
  for (size_t i = 0; i < count; ++i) {
    store(i, source);
    for (size_t d = shape.size(); d-- > 0;) {
      source += stride[d];
      if (++index[d] < static_cast<size_t>(shape[d])) break;
      source -= stride[d] * index[d];
      index[d] = 0;
    }
  }
}

tl::unexpected<Diagnostic> invalid(const Place& place, std::string reason) {
  return fail(DiagnosticId::kNpyInvalid, std::move(reason),
              "write the array again with numpy.save or numpy.savez", place);
}

// Length of magic, version and header, 0 if it is not there.
size_t header_end(std::span<const std::byte> bytes, std::string_view& text) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!all.starts_with(kMagic) || all.size() < 12) return 0;
  const auto byte = [&](size_t at) { return static_cast<size_t>(static_cast<uint8_t>(all[at])); };
  const size_t start = byte(6) == 1 ? 10 : 12;
  const size_t length = byte(6) == 1 ? byte(8) | byte(9) << 8
                                     : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (byte(6) == 0 || byte(6) > 3 || length > all.size() - start) return 0;
  text = all.substr(start, length);
  return start + length;
}

bool is_npy(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

std::string_view without_ending(std::string_view name) {
  if (name.ends_with(".npy")) name.remove_suffix(4);
  return name;
}

std::string_view stem(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  return without_ending(path);
}

Result<Tensor> read_entry(const ZipArchive& archive, const ZipEntry& entry,
                          const std::string& file) {
  DTR_ASSIGN(const ZipData data, archive.read(entry));
  return parse_npy(data.bytes, {.file = file, .node = std::string(without_ending(entry.name))});
}

}  // namespace

Result<Tensor> parse_npy(std::span<const std::byte> bytes, const Place& place) {
  std::string_view text;
  const size_t start = header_end(bytes, text);
  if (start == 0) return invalid(place, "not a NumPy array, or truncated");
  const std::optional<Header> header = HeaderParser(text).parse();
  if (!header) return invalid(place, "the header of the array is damaged");

  const auto unsupported = [&](std::string_view why) {
    return fail(DiagnosticId::kNpyUnsupported,
                fmt::format("elements of type '{}' {}", header->descr, why),
                "convert the array first, for example with array.astype('<f4')", place);
  };
  const std::string_view descr = header->descr;
  if (descr.size() < 3) return unsupported("are not supported");
  if (descr[0] == '>') return unsupported("are big-endian");
  const Element* element = nullptr;
  for (const Element& candidate : kElements)
    if (descr.substr(1) == candidate.descr) element = &candidate;
  if (element == nullptr || (descr[0] != '<' && descr[0] != '|' && descr[0] != '='))
    return unsupported("are not supported");

  const auto count = checked_element_count(header->shape);
  const std::span<const std::byte> data = bytes.subspan(start);
  if (!count || static_cast<uint64_t>(*count) != data.size() / element->size ||
      data.size() % element->size != 0)
    return invalid(place, fmt::format("shape {} does not match {} bytes of '{}'",
                                      to_string(header->shape), data.size(), descr));

  Shape shape = header->shape;
  if (element->parts > 1) shape.push_back(static_cast<int64_t>(element->parts));
  Tensor tensor(element->dtype, shape);
  const bool half = element->size != byte_size(element->dtype) * element->parts;
  if (!half && !header->fortran_order) {
    if (!data.empty()) std::memcpy(tensor.view().data, data.data(), data.size());
  } else if (half) {
    const std::span<float> out = tensor.values<float>();
    for_each_index(header->shape, header->fortran_order, [&](size_t to, size_t from) {
      uint16_t value = 0;
      std::memcpy(&value, data.data() + 2 * from, sizeof value);
      out[to] = from_half(value);
    });
  } else {
    const size_t size = element->size;
    for_each_index(header->shape, true, [&](size_t to, size_t from) {
      std::memcpy(tensor.view().data + to * size, data.data() + from * size, size);
    });
  }
  if (element->dtype == DType::kBool)
    for (std::byte* at = tensor.view().data; at != tensor.view().data + tensor.view().bytes(); ++at)
      if (static_cast<uint8_t>(*at) > 1) return invalid(place, "a bool element is neither 0 nor 1");
  return tensor;
}

Result<std::vector<NamedTensor>> parse_npz(std::span<const std::byte> bytes,
                                           const std::string& file, ZipLimits limits,
                                           const WantedArrays& wanted) {
  DTR_ASSIGN(const ZipArchive archive, ZipArchive::open(bytes, file, limits));
  std::vector<NamedTensor> tensors;
  for (const ZipEntry& entry : archive.entries()) {
    const std::string_view array = without_ending(entry.name);
    if (wanted && !wanted(array)) {
      tensors.push_back({std::string(array), {}});
      continue;
    }
    DTR_ASSIGN(Tensor tensor, read_entry(archive, entry, file));
    tensors.push_back({std::string(array), std::move(tensor)});
  }
  return tensors;
}

Result<std::vector<NamedTensor>> read_npz(const std::string& path) {
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  return parse_npz(file.bytes(), path);
}

Result<NamedTensor> read_npy(const std::string& path) {
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  DTR_ASSIGN(Tensor tensor, parse_npy(file.bytes(), {.file = path}));
  return NamedTensor{std::string(stem(path)), std::move(tensor)};
}

Result<std::vector<NamedTensor>> read_tensors(const std::string& path, const WantedArrays& wanted) {
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  const std::span<const std::byte> bytes = file.bytes();
  if (is_npy(bytes)) {
    DTR_ASSIGN(Tensor tensor, parse_npy(bytes, {.file = path}));
    std::vector<NamedTensor> tensors;
    tensors.push_back({std::string(stem(path)), std::move(tensor)});
    return tensors;
  }
  return parse_npz(bytes, path, {}, wanted);
}

Result<std::vector<ReadArray>> read_each_array(const std::string& path) {
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  std::vector<ReadArray> arrays;
  if (is_npy(file.bytes())) {
    arrays.push_back({std::string(stem(path)), parse_npy(file.bytes(), {.file = path})});
    return arrays;
  }
  DTR_ASSIGN(const ZipArchive archive, ZipArchive::open(file.bytes(), path));
  for (const ZipEntry& entry : archive.entries())
    arrays.push_back({std::string(without_ending(entry.name)), read_entry(archive, entry, path)});
  return arrays;
}

std::vector<std::byte> format_npy(const TensorView& tensor) {
  std::string_view descr;
  for (const Element& element : kElements)
    if (element.dtype == tensor.dtype && element.size == byte_size(tensor.dtype))
      descr = element.descr;
  std::string shape;
  for (const int64_t extent : tensor.shape) shape += fmt::format("{}, ", extent);
  if (tensor.shape.size() > 1) shape.resize(shape.size() - 2);
  if (tensor.shape.size() == 1) shape.pop_back();
  const char order = byte_size(tensor.dtype) == 1 ? '|' : '<';
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                   order, descr, shape);
  header.append(63 - (kMagic.size() + 4 + header.size()) % 64, ' ');
  header += '\n';
  std::string text(kMagic);
  text += '\x01';
  text += '\x00';
  text += static_cast<char>(header.size() & 0xFF);
  text += static_cast<char>(header.size() >> 8);
  text += header;
  std::vector<std::byte> bytes(text.size() + tensor.bytes());
  std::memcpy(bytes.data(), text.data(), text.size());
  if (tensor.bytes() != 0) std::memcpy(bytes.data() + text.size(), tensor.data, tensor.bytes());
  return bytes;
}

Result<void> write_npz(const std::string& path, std::span<const NamedTensor> tensors,
                       bool compress) {
  ZipWriter zip;
  for (const NamedTensor& named : tensors)
    zip.add(named.name + ".npy", format_npy(named.tensor.view()), compress);
  return write_file(path, zip.finish());
}

Result<void> write_npy(const std::string& path, const TensorView& tensor) {
  return write_file(path, format_npy(tensor));
}

int64_t find_non_finite(const TensorView& tensor) {
  const auto scan = [](auto values) -> int64_t {
    for (size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(values[i])) return static_cast<int64_t>(i);
    return -1;
  };
  if (tensor.dtype == DType::kFloat32) return scan(tensor.values<float>());
  if (tensor.dtype == DType::kFloat64) return scan(tensor.values<double>());
  return -1;
}

}  // namespace dtr
