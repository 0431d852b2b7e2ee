// Convolutions over three dimensions, as those over two.
#include <algorithm>

#include "compiler/compositions/windows.h"
#include "compiler/frontends/tflite/importer.h"

namespace dtr::tflite {
namespace {

using fb::BuiltinOperator;
using fb::OptionsType;
using Builder = Importer::Builder;

// (N, D, H, W, C) with a weight of (D, H, W, I, O).
Result<ValueId> conv_3d(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(const fb::Conv3DOptions* options,
             importer.options<fb::Conv3DOptions>(OptionsType::Conv3DOptions));
  DTR_ASSIGN(const std::string activation,
             importer.activation(options->fused_activation_function()));
  const Shape &in = importer.tensor(0).shape, &weight = importer.tensor(1).shape;
  if (in.size() != 5 || weight.size() != 5)
    return importer.invalid("its operands have not five dimensions");
  const Ints stride{options->stride_d(), options->stride_h(), options->stride_w()};
  const Ints dilation{options->dilation_d_factor(), options->dilation_h_factor(),
                      options->dilation_w_factor()};
  Ints pad(6);
  for (size_t i = 0; i < 3; ++i) {
    if (stride[i] < 1 || dilation[i] < 1 || stride[i] > 65536 || dilation[i] > 65536)
      return importer.invalid("a stride or dilation is out of range");
    if (options->padding() == fb::Padding::VALID) continue;
    const int64_t out = (in[1 + i] + stride[i] - 1) / stride[i];
    const int64_t total =
        std::max<int64_t>((out - 1) * stride[i] + (weight[i] - 1) * dilation[i] + 1 - in[1 + i], 0);
    pad[2 * (2 - i)] = total / 2;
    pad[2 * (2 - i) + 1] = total - total / 2;
  }
  DTR_ASSIGN(ValueId x, importer.real_value(0));
  DTR_ASSIGN(x, builder.permute(x, {0, 4, 1, 2, 3}));
  DTR_ASSIGN(x, builder.pad(x, pad, 0));
  compositions::Convolution3d of{
      .stride = stride, .padding = {0, 0, 0}, .dilation = dilation, .groups = 1};
  DTR_ASSIGN(of.weight, importer.permuted_constant(1, {4, 3, 0, 1, 2}, 0));
  if (importer.has(2)) {
    DTR_ASSIGN(of.bias, importer.value(2));
  }
  DTR_ASSIGN(x, compositions::convolution3d(builder, x, of));
  DTR_ASSIGN(x, builder.permute(x, {0, 2, 3, 4, 1}));
  return activated(importer, x, activation);
}

// Operands: the shape of the result, the weight as above, x. SAME says what is cut off: the padding
// of the convolution whose input has that shape. What no window reaches is the bias alone.
Result<ValueId> conv_3d_transpose(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(const fb::Conv3DOptions* options,
             importer.options<fb::Conv3DOptions>(OptionsType::Conv3DOptions));
  DTR_ASSIGN(const std::string activation,
             importer.activation(options->fused_activation_function()));
  DTR_ASSIGN(const Shape to, importer.integers(0));
  const Shape &weight = importer.tensor(1).shape, &in = importer.tensor(2).shape;
  if (in.size() != 5 || weight.size() != 5 || to.size() != 5)
    return importer.invalid("its operands have not five dimensions");
  compositions::Convolution3d of{
      .stride = {options->stride_d(), options->stride_h(), options->stride_w()},
      .padding = {0, 0, 0},
      .dilation = {options->dilation_d_factor(), options->dilation_h_factor(),
                   options->dilation_w_factor()}};
  DTR_TRY(importer.check_shape(to));
  DTR_ASSIGN(of.weight, importer.permuted_constant(1, {4, 3, 0, 1, 2}, 1));
  DTR_ASSIGN(ValueId x, importer.real_value(2));
  DTR_ASSIGN(x, builder.permute(x, {0, 4, 1, 2, 3}));
  for (size_t i = 0; i < 3; ++i)
    if (of.stride[i] < 1 || of.dilation[i] < 1 || of.stride[i] > 65536 || of.dilation[i] > 65536)
      return importer.invalid("a stride or dilation is out of range");
  DTR_ASSIGN(x, compositions::transposed_convolution3d(builder, x, of, {0, 0, 0}));
  Ints behind(6);
  for (size_t i = 0; i < 3; ++i) {
    const auto dim = static_cast<int64_t>(2 + i);
    const int64_t made = importer.type(x).shape[2 + i], wanted = to[1 + i];
    const int64_t before =
        options->padding() == fb::Padding::SAME ? std::max<int64_t>(made - wanted, 0) / 2 : 0;
    DTR_ASSIGN(x, builder.slice(x, dim, before, before + wanted));
    behind[2 * (2 - i) + 1] = wanted - importer.type(x).shape[2 + i];
  }
  DTR_ASSIGN(x, builder.pad(x, behind, 0));
  DTR_ASSIGN(x, builder.permute(x, {0, 2, 3, 4, 1}));
  if (importer.has(3)) {
    DTR_ASSIGN(const ValueId bias, importer.real_value(3));
    DTR_ASSIGN(x, builder.emit("aten.add.Tensor", {x, bias}));
  }
  return activated(importer, x, activation);
}

constexpr OperatorDef kVolumeOperators[] = {
    {BuiltinOperator::CONV_3D, 2, 3, conv_3d},
    {BuiltinOperator::CONV_3D_TRANSPOSE, 3, 4, conv_3d_transpose},
};

}  // namespace

std::span<const OperatorDef> volume_operators() { return kVolumeOperators; }

}  // namespace dtr::tflite
