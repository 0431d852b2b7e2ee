// cortex_m::quantized_batch_matmul.out(lhs [.., M, K], lhs_zero_point, rhs_transposed [.., N, K],
// rhs_zero_point, output_zero_point, multiplier, shift, scratch, out [.., M, N]): the dimensions
// before the last two are broadcast. deuteron::quantized_matmul.out(the same with rhs [.., K, N]):
// the matrix that is multiplied with is transposed in the scratch operand. int8, contiguous.
#include "device/runtime/kernels/cortex_m/kernels.h"
#include "device/runtime/kernels/cortex_m/rows.h"
#include "device/runtime/kernels/portable/elements.h"

namespace dtr::runtime::cortex_m {
namespace {

struct Product {
  int32_t rows = 0, columns = 0, inner = 0;
  int32_t left_zero = 0, right_zero = 0;
  AllOutputs output;

  // y = left · rightᵀ of matrices [rows, inner] and [columns, inner].
  void multiply(const int8_t* left, const int8_t* right, int32_t* folded, int8_t* y) const {
    Matrix matrix{.weights = right, .depth = inner, .outputs = columns, .offset = -left_zero};
    if (Loops::kFoldsOffset && matrix.offset != 0) fold_offset(matrix, folded);
    if (right_zero == 0) {
      multiply_rows(matrix, {left, inner, y, columns, rows}, output);
      return;
    }
    // Σ (l − zl)(r − zr) = Σ (l − zl) r − zr Σ (l − zl)
    AllOutputs of_row = output;
    for (int32_t row = 0; row < rows; ++row, left += inner, y += columns) {
      of_row.start = multiply_wrapping(
          right_zero,
          subtract_wrapping(multiply_wrapping(inner, left_zero), Loops::sum(left, inner)));
      multiply_rows(matrix, {left, inner, y, columns, 1}, of_row);
    }
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
  if (!arguments.good() || left.rank < 2 || right.rank < 2 || out.rank < left.rank ||
      out.rank < right.rank || !is_code(left_zero) || !is_code(right_zero) ||
      !good_rescaling(multiplier, shift) ||
      !read_finish(zero_point, -128, 127, &product.output.finish) || !is_contiguous(left) ||
      !is_contiguous(right) || !is_contiguous(out)) {
    return Error::kKernelArguments;
  }
  if (left.dtype != ScalarType::kChar || right.dtype != ScalarType::kChar ||
      out.dtype != ScalarType::kChar)
    return Error::kKernelDtype;
  product.rows = left.sizes[left.rank - 2];
  product.inner = left.sizes[left.rank - 1];
  product.columns = out.sizes[out.rank - 1];
  product.left_zero = static_cast<int32_t>(left_zero);
  product.right_zero = static_cast<int32_t>(right_zero);
  product.output.by = {static_cast<int32_t>(multiplier), static_cast<int32_t>(shift)};
  const int32_t right_rows = transposed ? product.columns : product.inner,
                right_columns = transposed ? product.inner : product.columns;
  const auto scratch_bytes = [&](auto core) {
    return dtr::cortex_m::matmul_scratch_bytes(core, product.inner, product.columns, transposed,
                                               left_zero != 0);
  };
  if (out.sizes[out.rank - 2] != product.rows || right.sizes[right.rank - 2] != right_rows ||
      right.sizes[right.rank - 1] != right_columns || !batches_broadcast(left, out) ||
      !batches_broadcast(right, out) || !is_scratch_of_core(scratch, scratch_bytes)) {
    return Error::kKernelArguments;
  }
  if (is_empty(out)) return Error::kOk;
  const int32_t left_size = product.rows * product.inner, right_size = right_rows * right_columns,
                size = product.rows * product.columns;
  int8_t* const for_transposed =
      scratch.values<int8_t>() + (Loops::kFoldsOffset && left_zero != 0 ? 4 * product.columns : 0);
  const auto multiply = [&](int32_t at_left, int32_t at_right, int32_t at) {
    const int8_t* matrix = right.values<int8_t>() + at_right * right_size;
    if (!transposed) {
      transpose(matrix, product.inner, product.columns, for_transposed);
      matrix = for_transposed;
    }
    product.multiply(left.values<int8_t>() + at_left * left_size, matrix, scratch.values<int32_t>(),
                     out.values<int8_t>() + at * size);
  };
  const int batch_rank = out.rank - 2;
  Tensor batches = out;
  batches.rank = static_cast<uint8_t>(batch_rank);
  portable::for_each_offset(batches.shape(), multiply, matrix_strides(left, out.rank),
                            matrix_strides(right, out.rank), matrix_strides(out, out.rank));
  return Error::kOk;
}

}  // namespace

Error quantized_batch_matmul_out(std::span<Value* const> values) { return run(values, true); }
Error quantized_matmul_out(std::span<Value* const> values) { return run(values, false); }

}  // namespace dtr::runtime::cortex_m
