// Builds attention and einsum from products, softmax and permutations.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// softmax(query · keyᵀ · scale + mask) · value over the last two dimensions, each operand of rank 2
// or more. A bool mask selects positions, a float mask is added; the pass `mask_softmax` turns a
// float mask into a bool mask if possible.
struct Attention {
  ValueId query, key, value;
  ValueId mask = {};    // invalid: none
  bool causal = false;  // query i attends to keys 0…i; excludes `mask`
  // several query heads may share one head of keys and values (the third dimension from the end)
  bool shares_heads = false;
  std::optional<double> scale = {};  // default: 1 / √(extent of the last dimension)
};
// Errors: those of GraphBuilder::emit, for shapes that do not match.
Result<ValueId> attention(GraphBuilder& builder, const Attention& of);

// Any equation of PyTorch's einsum ("ij,jk->ik"; with `...`, with repeated letters, without a
// result), of any number of operands: each with the next is one matrix product. Errors: an equation
// that does not fit the operands.
Result<ValueId> einsum(GraphBuilder& builder, std::string_view equation,
                       const std::vector<ValueId>& operands);

}  // namespace dtr::compositions
