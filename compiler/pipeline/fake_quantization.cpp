#include "compiler/pipeline/fake_quantization.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <string_view>
#include <utility>
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
  const Shape shape = editor_.shape(name);
  const auto add_node = [&](std::string_view target, const Editor::Arguments& arguments) {
    return editor_.add_node(before, like, target, arguments, name + "_fake_quantized",
                            DType::kFloat32, shape);
  };
  ++result_.activations;
  const bool symmetric = described.spec.kind == Kind::kSymmetric;
  const int64_t least = symmetric ? -127 : -128;
  const auto add_fixed = [&](std::string_view overload, Editor::Argument scale,
                             Editor::Argument zero_point) {
    const std::string fixed =
        add_node(fmt::format("aten.fake_quantize_per_tensor_affine.{}", overload),
                 {{"self", Name{name}},
                  {"scale", std::move(scale)},
                  {"zero_point", std::move(zero_point)},
                  {"quant_min", least},
                  {"quant_max", int64_t{127}}});
    return editor_.add_node(
        before, like, "aten.where.self",
        {{"condition", Name{is_on()}}, {"self", Name{fixed}}, {"other", Name{name}}},
        name + "_in_training", DType::kFloat32, shape);
  };
  const bool narrower =
      ranges_ != nullptr && (*ranges_)[static_cast<size_t>(group)].scale() != described.spec.scale;
  if (described.spec.is_given() || (described.spec.kind == Kind::kFixed && !narrower))
    return add_fixed("default", double{described.spec.scale}, int64_t{described.spec.zero_point});
  if (ranges_ != nullptr && is_too_small((*ranges_)[static_cast<size_t>(group)].scale())) {
    const Buffers& fixed = fixed_buffers_of(group, name);
    return add_fixed("tensor_qparams", Name{fixed.scale}, Name{fixed.zero_point});
  }
  const Buffers& buffers = buffers_of(group, name);
  const auto add_observed = [&](const std::string& of, const std::string& observer, double share) {
    return Editor::Arguments{{"self", Name{of}},
                             {"observer_on", Name{observer}},
                             {"fake_quant_on", Name{fake_quant_on()}},
                             {"running_min", Name{buffers.low}},
                             {"running_max", Name{buffers.high}},
                             {"scale", Name{buffers.scale}},
                             {"zero_point", Name{buffers.zero_point}},
                             {"averaging_const", share},
                             {"quant_min", least},
                             {"quant_max", int64_t{127}},
                             {"ch_axis", int64_t{-1}},
                             {"per_row_fake_quant", false},
                             {"symmetric_quant", symmetric}};
  };
  constexpr std::string_view kObserved = "aten.fused_moving_avg_obs_fake_quant.default";
  if (!widening_.contains(group))
    return add_node(kObserved, add_observed(name, observer_on(), kAveraging));
  const std::string seen = widened(name, buffers, before, like);
  editor_.add_node(before, like, kObserved, add_observed(seen, observer_on(), 1.0),
                   name + "_observed", DType::kFloat32, {2});
  return add_node(kObserved, add_observed(name, observer_off(), 1.0));
}

// The ends of the range so far and of tensor `name`, whichever are further out.
std::string FakeQuantization::widened(const std::string& name, const Buffers& buffers,
                                      size_t before, size_t like) {
  const Shape shape = editor_.shape(name);
  const auto add = [&](std::string_view target, const Editor::Arguments& arguments,
                       std::string_view suffix, const Shape& result) {
    return editor_.add_node(before, like, target, arguments, fmt::format("{}_{}", name, suffix),
                            DType::kFloat32, result);
  };
  std::vector<int64_t> every(shape.size());
  std::iota(every.begin(), every.end(), 0);
  const std::string detached =
      add("aten.detach.default", {{"self", Name{name}}}, "detached", shape);
  const auto end_of = [&](std::string_view reduce, std::string_view join, std::string_view suffix,
                          const std::string& so_far) {
    const std::string end =
        add(reduce, {{"self", Name{detached}}, {"dim", every}, {"keepdim", false}}, suffix, {});
    return add(join, {{"self", Name{end}}, {"other", Name{so_far}}}, suffix, {1});
  };
  const std::string low = end_of("aten.amin.default", "aten.minimum.default", "low", buffers.low);
  const std::string high =
      end_of("aten.amax.default", "aten.maximum.default", "high", buffers.high);
  return add("aten.cat.default",
             {{"tensors", std::vector<Name>{{low}, {high}}}, {"dim", int64_t{0}}}, "ends", {2});
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
const std::string& FakeQuantization::observer_off() {
  if (observer_off_.empty()) {
    Tensor off(DType::kInt64, {1});
    off.values<int64_t>()[0] = 0;
    observer_off_ = editor_.add_buffer("quantization.observer_off", off);
  }
  return observer_off_;
}
const std::string& FakeQuantization::fake_quant_on() {
  if (fake_quant_on_.empty())
    fake_quant_on_ = editor_.add_buffer("quantization.fake_quant_on", switched_on());
  return fake_quant_on_;
}

const std::string& FakeQuantization::is_on() {
  if (is_on_.empty())
    is_on_ = editor_.add_node(0, 0, "aten.ne.Scalar",
                              {{"self", Name{fake_quant_on()}}, {"other", int64_t{0}}},
                              "quantization_is_on", DType::kBool, {1});
  return is_on_;
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
