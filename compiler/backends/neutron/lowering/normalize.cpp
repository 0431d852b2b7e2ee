// aten.layer_norm, aten.rms_norm and aten.group_norm: a row is a box of two loops in dense memory,
// so that channels-last tensors are read in place; if rows or elements need more loops, the operand
// is made contiguous first.
#include "compiler/ops/normalize.h"

#include <algorithm>

#include "compiler/backends/neutron/lowering/rules.h"
#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"

namespace dtr::neutron {
namespace {

uint64_t parameter_bytes(const OpQuery& q) {
  const ops::NormalizeShape shape = ops::normalize_shape(q.view);
  return static_cast<uint64_t>(shape.step_b > 0 ? shape.b * shape.step_b : shape.c) *
         sizeof(numerics::NormalizeParameter);
}
constexpr const Condition* kConditions[] = {
    &kInt8Operand,    &kNotEmpty,     &kRank,
    &kConstantWeight, &kConstantBias, &kRowFitsSram<parameter_bytes, one_row>};

struct Loop {
  int64_t extent, step, parameter_step;
};

// Joins loops that continue each other; the outermost in memory first.
std::vector<Loop> joined(std::vector<Loop> loops) {
  std::erase_if(loops, [](const Loop& loop) { return loop.extent == 1; });
  std::ranges::sort(loops, std::ranges::greater{}, &Loop::step);
  std::vector<Loop> result;
  for (const Loop& loop : loops) {
    if (!result.empty() && result.back().step == loop.step * loop.extent &&
        result.back().parameter_step == loop.parameter_step * loop.extent)
      result.back() = {result.back().extent * loop.extent, loop.step, loop.parameter_step};
    else
      result.push_back(loop);
  }
  return result;
}

// nullopt if the order has no such loops.
std::optional<npu::Normalize> kernel_of(const OpView& view, const StridedLayout& layout) {
  const ops::NormalizeShape form = ops::normalize_shape(view);
  const Shape& shape = view.operand(0).shape;
  const auto steps = steps_of(layout, shape);
  if (!steps) return std::nullopt;
  std::vector<Loop> rows, elements;
  if (view.def == &ops::kGroupNorm) {
    rows = {{shape[0], (*steps)[0], 0}, {form.b, (*steps)[1] * form.c, form.step_b}};
    elements = {{form.c, (*steps)[1], form.step_c}};
    for (size_t i = 2; i < shape.size(); ++i) elements.push_back({shape[i], (*steps)[i], 0});
  } else {
    const size_t outer = shape.size() - view.attribute<Ints>("normalized_shape").size();
    const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
    for (size_t i = 0; i < shape.size(); ++i)
      if (i < outer) {
        rows.push_back({shape[i], (*steps)[i], 0});
      } else {
        elements.push_back({shape[i], (*steps)[i], places[i]});
      }
  }
  npu::Normalize normalize{.center = form.center ? 1u : 0u};
  const auto fill = [&](const std::vector<Loop>& loops, size_t first) {
    for (size_t i = 0; i < 2; ++i) normalize.extent[first + i] = 1;
    for (size_t i = 0; i < loops.size(); ++i) {
      const size_t at = first + 2 - loops.size() + i;
      normalize.extent[at] = static_cast<uint32_t>(loops[i].extent);
      normalize.stride[at] = static_cast<uint32_t>(loops[i].step);
      normalize.parameter_stride[at] = static_cast<uint32_t>(loops[i].parameter_step);
    }
  };
  rows = joined(std::move(rows));
  elements = joined(std::move(elements));
  if (rows.size() > 2 || elements.size() > 2) return std::nullopt;
  fill(rows, 0);
  fill(elements, 2);
  return normalize;
}

StridedLayout plain_layout(const OpView& view) {
  return contiguous_layout(view.operand(0).elements());
}

std::optional<Kernel> estimate(const Machine&, const OpView& view) {
  return *kernel_of(view, plain_layout(view));
}

std::vector<double> constant_values(const Builder& builder, const Op& op, size_t index) {
  if (index >= op.operands.size() || !op.operands[index].valid()) return {};
  const std::span<const float> values =
      builder.module().constants.values<float>(builder.graph().value(op.operands[index]).constant);
  return {values.begin(), values.end()};
}

void lower(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const Op& op = graph.op(group.head);
  const BoundOpView view(graph, group.head);
  StridedLayout layout = graph.is_constant(op.operands[0])
                             ? plain_layout(*view)
                             : builder.dense_layout_of(op.operands[0]);
  std::optional<npu::Normalize> normalize = kernel_of(*view, layout);
  if (!normalize) normalize = kernel_of(*view, layout = plain_layout(*view));
  DTR_CHECK(normalize.has_value());  // a contiguous tensor has one loop of rows or two, and one of
                                     // elements or two
  const ops::QuantizedNormalize quantized = ops::quantized_normalize(
      *view, constant_values(builder, op, 1), constant_values(builder, op, 2));
  const Quantization& out = *view->result().quantization;
  const numerics::Range range = group.clamp.value_or(ops::range_of(out));
  normalize->zero_point_in = quantized.row.zero_point;
  normalize->zero_point_out = out.zero_point();
  normalize->epsilon_low = static_cast<uint32_t>(quantized.row.epsilon);
  normalize->epsilon_high = static_cast<uint32_t>(quantized.row.epsilon >> 32);
  normalize->gain_shift = static_cast<uint32_t>(quantized.gain_shift);
  normalize->clamp_low = range.low;
  normalize->clamp_high = range.high;
  normalize->input = builder.read(op.operands[0], layout);
  normalize->parameters = builder.constant(std::as_bytes(std::span(quantized.parameters)));
  normalize->output = builder.define(graph.op(group.root()).results[0], layout);
  builder.emit(*normalize, origin_of(graph, group));
}

constexpr LoweringRule kRules[] = {
    {&ops::kGroupNorm, kConditions, any_layout, estimate, lower, Absorbs::kClamp},
    {&ops::kLayerNorm, kConditions, any_layout, estimate, lower, Absorbs::kClamp},
    {&ops::kRmsNorm, kConditions, any_layout, estimate, lower, Absorbs::kClamp},
};

}  // namespace

std::span<const LoweringRule> normalize_rules() { return kRules; }

}  // namespace dtr::neutron
