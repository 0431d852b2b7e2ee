// aten::constant_pad_nd.out(self, pad, value, out): pad lists (before, after) from the last
// dimension on; negative entries crop. Float and int8.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error constant_pad_nd_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto pad = arguments.ints(1);
  const double value = arguments.number(2);
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || out.rank != in.rank || pad.size() % 2 != 0 || pad.size() / 2 > in.rank)
    return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;

  // What is copied: a box of `sizes` at offset `from` of the input and `to` of the output.
  const Strides in_strides = strides_of(in);
  const Strides out_strides = strides_of(out);
  int32_t sizes[kMaxRank];
  int64_t from = 0;
  int64_t to = 0;
  for (int dim = 0; dim < in.rank; ++dim) {
    const auto entry = static_cast<size_t>(in.rank - 1 - dim) * 2;
    const int64_t before = entry < pad.size() ? pad[entry] : 0;
    const int64_t after = entry < pad.size() ? pad[entry + 1] : 0;
    constexpr int64_t kMax = INT32_MAX;
    if (before < -kMax || before > kMax || after < -kMax || after > kMax ||
        in.sizes[dim] + before + after != out.sizes[dim]) {
      return Error::kKernelArguments;
    }
    const int64_t copied =
        in.sizes[dim] + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    if (copied < 0) return Error::kKernelArguments;
    sizes[dim] = static_cast<int32_t>(copied);
    if (before < 0) from -= before * in_strides.of[dim];
    if (before > 0) to += before * out_strides.of[dim];
  }
  const size_t count = out.elements();
  if (out.dtype == ScalarType::kFloat) {
    std::fill_n(out.values<float>(), count, static_cast<float>(value));
  } else if (out.dtype == ScalarType::kChar && value >= -128 && value <= 127) {
    std::fill_n(out.values<int8_t>(), count, static_cast<int8_t>(value));
  } else {
    return Error::kKernelDtype;
  }
  for (const int32_t size : std::span(sizes, in.rank)) {
    if (size == 0) return Error::kOk;
  }
  const auto element = static_cast<int64_t>(byte_size(in.dtype));
  return move_elements(in.data + from * element, in_strides, out.data + to * element, out_strides,
                       {sizes, in.rank}, byte_size(in.dtype));
}

}  // namespace dtr::runtime::portable
