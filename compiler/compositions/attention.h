// Attention and einsum as the products, softmax and permutations that they stand for.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// softmax(query · keyᵀ · scale + mask) · value over the last two dimensions, each operand of rank 2
// or more. A mask of bool says which positions take part, one of floats is added; `mask_softmax`
// makes the first out of the second where it can.
struct Attention {
  ValueId query, key, value;
  ValueId mask = {};    // invalid: none
  bool causal = false;  // position i of the queries attends to positions up to i of the keys; then
                        // there is no mask
  bool shares_heads = false;  // several heads of queries may share one of keys and values (the
                              // third dimension from the end)
  std::optional<double> scale = {};  // default: 1 / √(extent of the last dimension)
};
Result<ValueId> attention(GraphBuilder& builder, const Attention& of);

// Any equation of PyTorch's einsum ("ij,jk->ik"; with `...`, with repeated letters, without a
// result), of any number of operands: each with the next is one matrix product. Errors: an equation
// that does not fit the operands.
Result<ValueId> einsum(GraphBuilder& builder, std::string_view equation,
                       const std::vector<ValueId>& operands);

}  // namespace dtr::compositions
