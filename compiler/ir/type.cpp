#include "compiler/ir/type.h"

#include <array>

#include "compiler/support/diagnostic.h"

namespace dtr {
namespace {

struct DTypeInfo {
  std::string_view name;
  size_t size;
};
constexpr std::array<DTypeInfo, 8> kDTypes{{{"bool", 1},
                                            {"u8", 1},
                                            {"i8", 1},
                                            {"i16", 2},
                                            {"i32", 4},
                                            {"i64", 8},
                                            {"f32", 4},
                                            {"f64", 8}}};

}  // namespace

size_t byte_size(DType dtype) { return kDTypes.at(static_cast<size_t>(dtype)).size; }
std::string_view name(DType dtype) { return kDTypes.at(static_cast<size_t>(dtype)).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

std::optional<int64_t> checked_element_count(const Shape& shape) {
  int64_t count = 1;
  bool empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      empty = true;
      continue;
    }
    // PTRDIFF_MAX: a machine of 32 bits has no room for more.
    if (__builtin_mul_overflow(count, extent, &count) || count > PTRDIFF_MAX / 8)
      return std::nullopt;
  }
  return empty ? 0 : count;
}

int64_t element_count(const Shape& shape) {
  const auto count = checked_element_count(shape);
  DTR_CHECK(count.has_value());
  return *count;
}

std::string to_string(const Shape& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

std::vector<int> dim_order(Layout layout, size_t rank) {
  std::vector<int> order;
  for (size_t i = 0; i < rank; ++i) order.push_back(static_cast<int>(i));
  if (layout == Layout::kChannelsLast && rank >= 3) {
    order.erase(order.begin() + 1);
    order.push_back(1);
  }
  return order;
}

std::vector<int64_t> strides(const Shape& shape, Layout layout) {
  std::vector<int64_t> result(shape.size());
  const std::vector<int> order = dim_order(layout, shape.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto dim = static_cast<size_t>(order[i]);
    result[dim] = stride;
    stride *= shape[dim];
  }
  return result;
}

bool same_order(const Shape& shape, Layout a, Layout b) {
  if (a == b || shape.size() < 3) return true;
  int64_t spatial = 1;
  for (size_t i = 2; i < shape.size(); ++i) spatial *= shape[i];
  return shape[1] == 1 || spatial == 1;
}

IntegerRange integer_range(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {0, 1};
    case DType::kUint8:
      return {0, UINT8_MAX};
    case DType::kInt8:
      return {INT8_MIN, INT8_MAX};
    case DType::kInt16:
      return {INT16_MIN, INT16_MAX};
    default:
      return {INT32_MIN, INT32_MAX};
  }
}

Quantization bias_quantization(const Quantization& input, const Quantization& weight,
                               int64_t channels) {
  Quantization bias =
      Quantization::per_tensor(input.scale() * weight.scale(), 0, INT32_MIN, INT32_MAX);
  if (!weight.per_channel()) return bias;
  bias.axis = 0;
  bias.zero_points.assign(static_cast<size_t>(channels), 0);
  bias.scales.resize(static_cast<size_t>(channels));
  for (size_t c = 0; c < bias.scales.size(); ++c)
    bias.scales[c] = input.scale() * weight.scales[c % weight.scales.size()];
  return bias;
}

}  // namespace dtr
