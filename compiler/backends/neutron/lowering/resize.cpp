// aten.upsample_nearest2d and aten.upsample_bilinear2d: one call, channels last.
#include "compiler/ops/resize.h"

#include "compiler/backends/neutron/lowering/rules.h"

namespace dtr::neutron {
namespace {

bool is_bilinear(const OpView& view) { return view.def == &ops::kUpsampleBilinear2d; }

std::optional<numerics::ResizeAxis> axis_of(const OpView& view, size_t axis) {
  const ops::ResizeRule rule = ops::resize_rule(view, axis);
  if (is_bilinear(view))
    return ops::bilinear_axis(rule, view.attributes->find("fraction_bits") != nullptr);
  return ops::nearest_axis(rule);
}

constexpr Condition kFixedSteps{
    "npu-resize-steps", "the NPU steps through the input by one fixed-point number",
    "choose another output size, or resize in two steps", [](const OpQuery& q) {
      std::optional<std::string> outside;
      for (const size_t axis : {size_t{0}, size_t{1}})
        if (!axis_of(q.view, axis))
          outside = fmt::format("no such number gives the nearest of {} elements for each of {}",
                                q.view.operand(0).shape[2 + axis], q.view.result().shape[2 + axis]);
      return outside;
    }};
int64_t rows_between(const OpQuery& q) { return is_bilinear(q.view) ? 2 : 1; }
constexpr const Condition* kConditions[] = {
    &kInt8Operand, &kNotEmpty, &kRowFitsSram<nothing_staged, rows_between>, &kFixedSteps};

npu::Resize shape_of(const OpView& view) {
  const Shape& in = view.operand(0).shape;
  const Shape& out = view.result().shape;
  npu::Resize resize{
      .kind = is_bilinear(view) ? npu::ResizeKind::kBilinear : npu::ResizeKind::kNearest,
      .batch = static_cast<uint32_t>(in[0]),
      .channels = static_cast<uint32_t>(in[1])};
  resize.height = {.in = static_cast<uint32_t>(in[2]), .out = static_cast<uint32_t>(out[2])};
  resize.width = {.in = static_cast<uint32_t>(in[3]), .out = static_cast<uint32_t>(out[3])};
  return resize;
}

std::optional<Kernel> estimate(const Machine&, const OpView& view) { return shape_of(view); }

void lower(Builder& builder, const Group& group) {
  const Op& op = builder.graph().op(group.head);
  const BoundOpView view(builder.graph(), group.head);
  npu::Resize resize = shape_of(*view);
  for (const size_t axis : {size_t{0}, size_t{1}}) {
    const numerics::ResizeAxis from = *axis_of(*view, axis);
    npu::ResizeAxis& to = axis == 0 ? resize.height : resize.width;
    to.step = static_cast<uint32_t>(from.step);
    to.start = static_cast<int32_t>(from.start);
    to.fraction_bits = static_cast<uint32_t>(from.fraction_bits);
  }
  resize.input =
      builder.read(op.operands[0], strided_layout(view->operand(0).shape, Layout::kChannelsLast));
  resize.output =
      builder.define(op.results[0], strided_layout(view->result().shape, Layout::kChannelsLast));
  builder.emit(resize, op.origin);
}

constexpr LoweringRule kRules[] = {
    {&ops::kUpsampleBilinear2d, kConditions, channels_last, estimate, lower},
    {&ops::kUpsampleNearest2d, kConditions, channels_last, estimate, lower},
};

}  // namespace

std::span<const LoweringRule> resize_rules() { return kRules; }

}  // namespace dtr::neutron
