#include "compiler/backends/portable/rewrites.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/backends/portable/costs.h"
#include "compiler/ir/builder.h"
#include "compiler/ops/ops.h"
#include "compiler/ops/resize.h"
#include "compiler/ops/window.h"

namespace dtr::portable {
namespace {

bool is_asymmetric(const Op& op) {
  const AttributeValue* end = op.attributes.find("padding_end");
  return end != nullptr && std::get<Ints>(*end) != op.attributes.get<Ints>("padding");
}
bool is_transposed(const Op& op) {
  return op.def == &ops::kConvolution && op.attributes.get<bool>("transposed");
}
bool pads_first(const Op& op) {
  return (op.def == &ops::kConvolution || op.def == &ops::kMaxPool2d) && is_asymmetric(op) &&
         !is_transposed(op);
}
bool is_cut_behind(const Op& op) { return is_transposed(op) && is_asymmetric(op); }
// The kernel of powers takes thirty times as long as that of products.
bool is_square(const Graph& graph, const Op& op) {
  return op.def == &ops::kPowTensorScalar && op.attributes.get<double>("exponent") == 2 &&
         is_float(graph.type(op.operands[0]).dtype);
}
bool divides_by_table(const Op& op) { return op.def == &ops::kAvgPool2d && is_asymmetric(op); }

// Whether a resize places pixels otherwise than PyTorch's operator of that name.
bool places_otherwise(const Op& op) {
  const bool half = op.attributes.get_or("half_pixel_centers", false);
  if (op.def == &ops::kUpsampleNearest2d)
    return half || op.attributes.get_or("align_corners", false);
  if (op.def != &ops::kUpsampleBilinear2d) return false;
  const bool aligned = op.attributes.get<bool>("align_corners");
  return op.attributes.get_or("half_pixel_centers", !aligned) == aligned;
}

// What a window reads at the end of each dimension: beyond the padding too, in a pool with
// ceil_mode.
Ints window_padding_end(const Graph& graph, const Op& op) {
  Ints end = op.attributes.get<Ints>("padding_end");
  if (!op.attributes.get_or("ceil_mode", false)) return end;
  const Shape& in = graph.type(op.operands[0]).shape;
  const Shape& out = graph.type(op.results[0]).shape;
  const auto at = [&](std::string_view name, size_t i) {
    return op.attributes.get_or(name, Ints(end.size(), 1))[i];
  };
  const size_t first = in.size() - end.size();
  for (size_t i = 0; i < end.size(); ++i) {
    const int64_t read =
        (out[first + i] - 1) * at("stride", i) + at("dilation", i) * (at("kernel_size", i) - 1) + 1;
    end[i] = read - in[first + i] - at("padding", i);
  }
  return end;
}

// Before and behind each dimension that has a window, the last dimension first.
Ints pads_of(const Graph& graph, const Op& op) {
  const auto& begin = op.attributes.get<Ints>("padding");
  const Ints end = window_padding_end(graph, op);
  Ints pad;
  for (size_t i = begin.size(); i-- > 0;) pad.insert(pad.end(), {begin[i], end[i]});
  return pad;
}
int64_t padded_elements(Shape shape, const Ints& pad) {
  for (size_t i = 0; i < pad.size() / 2; ++i)
    shape[shape.size() - 1 - i] += pad[2 * i] + pad[2 * i + 1];
  return element_count(shape);
}

Result<void> make_activation_explicit(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.graph().op(id);
  const auto& activation = op.attributes.get<std::string>("activation");
  OpSpec spec{.def = &ops::kClamp, .operands = {op.results[0]}, .origin = op.origin};
  spec.attributes.set("min", activation == "relu_n1_to_1" ? -1.0 : 0.0);
  if (activation != "relu") spec.attributes.set("max", activation == "relu6" ? 6.0 : 1.0);
  rewriter.erase_attribute(id, "activation");
  const ValueId result = op.results[0];
  // The clamp takes over all uses of the result but its own.
  DTR_ASSIGN(const ValueId clamped,
             rewriter.insert_value(rewriter.graph().op(id).next, std::move(spec)));
  const OpId clamp = rewriter.graph().producer(clamped);
  rewriter.replace_uses(result, clamped);
  rewriter.set_operand(clamp, 0, result);
  return {};
}

Result<void> make_padding_explicit(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.graph().op(id);
  const Ints pad = pads_of(rewriter.graph(), op);
  const size_t windows = op.attributes.get<Ints>("padding").size();
  const double fill = op.def == &ops::kMaxPool2d ? -std::numeric_limits<double>::infinity() : 0.0;
  DTR_ASSIGN(const ValueId padded,
             rewriter.insert_value(id, {.def = &ops::kConstantPadNd,
                                        .operands = {op.operands[0]},
                                        .attributes = {{"pad", pad}, {"value", fill}},
                                        .origin = op.origin}));
  rewriter.set_operand(id, 0, padded);
  rewriter.set_attribute(id, "padding", Ints(windows, 0));
  rewriter.erase_attribute(id, "padding_end");
  if (op.def == &ops::kMaxPool2d) rewriter.set_attribute(id, "ceil_mode", false);
  return rewriter.refresh(id);
}

// The padding of a transposed convolution is what its result loses at both ends. The kernel takes
// off the same at both; the rest is cut off behind it.
Result<void> make_cut_explicit(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.graph().op(id);
  const auto& begin = op.attributes.get<Ints>("padding");
  const auto& end = op.attributes.get<Ints>("padding_end");
  const Shape wanted = rewriter.graph().type(op.results[0]).shape;
  OpSpec whole{.def = op.def, .operands = op.operands, .origin = op.origin};
  whole.attributes = op.attributes;
  Ints both;
  for (size_t i = 0; i < begin.size(); ++i) both.push_back(std::min(begin[i], end[i]));
  whole.attributes.set("padding", both);
  whole.attributes.erase("padding_end");
  DTR_ASSIGN(ValueId result, rewriter.insert_value(id, std::move(whole)));
  for (size_t i = 0; i < begin.size(); ++i) {
    if (begin[i] == end[i]) continue;
    const size_t dim = wanted.size() - begin.size() + i;
    const int64_t start = begin[i] - both[i];
    DTR_ASSIGN(result, rewriter.insert_value(id, {.def = &ops::kSliceTensor,
                                                  .operands = {result},
                                                  .attributes = {{"dim", static_cast<int64_t>(dim)},
                                                                 {"start", start},
                                                                 {"end", start + wanted[dim]},
                                                                 {"step", int64_t{1}}},
                                                  .origin = op.origin}));
  }
  rewriter.replace(id, result);
  return {};
}

// Sums of windows over explicit zeros, each multiplied by one over its own number of elements.
Result<ValueId> averaged_by_table(GraphBuilder& builder, const BoundOpView& view, const Op& op) {
  const auto& [height, width] = ops::pool_window(*view);
  DTR_ASSIGN(const ValueId padded, builder.pad(op.operands[0], pads_of(builder.graph(), op), 0));
  DTR_ASSIGN(
      const ValueId sums,
      builder.emit("aten.avg_pool2d", {padded},
                   {{"kernel_size", op.attributes.get<Ints>("kernel_size")},
                    {"stride", op.attributes.get<Ints>("stride")},
                    {"padding", Ints{0, 0}},
                    {"ceil_mode", false},
                    {"count_include_pad", true},
                    {"divisor_override", op.attributes.get_or<int64_t>("divisor_override", 1)}}));
  if (op.attributes.find("divisor_override") != nullptr) return sums;
  const bool counts_padding = op.attributes.get<bool>("count_include_pad");
  const auto elements = [&](const ops::WindowAxis& axis, int64_t o) {
    const ops::WindowAxis::Taps taps = axis.taps(o);
    const int64_t end = std::min(axis.first(o) + axis.kernel, axis.in + axis.pad_end);
    return static_cast<double>(counts_padding ? end - axis.first(o) : taps.end - taps.begin);
  };
  std::vector<double> factors;
  for (int64_t row = 0; row < height.out; ++row)
    for (int64_t column = 0; column < width.out; ++column)
      factors.push_back(1 / (elements(height, row) * elements(width, column)));
  DTR_ASSIGN(const ValueId factor,
             builder.constant(DType::kFloat32, factors, Shape{height.out, width.out}));
  return builder.emit("aten.mul.Tensor", {sums, factor});
}

// The rows of a tensor (N, C, H, W) along `dim` that are named; x itself if those are its own.
Result<ValueId> picked(GraphBuilder& builder, ValueId x, int64_t dim, const Ints& indices) {
  std::vector<double> numbers;
  bool same = std::ssize(indices) == builder.type(x).shape[static_cast<size_t>(dim)];
  for (size_t i = 0; i < indices.size(); ++i) {
    numbers.push_back(static_cast<double>(indices[i]));
    same = same && indices[i] == static_cast<int64_t>(i);
  }
  if (same) return x;
  DTR_ASSIGN(const ValueId index, builder.constant(DType::kInt64, numbers));
  return builder.emit("aten.index_select", {x, index}, {{"dim", dim}});
}

// Along height, then width: the nearest pixel, or a part of each of two.
Result<ValueId> resized(GraphBuilder& builder, const BoundOpView& view, const Op& op) {
  ValueId x = op.operands[0];
  for (const size_t axis : {0U, 1U}) {
    const auto dim = static_cast<int64_t>(2 + axis);
    const ops::ResizeRule rule = ops::resize_rule(*view, axis);
    if (op.def == &ops::kUpsampleNearest2d) {
      Ints nearest;
      for (int64_t o = 0; o < rule.out; ++o) nearest.push_back(ops::nearest_input(rule, o));
      DTR_ASSIGN(x, picked(builder, x, dim, nearest));
      continue;
    }
    Ints lower, upper;
    std::vector<double> of_lower, of_upper;
    for (const ops::BilinearTaps& taps : ops::bilinear_taps(rule)) {
      lower.push_back(taps.lower);
      upper.push_back(taps.upper);
      of_lower.push_back(1 - taps.weight);
      of_upper.push_back(taps.weight);
    }
    const bool whole = std::ranges::all_of(of_upper, [](double part) { return part == 0; });
    const ValueId from = x;
    DTR_ASSIGN(x, picked(builder, from, dim, lower));
    if (whole) continue;
    DTR_ASSIGN(const ValueId other, picked(builder, from, dim, upper));
    const auto times = [&](ValueId pixels, const std::vector<double>& parts) -> Result<ValueId> {
      const Shape shape = axis == 0 ? Shape{rule.out, 1} : Shape{rule.out};
      DTR_ASSIGN(const ValueId factor, builder.constant(DType::kFloat32, parts, shape));
      return builder.emit("aten.mul.Tensor", {pixels, factor});
    };
    DTR_ASSIGN(x, times(x, of_lower));
    DTR_ASSIGN(const ValueId rest, times(other, of_upper));
    DTR_ASSIGN(x, builder.emit("aten.add.Tensor", {x, rest}));
  }
  return x;
}

}  // namespace

Result<bool> rewrite(Module& module, Graph& graph, OpId id) {
  Rewriter rewriter(graph);
  bool changed = false;
  if (graph.op(id).attributes.find("activation") != nullptr) {
    DTR_TRY(make_activation_explicit(rewriter, id));
    changed = true;
  }
  const Op op = graph.op(id);
  if (pads_first(op)) {
    DTR_TRY(make_padding_explicit(rewriter, id));
    return true;
  }
  if (is_cut_behind(op)) {
    DTR_TRY(make_cut_explicit(rewriter, id));
    return true;
  }
  if (is_square(graph, op)) {
    DTR_ASSIGN(const ValueId product,
               rewriter.insert_value(id, {.def = &ops::kMulTensor,
                                          .operands = {op.operands[0], op.operands[0]},
                                          .origin = op.origin}));
    rewriter.replace(id, product);
    return true;
  }
  const bool pools = divides_by_table(op);
  if (!pools && !places_otherwise(op)) return changed;
  GraphBuilder builder(module, graph, op.origin, graph.value(op.results[0]).name, id);
  const BoundOpView view(graph, id);
  DTR_ASSIGN(const ValueId result,
             pools ? averaged_by_table(builder, view, op) : resized(builder, view, op));
  rewriter.replace(id, result);
  return true;
}

int64_t instructions_of_rewriting(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  const int64_t result = graph.type(op.results[0]).elements();
  const int64_t operand =
      op.operands.empty() || !op.operands[0].valid() ? 0 : graph.type(op.operands[0]).elements();
  int64_t all = 0;
  const auto add = [&](const OpDef& def, int64_t makes, int64_t reads) {
    all += instructions(def.name, {.result = makes, .operand = reads});
  };
  if (op.attributes.find("activation") != nullptr) add(ops::kClamp, result, result);
  if (is_square(graph, op)) {
    add(ops::kMulTensor, result, operand);
    all -= instructions(op.def->name, {.result = result, .operand = operand});
  }
  if (pads_first(op) || divides_by_table(op))
    add(ops::kConstantPadNd, padded_elements(graph.type(op.operands[0]).shape, pads_of(graph, op)),
        operand);
  if (is_cut_behind(op)) add(ops::kSliceTensor, result, result);
  if (divides_by_table(op)) add(ops::kMulTensor, result, result);
  if (places_otherwise(op)) {
    add(ops::kIndexSelect, result, operand);
    if (op.def == &ops::kUpsampleBilinear2d) {
      add(ops::kIndexSelect, result, operand);
      add(ops::kMulTensor, result, result);
      add(ops::kAddTensor, result, result);
    }
  }
  return all;
}

}  // namespace dtr::portable
