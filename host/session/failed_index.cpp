#include "host/session/failed_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace dtr {
namespace {

// The arguments of an operator that reads or puts elements of its first one by index. Without `dim`
// the dimension is the first one, or each tensor of a list is of the next one.
struct Row {
  std::string_view kernel;
  int dim = -1;
  int index = 1;
  bool from_end = false;  // negative indices count from the end
};
constexpr std::array kRows{Row{"aten::embedding"},
                           Row{"aten::gather", 1, 2},
                           Row{"aten::index", -1, 1, true},
                           Row{"aten::index_put", -1, 1, true},
                           Row{"aten::index_put_", -1, 1, true},
                           Row{"aten::index_select", 1, 2},
                           Row{"aten::scatter", 1, 2},
                           Row{"aten::scatter_add", 1, 2}};

// More than any place that is named in earnest: see rows_of_index in compiler/compositions.
constexpr int64_t kNowhere = int64_t{1} << 30;

std::optional<int64_t> outside(const runtime::Tensor& index, int64_t extent, bool from_end) {
  if (index.dtype != ScalarType::kLong && index.dtype != ScalarType::kInt) return std::nullopt;
  for (size_t i = 0; i < index.elements(); ++i) {
    const int64_t at =
        index.dtype == ScalarType::kLong ? index.values<int64_t>()[i] : index.values<int32_t>()[i];
    if (at >= extent || at < (from_end ? -extent : 0)) return at;
  }
  return std::nullopt;
}

std::string text_of(const runtime::Tensor& index, const runtime::Tensor& of, size_t dim,
                    bool from_end) {
  if (dim >= of.rank) return {};
  const int64_t extent = of.sizes[dim];
  const std::optional<int64_t> found = outside(index, extent, from_end);
  if (!found || *found <= -kNowhere / 2) return {};
  return fmt::format(": index {} of {} elements", *found, extent);
}

}  // namespace

std::string failed_index(std::string_view kernel, std::span<runtime::Value* const> arguments) {
  const auto* const row = std::ranges::find(kRows, kernel, &Row::kernel);
  if (row == kRows.end() || arguments.size() < 3 ||
      arguments[0]->kind != runtime::ValueKind::kTensor)
    return {};
  const runtime::Tensor& of = arguments[0]->tensor;
  const runtime::Value& index = *arguments[static_cast<size_t>(row->index)];
  if (index.kind == runtime::ValueKind::kTensors) {
    for (size_t dim = 0; dim < index.tensors.count; ++dim) {
      const runtime::Value* const each = index.tensors.items[dim];
      if (each == nullptr || each->kind != runtime::ValueKind::kTensor) continue;
      if (std::string text = text_of(each->tensor, of, dim, row->from_end); !text.empty())
        return text;
    }
    return {};
  }
  if (index.kind != runtime::ValueKind::kTensor) return {};
  int64_t dim = 0;
  if (row->dim >= 0) {
    const runtime::Value& stated = *arguments[static_cast<size_t>(row->dim)];
    if (stated.kind != runtime::ValueKind::kInt) return {};
    dim = stated.integer < 0 ? stated.integer + of.rank : stated.integer;
  }
  return dim < 0 ? std::string() : text_of(index.tensor, of, static_cast<size_t>(dim), false);
}

}  // namespace dtr
