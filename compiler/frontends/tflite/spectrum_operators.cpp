// Operators that make or take complex numbers. A tensor of COMPLEX64 is a float tensor here, in the
// file's order of dimensions, with one more dimension of two behind: real and imaginary part.
#include <fmt/format.h>

#include "compiler/compositions/fourier.h"
#include "compiler/frontends/tflite/importer.h"

namespace dtr::tflite {
namespace {

using compositions::Signal;
using fb::BuiltinOperator;
using Builder = Importer::Builder;

// Operands: x, the two numbers of points. The last two dimensions are cut off or padded with zeros
// to those; the spectrum of a real signal has only its first half.
Result<ValueId> rfft2d(Importer& importer) {
  Builder builder(importer);
  const Shape& shape = importer.tensor(0).shape;
  DTR_ASSIGN(const Ints points, importer.integers(1));
  if (shape.size() < 2 || shape.size() >= kMaxRank || points.size() != 2 || points[0] < 1 ||
      points[1] < 1)
    return importer.invalid(
        fmt::format("{} points of {}", fmt::join(points, " x "), to_string(shape)));
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  const auto columns = static_cast<int64_t>(shape.size()) - 1, rows = columns - 1;
  DTR_ASSIGN(x, builder.slice(x, rows, 0, points[0]));
  DTR_ASSIGN(
      x, compositions::fourier(builder, x, columns,
                               {.from = Signal::kReal, .to = Signal::kHalf, .points = points[1]}));
  if (points[0] == 1) return x;
  return compositions::fourier(builder, x, rows, {.points = points[0]});
}

template <int64_t kPart>
Result<ValueId> part(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(ValueId x, importer.complex_value(0));
  const auto last = static_cast<int64_t>(importer.type(x).rank()) - 1;
  DTR_ASSIGN(x, builder.slice(x, last, kPart, kPart + 1));
  DTR_ASSIGN(x, builder.view(x, importer.tensor(0).shape));
  return importer.in_logical_order(x);
}

Result<ValueId> magnitude(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(ValueId x, importer.complex_value(0));
  DTR_ASSIGN(x, compositions::magnitude(builder, x));
  return importer.in_logical_order(x);
}

constexpr OperatorDef kSpectrumOperators[] = {
    {BuiltinOperator::COMPLEX_ABS, 1, 1, magnitude},
    {BuiltinOperator::IMAG, 1, 1, part<1>},
    {BuiltinOperator::REAL, 1, 1, part<0>},
    {BuiltinOperator::RFFT2D, 2, 2, rfft2d},
};

}  // namespace

std::span<const OperatorDef> spectrum_operators() { return kSpectrumOperators; }

Result<ValueId> Importer::complex_value(size_t operand) {
  const TensorInfo& of = tensor(operand);
  if (of.type != fb::TensorType::COMPLEX64)
    return invalid(
        fmt::format("`{}` is {}, expected COMPLEX64", of.name, fb::EnumNameTensorType(of.type)));
  const ValueId known = import_.values[static_cast<size_t>(op_->inputs[operand])];
  if (known.valid()) return known;
  return unsupported(fmt::format("`{}` is a constant or an input of COMPLEX64", of.name));
}

Result<ValueId> Importer::reshape_complex(Shape to) {
  DTR_ASSIGN(const ValueId x, complex_value(0));
  to.push_back(2);
  return Builder(*this).view(x, to);
}

}  // namespace dtr::tflite
