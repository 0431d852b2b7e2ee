// Operators that reduce several elements to one: pools, sums, means, softmax.
#include <fmt/format.h>

#include "compiler/backends/cortex_m/rules.h"
#include "compiler/ops/integer.h"
#include "compiler/ops/ops.h"
#include "compiler/ops/reduction.h"
#include "compiler/ops/softmax.h"
#include "compiler/ops/window.h"
#include "device/numerics/cortex_m_scratch.h"

namespace dtr::cortex_m {
namespace {

// (N, C, H, W) is an image; (C, H, W) are C images of one channel.
LayoutChoice pool_layout(const Graph& graph, const Op& op) {
  return graph.type(op.operands[0]).rank() == 4 ? channels_last(graph, op) : contiguous(graph, op);
}

int64_t pool_scratch_bytes(const OpView& view) {
  const Type& x = view.operand(0);
  return average_pool_scratch_bytes(x.rank() == 4 ? x.shape[1] : 1);
}

// Zero point of the operand, multiplier of its sums, zero point and range of the result.
void push_sum(KernelCall& call, const OpView& view, numerics::Requantization by) {
  const Quantization& out = *view.result().quantization;
  push(call, view.operand(0).quantization->zero_point());
  push(call, by);
  push(call, out.zero_point());
  push(call, ops::range_of(out));
}

KernelCall average_pool(const CallContext& context) {
  const OpView& view = context.view;
  const Quantization& out = *view.result().quantization;
  const Ints& padding = view.attribute<Ints>("padding");
  const bool include_pad = view.attribute<bool>("count_include_pad");
  const bool of_codes = ops::averages_codes(view);
  KernelCall call;
  call.arguments = {context.operand(0), view.attribute<Ints>("kernel_size"),
                    view.attribute<Ints>("stride"), padding};
  if (of_codes && !include_pad && ops::range_of(out) == numerics::Range{}) {
    call.name = "cortex_m::quantized_avg_pool2d.out";
    push(call, out.zero_point());
    push(call, numerics::Requantization{});
  } else {
    call.name = "deuteron::quantized_avg_pool2d.out";
    call.arguments.emplace_back(view.attribute_or<Ints>("padding_end", padding));
    call.arguments.emplace_back(include_pad);
    call.arguments.emplace_back(view.attribute_or<int64_t>("divisor_override", 0));
    push_sum(call, view, of_codes ? numerics::Requantization{} : ops::sum_multiplier(view));
  }
  call.arguments.emplace_back(ScratchArgument{pool_scratch_bytes(view)});
  return call;
}

KernelCall adaptive_average_pool(const CallContext& context) {
  const OpView& view = context.view;
  KernelCall call{.name = "deuteron::quantized_adaptive_avg_pool2d.out",
                  .arguments = {context.operand(0), view.attribute<Ints>("output_size")}};
  push_sum(call, view, ops::sum_multiplier(view));
  call.arguments.emplace_back(ScratchArgument{pool_scratch_bytes(view)});
  return call;
}

KernelCall max_pool(const CallContext& context) {
  const OpView& view = context.view;
  const int64_t zero_point = view.operand(0).quantization->zero_point();
  return {.name = "cortex_m::quantized_max_pool2d.out",
          .arguments = {context.operand(0), view.attribute<Ints>("kernel_size"),
                        view.attribute<Ints>("stride"), view.attribute<Ints>("padding"),
                        view.attribute_or<Ints>("dilation", Ints{1, 1}),
                        view.attribute<bool>("ceil_mode"), zero_point, zero_point, int64_t{-128},
                        int64_t{127}}};
}

KernelCall adaptive_max_pool(const CallContext& context) {
  return {.name = "deuteron::adaptive_max_pool2d.out",
          .arguments = {context.operand(0), context.view.attribute<Ints>("output_size")}};
}

// ---- over dimensions

constexpr int64_t kMaxSum = 1 << 23;
int64_t elements_of_a_sum(const OpView& view) {
  const std::vector<bool> reduced = *ops::reduced_dims(view);
  int64_t count = 1;
  for (size_t i = 0; i < reduced.size(); ++i)
    if (reduced[i]) count *= view.operand(0).shape[i];
  return count;
}

constexpr Condition kSumFits{
    "cortex-m-sum", "at most 8388608 elements are added up",
    "reduce over fewer dimensions at a time",
    [](const OpQuery& query) -> std::optional<std::string> {
      const int64_t count = elements_of_a_sum(query.view);
      return count <= kMaxSum ? std::nullopt : std::optional(fmt::format("these are {}", count));
    }};
constexpr const Condition* kSumConditions[] = {&kSumFits};

KernelCall reduced_sum(const CallContext& context) {
  const OpView& view = context.view;
  KernelCall call{
      .name = "deuteron::quantized_sum.out",
      .arguments = {context.operand(0), view.attribute<Ints>("dim"),
                    view.attribute<bool>("keepdim"), view.attribute_or("of_bytes", false)}};
  push_sum(call, view,
           ops::mean_multiplier(view, view.def == &ops::kMeanDim ? elements_of_a_sum(view) : 1));
  return call;
}

// ---- softmax

constexpr Condition kConstantMask{"cortex-m-mask", "the Cortex-M's softmax takes a constant mask",
                                  "make it a buffer of the module",
                                  [](const OpQuery& query) { return computed_operand(query, 1); }};
constexpr const Condition* kSoftmaxConditions[] = {&kConstantMask};

// Rows in the order of memory, and an operand of rank 0 has none.
LayoutChoice softmax_layout(const Graph& graph, const Op& op) {
  return op.operands.size() > 1 ? contiguous(graph, op) : any_layout(graph, op);
}

// A byte for each element, row after row: the elements along `dim` are contiguous.
KernelArgument mask_of_rows(const CallContext& context) {
  const Value& mask = context.graph.value(context.op.operands[1]);
  const Shape& shape = context.view.operand(0).shape;
  const Tensor given = Tensor::copy_of(mask.type.dtype, mask.type.shape,
                                       context.module.constants.bytes(mask.constant));
  const std::vector<int8_t> expanded = ops::expand_mask(given.view(), shape);
  const size_t dim = *ops::normalize_dim(context.view.attribute<int64_t>("dim"), shape.size());
  const int64_t stride = strides(shape, Layout::kContiguous)[dim], count = shape[dim];
  std::vector<int8_t> rows;
  for (int64_t outer = 0; outer < element_count(shape); outer += stride * count)
    for (int64_t inner = 0; inner < stride; ++inner)
      for (int64_t i = 0; i < count; ++i)
        rows.push_back(expanded[static_cast<size_t>(outer + inner + i * stride)]);
  return context.values(rows, {static_cast<int64_t>(rows.size())});
}

KernelCall softmax(const CallContext& context) {
  const OpView& view = context.view;
  const numerics::SoftmaxParameters by = ops::softmax_parameters(view);
  const int64_t dim = view.attribute<int64_t>("dim");
  KernelCall call{.arguments = {context.operand(0), dim}};
  const auto exponent = [&] {
    push(call, by.to_exponent);
    push(call, by.difference_min);
  };
  if (view.def == &ops::kLogSoftmax) {
    call.name = "deuteron::quantized_log_softmax.out";
    exponent();
    push(call, by.to_result);
    push(call, by.to_difference);
    push(call, by.zero_point);
    return call;
  }
  if (!view.has(1) && by.to_result == numerics::softmax_parameters(1).to_result &&
      by.zero_point == -128) {
    call.name = "cortex_m::softmax.out";
    push(call, view.operand(0).quantization->zero_point());
    push(call, by.zero_point);
    exponent();
    return call;
  }
  call.name = "deuteron::quantized_softmax.out";
  call.arguments.push_back(view.has(1) ? mask_of_rows(context) : KernelArgument{});
  exponent();
  push(call, by.to_result);
  push(call, by.zero_point);
  return call;
}

constexpr KernelRule kReductionRules[] = {
    {.op = &ops::kAdaptiveAvgPool2d,
     .layouts = pool_layout,
     .call = adaptive_average_pool,
     .work = elements(4.3, 2.3)},
    {.op = &ops::kAdaptiveMaxPool2d,
     .layouts = pool_layout,
     .call = adaptive_max_pool,
     .work = elements(13, 1.7)},
    {.op = &ops::kAvgPool2d,
     .layouts = pool_layout,
     .call = average_pool,
     .work = elements(4.3, 2.3)},
    {.op = &ops::kLogSoftmax, .layouts = softmax_layout, .call = softmax, .work = elements(80)},
    {.op = &ops::kMaxPool2d, .layouts = pool_layout, .call = max_pool, .work = elements(13, 1.7)},
    {.op = &ops::kMeanDim,
     .layouts = any_to_any,
     .call = reduced_sum,
     .conditions = kSumConditions,
     .work = elements(7.5)},
    {.op = &ops::kSoftmax,
     .layouts = softmax_layout,
     .call = softmax,
     .conditions = kSoftmaxConditions,
     .work = elements(80)},
    {.op = &ops::kSumDim,
     .layouts = any_to_any,
     .call = reduced_sum,
     .conditions = kSumConditions,
     .work = elements(7.5)},
};

}  // namespace

std::span<const KernelRule> reduction_rules() { return kReductionRules; }

}  // namespace dtr::cortex_m
