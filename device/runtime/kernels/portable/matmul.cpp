// aten::mm.out(self [M, K], mat2 [K, N], out), aten::bmm.out(self [B, M, K], mat2 [B, K, N], out)
// and aten::matmul.out(self, other, out), which broadcasts the dimensions before the last two.
// Float.
#include "device/runtime/kernels/portable/dot.h"
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

// The dimensions before the last two.
bool batch_broadcasts(const Tensor& from, const Tensor& to) {
  if (from.rank > to.rank) return false;
  for (int dim = 0; dim < from.rank - 2; ++dim)
    if (from.sizes[dim] != 1 && from.sizes[dim] != to.sizes[to.rank - from.rank + dim])
      return false;
  return true;
}

}  // namespace

Error matmul_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& a = arguments.tensor(0);
  const Tensor& b = arguments.tensor(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || a.rank < 2 || b.rank < 2 || out.rank != std::max(a.rank, b.rank))
    return Error::kKernelArguments;
  const int32_t rows = out.sizes[out.rank - 2], columns = out.sizes[out.rank - 1],
                inner = a.sizes[a.rank - 1];
  if (a.sizes[a.rank - 2] != rows || b.sizes[b.rank - 1] != columns ||
      b.sizes[b.rank - 2] != inner || !batch_broadcasts(a, out) || !batch_broadcasts(b, out)) {
    return Error::kKernelArguments;
  }
  if (a.dtype != ScalarType::kFloat || b.dtype != ScalarType::kFloat ||
      out.dtype != ScalarType::kFloat)
    return Error::kKernelDtype;
  if (is_empty(out)) return Error::kOk;
  const Strides a_strides = strides_of(a);
  const Strides b_strides = strides_of(b);
  const Strides out_strides = strides_of(out);
  const int32_t a_row = a_strides.of[a.rank - 2], a_inner = a_strides.of[a.rank - 1];
  const int32_t b_inner = b_strides.of[b.rank - 2], b_column = b_strides.of[b.rank - 1];
  const auto product = [&](int32_t from_a, int32_t from_b, int32_t to) {
    for (int32_t row = 0; row < rows; ++row) {
      for (int32_t column = 0; column < columns; ++column) {
        const float* x = a.values<float>() + from_a + row * a_row;
        const float* y = b.values<float>() + from_b + column * b_column;
        out.values<float>()[to + row * out_strides.of[out.rank - 2] +
                            column * out_strides.of[out.rank - 1]] =
            dot(x, a_inner, y, b_inner, inner);
      }
    }
  };
  for_each_offset({out.sizes, static_cast<size_t>(out.rank) - 2}, product,
                  broadcast_strides(a, out.rank), broadcast_strides(b, out.rank), out_strides);
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
