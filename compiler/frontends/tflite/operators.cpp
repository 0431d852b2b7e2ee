// The conversion of each operator of the format. Axes are mapped from the file's order (rank 4:
// NHWC) to the logical one (NCHW); if an operator's result depends on the order of elements
// (RESHAPE, FULLY_CONNECTED), values are permuted to the file's order first.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compiler/frontends/tflite/importer.h"
#include "compiler/plugins/plugins.h"

namespace dtr::tflite {
namespace {

using fb::BuiltinOperator;
using fb::OptionsType;

constexpr int64_t kMaxExtent = int64_t{1} << 30;

// Padding of one spatial dimension at its begin and end.
struct Pads {
  int64_t begin = 0;
  int64_t end = 0;
};

Pads pads(fb::Padding padding, int64_t in, int64_t kernel, int64_t stride, int64_t dilation) {
  if (padding == fb::Padding::VALID) return {};
  const int64_t out = (in + stride - 1) / stride;
  const int64_t total = std::max<int64_t>((out - 1) * stride + (kernel - 1) * dilation + 1 - in, 0);
  return {total / 2, total - total / 2};
}

// stride, padding and, where it differs, padding_end of a window over height and width.
Result<Attributes> window(const Importer& importer, fb::Padding padding, const Shape& in,
                          const Ints& kernel, const Ints& stride, const Ints& dilation) {
  if (in.size() != 4)
    return importer.invalid(
        fmt::format("its input has shape {}, expected 4 dimensions", to_string(in)));
  for (const Ints* values : {&kernel, &stride, &dilation})
    for (const int64_t value : *values)
      if (value < 1 || value > kMaxExtent)
        return importer.invalid(fmt::format("kernel, stride or dilation is {}", value));
  const Pads h = pads(padding, in[1], kernel[0], stride[0], dilation[0]);
  const Pads w = pads(padding, in[2], kernel[1], stride[1], dilation[1]);
  Attributes attributes{{"stride", stride}, {"padding", Ints{h.begin, w.begin}}};
  if (h.begin != h.end || w.begin != w.end) attributes.set("padding_end", Ints{h.end, w.end});
  return attributes;
}

void set_activation(Attributes& attributes, const std::string& activation) {
  if (!activation.empty()) attributes.set("activation", activation);
}

// Operand 1 of a convolution or of a fully connected layer as int8 with a zero point of 0, and the
// x that it multiplies. The codes of uint8 weights less their zero point may need nine bits: then
// the weight is a sum of parts, side by side along `dim`, and x is repeated in each group.
struct Multiplied {
  ValueId x, weight;
};
Result<Multiplied> multiplied(Importer& importer, ValueId x, const Ints& weight_dims, int axis,
                              int dim, int64_t groups) {
  const TensorInfo& of = importer.tensor(1);
  if (!of.was_uint8) {
    DTR_ASSIGN(const ValueId weight, importer.permuted_constant(1, weight_dims, axis));
    return Multiplied{x, weight};
  }
  if (!of.constant() || of.scales.size() != 1)
    return importer.unsupported("its UINT8 weight is computed, or has several scales");
  const int32_t zero_point = of.zero_points[0];
  std::vector<int32_t> values;
  for (const std::byte code : of.data)
    values.push_back(static_cast<int8_t>(std::to_integer<uint8_t>(code)) - zero_point);
  Importer::Builder builder(importer);
  std::vector<ValueId> parts;
  bool rest = true;
  while (rest) {
    std::vector<std::byte> codes;
    rest = false;
    for (int32_t& value : values) {
      const int32_t code = std::clamp(value, -128, 127);
      codes.push_back(static_cast<std::byte>(static_cast<uint8_t>(code)));
      value -= code;
      rest = rest || value != 0;
    }
    DTR_ASSIGN(parts.emplace_back(),
               importer.add_codes(codes, of.shape, weight_dims, of.scales[0]));
  }
  if (parts.size() == 1) return Multiplied{x, parts[0]};
  const auto count = static_cast<int64_t>(parts.size());
  Multiplied made;
  DTR_ASSIGN(made.weight, importer.joined_codes(parts, dim));
  const Shape shape = importer.type(x).shape;
  Shape split = shape;
  split[1] /= groups;
  split.insert(split.begin() + 1, groups);
  DTR_ASSIGN(const ValueId each, builder.view(x, split));
  DTR_ASSIGN(made.x,
             builder.concatenate(std::vector<ValueId>(static_cast<size_t>(count), each), 2));
  Shape wide = shape;
  wide[1] *= count;
  DTR_ASSIGN(made.x, builder.view(made.x, wide));
  return made;
}

// CONV_2D and DEPTHWISE_CONV_2D, whose options have these fields in common.
template <class Options>
Result<ValueId> convolution(Importer& importer, OptionsType type, const Ints& weight_dims,
                            int weight_axis, int64_t groups, int64_t channels) {
  DTR_ASSIGN(const Options* options, importer.options<Options>(type));
  const Shape& weight = importer.tensor(1).shape;
  const Ints dilation{options->dilation_h_factor(), options->dilation_w_factor()};
  DTR_ASSIGN(Attributes attributes,
             window(importer, options->padding(), importer.tensor(0).shape, {weight[1], weight[2]},
                    {options->stride_h(), options->stride_w()}, dilation));
  DTR_ASSIGN(const std::string activation,
             importer.activation(options->fused_activation_function()));
  attributes.set("dilation", dilation);
  attributes.set("output_padding", Ints{0, 0});
  attributes.set("transposed", false);
  attributes.set("groups", groups);
  set_activation(attributes, activation);
  if (importer.tensor(1).scales.size() > 1 && importer.tensor(1).quantized_dimension != weight_axis)
    return importer.unsupported(
        fmt::format("its weight is quantized along dimension {}, expected {}",
                    importer.tensor(1).quantized_dimension, weight_axis));
  DTR_ASSIGN(const ValueId x, importer.value(0));
  DTR_ASSIGN(const Multiplied both, multiplied(importer, x, weight_dims, 0, 1, groups));
  std::vector<ValueId> operands{both.x, both.weight};
  if (importer.has(2)) {
    if (importer.tensor(2).shape != Shape{channels})
      return importer.invalid(fmt::format("its bias has shape {}, expected {}",
                                          to_string(importer.tensor(2).shape), channels));
    DTR_ASSIGN(const ValueId bias, importer.value(2));
    operands.push_back(bias);
  }
  return importer.append(ops::kConvolution, std::move(operands), std::move(attributes));
}

// Input channels and weight of a convolution; both have 4 dimensions, none of them 0.
Result<void> check_convolution(const Importer& importer) {
  for (const size_t operand : {size_t{0}, size_t{1}}) {
    const Shape& shape = importer.tensor(operand).shape;
    if (shape.size() != 4 || std::ranges::any_of(shape, [](int64_t extent) { return extent < 1; }))
      return importer.invalid(
          fmt::format("input {} has shape {}, expected 4 dimensions", operand, to_string(shape)));
  }
  return {};
}

Result<ValueId> conv_2d(Importer& importer) {
  DTR_TRY(check_convolution(importer));
  const Shape& weight = importer.tensor(1).shape;  // OHWI
  return convolution<fb::Conv2DOptions>(
      importer, OptionsType::Conv2DOptions, {0, 3, 1, 2}, 0,
      std::max<int64_t>(importer.tensor(0).shape[3] / weight[3], 1), weight[0]);
}

Result<ValueId> depthwise_conv_2d(Importer& importer) {
  DTR_TRY(check_convolution(importer));
  const Shape& weight = importer.tensor(1).shape;  // 1HWC
  return convolution<fb::DepthwiseConv2DOptions>(importer, OptionsType::DepthwiseConv2DOptions,
                                                 {3, 0, 1, 2}, 3, importer.tensor(0).shape[3],
                                                 weight[3]);
}

// A transposed convolution of operand `x` with operand 1 (OHWI) and perhaps a bias. The file's
// result may be shorter than what the kernel reaches (`padding_end`) or longer: those elements are
// the bias alone. `output_padding` must be below the stride, so x gets zeros for whole strides.
struct Transposed {
  size_t x, bias;
  fb::Padding padding;
  Ints stride;
  fb::ActivationFunctionType activation = fb::ActivationFunctionType::NONE;
  Shape out = {};
};
Result<ValueId> transposed_convolution(Importer& importer, const Transposed& of) {
  const Shape& weight = importer.tensor(1).shape;
  const Shape& in = importer.tensor(of.x).shape;
  const Shape& out = of.out;
  for (const Shape* shape : {&weight, &in, &out})
    if (shape->size() != 4 ||
        std::ranges::any_of(*shape, [](int64_t extent) { return extent < 1; }))
      return importer.invalid(
          fmt::format("a shape is {}, expected 4 dimensions", to_string(*shape)));
  if (importer.tensor(1).scales.size() > 1 && importer.tensor(1).quantized_dimension != 0)
    return importer.unsupported(
        fmt::format("its weight is quantized along dimension {}, expected 0",
                    importer.tensor(1).quantized_dimension));
  const Ints kernel{weight[1], weight[2]};
  DTR_ASSIGN(Attributes attributes, window(importer, of.padding, out, kernel, of.stride, {1, 1}));
  const Ints begin = attributes.get<Ints>("padding");
  Ints end(2), beyond(2), zeros(2);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t rest = (in[1 + i] - 1) * of.stride[i] + kernel[i] - begin[i] - out[1 + i];
    end[i] = std::max<int64_t>(rest, 0);
    beyond[i] = std::max<int64_t>(-rest, 0) % of.stride[i];
    zeros[i] = std::max<int64_t>(-rest, 0) / of.stride[i];
  }
  attributes.set("padding_end", end);
  attributes.set("output_padding", beyond);
  attributes.set("dilation", Ints{1, 1});
  attributes.set("transposed", true);
  attributes.set("groups", int64_t{1});
  DTR_ASSIGN(const std::string activation, importer.activation(of.activation));
  set_activation(attributes, activation);
  DTR_ASSIGN(ValueId x, importer.value(of.x));
  if (zeros != Ints{0, 0}) {
    const Ints pad{0, zeros[1], 0, zeros[0]};
    DTR_ASSIGN(x, importer.append_moving(ops::kConstantPadNd, x, {{"pad", pad}, {"value", 0.0}}));
  }
  DTR_ASSIGN(const Multiplied both, multiplied(importer, x, {3, 0, 1, 2}, 1, 0, 1));
  std::vector<ValueId> operands{both.x, both.weight};
  if (importer.has(of.bias)) {
    DTR_ASSIGN(const ValueId bias, importer.value(of.bias));
    operands.push_back(bias);
  }
  return importer.append(ops::kConvolution, std::move(operands), std::move(attributes));
}

// Operands: extents of the result, weight, x, bias.
Result<ValueId> transpose_conv(Importer& importer) {
  DTR_ASSIGN(const fb::TransposeConvOptions* options,
             importer.options<fb::TransposeConvOptions>(OptionsType::TransposeConvOptions));
  DTR_ASSIGN(const Ints extents, importer.integers(0));
  const Shape& out = importer.output().shape;
  if (extents != out && !importer.output().has_open_extent())
    return importer.invalid(fmt::format("its output has shape {}, its first input says {}",
                                        to_string(out), to_string(extents)));
  return transposed_convolution(importer, {.x = 2,
                                           .bias = 3,
                                           .padding = options->padding(),
                                           .stride = {options->stride_h(), options->stride_w()},
                                           .activation = options->fused_activation_function(),
                                           .out = extents});
}

// MediaPipe's custom operator. Operands: x, weight, bias; its options are the bytes of TFLite's C
// struct: padding (1: SAME, 2: VALID), stride over width, stride over height.
Result<ValueId> transpose_conv_bias(Importer& importer) {
  int32_t options[3] = {};
  const std::span<const uint8_t> bytes = importer.op().custom_options;
  if (bytes.size() < sizeof options) return importer.invalid("its options are missing");
  std::memcpy(options, bytes.data(), sizeof options);
  if (options[0] != 1 && options[0] != 2)
    return importer.invalid(fmt::format("its padding is {}", options[0]));
  return transposed_convolution(
      importer, {.x = 0,
                 .bias = 2,
                 .padding = options[0] == 1 ? fb::Padding::SAME : fb::Padding::VALID,
                 .stride = {options[2], options[1]},
                 .out = importer.output().shape});
}

Result<ValueId> fully_connected(Importer& importer) {
  DTR_ASSIGN(const fb::FullyConnectedOptions* options,
             importer.options<fb::FullyConnectedOptions>(OptionsType::FullyConnectedOptions));
  if (options->weights_format() != fb::FullyConnectedOptionsWeightsFormat::DEFAULT)
    return importer.unsupported("its weights are shuffled");
  const Shape& weight = importer.tensor(1).shape;
  const Shape& shape = importer.tensor(0).shape;
  if (weight.size() != 2 || weight[1] < 1 || element_count(shape) % weight[1] != 0)
    return importer.invalid(
        fmt::format("input {} and weight {} do not multiply", to_string(shape), to_string(weight)));
  DTR_ASSIGN(const std::string activation,
             importer.activation(options->fused_activation_function()));
  Attributes attributes;
  set_activation(attributes, activation);
  if (!importer.tensor(0).scales.empty()) attributes.set("one_rounding", true);
  const Shape rows{element_count(shape) / weight[1], weight[1]};
  DTR_ASSIGN(ValueId x, importer.value(0));
  DTR_ASSIGN(x, importer.reshape(x, shape, rows));
  Multiplied both{x, {}};
  if (importer.tensor(1).was_uint8) {
    DTR_ASSIGN(both, multiplied(importer, x, {0, 1}, 0, 1, 1));
  } else {
    DTR_ASSIGN(both.weight, importer.value(1));
  }
  std::vector<ValueId> operands{both.x, both.weight};
  if (importer.has(2)) {
    DTR_ASSIGN(const ValueId bias, importer.value(2));
    DTR_ASSIGN(operands.emplace_back(),
               importer.reshape(bias, importer.tensor(2).shape, {weight[0]}));
  }
  DTR_ASSIGN(const ValueId y,
             importer.append(ops::kLinear, std::move(operands), std::move(attributes)));
  return importer.reshape(y, {rows[0], weight[0]}, importer.filled_output(rows[0] * weight[0]));
}

// Our op of an operator without options; nullptr if there is none.
const OpDef* find_plain(BuiltinOperator code) {
  const std::string_view name = fb::EnumNameBuiltinOperator(code);
  const auto at =
      std::ranges::find(all_ops(), name, [](const OpDef* op) { return op->tflite.name; });
  return name.empty() || at == all_ops().end() ? nullptr : *at;
}

// An operand of an elementwise operator, broadcasting in logical order as in the file.
Result<ValueId> aligned(Importer& importer, size_t operand) {
  DTR_ASSIGN(const ValueId value, importer.value(operand));
  return importer.aligned(value, importer.tensor(operand).shape);
}

Result<ValueId> dequantize(Importer& importer) {
  DTR_ASSIGN(const ValueId x, importer.value(0));
  return importer.as_output(x);
}

// Operators that have no options (OpDef::tflite). Those that have no int8 form in the format are
// computed on real numbers.
template <int kOperands>
Result<ValueId> plain(Importer& importer) {
  const OpDef& def = *find_plain(importer.op().code);
  if constexpr (kOperands == 1) {
    if (def.tflite.int8_version == 0) {
      DTR_ASSIGN(const ValueId real, importer.real_value(0));
      return on_reals(importer, def.name, {real});
    }
    DTR_ASSIGN(const ValueId x, importer.value(0));
    return importer.append(def, {x});
  }
  DTR_ASSIGN(const ValueId a, aligned(importer, 0));
  DTR_ASSIGN(const ValueId b, aligned(importer, 1));
  return importer.append(def, {a, b});
}

// ADD, SUB and MUL, whose options have a fused activation.
template <const OpDef& kDef, class Options, OptionsType kType>
Result<ValueId> arithmetic(Importer& importer) {
  Attributes attributes;
  if (importer.op().options != nullptr) {
    DTR_ASSIGN(const Options* options, importer.options<Options>(kType));
    DTR_ASSIGN(const std::string activation,
               importer.activation(options->fused_activation_function()));
    set_activation(attributes, activation);
  }
  DTR_ASSIGN(const ValueId a, aligned(importer, 0));
  DTR_ASSIGN(const ValueId b, aligned(importer, 1));
  return importer.append(kDef, {a, b}, std::move(attributes));
}

enum class Pool : uint8_t { kMaximum, kMean, kNorm };

// kNorm is the root of the mean of squares.
template <Pool kPool>
Result<ValueId> pool(Importer& importer) {
  constexpr bool kMaximum = kPool == Pool::kMaximum;
  DTR_ASSIGN(const fb::Pool2DOptions* options,
             importer.options<fb::Pool2DOptions>(OptionsType::Pool2DOptions));
  const Ints kernel{options->filter_height(), options->filter_width()};
  DTR_ASSIGN(Attributes attributes,
             window(importer, options->padding(), importer.tensor(0).shape, kernel,
                    {options->stride_h(), options->stride_w()}, {1, 1}));
  DTR_ASSIGN(const std::string activation,
             importer.activation(options->fused_activation_function()));
  attributes.set("kernel_size", kernel);
  attributes.set("ceil_mode", false);
  if (kMaximum) attributes.set("dilation", Ints{1, 1});
  if (!kMaximum) attributes.set("count_include_pad", false);
  if (kPool == Pool::kNorm) {
    Importer::Builder builder(importer);
    DTR_ASSIGN(ValueId y, importer.real_value(0));
    DTR_ASSIGN(y, builder.emit(ops::kMulTensor.name, {y, y}));
    DTR_ASSIGN(y, builder.emit(ops::kAvgPool2d.name, {y}, attributes));
    DTR_ASSIGN(y, on_reals(importer, "aten.sqrt", {y}));
    return activated(importer, y, activation);
  }
  DTR_ASSIGN(const ValueId x, importer.value(0));
  DTR_ASSIGN(const ValueId y, importer.append(kMaximum ? ops::kMaxPool2d : ops::kAvgPool2d, {x},
                                              std::move(attributes)));
  return activated(importer, y, activation);
}

Result<ValueId> softmax(Importer& importer) {
  DTR_ASSIGN(const fb::SoftmaxOptions* options,
             importer.options<fb::SoftmaxOptions>(OptionsType::SoftmaxOptions));
  const size_t rank = importer.tensor(0).shape.size();
  if (rank == 0) return importer.invalid("its input has no dimension");
  const Attributes along{{"dim", static_cast<int64_t>(logical_dim(rank - 1, rank))}};
  if (options->beta() != 1.0F) {
    Importer::Builder builder(importer);
    DTR_ASSIGN(ValueId scaled, importer.real_value(0));
    DTR_ASSIGN(const ValueId beta,
               builder.constant(DType::kFloat32, {}, static_cast<double>(options->beta()), "beta"));
    DTR_ASSIGN(scaled, builder.emit(ops::kMulTensor.name, {scaled, beta}));
    return on_reals(importer, ops::kSoftmax.name, {scaled}, along);
  }
  DTR_ASSIGN(const ValueId x, importer.value(0));
  return importer.append(ops::kSoftmax, {x}, along);
}

// The new shape is that of the output tensor; options and the second input say the same or leave
// one extent open.
Result<ValueId> reshape(Importer& importer) {
  if (importer.tensor(0).type == fb::TensorType::COMPLEX64)
    return importer.reshape_complex(importer.output().shape);
  DTR_ASSIGN(const ValueId x, importer.value(0));
  Shape to = importer.output().shape;
  const int64_t elements = element_count(importer.tensor(0).shape);
  if (element_count(to) != elements && importer.has(1)) {
    // An open extent.
    DTR_ASSIGN(to, importer.integers(1));
    if (to.size() > kMaxRank) return importer.invalid("its shape has too many dimensions");
    int64_t rest = elements;
    for (const int64_t extent : to)
      if (extent > 0 && rest % extent == 0) rest /= extent;
    std::ranges::replace(to, int64_t{-1}, rest);
    if (checked_element_count(to) != elements)
      return importer.invalid(
          fmt::format("{} elements do not fill the shape {}", elements, to_string(to)));
  }
  if (importer.tensor(0).shape == to)
    return importer.append_moving(ops::kView, x, {{"size", logical_shape(to)}});
  return importer.reshape(x, importer.tensor(0).shape, to);
}

Result<ValueId> pad(Importer& importer) {
  const size_t rank = importer.tensor(0).shape.size();
  DTR_ASSIGN(const Ints paddings, importer.integers(1));
  if (paddings.size() != 2 * rank)
    return importer.invalid(fmt::format("{} paddings for rank {}", paddings.size(), rank));
  double value = 0;
  if (importer.has(2)) {
    DTR_ASSIGN(value, importer.real(2));
  }
  Ints pads(2 * rank);
  for (size_t dim = 0; dim < rank; ++dim) {
    const size_t from_end = rank - 1 - logical_dim(dim, rank);
    for (size_t i = 0; i < 2; ++i) {
      if (paddings[2 * dim + i] < 0) return importer.invalid("a padding is negative");
      pads[2 * from_end + i] = paddings[2 * dim + i];
    }
  }
  DTR_ASSIGN(const ValueId x, importer.value(0));
  if (const Type& of = importer.type(x); !is_float(of.dtype) && !of.quantized()) {
    DTR_ASSIGN(const ValueId y, Importer::Builder(importer).pad(x, pads, value));
    return importer.as_output(y);
  }
  return importer.append(ops::kConstantPadNd, {x}, {{"pad", pads}, {"value", value}});
}

// What is left of a value of rank 4 in logical order without the dimensions `dims`, in the file's
// order: H, W, C.
Result<ValueId> without_dims(Importer& importer, ValueId value, const Ints& dims) {
  const auto reduced = [&](int64_t dim) { return std::ranges::find(dims, dim) != dims.end(); };
  if (reduced(1) || (reduced(2) && reduced(3))) return value;
  const int64_t rank = 4 - static_cast<int64_t>(dims.size());
  const int64_t batch = reduced(0) ? 0 : 1;
  Ints order;
  for (int64_t i = 0; i < batch; ++i) order.push_back(i);
  for (int64_t i = batch + 1; i < rank; ++i) order.push_back(i);
  order.push_back(batch);
  return Importer::Builder(importer).permute(value, order);
}

// The axis is a constant, the index int32 or int64.
template <const OpDef& kDef>
Result<ValueId> index_of_extreme(Importer& importer) {
  const Shape& shape = importer.tensor(0).shape;
  DTR_ASSIGN(const Ints axes, importer.integers(1));
  if (axes.size() != 1) return importer.invalid(fmt::format("{} axes, expected 1", axes.size()));
  DTR_ASSIGN(const int64_t dim, importer.logical_axis(axes.front(), shape.size()));
  DTR_ASSIGN(const ValueId x, importer.value(0));
  const bool narrow = importer.output().type == fb::TensorType::INT32;
  DTR_ASSIGN(const ValueId y, importer.append(kDef, {x}, {{"dim", dim}, {"as_int32", narrow}}));
  return shape.size() == 4 ? without_dims(importer, y, {dim}) : y;
}

// Integers are summed in int64; their mean is the quotient, cut off.
template <const OpDef& kDef>
Result<ValueId> reduced(Importer& importer, ValueId x, const Ints& dims, bool keep_dims) {
  Attributes attributes{{"dim", dims}, {"keepdim", keep_dims}};
  const TensorInfo& from = importer.tensor(0);
  if (from.scales.empty() && from.type != fb::TensorType::FLOAT32) {
    const bool mean = &kDef == &ops::kMeanDim;
    Importer::Builder builder(importer);
    DTR_ASSIGN(ValueId y, builder.emit(mean ? ops::kSumDim.name : kDef.name, {x}, attributes));
    if (mean) {
      int64_t count = 1;
      for (const int64_t dim : dims) count *= importer.type(x).shape[static_cast<size_t>(dim)];
      DTR_ASSIGN(const ValueId divisor,
                 builder.constant(importer.type(y).dtype, {}, static_cast<double>(count), "count"));
      DTR_ASSIGN(y, builder.emit(ops::kDivTensorMode.name, {y, divisor},
                                 {{"rounding_mode", std::string("trunc")}}));
    }
    return importer.as_output(y);
  }
  if (&kDef == &ops::kSumDim && !from.scales.empty() && !from.was_uint8)
    attributes.set("of_bytes", true);
  return importer.append(kDef, {x}, std::move(attributes));
}

template <const OpDef& kDef>
Result<ValueId> reduction(Importer& importer) {
  DTR_ASSIGN(const fb::ReducerOptions* options,
             importer.options<fb::ReducerOptions>(OptionsType::ReducerOptions));
  const Shape shape = importer.tensor(0).shape;
  DTR_ASSIGN(const Ints axes, importer.integers(1));
  Ints dims;
  for (const int64_t axis : axes) {
    DTR_ASSIGN(const int64_t dim, importer.logical_axis(axis, shape.size()));
    if (std::ranges::find(dims, dim) == dims.end()) dims.push_back(dim);
  }
  std::ranges::sort(dims);
  DTR_ASSIGN(const ValueId x, importer.value(0));
  if (dims.empty()) return importer.as_output(x);
  DTR_ASSIGN(const ValueId y, reduced<kDef>(importer, x, dims, options->keep_dims()));
  if (options->keep_dims()) return y;
  if (shape.size() != 4)
    return importer.output().shape.size() == 4
               ? importer.append_moving(ops::kPermute, y, {{"dims", logical_dims(4)}})
               : y;
  return without_dims(importer, y, dims);
}

template <class Options, OptionsType kOptions, const OpDef& kDef>
Result<ValueId> resize(Importer& importer) {
  DTR_ASSIGN(const Options* options, importer.options<Options>(kOptions));
  DTR_ASSIGN(const Ints size, importer.integers(1));
  if (size.size() != 2)
    return importer.invalid(fmt::format("its size has {} entries, expected 2", size.size()));
  Attributes attributes{{"output_size", size},
                        {"align_corners", options->align_corners()},
                        {"half_pixel_centers", options->half_pixel_centers()}};
  if (&kDef == &ops::kUpsampleBilinear2d) attributes.set("fraction_bits", int64_t{10});
  DTR_ASSIGN(const ValueId x, importer.value(0));
  return importer.append(kDef, {x}, std::move(attributes));
}

Result<ValueId> sqrt(Importer& importer) {
  DTR_ASSIGN(const ValueId x, importer.value(0));
  const bool quantized = !importer.tensor(0).scales.empty();
  return importer.append(ops::kSqrt, {x},
                         quantized ? Attributes{{"truncates", true}} : Attributes{});
}

// TFLite's int8 kernel approximates the logarithm in its own way; here it is computed in float.
Result<ValueId> log_softmax(Importer& importer) {
  const size_t rank = importer.tensor(0).shape.size();
  if (rank == 0) return importer.invalid("its input has no dimension");
  DTR_ASSIGN(const ValueId x, importer.real_value(0));
  return on_reals(importer, ops::kLogSoftmax.name, {x},
                  {{"dim", static_cast<int64_t>(logical_dim(rank - 1, rank))}});
}

Result<ValueId> leaky_relu(Importer& importer) {
  DTR_ASSIGN(const fb::LeakyReluOptions* options,
             importer.options<fb::LeakyReluOptions>(OptionsType::LeakyReluOptions));
  DTR_ASSIGN(const ValueId x, importer.value(0));
  return importer.append(
      ops::kLeakyRelu, {x},
      {{"negative_slope", static_cast<double>(options->alpha())}, {"two_roundings", true}});
}

Result<ValueId> gelu(Importer& importer) {
  DTR_ASSIGN(const fb::GeluOptions* options,
             importer.options<fb::GeluOptions>(OptionsType::GeluOptions));
  DTR_ASSIGN(const ValueId x, importer.value(0));
  return importer.append(ops::kGelu, {x},
                         {{"approximate", std::string(options->approximate() ? "tanh" : "none")}});
}

template <int kLow, int kHigh>
Result<ValueId> clamp(Importer& importer) {
  DTR_ASSIGN(const ValueId x, importer.value(0));
  return importer.append(ops::kClamp, {x}, {{"min", double{kLow}}, {"max", double{kHigh}}});
}

// Of tensors that are read as float, it does nothing.
Result<ValueId> quantize(Importer& importer) {
  DTR_ASSIGN(const ValueId x, importer.value(0));
  if (importer.output().type == fb::TensorType::FLOAT32) return importer.as_output(x);
  return importer.append(
      importer.tensor(0).type == fb::TensorType::FLOAT32 ? ops::kQuantize : ops::kRequantize, {x});
}

Result<ValueId> concatenation(Importer& importer) {
  DTR_ASSIGN(const fb::ConcatenationOptions* options,
             importer.options<fb::ConcatenationOptions>(OptionsType::ConcatenationOptions));
  DTR_ASSIGN(const std::string activation,
             importer.activation(options->fused_activation_function()));
  DTR_ASSIGN(const int64_t dim,
             importer.logical_axis(options->axis(), importer.output().shape.size()));
  std::vector<ValueId> operands;
  for (size_t i = 0; i < importer.op().inputs.size(); ++i) {
    if (!importer.has(i)) return importer.invalid(fmt::format("input {} is absent", i));
    DTR_ASSIGN(ValueId operand, importer.value(i));
    const TensorInfo& from = importer.tensor(i);
    const TensorInfo& to = importer.output();
    const bool bytes =
        from.was_uint8 && to.was_uint8 && from.scales.size() == 1 && to.scales.size() == 1;
    if (bytes && (from.scales != to.scales || from.zero_points != to.zero_points)) {
      DTR_ASSIGN(operand, importer.rescaled_bytes(operand, from, to));
    }
    operands.push_back(operand);
  }
  DTR_ASSIGN(const ValueId y, importer.append(ops::kCat, std::move(operands), {{"dim", dim}}));
  return activated(importer, y, activation);
}

Result<ValueId> transpose(Importer& importer) {
  const size_t rank = importer.tensor(0).shape.size();
  DTR_ASSIGN(const Ints permutation, importer.integers(1));
  if (permutation.size() != rank)
    return importer.invalid(
        fmt::format("{} dimensions are permuted, its input has {}", permutation.size(), rank));
  Ints dims(rank);
  for (size_t i = 0; i < rank; ++i) {
    DTR_ASSIGN(dims[logical_dim(i, rank)], importer.logical_axis(permutation[i], rank));
  }
  DTR_ASSIGN(const ValueId x, importer.value(0));
  return importer.append(ops::kPermute, {x}, {{"dims", dims}});
}

Result<ValueId> batch_matmul(Importer& importer) {
  DTR_ASSIGN(const fb::BatchMatMulOptions* options,
             importer.options<fb::BatchMatMulOptions>(OptionsType::BatchMatMulOptions));
  std::vector<ValueId> operands;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const size_t rank = importer.tensor(i).shape.size();
    if (rank < 2)
      return importer.invalid(fmt::format("input {} has shape {}, expected 2 dimensions", i,
                                          to_string(importer.tensor(i).shape)));
    DTR_ASSIGN(ValueId value, importer.file_value(i));
    if (i == 0 ? options->adj_x() : options->adj_y()) {
      Ints dims(rank);
      for (size_t d = 0; d < rank; ++d) dims[d] = static_cast<int64_t>(d);
      std::swap(dims[rank - 2], dims[rank - 1]);
      DTR_ASSIGN(value, Importer::Builder(importer).permute(value, dims));
    }
    operands.push_back(value);
  }
  DTR_ASSIGN(const ValueId product, importer.append(ops::kMatmul, std::move(operands)));
  return importer.in_logical_order(product);
}

constexpr OperatorDef kOperators[] = {
    {BuiltinOperator::ADD, 2, 2,
     arithmetic<ops::kAddTensor, fb::AddOptions, OptionsType::AddOptions>},
    {BuiltinOperator::ARG_MAX, 2, 2, index_of_extreme<ops::kArgmax>},
    {BuiltinOperator::ARG_MIN, 2, 2, index_of_extreme<ops::kArgmin>},
    {BuiltinOperator::AVERAGE_POOL_2D, 1, 1, pool<Pool::kMean>},
    {BuiltinOperator::BATCH_MATMUL, 2, 2, batch_matmul},
    {BuiltinOperator::CONCATENATION, 1, kAnyNumber, concatenation},
    {BuiltinOperator::CONV_2D, 2, 3, conv_2d},
    {BuiltinOperator::DEPTHWISE_CONV_2D, 2, 3, depthwise_conv_2d},
    {BuiltinOperator::DENSIFY, 1, 1, dequantize},
    {BuiltinOperator::DEQUANTIZE, 1, 1, dequantize},
    {BuiltinOperator::FULLY_CONNECTED, 2, 3, fully_connected},
    {BuiltinOperator::GELU, 1, 1, gelu},
    {BuiltinOperator::L2_POOL_2D, 1, 1, pool<Pool::kNorm>},
    {BuiltinOperator::LEAKY_RELU, 1, 1, leaky_relu},
    {BuiltinOperator::LOG_SOFTMAX, 1, 1, log_softmax},
    {BuiltinOperator::MAX_POOL_2D, 1, 1, pool<Pool::kMaximum>},
    {BuiltinOperator::MEAN, 2, 2, reduction<ops::kMeanDim>},
    {BuiltinOperator::MUL, 2, 2,
     arithmetic<ops::kMulTensor, fb::MulOptions, OptionsType::MulOptions>},
    {BuiltinOperator::PAD, 2, 2, pad},
    {BuiltinOperator::PADV2, 3, 3, pad},
    {BuiltinOperator::QUANTIZE, 1, 1, quantize},
    {BuiltinOperator::REDUCE_MAX, 2, 2, reduction<ops::kAmax>},
    {BuiltinOperator::REDUCE_MIN, 2, 2, reduction<ops::kAmin>},
    {BuiltinOperator::RELU6, 1, 1, clamp<0, 6>},
    {BuiltinOperator::RELU_0_TO_1, 1, 1, clamp<0, 1>},
    {BuiltinOperator::RELU_N1_TO_1, 1, 1, clamp<-1, 1>},
    {BuiltinOperator::RESHAPE, 1, 2, reshape},
    {BuiltinOperator::RESIZE_BILINEAR, 2, 2,
     resize<fb::ResizeBilinearOptions, OptionsType::ResizeBilinearOptions,
            ops::kUpsampleBilinear2d>},
    {BuiltinOperator::RESIZE_NEAREST_NEIGHBOR, 2, 2,
     resize<fb::ResizeNearestNeighborOptions, OptionsType::ResizeNearestNeighborOptions,
            ops::kUpsampleNearest2d>},
    {BuiltinOperator::SOFTMAX, 1, 1, softmax},
    {BuiltinOperator::SQRT, 1, 1, sqrt},
    {BuiltinOperator::SUB, 2, 2,
     arithmetic<ops::kSubTensor, fb::SubOptions, OptionsType::SubOptions>},
    {BuiltinOperator::SUM, 2, 2, reduction<ops::kSumDim>},
    {BuiltinOperator::TRANSPOSE, 2, 2, transpose},
    {BuiltinOperator::TRANSPOSE_CONV, 3, 4, transpose_conv},
};

struct CustomDef {
  std::string_view name;
  OperatorDef def;
};
constexpr CustomDef kCustom[] = {
    {"CUSTOM(Convolution2DTransposeBias)", {BuiltinOperator::CUSTOM, 2, 3, transpose_conv_bias}},
    {"CUSTOM(TFLite_Detection_PostProcess)",
     {BuiltinOperator::CUSTOM, 3, 3, nullptr, detection_postprocess, true}},
};

}  // namespace

const OperatorDef* find_operator(const OperatorInfo& op) {
  if (op.code != BuiltinOperator::CUSTOM) return find_operator(op.code);
  const auto* const at = std::ranges::find(kCustom, op.name, &CustomDef::name);
  if (at != std::end(kCustom)) return &at->def;
  static constexpr OperatorDef kPlugin{BuiltinOperator::CUSTOM, 1, kAnyNumber, nullptr,
                                       plugin_operator};
  return find_plugin_kernel(plugin_kernel_name(op)) == nullptr ? nullptr : &kPlugin;
}

Result<ValueId> activated(Importer& importer, ValueId value, const std::string& activation) {
  if (activation.empty()) return value;
  if (activation == "relu") return importer.append(ops::kRelu, {value});
  return importer.append(ops::kClamp, {value},
                         activation == "relu6" ? Attributes{{"min", 0.0}, {"max", 6.0}}
                                               : Attributes{{"min", -1.0}, {"max", 1.0}});
}

const OperatorDef* find_operator(BuiltinOperator code) {
  for (const std::span<const OperatorDef> operators :
       {std::span<const OperatorDef>(kOperators), elementwise_operators(), movement_operators(),
        index_operators(), recurrent_operators(), spectrum_operators(), variable_operators(),
        volume_operators(), control_operators(), detection_operators(), stablehlo_operators()})
    for (const OperatorDef& row : operators)
      if (row.code == code) return &row;
  static constexpr OperatorDef kPlain[] = {{{}, 1, 1, plain<1>}, {{}, 2, 2, plain<2>}};
  const OpDef* def = find_plain(code);
  return def == nullptr ? nullptr : &kPlain[def->schema.min_operands() - 1];
}

}  // namespace dtr::tflite
