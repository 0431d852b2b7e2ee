// aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor:
// bools of a and b with broadcasting, both floats or plain integers of one dtype.
#include <functional>

#include "compiler/ops/binary.h"

namespace dtr::ops {
namespace {

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = DType::kBool,
           .shape = *broadcast_shape(view.operand(0).shape, view.operand(1).shape)}};
}

template <class T, class Relation>
void evaluate(const OpView&, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  if (!is_float(operands[0].dtype))
    return map_integer_pairs<int64_t>(operands, results[0], Relation());
  const T* a = operands[0].values<T>().data();
  const T* b = operands[1].values<T>().data();
  uint8_t* y = results[0].values<uint8_t>().data();
  for_each_broadcast_row(
      operands[0].shape, operands[1].shape, results[0].shape,
      [&](int64_t at, int64_t at_a, int64_t at_b, int64_t count, int64_t step_a, int64_t step_b) {
        for (int64_t i = 0; i < count; ++i)
          y[at + i] = Relation()(a[at_a + i * step_a], b[at_b + i * step_b]) ? 1 : 0;
      });
}

template <class Relation>
constexpr OpDef comparison(std::string_view name, std::string_view kernel, std::string_view summary,
                           OpTrait more = kNoTraits) {
  return {.name = name,
          .summary = summary,
          .schema = "(Tensor self, Tensor other)",
          .traits = static_cast<uint32_t>(kElementwise | kOnIntegers | more),
          .kernel = kernel,
          .verify = verify_binary,
          .infer = infer,
          .evaluate_float = evaluate<float, Relation>,
          .evaluate_double = evaluate<double, Relation>};
}

}  // namespace

constinit const OpDef kEqTensor = comparison<std::equal_to<>>(
    "aten.eq.Tensor", "aten::eq.Tensor_out", "true where a = b", kCommutative);
constinit const OpDef kGeTensor =
    comparison<std::greater_equal<>>("aten.ge.Tensor", "aten::ge.Tensor_out", "true where a >= b");
constinit const OpDef kGtTensor =
    comparison<std::greater<>>("aten.gt.Tensor", "aten::gt.Tensor_out", "true where a > b");
constinit const OpDef kLeTensor =
    comparison<std::less_equal<>>("aten.le.Tensor", "aten::le.Tensor_out", "true where a <= b");
constinit const OpDef kLtTensor =
    comparison<std::less<>>("aten.lt.Tensor", "aten::lt.Tensor_out", "true where a < b");
constinit const OpDef kNeTensor = comparison<std::not_equal_to<>>(
    "aten.ne.Tensor", "aten::ne.Tensor_out", "true where a and b differ", kCommutative);

}  // namespace dtr::ops
