// cortex_m::quantized_conv2d.out(input, weight [O, kH, kW, I], bias?, stride, padding, dilation,
// input_offset, output_offset, multipliers [O], shifts [O], activation_min, activation_max,
// scratch, out): int8, channels-last. I channels of the input make a group; padding stands before
// the first element, what follows the last one is given by the output's extents.
//
// The inputs of an output are gathered in the order of the weights, unless they have it: as bytes,
// for a row of inputs times the matrix of weights, or with the DSP extension as columns of int16,
// two at a time, as two rows of weights times two columns use every loaded weight and input twice.
#include <type_traits>

#include "device/runtime/kernels/cortex_m/convolution_arguments.h"
#include "device/runtime/kernels/cortex_m/kernels.h"
#include "device/runtime/kernels/cortex_m/rows.h"

namespace dtr::runtime::cortex_m {
namespace {

struct Convolution {
  ConvolutionArguments from;
  int32_t groups = 1, group_in = 1, group_out = 1;  // channels of a group
  int32_t depth = 1;                                // inputs of an output
  bool point = false;                               // one pixel each: in the order of the weights

  dtr::cortex_m::ConvolutionForm form() const {
    return {depth, group_in, from.out.channels, from.out.pixels(), point, from.offset != 0};
  }
};

// Calls `to` for the elements of the column of output (oy, ox), in order: to.clear(first, count)
// for padding, to.copy(first, from, count) for inputs. `x` is the group's first channel in the
// sample.
template <class Destination>
void gather(const Convolution& conv, const int8_t* x, int32_t oy, int32_t ox,
            const Destination& to) {
  const Axis &h = conv.from.h, &w = conv.from.w;
  const int32_t pixel = conv.from.in.channels, line = conv.from.in.width * pixel,
                run = conv.group_in, row = w.kernel * run;
  const int32_t left = w.begin(ox), right = std::max(left, w.end(ox));
  const int32_t top = h.begin(oy), bottom = std::max(top, h.end(oy));
  const int8_t* from =
      x + (h.first(oy) + top * h.dilation) * line + (w.first(ox) + left * w.dilation) * pixel;
  const bool dense = w.dilation == 1 && run == pixel;
  to.clear(0, top * row);
  for (int32_t first = top * row; first < bottom * row; first += row, from += h.dilation * line) {
    to.clear(first, left * run);
    if (dense) {
      to.copy(first + left * run, from, (right - left) * run);
    } else {
      for (int32_t tap = left; tap < right; ++tap)
        to.copy(first + tap * run, from + (tap - left) * w.dilation * pixel, run);
    }
    to.clear(first + right * run, (w.kernel - right) * run);
  }
  to.clear(bottom * row, (h.kernel - bottom) * row);
}

const int8_t* pixel_of(const Convolution& conv, const int8_t* x, int32_t oy, int32_t ox) {
  return x + (conv.from.h.first(oy) * conv.from.in.width + conv.from.w.first(ox)) *
                 conv.from.in.channels;
}

struct ByteColumn {
  int8_t* to;
  int8_t zero;  // the input's zero point

  void clear(int32_t first, int32_t count) const { Loops::fill(zero, count, to + first); }
  void copy(int32_t first, const int8_t* from, int32_t count) const {
    Loops::copy(from, count, to + first);
  }
};

// ---- columns of int16

struct WideColumn {
  Column column;
  int32_t offset;

  void clear(int32_t first, int32_t count) const { DspLoops::clear(count, column, first); }
  void copy(int32_t first, const int8_t* from, int32_t count) const {
    DspLoops::expand(from, count, offset, column, first);
  }
};

// Output channels [channel, channel + kRows) of `kColumns` gathered pixels, `pixel` bytes
// apart.
template <int kRows, int kColumns>
[[gnu::always_inline]] inline void multiply_rows(const Channels& channels, const int8_t* weights,
                                                 int32_t channel, const int16_t* columns,
                                                 int32_t depth, int8_t* y, int32_t pixel) {
  int32_t sums[kRows][kColumns];
  unrolled<kRows>([&](auto row) {
    const int32_t bias = channels.bias(channel + row);
    unrolled<kColumns>([&](auto column) { sums[row][column] = bias; });
  });
  DspLoops::multiply<kRows, kColumns>(weights, columns, depth, sums);
  unrolled<kRows>([&](auto row) {
    const int32_t multiplier = channels.multipliers[channel + row],
                  shift = channels.shifts[channel + row];
    unrolled<kColumns>([&](auto column) {
      y[column * pixel + channel + row] = channels.finish(sums[row][column], multiplier, shift);
    });
  });
}

// All outputs of a group for `kColumns` gathered pixels.
template <int kColumns>
[[gnu::noinline]] void multiply_columns(const Convolution& conv, const int8_t* weights,
                                        int32_t first_channel, const int16_t* columns, int8_t* y) {
  const Channels channels = conv.from.channels;
  const int32_t depth = conv.depth, end = first_channel + conv.group_out,
                pixel = conv.from.out.channels;
  int32_t channel = first_channel;
  for (; channel + 2 <= end; channel += 2, weights += 2 * depth) {
    multiply_rows<2, kColumns>(channels, weights, channel, columns, depth, y, pixel);
  }
  if (channel < end)
    multiply_rows<1, kColumns>(channels, weights, channel, columns, depth, y, pixel);
}

[[maybe_unused]] void convolve_wide(const Convolution& conv, int32_t group, const int8_t* x,
                                    int8_t* y) {
  const int32_t depth = conv.depth, first_channel = group * conv.group_out,
                pixels = conv.from.out.pixels();
  int16_t* const scratch = conv.from.scratch.values<int16_t>();
  int8_t* const bytes = reinterpret_cast<int8_t*>(scratch + std::min(pixels, int32_t{2}) * depth);
  const int8_t* const weights = conv.from.weights + first_channel * depth;
  const int32_t offset = conv.from.offset, width = conv.from.out.width;
  const auto zero = static_cast<int8_t>(-offset);
  const bool point = conv.point, words = conv.group_in % 4 == 0;
  x += group * conv.group_in;
  int32_t oy = 0, ox = 0;
  const auto gather_next = [&](int32_t index, int32_t columns) {
    const WideColumn column{{scratch, index, columns, depth}, offset};
    if (point) {
      DspLoops::expand(pixel_of(conv, x, oy, ox), depth, offset, column.column, 0);
    } else if (words) {
      gather(conv, x, oy, ox, column);
    } else {
      gather(conv, x, oy, ox, ByteColumn{bytes, zero});
      DspLoops::expand(bytes, depth, offset, column.column, 0);
    }
    if (++ox == width) ox = 0, ++oy;
  };
  int32_t pixel = 0;
  for (; pixel + 2 <= pixels; pixel += 2, y += 2 * conv.from.out.channels) {
    gather_next(0, 2);
    gather_next(1, 2);
    multiply_columns<2>(conv, weights, first_channel, scratch, y);
  }
  if (pixel < pixels) {
    gather_next(0, 1);
    multiply_columns<1>(conv, weights, first_channel, scratch, y);
  }
}

// ---- columns of bytes

[[maybe_unused]] void convolve_bytes(const Convolution& conv, int32_t group, const int8_t* x,
                                     int8_t* y) {
  const int32_t first_channel = group * conv.group_out;
  Matrix matrix{.weights = conv.from.weights + first_channel * conv.depth,
                .depth = conv.depth,
                .outputs = conv.group_out,
                .offset = conv.from.offset};
  EachOutput output{conv.from.channels};
  if (output.channels.biases != nullptr) matrix.biases = output.channels.biases + first_channel;
  output.channels.multipliers += first_channel;
  output.channels.shifts += first_channel;
  int8_t* bytes = conv.from.scratch.values<int8_t>();
  if (Loops::kFoldsOffset && matrix.offset != 0) {
    fold_offset(matrix, conv.from.scratch.values<int32_t>());
    bytes += 4 * conv.from.out.channels;
  }
  x += group * conv.group_in;
  y += first_channel;
  const int32_t y_step = conv.from.out.channels;
  if (conv.point) {
    const int32_t x_step = conv.from.w.stride * conv.from.in.channels, width = conv.from.out.width;
    for (int32_t oy = 0; oy < conv.from.out.height; ++oy, y += width * y_step) {
      multiply_rows(matrix, {pixel_of(conv, x, oy, 0), x_step, y, y_step, width}, output);
    }
    return;
  }
  int32_t oy = 0, ox = 0;
  for (int32_t left = conv.from.out.pixels(); left > 0;) {
    const int32_t columns =
        static_cast<int32_t>(std::min<int64_t>(left, dtr::cortex_m::kByteColumns));
    for (int32_t i = 0; i < columns; ++i) {
      gather(conv, x, oy, ox,
             ByteColumn{bytes + i * conv.depth, static_cast<int8_t>(-conv.from.offset)});
      if (++ox == conv.from.out.width) ox = 0, ++oy;
    }
    multiply_rows(matrix, {bytes, conv.depth, y, y_step, columns}, output);
    y += columns * y_step;
    left -= columns;
  }
}

void convolve_group(const Convolution& conv, int32_t group, const int8_t* x, int8_t* y) {
  if constexpr (std::is_same_v<Loops, DspLoops>) {
    convolve_wide(conv, group, x, y);
  } else {
    convolve_bytes(conv, group, x, y);
  }
}

}  // namespace

Error quantized_conv2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  Convolution conv;
  if (const Error error =
          read_convolution(arguments, {.dilation = 5, .input_offset = 6, .out = 13}, &conv.from);
      error != Error::kOk) {
    return error;
  }
  const int32_t* sizes = conv.from.weight_sizes;
  const Image &in = conv.from.in, &out = conv.from.out;
  conv.group_in = sizes[3];
  if (conv.group_in < 1 || in.channels % conv.group_in != 0 || sizes[0] != out.channels)
    return Error::kKernelArguments;
  conv.groups = in.channels / conv.group_in;
  if (conv.groups < 1 || out.channels % conv.groups != 0) return Error::kKernelArguments;
  conv.group_out = out.channels / conv.groups;
  conv.depth = sizes[1] * sizes[2] * conv.group_in;
  conv.point = conv.from.h.is_point() && conv.from.w.is_point();
  if (!is_scratch_of_core(conv.from.scratch, [&](auto core) {
        return dtr::cortex_m::convolution_scratch_bytes(core, conv.form());
      })) {
    return Error::kKernelArguments;
  }
  for (int32_t n = 0; n < in.batch; ++n) {
    for (int32_t group = 0; group < conv.groups; ++group)
      convolve_group(conv, group, conv.from.input_of(n), conv.from.output_of(n));
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
