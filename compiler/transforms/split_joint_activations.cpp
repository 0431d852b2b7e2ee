// Moves the activation of a concatenation to each operand, if each operand is made by a
// convolution, linear or matmul and has no other user. There the activation costs nothing, because
// the call that makes the operand applies it.
//
// A quantized activation moves only if it keeps the quantization: a concatenation has one for all
// its operands.
#include <algorithm>

#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

bool makes_products(const Op& op) {
  return op.def == &ops::kConvolution || op.def == &ops::kLinear || op.def == &ops::kMatmul;
}

class SplitJointActivations : public EachOpPass<SplitJointActivations> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) { return splits(id) ? split(id) : Result<void>{}; }

 private:
  bool splits(OpId id) const {
    const Op& op = graph_.op(id);
    if (op.operands.size() != 1 || op.results.size() != 1 || !op.def->has_trait(kElementwise))
      return false;
    const OpId cat = graph_.producer_if(op.operands[0], ops::kCat);
    if (!cat.valid() || graph_.sole_user(op.operands[0]) != id) return false;
    const Type& joint = graph_.type(op.operands[0]);
    if (joint.dtype != graph_.type(op.results[0]).dtype ||
        joint.quantization != graph_.type(op.results[0]).quantization)
      return false;
    return std::ranges::all_of(graph_.op(cat).operands, [&](ValueId operand) {
      const OpId producer = graph_.producer(operand);
      return producer.valid() && makes_products(graph_.op(producer)) &&
             graph_.value(operand).has_one_use() &&
             graph_.op(producer).attributes.find("activation") == nullptr;
    });
  }

  Result<void> split(OpId id) {
    const OpId cat = graph_.producer(graph_.op(id).operands[0]);
    const std::vector<ValueId> operands = graph_.op(cat).operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Op& op = graph_.op(id);
      Origin origin = op.origin;
      origin.part = static_cast<uint32_t>(i);
      origin.parts = static_cast<uint32_t>(operands.size());
      DTR_ASSIGN(
          const ValueId active,
          rewriter_.insert_value(cat, {.def = op.def,
                                       .operands = {operands[i]},
                                       .attributes = op.attributes,
                                       .origin = origin,
                                       .quantization = graph_.type(operands[i]).quantization}));
      rewriter_.set_layout(active, graph_.type(operands[i]).layout);
      rewriter_.set_operand(cat, i, active);
    }
    rewriter_.replace(id, graph_.op(cat).results[0]);
    ++changes_;
    return {};
  }
};

}  // namespace

constinit const PassDef kSplitJointActivations{
    .name = "split_joint_activations",
    .summary = "move an activation of a concatenation into the layers that make its operands",
    .exactness = Exactness::kExact,
    .run = run_pass<SplitJointActivations>};

}  // namespace dtr::passes
