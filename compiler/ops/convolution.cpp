// aten.convolution: x ∗ weight + bias over one or two spatial dimensions, with stride, dilation,
// groups, padding (of its own size at the end if `padding_end` says so), or transposed; then the
// fused activation.
//
// Evaluation gathers the inputs of up to kColumns outputs as columns of a matrix (one row an input
// channel and tap) and multiplies by the weights.
#include "compiler/ops/convolution.h"

#include "compiler/ops/integer.h"
#include "compiler/ops/matmul.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(check_activation(view));
  DTR_TRY(check_fused_activation(view));
  const Shape& x = view.operand(0).shape;
  const Shape& weight = view.operand(1).shape;
  if ((x.size() != 3 && x.size() != 4) || weight.size() != x.size())
    return broken(view, fmt::format("operand {} and weight {}, expected 3 or 4 dimensions of both",
                                    to_string(x), to_string(weight)));
  for (const Shape* shape : {&x, &weight})
    for (const int64_t extent : *shape)
      if (extent < 1 || extent > kMaxExtent)
        return broken(view, fmt::format("operand {} and weight {}, expected extents of 1 to {}",
                                        to_string(x), to_string(weight), kMaxExtent));
  const size_t spatial = x.size() - 2;
  DTR_TRY(check_ints(view, "stride", spatial, 1, kMaxExtent));
  DTR_TRY(check_ints(view, "padding", spatial, 0, kMaxExtent));
  DTR_TRY(check_ints(view, "dilation", spatial, 1, kMaxExtent));
  DTR_TRY(check_ints(view, "output_padding", spatial, 0, kMaxExtent));
  if (view.attributes->find("padding_end") != nullptr)
    DTR_TRY(check_ints(view, "padding_end", spatial, 0, kMaxExtent));

  const bool transposed = view.attribute<bool>("transposed");
  const int64_t groups = view.attribute<int64_t>("groups");
  if (groups < 1 || groups > kMaxExtent || x[1] % groups != 0 || weight[0] % groups != 0 ||
      (transposed ? weight[0] != x[1] : weight[1] != x[1] / groups))
    return broken(view, fmt::format("operand {} and weight {} do not make {} groups", to_string(x),
                                    to_string(weight), groups));
  for (size_t i = 0; i < spatial; ++i)
    if (const int64_t extra = view.attribute<Ints>("output_padding")[i];
        transposed ? extra >= std::max(view.attribute<Ints>("stride")[i],
                                       view.attribute<Ints>("dilation")[i])
                   : extra != 0)
      return broken(
          view,
          fmt::format(
              "`output_padding` {} is not below stride or dilation of a transposed convolution",
              extra));
  DTR_TRY(
      check_weight_and_bias(view, transposed ? 1 : 0, transposed ? weight[1] * groups : weight[0]));

  const auto [h, w] = convolution_shape(view).window;
  if ((transposed ? std::min(h.in, w.in) : std::min(h.out, w.out)) < 1)
    return broken(view, fmt::format("the kernel of weight {} does not fit the operand {}",
                                    to_string(weight), to_string(x)));
  return check_result_shape(view, view.def->infer(view).front().shape);
}

std::vector<Type> infer(const OpView& view) {
  const ConvolutionShape shape = convolution_shape(view);
  const auto& [h, w] = shape.window;
  Type type{.dtype = view.operand(0).dtype, .shape = {shape.batch, shape.groups * shape.out}};
  if (view.operand(0).rank() == 4) type.shape.push_back(shape.transposed ? h.in : h.out);
  type.shape.push_back(shape.transposed ? w.in : w.out);
  return {type};
}

// Row (c, kh, kw) of the columns of outputs [begin, begin + count) of one sample and group: the
// input under that tap, 0 in the padding.
template <class T>
void gather(const ConvolutionShape& shape, const T* x, int64_t begin, int64_t count, T* columns) {
  const auto& [h, w] = shape.window;
  for (int64_t c = 0; c < shape.in; ++c, x += h.in * w.in)
    for (int64_t kh = 0; kh < h.kernel; ++kh)
      for (int64_t kw = 0; kw < w.kernel; ++kw, columns += count) {
        const WindowAxis::Taps inside = w.outputs(kw);
        for (int64_t at = begin; at < begin + count;) {
          const int64_t oh = at / w.out;
          const int64_t first = at % w.out;
          const int64_t last = std::min(w.out, first + begin + count - at);
          const int64_t ih = h.first(oh) + kh * h.dilation;
          const bool padding = ih < 0 || ih >= h.in;
          const int64_t from = padding ? last : std::clamp(inside.begin, first, last);
          const int64_t end = padding ? last : std::clamp(inside.end, from, last);
          T* to = columns + (at - begin);
          std::fill_n(to, from - first, T{});
          const int64_t row = ih * w.in + kw * w.dilation - w.pad;
          if (w.stride == 1) {
            if (end > from) std::copy(x + row + from, x + row + end, to + from - first);
          } else {
            for (int64_t ow = from; ow < end; ++ow) to[ow - first] = x[row + ow * w.stride];
          }
          std::fill_n(to + end - first, last - end, T{});
          at += last - first;
        }
      }
}

// y += x ∗ weight for one sample and group.
template <class T, class Sum>
void convolve(const ConvolutionShape& shape, const T* x, const T* weight, Sum* y,
              std::vector<T>& scratch) {
  const auto& [h, w] = shape.window;
  const int64_t depth = shape.in * shape.taps();
  const int64_t plane = shape.y_plane();
  const bool columns_are_x = shape.taps() == 1 && h.stride == 1 && w.stride == 1 &&
                             plane == shape.x_plane() && h.pad == 0 && w.pad == 0;
  if (columns_are_x) return multiply_add(weight, x, y, shape.out, depth, plane, plane, plane);
  constexpr int64_t kColumns = 128;
  scratch.resize(static_cast<size_t>(depth * std::min(kColumns, plane)));
  for (int64_t begin = 0; begin < plane; begin += kColumns) {
    const int64_t count = std::min(kColumns, plane - begin);
    gather(shape, x, begin, count, scratch.data());
    multiply_add(weight, scratch.data(), y + begin, shape.out, depth, count, count, plane);
  }
}

// y += the transposed convolution of one sample and group: every input adds its multiples of the
// weights to a window of the result.
template <class T, class Sum>
void convolve_transposed(const ConvolutionShape& shape, const T* x, const T* weight, Sum* y) {
  const auto& [h, w] = shape.window;
  for (int64_t ic = 0; ic < shape.in; ++ic)
    for (int64_t oc = 0; oc < shape.out; ++oc)
      for (int64_t kh = 0; kh < h.kernel; ++kh)
        for (int64_t kw = 0; kw < w.kernel; ++kw) {
          const T factor = weight[((ic * shape.out + oc) * h.kernel + kh) * w.kernel + kw];
          const WindowAxis::Taps rows = h.outputs(kh);
          const WindowAxis::Taps columns = w.outputs(kw);
          for (int64_t ih = rows.begin; ih < rows.end; ++ih) {
            const T* from = x + (ic * h.out + ih) * w.out;
            const int64_t to =
                (oc * h.in + h.first(ih) + kh * h.dilation) * w.in + kw * w.dilation - w.pad;
            for (int64_t iw = columns.begin; iw < columns.end; ++iw)
              y[to + iw * w.stride] += product<Sum>(factor, from[iw]);
          }
        }
}

// y += the convolution of one sample and group, of either kind.
template <class T, class Sum>
void add_group(const ConvolutionShape& shape, const T* x, const T* weight, Sum* y,
               std::vector<T>& scratch) {
  if (shape.transposed) {
    convolve_transposed(shape, x, weight, y);
  } else {
    convolve(shape, x, weight, y, scratch);
  }
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const ConvolutionShape shape = convolution_shape(view);
  const T* x = operands[0].values<T>().data();
  const T* weight = operands[1].values<T>().data();
  T* y = results[0].values<T>().data();
  const RealBounds bounds = activation_bounds(view);
  const int64_t y_step = shape.out * shape.y_plane();
  std::vector<T> scratch;
  for (int64_t n = 0; n < shape.batch; ++n)
    for (int64_t g = 0; g < shape.groups; ++g, x += shape.in * shape.x_plane(), y += y_step) {
      for (int64_t o = 0; o < shape.out; ++o)
        std::fill_n(
            y + o * shape.y_plane(), shape.y_plane(),
            view.has(2) ? operands[2].values<T>()[static_cast<size_t>(g * shape.out + o)] : T{});
      add_group(shape, x, weight + g * shape.in * shape.out * shape.taps(), y, scratch);
      for (int64_t i = 0; i < y_step; ++i) y[i] = bounds.clamp(y[i]);
    }
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const ConvolutionShape shape = convolution_shape(view);
  const std::vector<int16_t> centered = centered_values(view.operand(0), operands[0]);
  const std::vector<int16_t> weights = centered_values(view.operand(1), operands[1]);
  const std::vector<numerics::OutputStage> stages = output_stages(view, shape.groups * shape.out);
  const int16_t* x = centered.data();
  int8_t* y = results[0].values<int8_t>().data();
  const int64_t plane = shape.y_plane();
  std::vector<uint32_t> sums(static_cast<size_t>(shape.out * plane));
  std::vector<int16_t> scratch;
  for (int64_t n = 0; n < shape.batch; ++n)
    for (int64_t g = 0; g < shape.groups; ++g, x += shape.in * shape.x_plane()) {
      for (int64_t o = 0; o < shape.out; ++o) {
        const int32_t bias =
            view.has(2) ? operands[2].values<int32_t>()[static_cast<size_t>(g * shape.out + o)] : 0;
        std::fill_n(sums.data() + o * plane, plane, static_cast<uint32_t>(bias));
      }
      add_group(shape, x, weights.data() + g * shape.in * shape.out * shape.taps(), sums.data(),
                scratch);
      for (int64_t o = 0; o < shape.out; ++o) {
        // A copy: a store of a code could change what it refers to.
        const numerics::OutputStage stage = stages[static_cast<size_t>(g * shape.out + o)];
        for (int64_t i = 0; i < plane; ++i)
          *y++ = stage(static_cast<int32_t>(sums[static_cast<size_t>(o * plane + i)]));
      }
    }
}

int64_t macs(const OpView& view) {
  const ConvolutionShape shape = convolution_shape(view);
  const auto& [h, w] = shape.window;
  return shape.batch * shape.groups * shape.in * shape.out * shape.taps() * h.out * w.out;
}

}  // namespace

ConvolutionShape convolution_shape(const OpView& view) {
  const Shape& x = view.operand(0).shape;
  const Shape& weight = view.operand(1).shape;
  ConvolutionShape shape{.batch = x[0],
                         .groups = view.attribute<int64_t>("groups"),
                         .transposed = view.attribute<bool>("transposed")};
  shape.in = x[1] / shape.groups;
  shape.out = shape.transposed ? weight[1] : weight[0] / shape.groups;
  const Ints& padding = view.attribute<Ints>("padding");
  const Ints padding_end = view.attribute_or<Ints>("padding_end", padding);
  const auto axis = [&](size_t i) {
    WindowAxis made{.kernel = weight[2 + i],
                    .stride = view.attribute<Ints>("stride")[i],
                    .pad = padding[i],
                    .pad_end = padding_end[i],
                    .dilation = view.attribute<Ints>("dilation")[i]};
    if (shape.transposed) {
      made.out = x[2 + i];
      made.in = (made.out - 1) * made.stride + made.dilation * (made.kernel - 1) + 1 - made.pad -
                made.pad_end + view.attribute<Ints>("output_padding")[i];
    } else {
      made.in = x[2 + i];
      made.out = window_outputs(made, false);
    }
    return made;
  };
  if (x.size() == 4) shape.window.h = axis(0);
  shape.window.w = axis(x.size() - 3);
  return shape;
}

constinit const OpDef kConvolution{
    .name = "aten.convolution",
    .summary =
        "convolution or transposed convolution over one or two spatial dimensions; operands x, "
        "weight, bias?",
    .schema =
        "(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
        "bool transposed, "
        "int[] output_padding, int groups | int[]? padding_end=None, str? activation=None, bool "
        "qdq=False)",
    .verify = verify,
    .infer = infer,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
    .macs = macs,
};

}  // namespace dtr::ops
