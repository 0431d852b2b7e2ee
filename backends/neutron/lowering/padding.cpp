#include "backends/neutron/lowering/padding.h"

namespace dtr::neutron {

int64_t padded_bytes(const Image& image, const ops::Window& window) {
  const auto extent = [](const ops::WindowAxis& axis) { return axis.in + axis.pad + axis.pad_end; };
  return image.batch * image.channels * extent(window.h) * extent(window.w);
}

npu::Address read_padded(Builder& builder, ValueId x, const Image& image, ops::Window& window, const Origin& origin) {
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
  builder.emit(npu::Fill{.output = whole, .bytes = bytes, .value = value.type.quantization->zero_point()}, origin);
  const Order inside =
      strided_order({image.batch, image.channels, height, width}, std::array<int64_t, 4>{row * window.h.in, 1, row, image.channels});
  builder.copy(builder.read(x, image.order), image.order, {whole.region, offset}, inside, value.type.elements(), origin);
  return whole;
}

}  // namespace dtr::neutron
