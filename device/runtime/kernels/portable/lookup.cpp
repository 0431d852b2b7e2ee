// deuteron::lookup.out(self, codes, out): the byte of `codes`, which has 256, that each byte of
// self selects; the least value of its dtype selects the first. Bytes are int8, uint8 or bool.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error lookup_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& codes = arguments.tensor(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !same_shape(in, out) || codes.rank != 1 || codes.sizes[0] != 256)
    return Error::kKernelArguments;
  if (byte_size(in.dtype) != 1 || byte_size(out.dtype) != 1 || byte_size(codes.dtype) != 1)
    return Error::kKernelDtype;
  const uint8_t* const table = codes.values<uint8_t>();
  const uint8_t flip = in.dtype == ScalarType::kChar ? 0x80 : 0;
  map_elements<uint8_t, uint8_t>(
      in, out, [table, flip](uint8_t byte) { return table[static_cast<uint8_t>(byte ^ flip)]; });
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
