// Turns x / c for a constant tensor c of several elements into x · (1 / c), which the NPU computes;
// the reciprocals are rounded once. A division by one number stays, because it is a table on the
// NPU, and so does one whose reciprocal is not finite.
#include <algorithm>
#include <cmath>

#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

Result<size_t> multiply_by_reciprocal(Module& module, Graph& graph, Remarks&) {
  Rewriter rewriter(graph);
  size_t changes = 0;
  DTR_TRY(for_each_op(graph, [&](OpId id) -> Result<void> {
    const Op& op = graph.op(id);
    if (op.def != &ops::kDivTensor || !is_float_constant(graph, op.operands[1]) ||
        graph.is_constant(op.operands[0]))
      return {};
    const ValueId divisor = op.operands[1];
    const Layout layout = graph.type(divisor).layout;
    if (graph.type(divisor).elements() < 2) return {};
    std::vector<double> values = constant_doubles(module, graph, divisor);
    for (double& value : values) value = 1 / value;
    if (!std::ranges::all_of(values,
                             [](double value) { return std::isfinite(static_cast<float>(value)); }))
      return {};
    const ValueId reciprocal =
        add_float_constant(module, rewriter, graph.type(divisor).dtype, graph.type(divisor).shape,
                           values, graph.value(divisor).name + "_reciprocal");
    rewriter.set_layout(reciprocal, layout);
    const Result<ValueId> product = replace_op(
        rewriter, id, {.def = &ops::kMulTensor, .operands = {op.operands[0], reciprocal}});
    if (!product) return tl::unexpected(product.error());
    ++changes;
    return {};
  }));
  return changes;
}

}  // namespace

constinit const PassDef kMultiplyByReciprocal{
    .name = "multiply_by_reciprocal",
    .summary = "turn division by a constant tensor into multiplication by its reciprocal",
    .exactness = Exactness::kFloatRounding,
    .keeps_sources = true,
    .run = multiply_by_reciprocal};

}  // namespace dtr::passes
