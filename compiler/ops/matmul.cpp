// aten.matmul: products of the matrices in the last two dimensions; the dimensions before them are
// broadcast. Both operands have at least two dimensions: importers turn vectors into matrices.
//
// Source of the integer form: TFLite's BATCH_MATMUL; the product of the operands' scales is rounded
// to float (GetQuantizedConvolutionMultipler), the sum is rescaled with two roundings.
#include "compiler/ops/matmul.h"

#include "compiler/ops/broadcast.h"
#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"

namespace dtr::ops {
namespace {

Shape batch_of(const Shape& shape) { return {shape.begin(), shape.end() - 2}; }

std::optional<Shape> result_shape(const Shape& left, const Shape& right) {
  if (left.size() < 2 || right.size() < 2 || left.back() != right[right.size() - 2])
    return std::nullopt;
  std::optional<Shape> shape = broadcast_shape(batch_of(left), batch_of(right));
  if (shape) shape->insert(shape->end(), {left[left.size() - 2], right.back()});
  return shape;
}

Result<void> verify(const OpView& view) {
  DTR_TRY(check_activation(view, 0));
  DTR_TRY(check_activation(view, 1));
  const Type& left = view.operand(0);
  const Type& right = view.operand(1);
  if (left.dtype != right.dtype)
    return broken(view, fmt::format("operand 0 is {} and operand 1 is {}", name(left.dtype),
                                    name(right.dtype)));
  const std::optional<Shape> shape = result_shape(left.shape, right.shape);
  if (!shape)
    return broken(view, fmt::format("the shapes {} and {} do not multiply", to_string(left.shape),
                                    to_string(right.shape)));
  if (left.quantized() && left.shape.back() > kMaxQuantizedInner)
    return broken(view, fmt::format("{} products in a quantized sum, 32 bits hold {}",
                                    left.shape.back(), kMaxQuantizedInner));
  return check_result_shape(view, *shape);
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = view.operand(0).dtype,
           .shape = *result_shape(view.operand(0).shape, view.operand(1).shape)}};
}

// Calls product(result index, left index, right index) for each pair of matrices.
template <class Product>
void for_each_product(const Shape& left, const Shape& right, const Shape& result, Product product) {
  if (element_count(result) == 0) return;
  const int64_t left_matrix = left[left.size() - 2] * left.back();
  const int64_t right_matrix = right[right.size() - 2] * right.back();
  const int64_t matrix = result[result.size() - 2] * result.back();
  for_each_broadcast_row(batch_of(left), batch_of(right), batch_of(result),
                         [&](int64_t at, int64_t at_left, int64_t at_right, int64_t count,
                             int64_t step_left, int64_t step_right) {
                           for (int64_t i = 0; i < count; ++i)
                             product((at + i) * matrix, (at_left + i * step_left) * left_matrix,
                                     (at_right + i * step_right) * right_matrix);
                         });
}

template <class T>
void evaluate(const OpView&, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const T* left = operands[0].values<T>().data();
  const T* right = operands[1].values<T>().data();
  const std::span<T> y = results[0].values<T>();
  const int64_t inner = operands[0].shape.back();
  const int64_t columns = operands[1].shape.back();
  std::fill(y.begin(), y.end(), T{0});
  for_each_product(operands[0].shape, operands[1].shape, results[0].shape,
                   [&](int64_t at, int64_t at_left, int64_t at_right) {
                     multiply_add(left + at_left, right + at_right, y.data() + at,
                                  operands[0].shape[operands[0].shape.size() - 2], inner, columns,
                                  columns, columns);
                   });
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const std::vector<int16_t> left = centered_values(view.operand(0), operands[0]);
  const std::vector<int16_t> right = centered_values(view.operand(1), operands[1]);
  const numerics::OutputStage stage = matmul_output_stage(view);
  const auto y = results[0].values<int8_t>();
  const int64_t inner = operands[0].shape.back();
  const int64_t columns = operands[1].shape.back();
  std::vector<uint32_t> sums(y.size(), 0);
  for_each_product(operands[0].shape, operands[1].shape, results[0].shape,
                   [&](int64_t at, int64_t at_left, int64_t at_right) {
                     multiply_add(left.data() + at_left, right.data() + at_right, sums.data() + at,
                                  operands[0].shape[operands[0].shape.size() - 2], inner, columns,
                                  columns, columns);
                   });
  for (size_t i = 0; i < y.size(); ++i) y[i] = stage(static_cast<int32_t>(sums[i]));
}

int64_t macs(const OpView& view) { return view.result().elements() * view.operand(0).shape.back(); }

}  // namespace

numerics::OutputStage matmul_output_stage(const OpView& view) {
  const Quantization& out = *view.result().quantization;
  const float product =
      view.operand(0).quantization->scale() * view.operand(1).quantization->scale();
  return {multiplier_of(view, static_cast<double>(product) / static_cast<double>(out.scale())),
          out.zero_point(), range_of(out)};
}

constinit const OpDef kMatmul{
    .name = "aten.matmul",
    .summary = "products of the matrices in the last two dimensions, the others broadcast",
    .schema = "(Tensor self, Tensor other | bool qdq=False)",
    .verify = verify,
    .infer = infer,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
    .macs = macs,
};

}  // namespace dtr::ops
