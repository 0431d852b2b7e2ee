// cortex_m::quantized_batch_matmul.out(lhs [.., M, K], lhs_zero_point, rhs_transposed [.., N, K], rhs_zero_point, output_zero_point,
// multiplier, shift, scratch, out [.., M, N]): the dimensions before the last two are broadcast; nothing needs scratch.
// deuteron::quantized_matmul.out(the same with rhs [.., K, N]): the matrix that is multiplied with is transposed in the scratch operand.
// int8, contiguous.
#include "abi/cortex_m.h"
#include "runtime/kernels/cortex_m/image.h"
#include "runtime/kernels/cortex_m/kernels.h"
#include "runtime/kernels/cortex_m/loops.h"
#include "runtime/kernels/portable/elements.h"

namespace dtr::runtime::cortex_m {
namespace {

struct Product {
  int32_t rows = 0, columns = 0, inner = 0;
  int32_t left_zero = 0, right_zero = 0;
  numerics::Requantization by;
  Finish finish;

  // y = left · rightᵀ of matrices [rows, inner] and [columns, inner].
  void multiply(const int8_t* left, const int8_t* right, int8_t* y) const {
    for (int32_t row = 0; row < rows; ++row, left += inner, y += columns) {
      // Σ (l − zl)(r − zr) = Σ (l − zl) r − zr Σ (l − zl)
      int32_t start = 0;
      for (int32_t i = 0; right_zero != 0 && i < inner; ++i) start -= left[i] - left_zero;
      start *= right_zero;
      int32_t column = 0;
      for (; column + 4 <= columns; column += 4) outputs<4>(left, right + column * inner, start, y + column);
      for (; column < columns; ++column) outputs<1>(left, right + column * inner, start, y + column);
    }
  }

 private:
  template <int kColumns>
  void outputs(const int8_t* left, const int8_t* right, int32_t start, int8_t* y) const {
    int32_t sums[kColumns];
    unrolled<kColumns>([&](auto i) { sums[i] = start; });
    Loops::multiply_vector<kColumns>(right, inner, left, -left_zero, inner, sums);
    unrolled<kColumns>([&](auto i) { y[i] = finish(rescale(sums[i], by)); });
  }
};

void transpose(const int8_t* from, int32_t rows, int32_t columns, int8_t* to) {
  for (int32_t column = 0; column < columns; ++column)
    for (int32_t row = 0; row < rows; ++row) *to++ = from[row * columns + column];
}

// Strides of the matrices of an operand at the indices of the result's, in matrices.
portable::Strides matrix_strides(const Tensor& tensor, int rank) {
  portable::Strides strides;
  int32_t stride = 1;
  for (int dim = tensor.rank - 3; dim >= 0; --dim) {
    if (tensor.sizes[dim] != 1) strides.of[rank - tensor.rank + dim] = stride;
    stride *= tensor.sizes[dim];
  }
  return strides;
}

bool batches_broadcast(Tensor from, Tensor to) {
  from.rank = static_cast<uint8_t>(from.rank - 2);
  to.rank = static_cast<uint8_t>(to.rank - 2);
  return portable::broadcasts_to(from, to);
}

Error run(std::span<Value* const> values, bool transposed) {
  Arguments arguments(values);
  const Tensor& left = arguments.tensor(0);
  const int64_t left_zero = arguments.integer(1);
  const Tensor& right = arguments.tensor(2);
  const int64_t right_zero = arguments.integer(3), zero_point = arguments.integer(4);
  const int64_t multiplier = arguments.integer(5), shift = arguments.integer(6);
  const Tensor& scratch = arguments.output(7);
  const Tensor& out = arguments.output(8);
  Product product;
  if (!arguments.good() || left.rank < 2 || right.rank < 2 || out.rank < left.rank || out.rank < right.rank || !is_code(left_zero) ||
      !is_code(right_zero) || !good_rescaling(multiplier, shift) || !read_finish(zero_point, -128, 127, &product.finish) ||
      !is_contiguous(left) || !is_contiguous(right) || !is_contiguous(out)) {
    return Error::kKernelArguments;
  }
  if (left.dtype != ScalarType::kChar || right.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar) return Error::kKernelDtype;
  product.rows = left.sizes[left.rank - 2];
  product.inner = left.sizes[left.rank - 1];
  product.columns = out.sizes[out.rank - 1];
  product.left_zero = static_cast<int32_t>(left_zero);
  product.right_zero = static_cast<int32_t>(right_zero);
  product.by = {static_cast<int32_t>(multiplier), static_cast<int32_t>(shift)};
  const int32_t right_rows = transposed ? product.columns : product.inner, right_columns = transposed ? product.inner : product.columns;
  const int64_t scratch_bytes = transposed ? 0 : dtr::cortex_m::matmul_scratch_bytes(product.inner, product.columns);
  if (out.sizes[out.rank - 2] != product.rows || right.sizes[right.rank - 2] != right_rows ||
      right.sizes[right.rank - 1] != right_columns || !batches_broadcast(left, out) || !batches_broadcast(right, out) ||
      !is_scratch(scratch, scratch_bytes)) {
    return Error::kKernelArguments;
  }
  const int32_t left_size = product.rows * product.inner, right_size = right_rows * right_columns, size = product.rows * product.columns;
  const auto multiply = [&](int32_t at_left, int32_t at_right, int32_t at) {
    const int8_t* matrix = right.values<int8_t>() + at_right * right_size;
    if (!transposed) {
      transpose(matrix, product.inner, product.columns, scratch.values<int8_t>());
      matrix = scratch.values<int8_t>();
    }
    product.multiply(left.values<int8_t>() + at_left * left_size, matrix, out.values<int8_t>() + at * size);
  };
  const int batch_rank = out.rank - 2;
  Tensor batches = out;
  batches.rank = static_cast<uint8_t>(batch_rank);
  portable::for_each_offset(batches.shape(), multiply, matrix_strides(left, out.rank), matrix_strides(right, out.rank),
                            matrix_strides(out, out.rank));
  return Error::kOk;
}

}  // namespace

Error quantized_batch_matmul_out(std::span<Value* const> values) { return run(values, true); }
Error quantized_matmul_out(std::span<Value* const> values) { return run(values, false); }

}  // namespace dtr::runtime::cortex_m
