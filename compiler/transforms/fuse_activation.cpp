// Fuses relu and clamp to [0, 6], [0, 1] or [−1, 1] into the convolution, linear or add that makes
// their operand, if the operand has no other user. On quantized types both results must have the
// same quantization: then clamping the integers is the same. Plain integers, such as indices, have
// no fused activation.
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

Result<size_t> fuse_activation(Module&, Graph& graph, Remarks&) {
  Rewriter rewriter(graph);
  size_t changes = 0;
  DTR_TRY(for_each_op(graph, [&](OpId id) -> Result<void> {
    const Op& op = graph.op(id);
    const auto bounds = clamp_bounds(op);
    const auto name = bounds ? activation_name(*bounds) : std::nullopt;
    if (!name) return {};
    const OpId producer = graph.producer(op.operands[0]);
    if (!producer.valid() || !takes_activation(graph.op(producer)) ||
        graph.sole_user(op.operands[0]) != id)
      return {};
    if (!same_type_and_quantization(graph, op.operands[0], op.results[0])) return {};
    const Type& type = graph.type(op.results[0]);
    if (!is_float(type.dtype) && !type.quantized()) return {};
    rewriter.set_attribute(producer, "activation", std::string(*name));
    rewriter.set_origin(producer, merge(graph.op(producer).origin, op.origin));
    rewriter.replace(id, op.operands[0]);
    ++changes;
    return {};
  }));
  return changes;
}

}  // namespace

constinit const PassDef kFuseActivation{
    .name = "fuse_activation",
    .summary = "make relu and clamp the fused activation of the op before them",
    .exactness = Exactness::kExact,
    .keeps_sources = true,
    .run = fuse_activation};

}  // namespace dtr::passes
