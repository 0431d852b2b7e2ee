#include "compiler/quantizer/zero_values.h"

#include <algorithm>
#include <array>

#include "compiler/ops/define.h"
#include "compiler/ops/ops.h"

namespace dtr {
namespace {

bool is_product(const Op& op) {
  return op.def == &ops::kMulTensor || op.def == &ops::kMatmul || op.def == &ops::kConvolution ||
         op.def == &ops::kLinear;
}

// Zero of zeros alone.
bool keeps_zero(const Op& op) {
  constexpr std::array kDefs = {&ops::kRelu,
                                &ops::kLeakyRelu,
                                &ops::kNeg,
                                &ops::kAbs,
                                &ops::kTanh,
                                &ops::kGelu,
                                &ops::kSilu,
                                &ops::kMish,
                                &ops::kHardswish,
                                &ops::kElu,
                                &ops::kAddTensor,
                                &ops::kSubTensor,
                                &ops::kMaximum,
                                &ops::kMinimum,
                                &ops::kMeanDim,
                                &ops::kSumDim,
                                &ops::kAmax,
                                &ops::kAmin,
                                &ops::kAvgPool2d,
                                &ops::kMaxPool2d,
                                &ops::kSoftshrink,
                                &ops::kSin,
                                &ops::kAtan,
                                &ops::kErf,
                                &ops::kExpand,
                                &ops::kHardshrink,
                                &ops::kView,
                                &ops::kPermute,
                                &ops::kCat,
                                &ops::kSliceTensor,
                                &ops::kUpsampleNearest2d};
  return std::ranges::find(kDefs, op.def) != kDefs.end();
}

}  // namespace

std::vector<bool> zero_values(const Module& module, const Graph& graph) {
  std::vector<bool> zero(graph.value_slots());
  const auto is_zero = [&](ValueId id) {
    if (!graph.is_constant(id)) return static_cast<bool>(zero[id.index]);
    if (graph.type(id).dtype != DType::kFloat32) return false;
    const auto values = module.constants.values<float>(graph.value(id).constant);
    return std::ranges::all_of(values, [](float x) { return x == 0; });
  };
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    if (op.results.size() != 1 || op.operands.empty()) continue;
    const ops::RealBounds bounds = ops::activation_bounds(BoundOpView(graph, id));
    if (bounds.low > 0 || bounds.high < 0) continue;
    const auto absent_or_zero = [&](ValueId operand) {
      return !operand.valid() || is_zero(operand);
    };
    const std::span<const ValueId> operands(op.operands);
    if (is_product(op))
      zero[op.results[0].index] = (is_zero(operands[0]) || is_zero(operands[1])) &&
                                  std::ranges::all_of(operands.subspan(2), absent_or_zero);
    else if (keeps_zero(op))
      zero[op.results[0].index] = std::ranges::all_of(operands, absent_or_zero);
  }
  return zero;
}

}  // namespace dtr
