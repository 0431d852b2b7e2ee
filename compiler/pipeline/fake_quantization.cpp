#include "compiler/pipeline/fake_quantization.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <vector>

namespace dtr {
namespace {

using Kind = QuantSpec::Kind;
using Editor = pt2::ExportEditor;
using Name = Editor::Name;

constexpr double kAveraging = 0.01;  // share of a batch in the moving average, PyTorch's default

// PyTorch's observer takes no smaller scale of an activation, also when it only quantizes.
constexpr float kLeastObservedScale = 6.1e-5F;

Tensor scalar_tensor(double value) {
  Tensor tensor(DType::kFloat32, {1});
  tensor.values<float>()[0] = static_cast<float>(value);
  return tensor;
}

Tensor switched_on() {
  Tensor tensor(DType::kInt64, {1});
  tensor.values<int64_t>()[0] = 1;
  return tensor;
}

// Zeros, constants or in all samples, have no range to keep.
bool is_too_small(float scale) {
  return scale < kLeastObservedScale && scale != kActivationEps &&
         scale > std::numeric_limits<float>::min();
}

}  // namespace

std::string FakeQuantization::add_to_weight(uint32_t layer, const std::string& weight,
                                            const Shape& shape, bool by_channel, size_t axis) {
  const auto add = [&](std::string_view target, const Editor::Arguments& arguments,
                       std::string_view suffix, const Shape& result) {
    return editor_.add_node(layer, layer, target, arguments,
                            fmt::format("{}_{}", editor_.result(layer), suffix), DType::kFloat32,
                            result);
  };
  Shape scales{1};
  std::vector<int64_t> others;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!by_channel || i != axis) others.push_back(static_cast<int64_t>(i));
  if (by_channel) scales = {shape[axis]};
  const std::string detached = add("aten.detach.default", {{"self", Name{weight}}}, "detached",
                                   shape);  // scales have no gradient
  const std::string magnitudes =
      add("aten.abs.default", {{"self", Name{detached}}}, "magnitudes", shape);
  std::string largest =
      add("aten.amax.default", {{"self", Name{magnitudes}}, {"dim", others}, {"keepdim", false}},
          "largest", by_channel ? scales : Shape{});
  if (!by_channel)
    largest = add("aten.reshape.default", {{"self", Name{largest}}, {"shape", scales}},
                  "largest_of_all", scales);
  const std::string quotient =
      add("aten.div.Tensor", {{"self", Name{largest}}, {"other", 127.0}}, "quotient", scales);
  const std::string scale =
      add("aten.clamp.default", {{"self", Name{quotient}}, {"min", double{kLeastScale}}}, "scale",
          scales);
  const std::string zero_point =
      editor_.add_buffer(fmt::format("quantization.{}_weight.zero_point", editor_.result(layer)),
                         Tensor(DType::kInt32, scales));
  Editor::Arguments arguments{
      {"self", Name{weight}}, {"scale", Name{scale}}, {"zero_point", Name{zero_point}}};
  if (by_channel) arguments.emplace_back("axis", static_cast<int64_t>(axis));
  arguments.emplace_back("quant_min", int64_t{-127});
  arguments.emplace_back("quant_max", int64_t{127});
  const std::string quantized =
      add(by_channel ? "aten.fake_quantize_per_channel_affine.default"
                     : "aten.fake_quantize_per_tensor_affine.tensor_qparams",
          arguments, "fake_quantized_weight", shape);
  return add(
      "aten.where.self",
      {{"condition", Name{weight_quant_on()}}, {"self", Name{quantized}}, {"other", Name{weight}}},
      "weight_in_training", shape);
}

std::string FakeQuantization::add(int group, const std::string& name, size_t before, size_t like) {
  const QuantizationGroup& described = annotation_.groups[static_cast<size_t>(group)];
  const auto add_node = [&](std::string_view target, const Editor::Arguments& arguments) {
    ++result_.activations;
    return editor_.add_node(before, like, target, arguments, name + "_fake_quantized",
                            DType::kFloat32, editor_.shape(name));
  };
  const bool narrower =
      ranges_ != nullptr && (*ranges_)[static_cast<size_t>(group)].scale() != described.spec.scale;
  if (described.spec.is_given() || (described.spec.kind == Kind::kFixed && !narrower))
    return add_node("aten.fake_quantize_per_tensor_affine.default",
                    {{"self", Name{name}},
                     {"scale", double{described.spec.scale}},
                     {"zero_point", int64_t{described.spec.zero_point}},
                     {"quant_min", int64_t{-128}},
                     {"quant_max", int64_t{127}}});
  const bool symmetric = described.spec.kind == Kind::kSymmetric;
  if (ranges_ != nullptr && is_too_small((*ranges_)[static_cast<size_t>(group)].scale())) {
    const Buffers& fixed = fixed_buffers_of(group, name);
    return add_node("aten.fake_quantize_per_tensor_affine.tensor_qparams",
                    {{"self", Name{name}},
                     {"scale", Name{fixed.scale}},
                     {"zero_point", Name{fixed.zero_point}},
                     {"quant_min", int64_t{symmetric ? -127 : -128}},
                     {"quant_max", int64_t{127}}});
  }
  const Buffers& buffers = buffers_of(group, name);
  return add_node("aten.fused_moving_avg_obs_fake_quant.default",
                  {{"self", Name{name}},
                   {"observer_on", Name{observer_on()}},
                   {"fake_quant_on", Name{fake_quant_on()}},
                   {"running_min", Name{buffers.low}},
                   {"running_max", Name{buffers.high}},
                   {"scale", Name{buffers.scale}},
                   {"zero_point", Name{buffers.zero_point}},
                   {"averaging_const", kAveraging},
                   {"quant_min", int64_t{symmetric ? -127 : -128}},
                   {"quant_max", int64_t{127}},
                   {"ch_axis", int64_t{-1}},
                   {"per_row_fake_quant", false},
                   {"symmetric_quant", symmetric}});
}

const FakeQuantization::Buffers& FakeQuantization::buffers_of(int group, const std::string& name) {
  Buffers& buffers = buffers_[group];
  if (!buffers.low.empty()) return buffers;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double low = kInfinity, high = -kInfinity, scale = 1;
  Tensor zero_point(DType::kInt32, {1});
  if (ranges_ != nullptr) {
    const Quantization& range = (*ranges_)[static_cast<size_t>(group)];
    scale = static_cast<double>(range.scale());
    low = scale * (range.qmin - range.zero_point());
    high = scale * (range.qmax - range.zero_point());
    zero_point.values<int32_t>()[0] = range.zero_point();
  }
  const auto add = [&](std::string_view what, const Tensor& content) {
    return editor_.add_buffer(fmt::format("quantization.{}.{}", name, what), content);
  };
  buffers = {.low = add("running_min", scalar_tensor(low)),
             .high = add("running_max", scalar_tensor(high)),
             .scale = add("scale", scalar_tensor(scale)),
             .zero_point = add("zero_point", zero_point)};
  return buffers;
}

// Of a range that PyTorch's observer cannot have.
const FakeQuantization::Buffers& FakeQuantization::fixed_buffers_of(int group,
                                                                    const std::string& name) {
  Buffers& buffers = buffers_[group];
  if (!buffers.scale.empty()) return buffers;
  const Quantization& range = (*ranges_)[static_cast<size_t>(group)];
  Tensor zero_point(DType::kInt32, {1});
  zero_point.values<int32_t>()[0] = range.zero_point();
  const auto add = [&](std::string_view what, const Tensor& content) {
    return editor_.add_buffer(fmt::format("quantization.{}.{}", name, what), content);
  };
  buffers.scale = add("scale", scalar_tensor(static_cast<double>(range.scale())));
  buffers.zero_point = add("zero_point", zero_point);
  result_.notes.push_back(fmt::format(
      "`{}`: its range stays that of the samples, as PyTorch observes none so small", name));
  return buffers;
}

const std::string& FakeQuantization::observer_on() {
  if (observer_on_.empty())
    observer_on_ = editor_.add_buffer("quantization.observer_on", switched_on());
  return observer_on_;
}
const std::string& FakeQuantization::fake_quant_on() {
  if (fake_quant_on_.empty())
    fake_quant_on_ = editor_.add_buffer("quantization.fake_quant_on", switched_on());
  return fake_quant_on_;
}

const std::string& FakeQuantization::weight_quant_on() {
  if (weight_quant_on_.empty()) {
    Tensor on(DType::kBool, {1});
    on.view().data[0] = std::byte{1};
    weight_quant_on_ = editor_.add_buffer("quantization.weight_quant_on", on);
  }
  return weight_quant_on_;
}

}  // namespace dtr
