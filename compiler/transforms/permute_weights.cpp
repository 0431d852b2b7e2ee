// Removes the permute before a flattened operand of a linear and permutes the columns of its weight
// instead. Models in channels-last order have such a permute before their classifier.
//
// The permute must keep the dimensions that the view keeps, and the weight must be a constant.
// Other users of the weight keep the original.
#include <algorithm>
#include <numeric>

#include "compiler/ir/reorder.h"
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

class PermuteWeights : public EachOpPass<PermuteWeights> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    return graph_.op(id).def == &ops::kLinear ? absorb(id) : Result<void>{};
  }

 private:
  Result<void> absorb(OpId id) {
    const ValueId x = graph_.op(id).operands[0], weight = graph_.op(id).operands[1];
    const OpId view = graph_.producer_if(x, ops::kView);
    const OpId permute =
        view.valid() ? graph_.producer_if(graph_.op(view).operands[0], ops::kPermute) : OpId{};
    if (!permute.valid() || !graph_.is_constant(weight) || graph_.type(weight).elements() == 0)
      return {};
    const ValueId source = graph_.op(permute).operands[0];
    const Shape& flat = graph_.type(x).shape;
    const Shape& permuted = graph_.type(graph_.op(view).operands[0]).shape;
    const size_t kept = flat.size() - 1;  // dimensions before the flattened ones
    if (permuted.size() <= kept || !std::equal(flat.begin(), flat.end() - 1, permuted.begin()))
      return {};
    std::vector<size_t> dims;
    for (const int64_t dim : graph_.op(permute).attributes.get<Ints>("dims"))
      dims.push_back(
          static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(permuted.size()) : dim));
    for (size_t i = 0; i < kept; ++i)
      if (dims[i] != i) return {};

    const ValueId columns = reordered(weight, dims, kept, graph_.type(source).shape);
    Origin origin = merge(graph_.op(permute).origin, graph_.op(view).origin);
    origin.part = 0;
    origin.parts = 2;  // the other is in the weight: no operator of the model has this result
    DTR_ASSIGN(const ValueId unpermuted,
               rewriter_.insert_value(id, {.def = &ops::kView,
                                           .operands = {source},
                                           .attributes = {{"size", graph_.type(x).shape}},
                                           .origin = origin}));
    rewriter_.set_layout(unpermuted, graph_.type(x).layout);
    rewriter_.set_operand(id, 0, unpermuted);
    rewriter_.set_operand(id, 1, columns);
    ++changes_;
    if (graph_.value(x).unused()) {
      rewriter_.erase(view);
      erase_if_unused(rewriter_, permute);
    }
    return {};
  }

  // The weight with its columns in the order of the permute's operand, of shape `shape`, instead of
  // its result.
  ValueId reordered(ValueId weight, const std::vector<size_t>& dims, size_t kept,
                    const Shape& shape) {
    const Type type = graph_.type(weight);
    const ConstantId constant = graph_.value(weight).constant;
    // The columns as a tensor of rows and the permuted dimensions; stride_of[d] is that of
    // dimension d of the operand.
    std::vector<int64_t> stride_of(shape.size());
    int64_t stride = 1;
    for (size_t i = dims.size(); i-- > kept;) {
      stride_of[dims[i]] = stride;
      stride *= shape[dims[i]];
    }
    Shape extents{type.shape[0]};
    std::vector<int64_t> from{type.shape[1]}, to{type.shape[1]};
    int64_t rest = type.shape[1];
    for (size_t d = kept; d < shape.size(); ++d) {
      extents.push_back(shape[d]);
      from.push_back(stride_of[d]);
      to.push_back(rest /= shape[d]);
    }
    const auto bytes = module_.constants.bytes(constant);
    std::vector<std::byte> moved(bytes.size());
    reorder(extents, byte_size(type.dtype), bytes.data(), from, moved.data(), to);
    const std::string name = graph_.value(weight).name;
    return rewriter_.add_constant(type, module_.constants.add(type.dtype, moved), name);
  }
};

}  // namespace

constinit const PassDef kPermuteWeights{
    .name = "permute_weights",
    .summary = "fold a permute before a flattened linear into its weight",
    .exactness = Exactness::kFloatRounding,
    .run = run_pass<PermuteWeights>};

}  // namespace dtr::passes
