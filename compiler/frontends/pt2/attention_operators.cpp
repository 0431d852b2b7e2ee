// Attention and einsum (compiler/compositions/attention.h).
#include "compiler/compositions/attention.h"

#include <fmt/format.h>

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
      {.target = "aten.einsum.default", .op = "aten.matmul", .build = einsum},
  };
}

}  // namespace dtr::pt2
