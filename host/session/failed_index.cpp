#include "host/session/failed_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "device/simulator/decoder.h"
#include "device/simulator/functional.h"
#include "device/simulator/simulator.h"

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

std::string text_of(int64_t index, int64_t extent) {
  return index <= -kNowhere / 2 ? std::string()
                                : fmt::format(": index {} of {} elements", index, extent);
}

std::string text_of(const runtime::Tensor& index, const runtime::Tensor& of, size_t dim,
                    bool from_end) {
  if (dim >= of.rank) return {};
  const int64_t extent = of.sizes[dim];
  const std::optional<int64_t> found = outside(index, extent, from_end);
  return found ? text_of(*found, extent) : std::string();
}

// Reads the indices of the gather at `command`; the visitor of simulator::visit.
class GatherIndices {
 public:
  GatherIndices(uint32_t command, const simulator::Regions& regions, std::string& text)
      : command_(command), regions_(regions), text_(text) {}
  npu::Status operator()(uint32_t index, const npu::Gather& gather) {
    if (index != command_) return npu::Status::kOk;
    const auto* const indices = reinterpret_cast<const std::byte*>(regions_.at(gather.indices));
    for (uint32_t i = 0; i < gather.count && text_.empty(); ++i) {
      const int64_t at = simulator::index_at(gather, indices, i);
      if (at < 0 || at >= gather.rows) text_ = text_of(at, gather.rows);
    }
    return npu::Status::kOk;
  }
  template <class Command>
  npu::Status operator()(uint32_t, const Command&) {
    return npu::Status::kOk;
  }

 private:
  uint32_t command_;
  simulator::Regions regions_;
  std::string& text_;
};

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

std::string failed_index(const npu::Target& target, std::span<const std::byte> payload,
                         uint32_t command, std::span<runtime::Value* const> arguments) {
  simulator::Payload decoded;
  if (simulator::decode(target, payload, decoded).status != npu::Status::kOk) return {};
  if (arguments.size() != size_t{decoded.header.operand_count} + 1) return {};
  std::vector<npu::Buffer> operands;
  for (const runtime::Value* const each : arguments) {
    if (each->kind != runtime::ValueKind::kTensor) return {};
    const runtime::Tensor& tensor = each->tensor;
    operands.push_back({tensor.data, static_cast<uint32_t>(tensor.bytes())});
  }
  const npu::Buffer scratch = operands.back();
  operands.pop_back();
  if (simulator::check_memory(decoded, operands, scratch) != npu::Status::kOk) return {};
  std::string text;
  simulator::visit(
      decoded,
      GatherIndices(command,
                    {const_cast<std::byte*>(decoded.constants().data()), operands, scratch}, text));
  return text;
}

}  // namespace dtr
