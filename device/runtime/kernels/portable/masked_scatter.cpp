// aten::masked_scatter.out(self, mask, source, out): where the mask, broadcast to self, is true,
// the next element of source in logical order, else that of self; any dtype.
// aten::repeat_interleave.Tensor_out(repeats, output_size, out): each index as often as the list
// says, int64 or int32.
#include <cstring>

#include "device/runtime/kernels/portable/indices.h"
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/walk.h"

namespace dtr::runtime::portable {

Error masked_scatter_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& mask = arguments.tensor(1);
  const Tensor& source = arguments.tensor(2);
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || !same_shape(in, out) || !broadcasts_to(mask, out))
    return Error::kKernelArguments;
  if (mask.dtype != ScalarType::kBool || in.dtype != out.dtype || source.dtype != out.dtype)
    return Error::kKernelDtype;
  Walker next(source);
  size_t left = source.elements();
  const size_t element = byte_size(in.dtype);
  Error error = Error::kOk;
  for_each_offset(
      out.shape(),
      [&](int32_t i, int32_t m, int32_t k) {
        const bool replaced = mask.values<uint8_t>()[m] != 0;
        if (replaced && left == 0) {
          error = Error::kKernelArguments;
          return;
        }
        const std::byte* from = replaced ? source.data + static_cast<size_t>(next.next()) * element
                                         : in.data + static_cast<size_t>(i) * element;
        if (replaced) --left;
        std::memmove(out.data + static_cast<size_t>(k) * element, from, element);
      },
      strides_of(in), broadcast_strides(mask, out.rank), strides_of(out));
  return error;
}

Error repeat_interleave_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& repeats = arguments.tensor(0);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || repeats.rank != 1 || out.rank != 1) return Error::kKernelArguments;
  if (!is_index(repeats.dtype) || out.dtype != repeats.dtype) return Error::kKernelDtype;
  int64_t total = 0;
  for (int32_t i = 0; i < repeats.sizes[0]; ++i) {
    const int64_t count = load_integer(repeats, i);
    if (count < 0 || count > out.sizes[0] - total) return Error::kKernelArguments;
    total += count;
  }
  if (total != out.sizes[0]) return Error::kKernelArguments;
  int32_t at = 0;
  for (int32_t i = 0; i < repeats.sizes[0]; ++i) {
    for (int64_t left = load_integer(repeats, i); left > 0 && at < out.sizes[0]; --left)
      store_integer(out, at++, i);
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
