// Elements at other places of the same tensor, any dtype: aten::roll.out(self, shifts, dims, out),
// without dims along the elements in logical order; aten::tril.out(self, diagonal, out), which
// keeps those at and below a diagonal of the last two dimensions and clears the others.
#include <cstring>

#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/walk.h"

namespace dtr::runtime::portable {
namespace {

int64_t wrapped_shift(int64_t shift, int64_t extent) {
  const int64_t rest = shift % extent;
  return rest < 0 ? rest + extent : rest;
}

Error roll_all(const Tensor& in, int64_t shift, const Tensor& out) {
  const auto count = static_cast<int64_t>(in.elements());
  const size_t element = byte_size(in.dtype);
  Walker from(in), to(out);
  for (int64_t i = wrapped_shift(shift, count); i > 0; --i) to.next();
  for (int64_t i = 0, left = count - wrapped_shift(shift, count); i < count; ++i, --left) {
    if (left == 0) to = Walker(out);
    std::memcpy(out.data + static_cast<size_t>(to.next()) * element,
                in.data + static_cast<size_t>(from.next()) * element, element);
  }
  return Error::kOk;
}

}  // namespace

Error roll_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto shifts = arguments.ints(1), dims = arguments.ints(2);
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || !same_shape(in, out) ||
      shifts.size() != (dims.empty() ? 1 : dims.size()))
    return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  int64_t shift[kMaxRank] = {};
  for (size_t i = 0; i < dims.size(); ++i) {
    const int axis = wrap_dim(dims[i], in.rank);
    if (axis < 0) return Error::kKernelArguments;
    if (in.sizes[axis] > 0)
      shift[axis] =
          wrapped_shift(shift[axis] + wrapped_shift(shifts[i], in.sizes[axis]), in.sizes[axis]);
  }
  if (is_empty(out)) return Error::kOk;
  if (dims.empty()) return roll_all(in, shifts[0], out);
  // The two parts of every dimension that is rolled change places: 2^n blocks.
  const Strides in_strides = strides_of(in), out_strides = strides_of(out);
  const size_t element = byte_size(in.dtype);
  for (uint32_t block = 0; block < 1u << in.rank; ++block) {
    int32_t sizes[kMaxRank];
    int64_t from = 0, to = 0;
    bool empty = false;
    for (int d = 0; d < in.rank; ++d) {
      const int64_t tail = shift[d];
      const bool behind = (block >> d & 1u) != 0;  // the part that comes to the front
      sizes[d] = static_cast<int32_t>(behind ? tail : in.sizes[d] - tail);
      empty = empty || sizes[d] == 0;
      (behind ? from : to) +=
          behind ? (in.sizes[d] - tail) * in_strides.of[d] : tail * out_strides.of[d];
    }
    if (empty) continue;
    if (const Error error = move_elements(in.data + static_cast<size_t>(from) * element, in_strides,
                                          out.data + static_cast<size_t>(to) * element, out_strides,
                                          {sizes, in.rank}, element);
        error != Error::kOk)
      return error;
  }
  return Error::kOk;
}

Error tril_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t diagonal = arguments.integer(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !same_shape(in, out) || in.rank < 2) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  if (is_empty(out)) return Error::kOk;
  const int rows = in.rank - 2, columns = in.rank - 1;
  int32_t sizes[kMaxRank];
  for (int d = 0; d < in.rank; ++d) sizes[d] = d == columns ? 1 : in.sizes[d];
  const Strides from = strides_of(in), to = strides_of(out);
  const size_t element = byte_size(in.dtype);
  int64_t row = 0;  // of the matrices, which the loop walks last dimension but one fastest
  const int64_t width = in.sizes[columns];
  for_each_offset(
      {sizes, in.rank},
      [&](int32_t i, int32_t k) {
        // Bounded first: the sum could leave 64 bits.
        const int64_t bound = diagonal >= width             ? width
                              : diagonal <= -in.sizes[rows] ? 0
                                                            : row + diagonal + 1;
        const int64_t kept = std::min(std::max<int64_t>(bound, 0), width);
        for (int32_t c = 0; c < width; ++c) {
          std::byte* place = out.data + static_cast<size_t>(k + c * to.of[columns]) * element;
          if (c < kept) {
            std::memcpy(place, in.data + static_cast<size_t>(i + c * from.of[columns]) * element,
                        element);
          } else {
            std::memset(place, 0, element);
          }
        }
        row = row + 1 == in.sizes[rows] ? 0 : row + 1;
      },
      from, to);
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
