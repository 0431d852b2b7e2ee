// aten::linear.out(input [.., I], weight [O, I], bias [O], out [.., O]) and
// aten::addmm.out(self, mat1 [N, I], mat2 [I, O], beta, alpha, out [N, O]): beta · self + alpha ·
// mat1 · mat2. Float.
#include "device/runtime/kernels/portable/dot.h"
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

bool all_float(std::initializer_list<const Tensor*> tensors) {
  return std::ranges::all_of(tensors, [](const Tensor* tensor) {
    return tensor == nullptr || tensor->dtype == ScalarType::kFloat;
  });
}

}  // namespace

Error linear_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& weight = arguments.tensor(1);
  const Tensor* bias = arguments.optional_tensor(2);
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || in.rank < 1 || out.rank != in.rank || weight.rank != 2)
    return Error::kKernelArguments;
  const int last = in.rank - 1;
  if (!std::equal(in.sizes, in.sizes + last, out.sizes) || weight.sizes[1] != in.sizes[last] ||
      weight.sizes[0] != out.sizes[last] ||
      (bias != nullptr && (bias->rank != 1 || bias->sizes[0] != weight.sizes[0]))) {
    return Error::kKernelArguments;
  }
  if (!all_float({&in, &weight, bias, &out})) return Error::kKernelDtype;
  if (is_empty(out)) return Error::kOk;
  const Strides in_strides = strides_of(in);
  const Strides weight_strides = strides_of(weight);
  const Strides out_strides = strides_of(out);
  const auto row = [&](int32_t from, int32_t to) {
    for (int32_t o = 0; o < weight.sizes[0]; ++o) {
      const float start = bias == nullptr ? 0.0f : bias->values<float>()[o];
      out.values<float>()[to + o * out_strides.of[last]] =
          start + dot(in.values<float>() + from, in_strides.of[last],
                      weight.values<float>() + o * weight_strides.of[0], weight_strides.of[1],
                      in.sizes[last]);
    }
  };
  for_each_offset({in.sizes, static_cast<size_t>(last)}, row, in_strides, out_strides);
  return Error::kOk;
}

Error addmm_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& self = arguments.tensor(0);
  const Tensor& a = arguments.tensor(1);
  const Tensor& b = arguments.tensor(2);
  const auto beta = static_cast<float>(arguments.number(3));
  const auto alpha = static_cast<float>(arguments.number(4));
  const Tensor& out = arguments.output(5);
  if (!arguments.good() || a.rank != 2 || b.rank != 2 || out.rank != 2 ||
      a.sizes[1] != b.sizes[0] || out.sizes[0] != a.sizes[0] || out.sizes[1] != b.sizes[1] ||
      !broadcasts_to(self, out)) {
    return Error::kKernelArguments;
  }
  if (!all_float({&self, &a, &b, &out})) return Error::kKernelDtype;
  if (is_empty(out)) return Error::kOk;
  const Strides a_strides = strides_of(a);
  const Strides b_strides = strides_of(b);
  const Strides out_strides = strides_of(out);
  const Strides self_strides = broadcast_strides(self, 2);
  for (int32_t n = 0; n < out.sizes[0]; ++n) {
    for (int32_t o = 0; o < out.sizes[1]; ++o) {
      const float product =
          dot(a.values<float>() + n * a_strides.of[0], a_strides.of[1],
              b.values<float>() + o * b_strides.of[1], b_strides.of[0], a.sizes[1]);
      // As PyTorch: with beta 0 self is not read, so that a NaN in it does not spread.
      const float start =
          beta == 0.0f
              ? 0.0f
              : beta * self.values<float>()[n * self_strides.of[0] + o * self_strides.of[1]];
      out.values<float>()[n * out_strides.of[0] + o * out_strides.of[1]] = start + alpha * product;
    }
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
