// Tensors of UINT8. Inside of the graph their codes are those of int8, 128 less; what a program
// takes and gives are the file's bytes. Integer sums of bytes and codes do not exist in the IR,
// hence the steps through real numbers, which passes fold into one table.
#include <fmt/format.h>

#include <cmath>

#include "compiler/frontends/tflite/importer.h"

namespace dtr::tflite {

void Importer::begin_uint8(const TensorInfo& tensor) {
  origin_ = {.sources = {static_cast<uint32_t>(import_.module.sources.size())}};
  import_.module.sources.push_back({.name = tensor.name, .target = "UINT8"});
}

ValueId Importer::number_of(const TensorInfo& tensor, std::string_view what, double value) {
  const auto number = static_cast<float>(value);
  const ConstantId id =
      import_.module.constants.add(DType::kFloat32, std::as_bytes(std::span(&number, 1)));
  return rewriter_.add_constant({.dtype = DType::kFloat32}, id,
                                fmt::format("{}_{}", tensor.name, what));
}

Result<ValueId> Importer::shifted_input(ValueId bytes, const TensorInfo& tensor) {
  begin_uint8(tensor);
  DTR_ASSIGN(ValueId x, emit_plain(ops::kConvert, {bytes}, {{"dtype", std::string("f32")}}));
  if (tensor.zero_points[0] != -128) {
    const ValueId zero = number_of(tensor, "zero_point", tensor.zero_points[0] + 128);
    DTR_ASSIGN(x, emit_plain(ops::kSubTensor, {x, zero}));
  }
  DTR_ASSIGN(x, emit_plain(ops::kMulTensor, {x, number_of(tensor, "scale", tensor.scales[0])}));
  DTR_ASSIGN(const Type wanted, type_of(tensor, {}, -1));
  return emit_plain(ops::kQuantize, {x}, {}, wanted.quantization);
}

Result<ValueId> Importer::shifted_output(ValueId codes, const TensorInfo& tensor) {
  begin_uint8(tensor);
  DTR_ASSIGN(ValueId x, emit_plain(ops::kDequantize, {codes}));
  const ValueId inverse = number_of(tensor, "inverse", 1.0 / static_cast<double>(tensor.scales[0]));
  DTR_ASSIGN(x, emit_plain(ops::kMulTensor, {x, inverse}));
  // Half a step more, because the conversion cuts fractions off.
  const ValueId half_step = number_of(tensor, "half_step", tensor.zero_points[0] + 128.5);
  DTR_ASSIGN(x, emit_plain(ops::kAddTensor, {x, half_step}));
  return emit_plain(ops::kConvert, {x}, {{"dtype", std::string("u8")}});
}

Result<ValueId> Importer::rescaled_bytes(ValueId codes, const TensorInfo& from,
                                         const TensorInfo& to) {
  const auto byte_of = [](int32_t zero_point) { return static_cast<float>(zero_point + 128); };
  const float factor = from.scales[0] * (1.0F / to.scales[0]);
  const float offset = -byte_of(from.zero_points[0]) * factor;
  // The bytes, exact: what dequantization rounded is less than half a step.
  DTR_ASSIGN(ValueId x, emit_plain(ops::kDequantize, {codes}));
  const double inverse = 1.0 / static_cast<double>(from.scales[0]);
  DTR_ASSIGN(x, emit_plain(ops::kMulTensor, {x, number_of(from, "inverse", inverse)}));
  DTR_ASSIGN(x, emit_plain(ops::kRound, {x}));
  const ValueId zero_point = number_of(from, "zero_point", byte_of(from.zero_points[0]));
  DTR_ASSIGN(x, emit_plain(ops::kAddTensor, {x, zero_point}));

  DTR_ASSIGN(x, emit_plain(ops::kMulTensor, {x, number_of(from, "factor", factor)}));
  DTR_ASSIGN(x, emit_plain(ops::kAddTensor, {x, number_of(from, "offset", offset)}));
  // Ties go away from zero. The greatest number below one half leaves the one below a tie there.
  const float half = std::nextafter(0.5F, 0.0F);
  DTR_ASSIGN(ValueId more, emit_plain(ops::kSign, {x}));
  DTR_ASSIGN(more, emit_plain(ops::kMulTensor, {more, number_of(from, "half", half)}));
  DTR_ASSIGN(x, emit_plain(ops::kAddTensor, {x, more}));
  DTR_ASSIGN(x, emit_plain(ops::kTrunc, {x}));

  DTR_ASSIGN(x, emit_plain(ops::kMulTensor, {x, number_of(to, "scale", to.scales[0])}));
  DTR_ASSIGN(const Type wanted, type_of(to, {}, -1));
  return emit_plain(ops::kQuantize, {x}, {}, wanted.quantization);
}

}  // namespace dtr::tflite
