// Operands of random ops that do not follow from the OpDef.
#include <algorithm>
#include <cmath>

#include "compiler/ops/custom.h"
#include "compiler/plugins/plugins.h"
#include "test/random/random_graph.h"

namespace dtr::test {
namespace {

bool draw_convolution(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  const size_t spatial = shape.size() - 2;
  if (shape.size() != 3 && shape.size() != 4) return false;
  Dice& dice = graph.dice();
  const bool transposed = dice.one_in(5);
  const int64_t in = shape[1];
  int64_t groups = dice.coin() ? in : 1;  // depthwise, dense, or in between
  if (dice.one_in(4))
    while (groups > 1 && (in % groups != 0 || dice.coin())) --groups;
  if (in % groups != 0) groups = 1;
  const int64_t per_group = groups == in && dice.coin() ? 1 : 1 + dice.below(groups == 1 ? 14 : 3);
  Ints stride, padding, padding_end, dilation, output_padding;
  const int64_t in_group = in / groups;
  Shape weight = transposed ? Shape{in, per_group} : Shape{per_group * groups, in_group};
  auto depth = static_cast<double>(in_group);
  for (size_t d = 0; d < spatial; ++d) {
    weight.push_back(1 + dice.below(4));
    depth *= static_cast<double>(weight.back());
    stride.push_back(1 + dice.below(3));
    padding.push_back(dice.below(3));
    padding_end.push_back(dice.below(3));
    dilation.push_back(1 + dice.below(2));
    output_padding.push_back(transposed ? dice.below(std::max(stride.back(), dilation.back())) : 0);
  }
  draft.attributes.set("stride", stride);
  draft.attributes.set("padding", padding);
  if (dice.coin()) {
    draft.attributes.set("padding_end", padding_end);
  } else {
    draft.attributes.erase("padding_end");
  }
  draft.attributes.set("dilation", dilation);
  draft.attributes.set("output_padding", output_padding);
  draft.attributes.set("transposed", transposed);
  draft.attributes.set("groups", groups);
  graph.add_weights(draft, std::move(weight), transposed ? 1 : 0, per_group * groups);
  draft.spread *= std::sqrt(depth);
  return true;
}

bool draw_linear(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  if (shape.empty()) return false;
  const int64_t out = 1 + graph.dice().below(13);
  graph.add_weights(draft, {out, shape.back()}, 0, out);
  draft.spread *= std::sqrt(static_cast<double>(shape.back()));
  return true;
}

bool draw_cat(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  if (shape.empty()) return false;
  const int64_t dim = graph.dice().below(static_cast<int64_t>(shape.size()));
  draft.attributes.set("dim", dim);
  for (int64_t more = 1 + graph.dice().below(3); more > 0; --more) {
    Shape other = shape;
    other[static_cast<size_t>(dim)] = 1 + graph.dice().below(5);
    const ValueId value = graph.value_of_shape(other, draft.operands[0]);
    const bool same = graph.type(value).quantization == graph.type(draft.operands[0]).quantization;
    draft.operands.push_back(
        same && graph.dice().coin()
            ? value
            : graph.constant(DType::kInt8, other, graph.type(draft.operands[0]).quantization));
  }
  return true;
}

bool draw_view(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  Dice& dice = graph.dice();
  Ints size;
  // Neighbouring dimensions merge, some extents split, ones come and go.
  for (const int64_t extent : shape) {
    if (!size.empty() && dice.one_in(3)) {
      size.back() *= extent;
    } else if (extent != 1 || dice.coin()) {
      size.push_back(extent);
    }
    int64_t factor = 2 + dice.below(3);
    if (!size.empty() && size.back() % factor == 0 && dice.one_in(3)) {
      size.back() /= factor;
      size.push_back(factor);
    }
    if (dice.one_in(8)) size.push_back(1);
  }
  if (!size.empty() && dice.one_in(3))
    size[static_cast<size_t>(dice.below(static_cast<int64_t>(size.size())))] = -1;
  draft.attributes.set("size", size);
  return true;
}

// Bounds from both ends.
bool draw_slice(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  if (shape.empty()) return false;
  Dice& dice = graph.dice();
  const int64_t dim = dice.below(static_cast<int64_t>(shape.size()));
  const int64_t extent = shape[static_cast<size_t>(dim)];
  const int64_t start = dice.below(extent);
  const int64_t end = start + 1 + dice.below(extent - start);
  draft.attributes.set("dim", dice.one_in(4) ? dim - static_cast<int64_t>(shape.size()) : dim);
  draft.attributes.set("start", dice.one_in(3) ? start - extent : start);
  draft.attributes.set("end", end < extent && dice.one_in(3) ? end - extent : end);
  draft.attributes.set("step", 1 + (dice.coin() ? dice.below(3) : 0));
  return true;
}

bool draw_flip(RandomGraph& graph, Draft& draft) {
  Ints dims;
  for (int64_t d = 0; d < static_cast<int64_t>(graph.type(draft.operands[0]).rank()); ++d)
    if (graph.dice().one_in(3)) dims.push_back(d);
  draft.attributes.set("dims", dims);
  return true;
}

// Dimensions of one element are repeated, and new ones in front.
bool draw_expand(RandomGraph& graph, Draft& draft) {
  Ints size = graph.type(draft.operands[0]).shape;
  Dice& dice = graph.dice();
  for (int64_t& extent : size)
    if (extent == 1 && dice.coin()) extent = 1 + dice.below(5);
  if (size.size() < 5 && dice.one_in(3)) size.insert(size.begin(), 1 + dice.below(3));
  draft.attributes.set("size", size);
  return true;
}

// Weight and bias or not, mean, variance: float only.
bool draw_batch_norm(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  if (shape.size() < 2) return false;
  for (int i = 0; i < 3; ++i)
    draft.operands.push_back(graph.constant(DType::kFloat32, {shape[1]}, std::nullopt));
  draft.operands.push_back(graph.positive_constant({shape[1]}));
  return true;
}

// The other operand: the same value, one that fits, or a constant; its batch the same, shorter, or
// repeated.
bool draw_matmul(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  if (shape.size() < 2) return false;
  Dice& dice = graph.dice();
  Shape other = shape;
  const size_t rank = shape.size();
  other[rank - 2] = shape[rank - 1];
  other[rank - 1] = dice.coin() ? shape[rank - 2] : 1 + dice.below(9);
  for (size_t d = 0; d + 2 < rank; ++d)
    if (dice.one_in(4)) other[d] = 1;
  if (dice.one_in(4)) other.erase(other.begin(), other.end() - 2);
  draft.operands.push_back(graph.value_of_shape(other, draft.operands[0]));
  if (dice.one_in(3) && other.size() == rank) {
    other = graph.type(draft.operands[1]).shape;
    std::swap(other[rank - 2], other[rank - 1]);
    if (other[rank - 2] == shape[rank - 1])
      draft.operands[1] = graph.value_of_shape(other, draft.operands[0]);
  }
  draft.spread *= std::sqrt(static_cast<double>(shape.back()));
  return true;
}

// Whole multiples more often than other sizes; factors as PyTorch stores them, or none. Weights of
// bilinear interpolation in float are exact where the factor is a power of two.
bool draw_upsample(RandomGraph& graph, Draft& draft) {
  const Shape& shape = graph.type(draft.operands[0]).shape;
  if (shape.size() != 4) return false;
  Dice& dice = graph.dice();
  Ints size;
  Floats scales;
  for (size_t d = 2; d < 4; ++d) {
    const int64_t multiple = shape[d] << dice.below(3);
    size.push_back(graph.floats()   ? multiple
                   : dice.one_in(3) ? dice.extent()
                                    : shape[d] * (1 + dice.below(4)));
    scales.push_back(static_cast<double>(size.back()) / static_cast<double>(shape[d]));
  }
  draft.attributes.set("output_size", size);
  if (graph.floats()) {
    draft.attributes.set("align_corners", false);
    draft.attributes.erase("scales");
  }
  if (dice.coin()) draft.attributes.set("scales", scales);
  return true;
}

bool draw_adaptive_pool(RandomGraph& graph, Draft& draft) {
  const Shape& shape = graph.type(draft.operands[0]).shape;
  if (shape.size() < 3) return false;
  Dice& dice = graph.dice();
  Ints size;
  for (size_t d = shape.size() - 2; d < shape.size(); ++d) {
    size.push_back(dice.coin() ? shape[d] : 1 + dice.below(3));
    while (size.back() > 1 && (shape[d] % size.back() != 0 || dice.coin())) --size.back();
  }
  draft.attributes.set("output_size", size);
  return true;
}

// Weight and bias of any shape, or neither; they stay float in the quantized form.
bool add_gains(RandomGraph& graph, Draft& draft, const Shape& shape, int most) {
  for (int64_t count = graph.dice().below(most + 1); count > 0; --count)
    draft.operands.push_back(graph.constant(DType::kFloat32, shape, std::nullopt));
  draft.spread = 1;
  return true;
}
template <int kMost>
bool draw_last_norm(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  if (shape.empty()) return false;
  const Shape last(shape.begin() + graph.dice().below(static_cast<int64_t>(shape.size())),
                   shape.end());
  draft.attributes.set("normalized_shape", last);
  return add_gains(graph, draft, last, kMost);
}
bool draw_group_norm(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  if (shape.size() < 2) return false;
  int64_t groups = 1 + graph.dice().below(shape[1]);
  while (shape[1] % groups != 0) --groups;
  draft.attributes.set("num_groups", groups);
  return add_gains(graph, draft, {shape[1]}, 2);
}

// A mask, of some dimensions, or none.
bool draw_softmax(RandomGraph& graph, Draft& draft) {
  Shape shape = graph.type(draft.operands[0]).shape;
  Dice& dice = graph.dice();
  if (dice.coin()) return true;
  for (int64_t& extent : shape)
    if (dice.one_in(3)) extent = 1;
  shape.erase(shape.begin(), shape.begin() + dice.below(static_cast<int64_t>(shape.size()) + 1));
  draft.operands.push_back(graph.mask(shape));
  return true;
}

// Float alone.
bool draw_masked_fill(RandomGraph& graph, Draft& draft) {
  Shape shape = graph.type(draft.operands[0]).shape;
  for (int64_t& extent : shape)
    if (graph.dice().one_in(3)) extent = 1;
  draft.operands.push_back(graph.mask(shape));
  return true;
}

// Two masks, or two tensors of integers; one of either.
bool draw_masks(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  draft.operands = {graph.mask(shape), graph.mask(shape)};
  return true;
}
template <size_t kCount>
bool draw_integers(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  draft.operands.clear();
  for (size_t i = 0; i < kCount; ++i) draft.operands.push_back(graph.integers(shape));
  return true;
}

bool draw_where(RandomGraph& graph, Draft& draft) {
  const ValueId x = draft.operands[0];
  Shape shape = graph.type(x).shape;
  const ValueId other = graph.value_of_shape(shape, x);
  for (int64_t& extent : shape)
    if (graph.dice().one_in(3)) extent = 1;
  draft.operands = {graph.mask(shape), x, other};
  return true;
}

bool draw_convert(RandomGraph& graph, Draft& draft) {
  constexpr const char* kNames[] = {"bool", "u8", "i16", "i32", "i64"};
  draft.attributes.set("dtype", std::string(kNames[graph.dice().below(5)]));
  return true;
}

bool draw_lookup(RandomGraph& graph, Draft& draft) {
  Ints codes(256);
  for (int64_t& code : codes) code = graph.dice().below(256) - 128;
  draft.attributes.set("codes", codes);
  draft.attributes.set("dtype", std::string("i8"));
  return graph.type(draft.operands[0]).dtype == DType::kInt8;
}

bool draw_rounded_division(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  draft.operands.push_back(graph.value_of_shape(shape, draft.operands[0]));
  draft.attributes.set("rounding_mode", std::string(graph.dice().coin() ? "floor" : "trunc"));
  return true;
}

bool draw_index_select(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  if (shape.empty()) return false;
  Dice& dice = graph.dice();
  const int64_t dim = dice.below(static_cast<int64_t>(shape.size()));
  Shape of_index;
  for (int64_t rank = dice.one_in(4) ? dice.below(3) : 1; rank > 0; --rank)
    of_index.push_back(1 + dice.below(5));
  const ValueId index = graph.indices(of_index, shape[static_cast<size_t>(dim)]);
  draft.attributes.set("dim", dim);
  draft.operands.push_back(index);
  return index.valid();
}

// Rows along dimension 0. Float alone.
bool draw_index_put(RandomGraph& graph, Draft& draft) {
  Shape rows = graph.type(draft.operands[0]).shape;
  if (rows.empty()) return false;
  const int64_t extent = rows[0];
  rows[0] = 1 + graph.dice().below(5);
  const ValueId index = graph.indices({rows[0]}, extent);
  if (!index.valid() || graph.type(index).shape != Shape{rows[0]}) return false;
  draft.operands.push_back(index);
  draft.operands.push_back(graph.value_of_shape(rows, draft.operands[0]));
  return true;
}

// The places are known, and the nearest pixel taken: a place in float moves to another one by the
// last bit, and so does a sum of pixels to another code. Float alone.
bool draw_grid_sampler(RandomGraph& graph, Draft& draft) {
  const Shape shape = graph.type(draft.operands[0]).shape;
  if (shape.size() != 4) return false;
  Dice& dice = graph.dice();
  draft.operands.push_back(graph.constant(
      DType::kFloat32, {shape[0], 1 + dice.below(5), 1 + dice.below(5), 2}, std::nullopt));
  draft.attributes.set("interpolation_mode", int64_t{1});
  draft.attributes.set("padding_mode", dice.below(3));
  return true;
}

// Everything that a choice of boxes follows from is known: a score that moves by the last bit is
// another choice. Float alone.
bool draw_non_max_suppression(RandomGraph& graph, Draft& draft) {
  Dice& dice = graph.dice();
  const int64_t boxes = 1 + dice.below(20);
  draft.operands = {graph.constant(DType::kFloat32, {boxes, 4}, std::nullopt),
                    graph.positive_constant({boxes})};
  draft.attributes.set("max_output_size", 1 + dice.below(24));
  draft.attributes.set("iou_threshold", 0.25 * static_cast<double>(dice.below(5)));
  draft.attributes.set("score_threshold", 0.5 + dice.unit());
  draft.attributes.set("sigma", dice.coin() ? 0.0 : 0.5);
  return true;
}
bool draw_detection_postprocess(RandomGraph& graph, Draft& draft) {
  Dice& dice = graph.dice();
  const int64_t boxes = 1 + dice.below(20), classes = 1 + dice.below(4);
  draft.operands = {graph.constant(DType::kFloat32, {1, boxes, 4 + dice.below(2)}, std::nullopt),
                    graph.positive_constant({1, boxes, classes + dice.below(2)}),
                    graph.positive_constant({boxes, 4})};
  draft.attributes.set("max_detections", 1 + dice.below(9));
  draft.attributes.set("max_classes_per_detection", 1 + dice.below(3));
  draft.attributes.set("detections_per_class", 1 + dice.below(9));
  draft.attributes.set("nms_score_threshold", 0.5 + dice.unit());
  draft.attributes.set("nms_iou_threshold", 0.25 * static_cast<double>(1 + dice.below(4)));
  draft.attributes.set("num_classes", classes);
  draft.attributes.set("scales", Floats{10, 10, 5, 5});
  return true;
}

// A plug-in of this process: half of operand 0, as often as the result has room.
int32_t halve(const dtr_kernel_call* call) {
  const auto* x = static_cast<const float*>(call->operands[0].data);
  auto* y = static_cast<float*>(call->results[0].data);
  for (size_t i = 0; i < call->results[0].elements; ++i)
    y[i] = 0.5F * x[i % call->operands[0].elements];
  return 0;
}
bool draw_custom(RandomGraph& graph, Draft& draft) {
  static constexpr dtr_kernel kKernels[] = {{"random::halve", halve}};
  static constexpr dtr_plugin kPlugin{DTR_PLUGIN_ABI, 1, kKernels};
  static const bool added = add_plugin(&kPlugin, "random_operands.cpp").has_value();
  Dice& dice = graph.dice();
  const Shape shape = graph.type(draft.operands[0]).shape;
  if (dice.coin()) draft.operands.push_back(graph.value_of_shape(shape, draft.operands[0]));
  const Type result{.shape = dice.coin() ? shape : Shape{dice.extent(), dice.extent()}};
  draft.attributes.set("kernel", std::string("random::halve"));
  draft.attributes.set("options", std::string(dice.coin() ? "{}" : ""));
  draft.attributes.set("results", ops::types_text({&result, 1}));
  return added && element_count(shape) > 0;
}

// Stand between float and int8 in every graph with floats, or make masks.
bool draw_elsewhere(RandomGraph&, Draft&) { return false; }

constexpr OperandRow kRows[] = {
    {"aten.adaptive_avg_pool2d", draw_adaptive_pool, "output_size"},
    {"aten.adaptive_max_pool2d", draw_adaptive_pool, "output_size"},
    {"aten.batch_norm", draw_batch_norm},
    {"aten.bitwise_and.Tensor", draw_integers<2>},
    {"aten.bitwise_not", draw_integers<1>},
    {"aten.bitwise_or.Tensor", draw_integers<2>},
    {"aten.bitwise_xor.Tensor", draw_integers<2>},
    {"aten.cat", draw_cat, "dim"},
    {"aten.convolution", draw_convolution,
     "stride padding padding_end dilation output_padding transposed groups"},
    {"aten.div.Tensor_mode", draw_rounded_division, "rounding_mode"},
    {"aten.expand", draw_expand, "size"},
    {"aten.flip", draw_flip, "dims"},
    {"aten.grid_sampler_2d", draw_grid_sampler, "interpolation_mode padding_mode"},
    {"aten.group_norm", draw_group_norm, "num_groups"},
    {"aten.index_put", draw_index_put},
    {"aten.index_select", draw_index_select, "dim"},
    {"aten.layer_norm", draw_last_norm<2>, "normalized_shape"},
    {"aten.linear", draw_linear},
    {"aten.logical_and", draw_masks},
    {"aten.logical_not", draw_elsewhere},
    {"aten.logical_or", draw_masks},
    {"aten.logical_xor", draw_masks},
    {"aten.masked_fill", draw_masked_fill},
    {"aten.matmul", draw_matmul},
    {"aten.rms_norm", draw_last_norm<1>, "normalized_shape"},
    {"aten.slice.Tensor", draw_slice, "dim start end step"},
    {"aten.softmax", draw_softmax},
    {"aten.upsample_bilinear2d", draw_upsample, "output_size scales align_corners"},
    {"aten.upsample_nearest2d", draw_upsample, "output_size scales align_corners"},
    {"aten.view", draw_view, "size"},
    {"aten.where.self", draw_where},
    {"convert", draw_convert, "dtype"},
    {"dequantize", draw_elsewhere},
    {"deuteron.custom", draw_custom, "kernel options results"},
    {"lookup", draw_lookup, "codes dtype"},
    {"quantize", draw_elsewhere},
    {"tflite.detection_postprocess", draw_detection_postprocess,
     "max_detections max_classes_per_detection detections_per_class nms_score_threshold "
     "nms_iou_threshold num_classes scales"},
    {"tflite.non_max_suppression", draw_non_max_suppression,
     "max_output_size iou_threshold score_threshold sigma"},
};

}  // namespace

const OperandRow* find_operand_row(std::string_view op) {
  const auto* at = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const OperandRow& row) { return row.op == op; });
  return at == std::end(kRows) ? nullptr : at;
}

}  // namespace dtr::test
