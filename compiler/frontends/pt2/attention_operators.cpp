// Attention and einsum (compiler/compositions/attention.h).
#include "compiler/compositions/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

Result<Values> attention(NodeImport& node) {
  compositions::Attention attention;
  DTR_ASSIGN(attention.query, node.tensor("query"));
  DTR_ASSIGN(attention.key, node.tensor("key"));
  DTR_ASSIGN(attention.value, node.tensor("value"));
  DTR_ASSIGN(attention.mask,
             node.optional_tensor(node.has("attn_bias") ? "attn_bias" : "attn_mask"));
  for (const std::string_view of_training : {"compute_log_sumexp", "return_debug_mask"})
    DTR_TRY(node.boolean(of_training, false));
  DTR_ASSIGN(const double dropout, node.number("dropout_p", 0));
  DTR_ASSIGN(attention.causal, node.boolean("is_causal", false));
  for (const ValueId operand : {attention.query, attention.key, attention.value})
    if (node.type(operand).rank() < 2)
      return node.unsupported(fmt::format("an operand has shape {}, expected a matrix or several",
                                          to_string(node.type(operand).shape)));
  DTR_ASSIGN(attention.shares_heads, node.boolean("enable_gqa", false));
  if (node.has("scale")) {
    DTR_ASSIGN(attention.scale, node.number("scale"));
  }
  if (dropout != 0)
    return node.unsupported("dropout in attention", "call model.eval() before the export");
  if (attention.causal && attention.mask.valid())
    return node.unsupported("a mask and is_causal", "put the causal mask into the mask");
  DTR_ASSIGN(const ValueId result, compositions::attention(node, attention));
  return Values{result};
}

// A softmax that makes zeros of rows without a finite score.
Result<Values> safe_softmax(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  DTR_ASSIGN(const auto dtype, node.dtype("dtype"));
  if (dtype) {
    DTR_ASSIGN(x, node.cast(x, *dtype));
  }
  DTR_ASSIGN(const ValueId result, node.emit("aten.softmax", {x}, {{"dim", dim}}));
  DTR_ASSIGN(const ValueId none, node.constant(node.type(x).dtype, {}, -INFINITY, "none"));
  // As PyTorch decomposes it, which mask_softmax knows.
  DTR_ASSIGN(ValueId mask, node.emit("aten.eq.Tensor", {x, none}));
  DTR_ASSIGN(mask, node.emit("aten.logical_not", {mask}));
  DTR_ASSIGN(mask, node.emit("aten.amax", {mask}, {{"dim", Ints{dim}}, {"keepdim", true}}));
  DTR_ASSIGN(mask, node.emit("aten.logical_not", {mask}));
  return one(node.emit("aten.masked_fill", {result, mask}, {{"value", 0.0}}));
}

Result<Values> einsum(NodeImport& node) {
  DTR_ASSIGN(const std::string_view equation, node.string("equation"));
  DTR_ASSIGN(const Values operands, node.tensors("tensors"));
  DTR_ASSIGN(const ValueId result, compositions::einsum(node, equation, operands));
  return Values{result};
}

}  // namespace

std::vector<Operator> attention_operators() {
  return {
      {.target = "aten.scaled_dot_product_attention.default",
       .op = "aten.matmul",
       .build = attention},
      {.target = "aten._scaled_dot_product_attention_math.default",
       .op = "aten.matmul",
       .build = attention},
      {.target = "aten._scaled_dot_product_efficient_attention.default",
       .op = "aten.matmul",
       .build = attention},
      {.target = "aten._scaled_dot_product_flash_attention.default",
       .op = "aten.matmul",
       .build = attention},
      {.target = "aten._scaled_dot_product_flash_attention_for_cpu.default",
       .op = "aten.matmul",
       .build = attention},
      tensor_row("aten._safe_softmax.default", "aten.softmax", safe_softmax),
      {.target = "aten.einsum.default", .op = "aten.matmul", .build = einsum},
  };
}

}  // namespace dtr::pt2
