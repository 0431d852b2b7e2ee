// aten::argmax.out(self, dim, keepdim, out) and aten::argmin.out: the index of the first most
// extreme element along `dim`, of all elements in logical order if it is none. Float, integers or
// bools; the index is int64 or int32.
#include <type_traits>

#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/reduce.h"

namespace dtr::runtime::portable {
namespace {

template <class T, bool kGreatest, class Index>
void find(const Tensor& in, const Reduction& reduction, const Tensor& out) {
  const auto row = [&](int32_t from, int32_t to) {
    const auto element = [&](int32_t at) -> T {
      if constexpr (std::is_same_v<T, int64_t>) {
        return load_integer(in, from + at);
      } else {
        return in.values<T>()[from + at];
      }
    };
    T best = element(0);
    Index index = 0, position = 0;
    for_each_offset(
        {reduction.inner, in.rank},
        [&](int32_t at) {
          const T value = element(at);
          if (best == best && (value != value || (kGreatest ? value > best : value < best))) {
            best = value;
            index = position;
          }
          ++position;
        },
        reduction.in_strides);
    out.values<Index>()[to] = index;
  };
  for_each_offset({reduction.outer, in.rank}, row, reduction.in_strides, reduction.out_strides);
}

template <bool kGreatest>
Error find_extreme(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.is_none(1) ? 0 : arguments.integer(1);
  const std::span<const int64_t> dims(&dim, arguments.is_none(1) || in.rank == 0 ? 0 : 1);
  const bool keepdim = arguments.flag(2);
  const Tensor& out = arguments.output(3);
  Reduction reduction;
  if (!arguments.good() || !make_reduction(in, dims, keepdim, out, &reduction) ||
      reduction.count == 0)
    return Error::kKernelArguments;
  const bool narrow = out.dtype == ScalarType::kInt;
  if (!narrow && out.dtype != ScalarType::kLong) return Error::kKernelDtype;
  if (in.dtype == ScalarType::kFloat) {
    narrow ? find<float, kGreatest, int32_t>(in, reduction, out)
           : find<float, kGreatest, int64_t>(in, reduction, out);
  } else if (in.dtype == ScalarType::kChar) {
    narrow ? find<int8_t, kGreatest, int32_t>(in, reduction, out)
           : find<int8_t, kGreatest, int64_t>(in, reduction, out);
  } else if (is_integer(in.dtype)) {
    narrow ? find<int64_t, kGreatest, int32_t>(in, reduction, out)
           : find<int64_t, kGreatest, int64_t>(in, reduction, out);
  } else {
    return Error::kKernelDtype;
  }
  return Error::kOk;
}

}  // namespace

Error argmax_out(std::span<Value* const> values) { return find_extreme<true>(values); }
Error argmin_out(std::span<Value* const> values) { return find_extreme<false>(values); }

}  // namespace dtr::runtime::portable
