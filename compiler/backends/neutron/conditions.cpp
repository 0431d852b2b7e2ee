#include "compiler/backends/neutron/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/ops/ops.h"
#include "compiler/support/text.h"
#include "device/npu/microcode.h"

namespace dtr::neutron {
namespace {

using Outside = std::optional<std::string>;

bool is_npu_type(const Type& type) {
  return type.dtype == DType::kInt8 && type.quantized() && !type.quantization->per_channel();
}
// What a table is read by or gives needs no scale: any byte.
bool is_npu_type(const OpView& view, const Type& type) {
  return view.def == &ops::kLookup ? byte_size(type.dtype) == 1 : is_npu_type(type);
}

std::string describe(const Type& type) {
  if (!type.quantized()) return std::string(name(type.dtype));
  return fmt::format("{} quantized {}", name(type.dtype),
                     type.quantization->per_channel() ? "per channel" : "per tensor");
}

Outside other_element_type(const OpView& view, size_t first, size_t end) {
  for (size_t i = first; i < end; ++i)
    if (view.has(i) && !is_npu_type(view, view.operand(i)))
      return fmt::format("operand {} is {}", i, describe(view.operand(i)));
  for (const Type* result : view.results)
    if (!is_npu_type(view, *result)) return fmt::format("the result is {}", describe(*result));
  return std::nullopt;
}

Outside empty_tensor(const OpView& view) {
  for (const std::span<const Type* const> types :
       {std::span<const Type* const>(view.operands), std::span<const Type* const>(view.results)})
    for (const Type* type : types)
      if (type != nullptr && type->elements() == 0)
        return fmt::format("a tensor has shape {}", to_string(type->shape));
  return std::nullopt;
}

Outside large_rank(const OpView& view) {
  size_t rank = 0;
  for (const Type* type : view.operands)
    if (type != nullptr) rank = std::max(rank, type->rank());
  for (const Type* type : view.results) rank = std::max(rank, type->rank());
  return rank <= npu::kMoveRank ? Outside{} : fmt::format("this one has {}", rank);
}

Outside many_operands(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  std::set<ValueId> values(op.results.begin(), op.results.end());
  for (const ValueId operand : op.operands)
    if (operand.valid() && !graph.is_constant(operand)) values.insert(operand);
  return values.size() <= npu::kMaxOperands ? Outside{}
                                            : fmt::format("this operator has {}", values.size());
}

constexpr std::string_view kInt8Only =
    "the NPU computes int8 with one scale and zero point a tensor";
constexpr std::string_view kQuantize = "quantize the model: compile it with calibration data";
constexpr std::string_view kParameter = "make it a parameter or a buffer of the module";

}  // namespace

const Condition kInt8Operand{"npu-element-type", kInt8Only, kQuantize,
                             [](const OpQuery& q) { return other_element_type(q.view, 0, 1); }};
const Condition kInt8First{"npu-element-type", kInt8Only, kQuantize, [](const OpQuery& q) {
                             return is_npu_type(q.view.operand(0))
                                        ? Outside{}
                                        : fmt::format("operand 0 is {}",
                                                      describe(q.view.operand(0)));
                           }};
const Condition kInt8Operands{"npu-element-type", kInt8Only, kQuantize, [](const OpQuery& q) {
                                return other_element_type(q.view, 0, q.view.operands.size());
                              }};
const Condition kNotEmpty{"npu-empty-tensor", "the NPU needs at least one element",
                          "remove the operator: it computes nothing",
                          [](const OpQuery& q) { return empty_tensor(q.view); }};
const Condition kRank{"npu-rank", "the NPU copies tensors of up to {rank} dimensions",
                      "merge dimensions with a view before the operator",
                      [](const OpQuery& q) { return large_rank(q.view); }};
const Condition kOperandCount{
    "npu-operand-count",
    "a call of the NPU has at most {operands} inputs and outputs, constants not counted",
    "join fewer tensors at a time", [](const OpQuery& q) { return many_operands(q.graph, q.op); }};
const Condition kConstantWeight{"npu-dynamic-weight", "the NPU needs a constant weight", kParameter,
                                [](const OpQuery& q) { return computed_operand(q, 1); }};
const Condition kConstantBias{"npu-dynamic-weight", "the NPU needs a constant bias", kParameter,
                              [](const OpQuery& q) { return computed_operand(q, 2); }};

std::string with_numbers(std::string_view text, const npu::Target& target) {
  return fmt::format(fmt::runtime(text), fmt::arg("max_kernel", target.max_kernel),
                     fmt::arg("max_reduction", target.max_reduction), fmt::arg("macs", target.macs),
                     fmt::arg("pipelines", target.pipelines), fmt::arg("rank", npu::kMoveRank),
                     fmt::arg("operands", npu::kMaxOperands));
}

Outside beyond(int64_t limit, int64_t height, int64_t width) {
  return std::max(height, width) <= limit ? Outside{}
                                          : fmt::format("this one is {}x{}", height, width);
}

Outside window_of_padding(const ops::Window& window) {
  for (const ops::WindowAxis* axis : {&window.h, &window.w})
    for (int64_t o = 0; o < axis->out; ++o)
      if (const ops::WindowAxis::Taps taps = axis->taps(o); taps.begin >= taps.end)
        return fmt::format(
            "window {} (kernel {}, dilation {}, padding {}) covers none of an extent of {}", o,
            axis->kernel, axis->dilation, axis->pad, axis->in);
  return std::nullopt;
}

Outside row_beyond_sram(const OpQuery& q, uint64_t staged, int64_t operand_rows) {
  constexpr size_t kImageRank = 4, kRowDim = 2;
  const auto bytes_of = [&](ValueId value, int64_t rows) {
    const Type& type = q.graph.type(value);
    if (type.rank() < 2 || rows == 0) return static_cast<uint64_t>(type.bytes());
    const int64_t all = std::max<int64_t>(
        type.rank() == kImageRank ? type.shape[kRowDim]
                                  : type.elements() / std::max<int64_t>(type.shape.back(), 1),
        1);
    return static_cast<uint64_t>(type.bytes() / all * std::min(rows, all));
  };
  const Op& op = q.graph.op(q.op);
  uint64_t activations = 0;
  for (const ValueId operand : op.operands)
    if (operand.valid() && !q.graph.is_constant(operand))
      activations += bytes_of(operand, operand_rows);
  for (const ValueId result : op.results)
    activations += bytes_of(result, std::min<int64_t>(operand_rows, 1));
  const uint64_t sram = machine_of(q).target.sram_bytes;
  if (activations + staged <= sram) return std::nullopt;
  return fmt::format("operands and results take {} bytes and constants {} bytes, of {}",
                     with_thousands(activations), with_thousands(staged), with_thousands(sram));
}

Outside beyond_sram(const OpQuery& q, uint64_t staged) { return row_beyond_sram(q, staged, 0); }

}  // namespace dtr::neutron
