// Seeded random quantized graphs of the operators that the NPU runs.
#pragma once

#include <random>

#include "ir/parser.h"
#include "ir/rewriter.h"
#include "ops/ops.h"

namespace dtr::test {

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : random_(seed) { program_.graphs.emplace_back(); }

  Program make(int ops) {
    Rewriter rewriter(program_.forward());
    for (int i = 0; i < 1 + pick(2); ++i) {
      Type type{.dtype = DType::kInt8, .shape = {1 + pick(2), 1 + pick(11), 1 + pick(9), 1 + pick(9)}, .layout = any_layout()};
      type.quantization = any_quantization();
      values_.push_back(rewriter.add_input(type, "x"));
    }
    for (int i = 0; i < ops; ++i) add_op(rewriter);
    std::vector<ValueId> outputs;
    for (const ValueId value : values_)
      if (program_.forward().value(value).unused() || pick(6) == 0) outputs.push_back(value);
    for (const ValueId output : outputs)
      if (program_.forward().value(output).kind == ValueKind::kResult) rewriter.set_layout(output, any_layout());
    rewriter.set_outputs(outputs);
    return std::move(program_);
  }

 private:
  int64_t pick(int64_t below) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(below)); }
  bool coin() { return pick(2) == 0; }
  Layout any_layout() { return coin() ? Layout::kContiguous : Layout::kChannelsLast; }
  Quantization any_quantization() {
    return Quantization::per_tensor(0.004F + 0.001F * static_cast<float>(pick(90)), static_cast<int32_t>(pick(256) - 128));
  }
  const Type& type(ValueId value) const { return program_.forward().type(value); }

  ValueId constant(Rewriter& rewriter, DType dtype, Shape shape, std::optional<Quantization> quantization) {
    const auto bytes = seeded_values(dtype, static_cast<size_t>(element_count(shape)), random_());
    const ConstantId id = program_.constants.add(dtype, bytes);
    return rewriter.add_constant({.dtype = dtype, .shape = std::move(shape), .quantization = std::move(quantization)}, id, "c");
  }

  // Weight of one scale, or one a channel, and perhaps a bias.
  void add_weights(Rewriter& rewriter, OpSpec& spec, Shape shape) {
    const int64_t channels = shape[0];
    Quantization weight{{}, {}, 0, -127, 127};
    const bool per_channel = coin();
    if (!per_channel) weight.axis = -1;
    for (int64_t c = 0; c < (per_channel ? channels : 1); ++c) {
      weight.scales.push_back(0.001F + 0.0007F * static_cast<float>(pick(50)));
      weight.zero_points.push_back(0);
    }
    Quantization bias = weight;
    bias.qmin = INT32_MIN;
    bias.qmax = INT32_MAX;
    for (float& scale : bias.scales) scale *= type(spec.operands[0]).quantization->scale();
    if (!per_channel) bias.axis = -1;
    spec.operands.push_back(constant(rewriter, DType::kInt8, std::move(shape), weight));
    if (coin()) spec.operands.push_back(constant(rewriter, DType::kInt32, {channels}, bias));
  }

  void insert(Rewriter& rewriter, OpSpec spec) {
    // Random attributes may not fit the shapes: then the graph goes on without this op.
    const Result<ValueId> value = rewriter.append(std::move(spec));
    if (!value) return;
    if (type(*value).elements() > 0 && type(*value).elements() < 40000) {
      values_.push_back(*value);
    } else {
      rewriter.erase(program_.forward().value(*value).producer);
    }
  }

  void add_op(Rewriter& rewriter) {
    const ValueId x = values_[values_.size() - 1 - static_cast<size_t>(pick(std::min<int64_t>(3, static_cast<int64_t>(values_.size()))))];
    const Shape shape = type(x).shape;
    const auto rank = static_cast<int64_t>(shape.size());
    OpSpec spec{.operands = {x}, .quantization = any_quantization()};
    if (coin()) spec.attributes.set("activation", std::string(coin() ? "relu" : "relu6"));
    const Attributes activation = spec.attributes;
    spec.attributes = {};
    switch (rank == 0 ? 4 : pick(14)) {
      case 0:
      case 1:
      case 2: {
        if (rank != 4) break;
        const bool depthwise = coin();
        const int64_t out = depthwise ? shape[1] * (1 + pick(2)) : 1 + pick(14);
        spec.def = &ops::kConvolution;
        spec.attributes = activation;
        add_weights(rewriter, spec, {out, depthwise ? 1 : shape[1], 1 + pick(3), 1 + pick(4)});
        spec.attributes.set("stride", Ints{1 + pick(2), 1 + pick(3)});
        spec.attributes.set("padding", Ints{pick(3), pick(3)});
        if (coin()) spec.attributes.set("padding_end", Ints{pick(3), pick(3)});
        spec.attributes.set("dilation", Ints{1 + pick(2), 1 + pick(2)});
        spec.attributes.set("output_padding", Ints{0, 0});
        spec.attributes.set("transposed", false);
        spec.attributes.set("groups", depthwise ? shape[1] : int64_t{1});
        return insert(rewriter, std::move(spec));
      }
      case 3: {
        spec.def = &ops::kLinear;
        spec.attributes = activation;
        add_weights(rewriter, spec, {1 + pick(13), shape.back()});
        return insert(rewriter, std::move(spec));
      }
      case 4:
      case 5: {
        const OpDef* const kinds[] = {&ops::kRelu, &ops::kTanh, &ops::kSigmoid, &ops::kHardswish, &ops::kRequantize};
        spec.def = kinds[pick(5)];
        if (spec.def == &ops::kRelu && coin()) spec.quantization = type(x).quantization;
        if (spec.def == &ops::kTanh) spec.quantization = Quantization::per_tensor(1.0F / 128, 0);
        if (spec.def == &ops::kSigmoid) spec.quantization = Quantization::per_tensor(1.0F / 256, -128);
        return insert(rewriter, std::move(spec));
      }
      case 6:
      case 7: {
        std::vector<ValueId> same;
        for (const ValueId value : values_)
          if (type(value).shape == shape) same.push_back(value);
        spec.def = &ops::kAddTensor;
        spec.attributes = activation;
        const Shape smaller = rank == 4 ? Shape{shape[1], 1, 1} : Shape{shape.back()};
        spec.operands.push_back(pick(4) == 0 ? constant(rewriter, DType::kInt8, smaller, any_quantization())
                                             : same[static_cast<size_t>(pick(static_cast<int64_t>(same.size())))]);
        if (coin()) std::swap(spec.operands[0], spec.operands[1]);
        return insert(rewriter, std::move(spec));
      }
      case 8: {
        if (rank != 4) break;
        spec.def = coin() ? &ops::kMaxPool2d : &ops::kAvgPool2d;
        spec.quantization = type(x).quantization;
        spec.attributes = {{"kernel_size", Ints{1 + pick(3), 1 + pick(3)}},
                           {"stride", Ints{1 + pick(3), 1 + pick(2)}},
                           {"padding", Ints{pick(2), pick(2)}},
                           {"ceil_mode", coin()}};
        if (spec.def == &ops::kAvgPool2d) {
          spec.attributes.set("count_include_pad", coin());
        } else {
          spec.attributes.set("dilation", Ints{1 + pick(2), 1});
        }
        return insert(rewriter, std::move(spec));
      }
      case 9: {
        spec.def = &ops::kMeanDim;
        spec.quantization = type(x).quantization;
        Ints dims;
        for (int64_t d = 0; d < rank; ++d)
          if (coin()) dims.push_back(d);
        if (dims.empty()) dims.push_back(rank - 1);
        spec.attributes = {{"dim", dims}, {"keepdim", rank < 4 || coin()}};
        return insert(rewriter, std::move(spec));
      }
      case 10: {
        spec.def = &ops::kView;
        spec.quantization.reset();
        Ints size = rank > 2 ? Ints{shape[0], -1} : Ints{-1};
        if (coin() && rank == 4) size = {shape[0], shape[1], -1};
        if (rank == 2 && coin()) size = {shape[0], 1, 1, shape[1]};
        spec.attributes = {{"size", size}};
        return insert(rewriter, std::move(spec));
      }
      case 11: {
        spec.def = &ops::kPermute;
        spec.quantization.reset();
        Ints dims(static_cast<size_t>(rank));
        for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int64_t>(d);
        for (size_t d = dims.size(); d > 1; --d) std::swap(dims[d - 1], dims[static_cast<size_t>(pick(static_cast<int64_t>(d)))]);
        spec.attributes = {{"dims", dims}};
        return insert(rewriter, std::move(spec));
      }
      case 12: {
        spec.quantization.reset();
        if (coin()) {
          spec.def = &ops::kConstantPadNd;
          Ints pad;
          for (int64_t d = 0; d < 1 + pick(rank); ++d) {
            pad.push_back(pick(4) - 1);
            pad.push_back(pick(3) - 1);
          }
          spec.attributes = {{"pad", pad}, {"value", 0.25 * static_cast<double>(pick(5))}};
        } else {
          spec.def = &ops::kCat;
          const int64_t dim = pick(rank);
          Shape other = shape;
          other[static_cast<size_t>(dim)] = 1 + pick(5);
          spec.operands.push_back(coin() ? x : constant(rewriter, DType::kInt8, other, type(x).quantization));
          spec.attributes = {{"dim", dim}};
        }
        return insert(rewriter, std::move(spec));
      }
      default: {
        spec.def = &ops::kSoftmax;
        spec.quantization = Quantization::per_tensor(1.0F / 256, -128);
        spec.attributes = {{"dim", pick(rank)}};
        return insert(rewriter, std::move(spec));
      }
    }
  }

  std::mt19937_64 random_;
  Program program_;
  std::vector<ValueId> values_;
};

}  // namespace dtr::test
