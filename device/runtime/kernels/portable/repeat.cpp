// aten::repeat.out(self, repeats, out): the input that often along each dimension of the result,
// whose last ones are the input's; any dtype.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error repeat_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto repeats = arguments.ints(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || repeats.size() != out.rank || in.rank > out.rank)
    return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  // Copy number i of dimension d starts at index i · extent: seen so, the result has two dimensions
  // for each of its own.
  if (2 * out.rank > kMaxRank) return Error::kKernelArguments;
  const Strides own = strides_of(in), result = strides_of(out);
  Strides from, to;
  int32_t sizes[kMaxRank];
  for (int d = 0; d < out.rank; ++d) {
    const int in_dim = d - (out.rank - in.rank);
    const int32_t extent = in_dim < 0 ? 1 : in.shape()[static_cast<size_t>(in_dim)];
    const int64_t times = repeats[static_cast<size_t>(d)];
    if (times < 0 || times > INT32_MAX || times * extent != out.sizes[d])
      return Error::kKernelArguments;
    sizes[2 * d] = static_cast<int32_t>(times);
    sizes[2 * d + 1] = extent;
    from.of[2 * d + 1] = in_dim < 0 ? 0 : own.of[in_dim];
    to.of[2 * d] = multiply_wrapping(
        result.of[d], extent);  // wraps for a result without elements, whose strides are not used
    to.of[2 * d + 1] = result.of[d];
  }
  return move_elements(in.data, from, out.data, to, {sizes, 2 * size_t{out.rank}},
                       byte_size(in.dtype));
}

}  // namespace dtr::runtime::portable
