// aten::pixel_shuffle.out(self, upscale_factor, out): (…, C·r·r, H, W) to (…, C, H·r, W·r), and
// aten::pixel_unshuffle.out(self, downscale_factor, out), the inverse; any dtype.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

// Strides of `deep` (…, C·r·r, H, W) and of `wide` (…, C, H·r, W·r) by one list of dimensions: …,
// C, r, r, H, W.
Error shuffle(std::span<Value* const> values, bool widens) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t factor = arguments.integer(1);
  const Tensor& out = arguments.output(2);
  const Tensor& deep = widens ? in : out;
  const Tensor& wide = widens ? out : in;
  if (!arguments.good() || in.rank != out.rank || in.rank < 3 || in.rank + size_t{2} > kMaxRank ||
      factor < 1 || factor > INT16_MAX)
    return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  const int channel = in.rank - 3;
  for (int d = 0; d < channel; ++d) {
    if (in.sizes[d] != out.sizes[d]) return Error::kKernelArguments;
  }
  if (deep.sizes[channel] != wide.sizes[channel] * factor * factor ||
      wide.sizes[channel + 1] != deep.sizes[channel + 1] * factor ||
      wide.sizes[channel + 2] != deep.sizes[channel + 2] * factor)
    return Error::kKernelArguments;
  if (is_empty(in)) return Error::kOk;
  const auto r = static_cast<int32_t>(factor);
  const Strides of_deep = strides_of(deep), of_wide = strides_of(wide);
  Strides deep_strides = of_deep, wide_strides = of_wide;
  int32_t sizes[kMaxRank];
  std::copy_n(wide.sizes, channel + 1, sizes);
  const int32_t height = of_wide.of[channel + 1], width = of_wide.of[channel + 2];
  const auto set = [&](int dim, int32_t size, int32_t deep_stride, int32_t wide_stride) {
    sizes[dim] = size;
    deep_strides.of[dim] = deep_stride;
    wide_strides.of[dim] = wide_stride;
  };
  deep_strides.of[channel] = of_deep.of[channel] * r * r;
  set(channel + 1, r, of_deep.of[channel] * r, height);
  set(channel + 2, r, of_deep.of[channel], width);
  set(channel + 3, deep.sizes[channel + 1], of_deep.of[channel + 1], height * r);
  set(channel + 4, deep.sizes[channel + 2], of_deep.of[channel + 2], width * r);
  return move_elements(in.data, widens ? deep_strides : wide_strides, out.data,
                       widens ? wide_strides : deep_strides,
                       {sizes, static_cast<size_t>(in.rank) + 2}, byte_size(in.dtype));
}

}  // namespace

Error pixel_shuffle_out(std::span<Value* const> values) { return shuffle(values, true); }
Error pixel_unshuffle_out(std::span<Value* const> values) { return shuffle(values, false); }

}  // namespace dtr::runtime::portable
