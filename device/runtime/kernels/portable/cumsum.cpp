// aten::cumsum.out(self, dim, dtype, out): along `dim`, each element is the sum of those up to it.
// Float, or integers and bools into int64.
#include "device/runtime/kernels/portable/integers.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error cumsum_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const Tensor& out = arguments.output(3);
  const int axis = wrap_dim(dim, in.rank);
  if (!arguments.good() || !same_shape(in, out) || (in.rank > 0 ? axis < 0 : dim != 0 && dim != -1))
    return Error::kKernelArguments;
  const bool real = in.dtype == ScalarType::kFloat && out.dtype == ScalarType::kFloat;
  if (!real && (!is_integer(in.dtype) || out.dtype != ScalarType::kLong))
    return Error::kKernelDtype;
  int32_t outer[kMaxRank];
  for (int d = 0; d < in.rank; ++d) outer[d] = d == axis ? 1 : in.sizes[d];
  if (is_empty(in)) return Error::kOk;
  const Strides from = strides_of(in), to = strides_of(out);
  const int32_t count = in.rank > 0 ? in.sizes[axis] : 1;
  const int32_t step = in.rank > 0 ? from.of[axis] : 0, out_step = in.rank > 0 ? to.of[axis] : 0;
  for_each_offset(
      {outer, in.rank},
      [&](int32_t i, int32_t k) {
        float sum = 0;
        int64_t whole = 0;
        for (int32_t n = 0; n < count; ++n) {
          if (real) {
            out.values<float>()[k + n * out_step] = sum += in.values<float>()[i + n * step];
          } else {
            whole = add_wrapping(whole, load_integer(in, i + n * step));
            out.values<int64_t>()[k + n * out_step] = whole;
          }
        }
      },
      from, to);
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
