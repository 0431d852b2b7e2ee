#include "compiler/quantizer/elementwise_patterns.h"

#include "compiler/ops/ops.h"

namespace dtr {
namespace {

bool is_number(const Graph& graph, ValueId value) {
  return graph.is_constant(value) && graph.type(value).elements() == 1;
}

}  // namespace

std::optional<tl::expected<OpAnnotation, FloatReason>> annotate_binary(const Graph& graph, OpId id,
                                                                       bool divides_tensors) {
  const Op& op = graph.op(id);
  const bool selects = op.def == &ops::kMaximum || op.def == &ops::kMinimum;
  const bool divides = op.def == &ops::kDivTensor;
  if (!selects && !divides && op.def != &ops::kAddTensor && op.def != &ops::kSubTensor &&
      op.def != &ops::kMulTensor && op.def != &ops::kPrelu)
    return std::nullopt;
  const bool constant_0 = graph.is_constant(op.operands[0]);
  const bool constant_1 = graph.is_constant(op.operands[1]);
  if (constant_0 && constant_1)
    return tl::unexpected(
        FloatReason{"quantizer-constant-operand",
                    "{machine} computes what depends on an input; its operands are constants",
                    "compute it before the export"});
  if (divides && !divides_tensors && !is_number(graph, op.operands[0]) &&
      !is_number(graph, op.operands[1]))
    return tl::unexpected(
        FloatReason{"quantizer-form",
                    "{machine} divides by, or into, one constant number; both operands are tensors",
                    "multiply by a reciprocal"});
  // Operands and result have ranges of their own (ExecuTorch: mul reads [−0.5, 0.5), whatever the
  // operands are).
  OpAnnotation specs{{QuantSpec::affine(), QuantSpec::affine()}, {QuantSpec::affine()}};
  if (!selects) return specs;
  specs.selects = true;
  // What is selected keeps its code: with one quantization for all, nothing is rounded. A constant
  // has a range of its own, so that it coarsens the other operand only as far as it is selected.
  if (constant_0 || constant_1) {
    specs.results[0] = QuantSpec::shared_with(constant_0 ? 1 : 0, true);
  } else {
    specs.operands[1] = specs.results[0] = QuantSpec::shared_with(0);
  }
  return specs;
}

std::optional<OpAnnotation> annotate_unary(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  if (op.operands.size() != 1 || graph.is_constant(op.operands[0]) ||
      !op.def->has_trait(kElementwise) || op.def->evaluate_integer == nullptr)
    return std::nullopt;
  // Codes of −x and |x| are those of x: in one quantization that holds both, nothing is rounded.
  const bool mirrors = op.def == &ops::kNeg || op.def == &ops::kAbs;
  return OpAnnotation{{QuantSpec::affine()},
                      {mirrors ? QuantSpec::shared_with(0, true) : QuantSpec::affine()}};
}

}  // namespace dtr
