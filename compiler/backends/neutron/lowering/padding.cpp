#include "compiler/backends/neutron/lowering/padding.h"

#include "compiler/backends/neutron/lowering/weights.h"

namespace dtr::neutron {

int64_t padded_bytes(const NhwcImage& image, const ops::Window& window) {
  const auto extent = [](const ops::WindowAxis& axis) { return axis.in + axis.pad + axis.pad_end; };
  return image.batch * image.channels * extent(window.h) * extent(window.w);
}

npu::Address read_padded(Builder& builder, ValueId x, const NhwcImage& image, ops::Window& window,
                         const Origin& origin) {
  const Value& value = builder.graph().value(x);
  const auto bytes = static_cast<uint32_t>(padded_bytes(image, window));
  const int64_t height = window.h.in;
  const int64_t width = window.w.in;
  const int64_t row = image.channels * (width + window.w.pad + window.w.pad_end);
  const auto offset = static_cast<uint32_t>(window.h.pad * row + window.w.pad * image.channels);
  for (ops::WindowAxis* axis : {&window.h, &window.w}) {
    axis->in += axis->pad + axis->pad_end;
    axis->pad = axis->pad_end = 0;
  }
  const npu::Address whole = builder.temporary(bytes, value.name);
  builder.emit(
      npu::Fill{.output = whole, .bytes = bytes, .value = value.type.quantization->zero_point()},
      origin);
  const StridedLayout inside =
      strided_layout({image.batch, image.channels, height, width},
                     std::array<int64_t, 4>{row * window.h.in, 1, row, image.channels});
  builder.copy(builder.read(x, image.layout), image.layout, {whole.region, offset}, inside,
               value.type.elements(), origin);
  return whole;
}

npu::Address emit_pad(Builder& builder, npu::Window window, npu::Address input, int32_t zero_point,
                      const std::string& name, const Origin& origin) {
  const npu::Strides strides = window.in;
  window.kernel_height = window.kernel_width = window.stride_height = window.stride_width = 1;
  window.dilation_height = window.dilation_width = 1;
  window = npu::dense(window);
  window.in = strides;
  Filters identity{.out = window.out_channels, .in = window.in_channels, .weights = {}};
  identity.weights.resize(static_cast<size_t>(identity.out * identity.in));
  for (int64_t channel = 0; channel < identity.in; ++channel)
    identity.weights[static_cast<size_t>(channel * identity.in + channel)] = 1;
  const std::vector<numerics::Requantization> by_one(static_cast<size_t>(identity.out),
                                                     {1 << 30, 1});
  npu::Conv2d pad{.window = window, .input = input, .pad_value = zero_point};
  pad.parameters =
      builder.constant(pack_parameters(identity, {}, zero_point, by_one, builder.target()));
  pad.weights = builder.constant(pack_conv2d(identity, npu::Packing::kChannels, builder.target()));
  pad.packing = npu::Packing::kChannels;
  pad.epilogue.zero_point_out = zero_point;
  pad.epilogue.clamp_low = -128;
  pad.epilogue.clamp_high = 127;
  pad.output = builder.temporary(window.batch * window.out.batch, name);
  builder.emit(pad, origin);
  return pad.output;
}

}  // namespace dtr::neutron
