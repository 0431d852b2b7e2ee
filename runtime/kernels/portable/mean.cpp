// aten::mean.out(self, dim, keepdim, dtype, out): mean over the listed dimensions, all of them if the list is empty or none; float.
#include "runtime/kernels/portable/elements.h"
#include "runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error mean_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = arguments.is_none(1) ? std::span<const int64_t>() : arguments.ints(1);
  const bool keepdim = arguments.flag(2);
  const Tensor& out = arguments.output(4);
  if (!arguments.good()) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;

  bool reduced[kMaxRank] = {};
  for (const int64_t dim : dims) {
    const int axis = wrap_dim(dim, in.rank);
    if (axis < 0 || reduced[axis]) return Error::kKernelArguments;
    reduced[axis] = true;
  }
  if (dims.empty()) std::fill_n(reduced, in.rank, true);

  // The outer loop visits every element of the result, the inner one what is averaged for it.
  const Strides in_strides = strides_of(in);
  const Strides own = strides_of(out);
  Strides out_strides;
  int32_t outer[kMaxRank];
  int32_t inner[kMaxRank];
  int64_t count = 1;
  int out_dim = 0;
  for (int dim = 0; dim < in.rank; ++dim) {
    outer[dim] = reduced[dim] ? 1 : in.sizes[dim];
    inner[dim] = reduced[dim] ? in.sizes[dim] : 1;
    if (reduced[dim]) count *= in.sizes[dim];
    if (reduced[dim] && !keepdim) continue;
    if (out_dim >= out.rank || out.sizes[out_dim] != outer[dim]) return Error::kKernelArguments;
    out_strides.of[dim] = own.of[out_dim++];
  }
  if (out_dim != out.rank) return Error::kKernelArguments;

  const auto average = [&](int32_t from, int32_t to) {
    float sum = 0;
    for_each_offset(
        {inner, in.rank}, [&](int32_t at) { sum += in.values<float>()[from + at]; }, in_strides);
    out.values<float>()[to] = sum / static_cast<float>(count);
  };
  for_each_offset({outer, in.rank}, average, in_strides, out_strides);
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
