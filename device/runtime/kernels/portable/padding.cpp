// aten::reflection_pad{1,2,3}d.out and aten::replication_pad{1,2,3}d.out(self, padding, out):
// elements of the tensor itself around its last one, two or three dimensions, mirrored at its
// border or those of the border; any dtype. The list begins with the last dimension; a negative
// number cuts off.
#include <cstring>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

int64_t reflected(int64_t at, int64_t extent) {
  return at < 0 ? -at : at >= extent ? 2 * (extent - 1) - at : at;
}
int64_t replicated(int64_t at, int64_t extent) {
  return std::min(std::max<int64_t>(at, 0), extent - 1);
}

Error pad(std::span<Value* const> values, int dims, bool reflects) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto padding = arguments.ints(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || in.rank != out.rank || in.rank < dims ||
      padding.size() != 2 * static_cast<size_t>(dims))
    return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  const int first = in.rank - dims;
  for (int d = 0; d < in.rank; ++d) {
    const int64_t extent = in.sizes[d];
    if (d < first) {
      if (out.sizes[d] != extent) return Error::kKernelArguments;
      continue;
    }
    const int64_t* sides = &padding[2 * static_cast<size_t>(in.rank - 1 - d)];
    // Reflected elements exist: at most extent − 1 on either side.
    const int64_t most = reflects ? extent - 1 : INT32_MAX;
    if (extent == 0 || sides[0] > most || sides[1] > most || sides[0] < -extent ||
        sides[1] < -extent || out.sizes[d] != extent + sides[0] + sides[1])
      return Error::kKernelArguments;
  }
  if (is_empty(out)) return Error::kOk;
  const Strides from = strides_of(in), to = strides_of(out);
  const size_t element = byte_size(in.dtype);
  const auto place = [&](int64_t at, int d) {
    const int64_t inside = at - padding[2 * static_cast<size_t>(in.rank - 1 - d)];
    return (reflects ? reflected(inside, in.sizes[d]) : replicated(inside, in.sizes[d])) *
           from.of[d];
  };
  int32_t outer[kMaxRank], rows[2] = {1, 1};
  for (int d = 0; d < in.rank; ++d) outer[d] = d < first ? in.sizes[d] : 1;
  const int last = in.rank - 1;
  for (int d = first; d < last; ++d) rows[d - (last - 2)] = out.sizes[d];
  for_each_offset(
      {outer, in.rank},
      [&](int32_t i, int32_t k) {
        for (int32_t z = 0; z < rows[0]; ++z) {
          for (int32_t y = 0; y < rows[1]; ++y) {
            int64_t source = i, target = k;
            if (dims > 2) {
              source += place(z, last - 2);
              target += int64_t{z} * to.of[last - 2];
            }
            if (dims > 1) {
              source += place(y, last - 1);
              target += int64_t{y} * to.of[last - 1];
            }
            for (int32_t x = 0; x < out.sizes[last]; ++x)
              std::memcpy(
                  out.data + static_cast<size_t>(target + int64_t{x} * to.of[last]) * element,
                  in.data + static_cast<size_t>(source + place(x, last)) * element, element);
          }
        }
      },
      from, to);
  return Error::kOk;
}

}  // namespace

Error reflection_pad1d_out(std::span<Value* const> values) { return pad(values, 1, true); }
Error reflection_pad2d_out(std::span<Value* const> values) { return pad(values, 2, true); }
Error reflection_pad3d_out(std::span<Value* const> values) { return pad(values, 3, true); }
Error replication_pad1d_out(std::span<Value* const> values) { return pad(values, 1, false); }
Error replication_pad2d_out(std::span<Value* const> values) { return pad(values, 2, false); }
Error replication_pad3d_out(std::span<Value* const> values) { return pad(values, 3, false); }

}  // namespace dtr::runtime::portable
