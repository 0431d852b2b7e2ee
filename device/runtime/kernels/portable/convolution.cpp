// aten::convolution.out(input, weight, bias, stride, padding, dilation, transposed, output_padding,
// groups, out): one or two spatial dimensions, float. Weight [C_out, C_in / groups, …]; transposed:
// [C_in, C_out / groups, …].
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/window.h"

namespace dtr::runtime::portable {
namespace {

struct Convolution {
  Image in, weight, out;
  Axis vertical, horizontal;
  int64_t groups;
  const float* x;
  const float* w;
  const float* bias;  // null: none
  float* y;
};

// A loop over products: how many, and by how much input and weight move.
struct Loop {
  int32_t count, in, weight;
};

// The products of one element of the result, summed in the order in which ExecuTorch's kernel does
// it, so that results are the same bit for bit.
float sum_of_products(const float* x, const float* w, const Loop (&loops)[3]) {
  const auto [outer, middle, inner] = loops;
  float sum = 0;
  for (int32_t i = outer.count; i > 0; --i, x += outer.in, w += outer.weight) {
    const float *line = x, *taps = w;
    for (int32_t j = middle.count; j > 0; --j, line += middle.in, taps += middle.weight) {
      const float *value = line, *tap = taps;
      for (int32_t k = inner.count; k > 0; --k, value += inner.in, tap += inner.weight)
        sum += *value * *tap;
    }
  }
  return sum;
}

void run(const Convolution& c) {
  const int32_t group_in = static_cast<int32_t>(c.in.channels / c.groups);
  const int32_t group_out = static_cast<int32_t>(c.out.channels / c.groups);
  const Loop channels{group_in, c.in.channel_stride, c.weight.channel_stride};
  // From tap to tap. A dilation may be larger than any input, which then meets one tap.
  const auto step = [](const Taps& taps, const Axis& axis, int32_t stride) {
    return taps.count > 1 ? static_cast<int32_t>(axis.dilation) * stride : 0;
  };
  for (int32_t row = 0; row < c.out.height; ++row) {
    const Taps vertical = taps_of(c.vertical, row, c.in.height);
    const Loop rows{vertical.count, step(vertical, c.vertical, c.in.row_stride),
                    c.weight.row_stride};
    for (int32_t column = 0; column < c.out.width; ++column) {
      const Taps horizontal = taps_of(c.horizontal, column, c.in.width);
      const Loop columns{horizontal.count, step(horizontal, c.horizontal, c.in.column_stride),
                         c.weight.column_stride};
      const bool outside = rows.count == 0 || columns.count == 0;
      const int32_t from = vertical.from * c.in.row_stride + horizontal.from * c.in.column_stride;
      const int32_t first =
          vertical.first * c.weight.row_stride + horizontal.first * c.weight.column_stride;
      // With one tap the channels are the loop that runs without another one around each step.
      const Loop one{1, 0, 0};
      const bool single = rows.count == 1 && columns.count == 1;
      const Loop loops[3] = {single ? one : channels, single ? one : rows,
                             single ? channels : columns};
      for (int32_t n = 0; n < c.out.batch; ++n) {
        for (int32_t o = 0; o < c.out.channels; ++o) {
          const float* x =
              c.x + n * c.in.batch_stride + (o / group_out) * group_in * c.in.channel_stride + from;
          float sum =
              outside ? 0 : sum_of_products(x, c.w + o * c.weight.batch_stride + first, loops);
          if (c.bias != nullptr) sum += c.bias[o];
          c.y[n * c.out.batch_stride + o * c.out.channel_stride + row * c.out.row_stride +
              column * c.out.column_stride] = sum;
        }
      }
    }
  }
}

// Every input element is spread over the window that it meets in the output. Here the axes describe
// output → input.
void run_transposed(const Convolution& c) {
  const auto down = static_cast<int32_t>(c.vertical.dilation),
             right = static_cast<int32_t>(c.horizontal.dilation);
  const int32_t group_in = static_cast<int32_t>(c.in.channels / c.groups);
  const int32_t group_out = static_cast<int32_t>(c.out.channels / c.groups);
  for (int32_t n = 0; n < c.out.batch; ++n) {
    for (int32_t o = 0; o < c.out.channels; ++o) {
      float* y = c.y + n * c.out.batch_stride + o * c.out.channel_stride;
      for (int32_t row = 0; row < c.out.height; ++row) {
        for (int32_t column = 0; column < c.out.width; ++column) {
          y[row * c.out.row_stride + column * c.out.column_stride] =
              c.bias == nullptr ? 0.0f : c.bias[o];
        }
      }
      for (int32_t i = 0; i < group_in; ++i) {
        const int32_t channel = (o / group_out) * group_in + i;
        const float* x = c.x + n * c.in.batch_stride + channel * c.in.channel_stride;
        const float* w =
            c.w + channel * c.weight.batch_stride + (o % group_out) * c.weight.channel_stride;
        for (int32_t row = 0; row < c.in.height; ++row) {
          const Taps vertical = taps_of(c.vertical, row, c.out.height);
          for (int32_t column = 0; column < c.in.width; ++column) {
            const Taps horizontal = taps_of(c.horizontal, column, c.out.width);
            const float value = x[row * c.in.row_stride + column * c.in.column_stride];
            for (int32_t kh = 0; kh < vertical.count; ++kh) {
              const int32_t out_row = vertical.from + kh * down;
              const float* taps = w + (vertical.first + kh) * c.weight.row_stride;
              for (int32_t kw = 0; kw < horizontal.count; ++kw) {
                const int32_t out_column = horizontal.from + kw * right;
                y[out_row * c.out.row_stride + out_column * c.out.column_stride] +=
                    value * taps[(horizontal.first + kw) * c.weight.column_stride];
              }
            }
          }
        }
      }
    }
  }
}

bool extents_fit(const Axis& axis, int32_t in, int32_t out, bool transposed,
                 int64_t output_padding) {
  if (!transposed) return out == axis.out_extent(in, false);
  return output_padding >= 0 && output_padding < std::max(axis.stride, axis.dilation) &&
         out == (in - 1) * axis.stride - 2 * axis.padding + axis.dilation * (axis.kernel - 1) +
                    output_padding + 1;
}

}  // namespace

Error convolution_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& weight = arguments.tensor(1);
  const Tensor* bias = arguments.optional_tensor(2);
  const auto stride = arguments.ints(3);
  const auto padding = arguments.ints(4);
  const auto dilation = arguments.ints(5);
  const bool transposed = arguments.flag(6);
  const auto output_padding = arguments.ints(7);
  const int64_t groups = arguments.integer(8);
  const Tensor& out = arguments.output(9);
  if (!arguments.good() || (in.rank != 3 && in.rank != 4) || weight.rank != in.rank ||
      out.rank != in.rank)
    return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || weight.dtype != ScalarType::kFloat ||
      out.dtype != ScalarType::kFloat || (bias != nullptr && bias->dtype != ScalarType::kFloat)) {
    return Error::kKernelDtype;
  }
  Convolution c{.in = image_of(in),
                .weight = image_of(weight),
                .out = image_of(out),
                .vertical = {},
                .horizontal = {},
                .groups = groups,
                .x = in.values<float>(),
                .w = weight.values<float>(),
                .bias = bias == nullptr ? nullptr : bias->values<float>(),
                .y = out.values<float>()};
  const size_t last = in.rank - 3u;  // index of the width in the lists
  c.horizontal = {c.weight.width, per_axis(stride, last, 1), per_axis(padding, last, 0),
                  per_axis(dilation, last, 1)};
  if (in.rank == 4)
    c.vertical = {c.weight.height, per_axis(stride, 0, 1), per_axis(padding, 0, 0),
                  per_axis(dilation, 0, 1)};
  if (!c.vertical.is_valid() || !c.horizontal.is_valid() || groups < 1 ||
      c.in.channels % groups != 0 || c.out.channels % groups != 0 || c.in.batch != c.out.batch) {
    return Error::kKernelArguments;
  }
  const int64_t weight_outer = transposed ? c.in.channels : c.out.channels;
  const int64_t weight_inner = (transposed ? c.out.channels : c.in.channels) / groups;
  if (c.weight.batch != weight_outer || c.weight.channels != weight_inner ||
      (bias != nullptr && (bias->rank != 1 || bias->sizes[0] != c.out.channels)) ||
      !extents_fit(c.horizontal, c.in.width, c.out.width, transposed,
                   per_axis(output_padding, last, 0)) ||
      !extents_fit(c.vertical, c.in.height, c.out.height, transposed,
                   in.rank == 4 ? per_axis(output_padding, 0, 0) : 0)) {
    return Error::kKernelArguments;
  }
  if (is_empty(out)) return Error::kOk;
  transposed ? run_transposed(c) : run(c);
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
