// Pools over int8 images in channels-last order; [C, H, W] counts as C images of one channel.
//
// cortex_m::quantized_avg_pool2d.out(input, kernel_size, stride, padding, zero_point, multiplier,
// shift, scratch, out): the mean of the codes of a window, padding not counted, as TFLite's
// AVERAGE_POOL_2D; zero point and multiplier are not needed for that.
// deuteron::quantized_avg_pool2d.out(input, kernel_size, stride, padding, padding_end,
// count_include_pad, divisor, zero_point, multiplier, shift, output_zero_point, activation_min,
// activation_max, scratch, out): divided by `divisor`, or if that is 0 by the elements of a window
// that count; the multiplier rescales sums, 0 for a mean of codes.
// deuteron::quantized_adaptive_avg_pool2d.out(input, output_size, zero_point, multiplier, shift,
// output_zero_point, activation_min, activation_max, scratch, out).
// cortex_m::quantized_max_pool2d.out(input, kernel_size, stride, padding, dilation, ceil_mode,
// input_zero_point, output_zero_point, activation_min, activation_max, out);
// deuteron::adaptive_max_pool2d.out(input, output_size, out). The output's extents say how many
// windows there are.
#include "device/numerics/cortex_m_scratch.h"
#include "device/numerics/mean.h"
#include "device/runtime/kernels/cortex_m/image.h"
#include "device/runtime/kernels/cortex_m/kernels.h"

namespace dtr::runtime::cortex_m {
namespace {

// The inputs of an output along an axis: `count` of them, `step` apart.
struct Reach {
  int32_t first, count, step;
};

struct SlidingWindow {
  Axis axis;
  Reach operator()(int32_t o) const {
    const int32_t begin = axis.begin(o), end = axis.end(o);
    return {axis.first(o) + begin * axis.dilation, std::max(end - begin, int32_t{0}),
            axis.dilation};
  }
};

struct AdaptiveWindow {
  int32_t in = 1, out = 1;
  Reach operator()(int32_t o) const {
    const auto first = static_cast<int32_t>(static_cast<int64_t>(o) * in / out);
    const auto end = static_cast<int32_t>((static_cast<int64_t>(o + 1) * in + out - 1) / out);
    return {first, end - first, 1};
  }
};

// Calls window(x of the first input pixel, rows, columns, y of the output pixel, oy, ox) for every
// output pixel.
template <class Axes, class Window>
void for_each_window(const Image& in, const Image& out, const int8_t* x, int8_t* y, const Axes& h,
                     const Axes& w, Window window) {
  if (out.channels == 0 || out.height == 0 || out.width == 0) return;
  for (int32_t n = 0; n < out.batch; ++n, x += in.pixels() * in.channels) {
    for (int32_t oy = 0; oy < out.height; ++oy) {
      const Reach rows = h(oy);
      for (int32_t ox = 0; ox < out.width; ++ox, y += out.channels) {
        const Reach columns = w(ox);
        window(x + (rows.first * in.width + columns.first) * in.channels, rows, columns, y, oy, ox);
      }
    }
  }
}

// Calls pixel(x) for every input pixel of a window.
template <class Pixel>
void for_each_pixel(const Image& in, const int8_t* x, const Reach& rows, const Reach& columns,
                    Pixel pixel) {
  for (int32_t row = 0; row < rows.count; ++row, x += rows.step * in.width * in.channels) {
    const int8_t* from = x;
    for (int32_t column = 0; column < columns.count; ++column, from += columns.step * in.channels)
      pixel(from);
  }
}

// The sums of all channels of a window; `scratch` holds them where there are several.
class Sums {
 public:
  Sums(const Image& in, int32_t* scratch) : in_(in), sums_(in.channels == 1 ? &single_ : scratch) {}

  const int32_t* of(const int8_t* x, const Reach& rows, const Reach& columns) {
    int32_t first = 0;
    for (; first + 4 <= in_.channels; first += 4)
      add_up_four(x + first, rows, columns, sums_ + first);
    for (; first < in_.channels; ++first) {
      int32_t sum = 0;
      for_each_pixel(in_, x + first, rows, columns, [&](const int8_t* from) { sum += *from; });
      sums_[first] = sum;
    }
    return sums_;
  }

 private:
  // Of four channels, which stay in registers.
  void add_up_four(const int8_t* x, const Reach& rows, const Reach& columns, int32_t* to) const {
#if defined(__ARM_FEATURE_MVE)
    Lanes sums = vdupq_n_s32(0);
    for_each_pixel(in_, x, rows, columns,
                   [&](const int8_t* from) { sums = vaddq_s32(sums, vldrbq_s32(from)); });
    vst1q_s32(to, sums);
#else
    int32_t sums[4] = {};
    for_each_pixel(in_, x, rows, columns,
                   [&](const int8_t* from) { unrolled<4>([&](auto i) { sums[i] += from[i]; }); });
    std::copy_n(sums, 4, to);
#endif
  }

  const Image& in_;
  int32_t single_ = 0;
  int32_t* sums_;
};

// From the sum of codes of a window to its mean: `valid` elements exist, `divisor` count.
class Mean {
 public:
  Mean(int32_t zero_point, numerics::Requantization sum, const Finish& finish)
      : zero_point_(zero_point), sum_(sum), finish_(finish) {}

  void set(int32_t valid, int32_t divisor) {
    if (sum_.multiplier != 0 && divisor != divisor_)
      by_ = numerics::mean_requantization(sum_, divisor);
    valid_ = valid;
    divisor_ = divisor;
  }
  int8_t operator()(int32_t sum) const {
    if (sum_.multiplier != 0) return finish_(rescale(sum - valid_ * zero_point_, by_));
    const int32_t whole = sum + finish_.zero_point * (divisor_ - valid_);
    const int32_t mean = (whole > 0 ? whole + divisor_ / 2 : whole - divisor_ / 2) / divisor_;
    return static_cast<int8_t>(std::min(std::max(mean, finish_.low), finish_.high));
  }

 private:
  int32_t zero_point_;
  numerics::Requantization sum_, by_;
  Finish finish_;
  int32_t valid_ = 0, divisor_ = 0;
};

struct PoolImages {
  Image in, out;
  const int8_t* x = nullptr;
  int8_t* y = nullptr;
};

Error read_images(const Tensor& in, const Tensor& out, PoolImages* images) {
  if (!read_pool_image(in, &images->in) || !read_pool_image(out, &images->out) ||
      in.rank != out.rank || images->in.batch != images->out.batch ||
      images->in.channels != images->out.channels) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar) return Error::kKernelDtype;
  images->x = in.values<int8_t>();
  images->y = out.values<int8_t>();
  return Error::kOk;
}

// Sums of more int8 could leave int32.
constexpr int32_t kMaxWindow = 1 << 23;

bool read_windows(const PoolImages& images, std::span<const int64_t> kernel,
                  std::span<const int64_t> stride, std::span<const int64_t> padding,
                  std::span<const int64_t> dilation, SlidingWindow* h, SlidingWindow* w) {
  const auto axis = [&](size_t index, int32_t in, int32_t out) {
    const int32_t extent = entry(kernel, index);
    return Axis{in,
                out,
                extent,
                stride.empty() ? extent : entry(stride, index),
                padding.empty() ? 0 : entry(padding, index),
                dilation.empty() ? 1 : entry(dilation, index)};
  };
  h->axis = axis(0, images.in.height, images.out.height);
  w->axis = axis(1, images.in.width, images.out.width);
  return good_axes(images.in, h->axis, w->axis) && h->axis.kernel <= kMaxWindow / w->axis.kernel;
}

bool is_pool_scratch(const Tensor& scratch, const PoolImages& images) {
  const int64_t bytes = dtr::cortex_m::average_pool_scratch_bytes(images.in.channels);
  return is_scratch(scratch, bytes) &&
         is_disjoint(scratch.data, bytes, images.x, images.in.bytes()) &&
         is_disjoint(scratch.data, bytes, images.y, images.out.bytes());
}

template <class Axes, class Divisor>
void average(const PoolImages& images, const Axes& h, const Axes& w, Mean mean, int32_t* scratch,
             Divisor divisor) {
  Sums sums(images.in, scratch);
  for_each_window(images.in, images.out, images.x, images.y, h, w,
                  [&](const int8_t* x, const Reach& rows, const Reach& columns, int8_t* y,
                      int32_t oy, int32_t ox) {
                    const int32_t valid = rows.count * columns.count;
                    mean.set(valid, divisor(valid, oy, ox));
                    const int32_t* found = sums.of(x, rows, columns);
                    for (int32_t c = 0; c < images.out.channels; ++c) y[c] = mean(found[c]);
                  });
}

#if defined(__ARM_FEATURE_MVE)
// Of all channels of a window.
void write_maximum(const Image& in, const int8_t* x, const Reach& rows, const Reach& columns,
                   const Finish& range, int8_t* y) {
  for (int32_t first = 0; first < in.channels; first += 16) {
    const mve_pred16_t mask = vctp8q(static_cast<uint32_t>(in.channels - first));
    int8x16_t most = vdupq_n_s8(static_cast<int8_t>(range.low));
    for_each_pixel(in, x + first, rows, columns,
                   [&](const int8_t* from) { most = vmaxq_s8(most, vldrbq_z_s8(from, mask)); });
    vstrbq_p_s8(y + first, vminq_s8(most, vdupq_n_s8(static_cast<int8_t>(range.high))), mask);
  }
}
#else
void write_maximum(const Image& in, const int8_t* x, const Reach& rows, const Reach& columns,
                   const Finish& range, int8_t* y) {
  std::fill_n(y, in.channels, static_cast<int8_t>(range.low));
  for_each_pixel(in, x, rows, columns, [&](const int8_t* from) {
    for (int32_t c = 0; c < in.channels; ++c) y[c] = std::max(y[c], from[c]);
  });
  if (range.high == 127) return;
  for (int32_t c = 0; c < in.channels; ++c) y[c] = std::min(y[c], static_cast<int8_t>(range.high));
}
#endif

template <class Axes>
void maximum(const PoolImages& images, const Axes& h, const Axes& w, const Finish& range) {
  for_each_window(images.in, images.out, images.x, images.y, h, w,
                  [&](const int8_t* x, const Reach& rows, const Reach& columns, int8_t* y, int32_t,
                      int32_t) { write_maximum(images.in, x, rows, columns, range, y); });
}

}  // namespace

Error quantized_avg_pool2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto kernel = arguments.ints(1), stride = arguments.ints(2), padding = arguments.ints(3);
  const Tensor& scratch = arguments.output(7);
  const Tensor& out = arguments.output(8);
  PoolImages images;
  if (!arguments.good()) return Error::kKernelArguments;
  if (const Error error = read_images(in, out, &images); error != Error::kOk) return error;
  SlidingWindow h, w;
  if (!read_windows(images, kernel, stride, padding, {}, &h, &w) ||
      !is_pool_scratch(scratch, images)) {
    return Error::kKernelArguments;
  }
  average(images, h, w, Mean(0, {}, {}), scratch.values<int32_t>(),
          [](int32_t valid, int32_t, int32_t) { return std::max(valid, int32_t{1}); });
  return Error::kOk;
}

Error quantized_avg_pool2d_counted_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto kernel = arguments.ints(1), stride = arguments.ints(2), padding = arguments.ints(3),
             padding_end = arguments.ints(4);
  const bool include_pad = arguments.flag(5);
  const int64_t fixed = arguments.integer(6), zero_point = arguments.integer(7),
                multiplier = arguments.integer(8);
  const int64_t shift = arguments.integer(9), output_zero_point = arguments.integer(10);
  const int64_t low = arguments.integer(11), high = arguments.integer(12);
  const Tensor& scratch = arguments.output(13);
  const Tensor& out = arguments.output(14);
  PoolImages images;
  Finish finish;
  if (!arguments.good() || fixed < 0 || fixed > kMaxWindow || !is_code(zero_point) ||
      !good_rescaling(multiplier, shift) || !read_finish(output_zero_point, low, high, &finish)) {
    return Error::kKernelArguments;
  }
  if (const Error error = read_images(in, out, &images); error != Error::kOk) return error;
  SlidingWindow h, w;
  if (!read_windows(images, kernel, stride, padding, {}, &h, &w) || entry(padding_end, 0) < 0 ||
      entry(padding_end, 1) < 0 || !is_pool_scratch(scratch, images)) {
    return Error::kKernelArguments;
  }
  // Elements of a window up to the end of the padding.
  const auto extent = [&](const Axis& axis, int32_t o, size_t index) {
    return std::clamp(axis.in + entry(padding_end, index) - axis.first(o), int32_t{0}, axis.kernel);
  };
  const Mean mean(static_cast<int32_t>(zero_point),
                  {static_cast<int32_t>(multiplier), static_cast<int32_t>(shift)}, finish);
  average(images, h, w, mean, scratch.values<int32_t>(),
          [&](int32_t valid, int32_t oy, int32_t ox) {
            if (fixed != 0) return static_cast<int32_t>(fixed);
            return std::max(include_pad ? extent(h.axis, oy, 0) * extent(w.axis, ox, 1) : valid,
                            int32_t{1});
          });
  return Error::kOk;
}

Error quantized_adaptive_avg_pool2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto size = arguments.ints(1);
  const int64_t zero_point = arguments.integer(2), multiplier = arguments.integer(3),
                shift = arguments.integer(4);
  const int64_t output_zero_point = arguments.integer(5), low = arguments.integer(6),
                high = arguments.integer(7);
  const Tensor& scratch = arguments.output(8);
  const Tensor& out = arguments.output(9);
  PoolImages images;
  Finish finish;
  if (!arguments.good() || size.size() != 2 || !is_code(zero_point) ||
      !good_rescaling(multiplier, shift) || !read_finish(output_zero_point, low, high, &finish)) {
    return Error::kKernelArguments;
  }
  if (const Error error = read_images(in, out, &images); error != Error::kOk) return error;
  if (images.in.pixels() < 1 || images.in.pixels() > kMaxWindow ||
      !is_pool_scratch(scratch, images)) {
    return Error::kKernelArguments;
  }
  const AdaptiveWindow h{images.in.height, images.out.height}, w{images.in.width, images.out.width};
  const Mean mean(static_cast<int32_t>(zero_point),
                  {static_cast<int32_t>(multiplier), static_cast<int32_t>(shift)}, finish);
  average(images, h, w, mean, scratch.values<int32_t>(),
          [](int32_t valid, int32_t, int32_t) { return valid; });
  return Error::kOk;
}

Error quantized_max_pool2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto kernel = arguments.ints(1), stride = arguments.ints(2), padding = arguments.ints(3),
             dilation = arguments.ints(4);
  const int64_t input_zero_point = arguments.integer(6), output_zero_point = arguments.integer(7);
  const int64_t low = arguments.integer(8), high = arguments.integer(9);
  const Tensor& out = arguments.output(10);
  PoolImages images;
  Finish range;
  if (!arguments.good() || input_zero_point != output_zero_point ||
      !read_finish(output_zero_point, low, high, &range)) {
    return Error::kKernelArguments;
  }
  if (const Error error = read_images(in, out, &images); error != Error::kOk) return error;
  SlidingWindow h, w;
  if (!read_windows(images, kernel, stride, padding, dilation, &h, &w))
    return Error::kKernelArguments;
  maximum(images, h, w, range);
  return Error::kOk;
}

Error adaptive_max_pool2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(2);
  PoolImages images;
  if (!arguments.good()) return Error::kKernelArguments;
  if (const Error error = read_images(in, out, &images); error != Error::kOk) return error;
  if (images.in.pixels() < 1) return Error::kKernelArguments;
  maximum(images, AdaptiveWindow{images.in.height, images.out.height},
          AdaptiveWindow{images.in.width, images.out.width}, {});
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
