// Complex numbers during the import. A complex tensor is a float tensor with one more dimension,
// the last, of two: real and imaginary part. Errors of all functions: those of GraphBuilder.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {

// Part 0 or 1 of a complex value, without the dimension of the parts, and the way back.
Result<ValueId> part_of(NodeImport& node, ValueId x, int64_t which);
Result<ValueId> with_parts(NodeImport& node, ValueId real, ValueId imaginary);

struct Parts {
  ValueId real, imaginary;  // the second is invalid for a real tensor
};
// Of an argument, which may be a number.
Result<Parts> parts_of(NodeImport& node, std::string_view name);
// Of an argument; zeros as the imaginary part of real numbers.
Result<Parts> both_parts_of(NodeImport& node, std::string_view name);
Result<Parts> parts_of_value(NodeImport& node, ValueId x);
Result<ValueId> joined(NodeImport& node, const Parts& parts);
Result<ValueId> zeros_like(NodeImport& node, ValueId x);

// Arithmetic with parts that are both there.
Result<Parts> product(NodeImport& node, const Parts& a, const Parts& b);
Result<Parts> quotient(NodeImport& node, const Parts& a, const Parts& b);

// (a + bi)(c + di) by any product that is linear in both; at least one of them is complex.
template <class Product>
Result<Parts> multiply(NodeImport& node, const Parts& a, const Parts& b, Product product) {
  Parts result;
  DTR_ASSIGN(result.real, product(a.real, b.real));
  if (a.imaginary.valid() && b.imaginary.valid()) {
    DTR_ASSIGN(const ValueId other, product(a.imaginary, b.imaginary));
    DTR_ASSIGN(result.real, node.emit("aten.sub.Tensor", {result.real, other}));
    DTR_ASSIGN(const ValueId first, product(a.real, b.imaginary));
    DTR_ASSIGN(const ValueId second, product(a.imaginary, b.real));
    DTR_ASSIGN(result.imaginary, node.emit("aten.add.Tensor", {first, second}));
  } else if (a.imaginary.valid()) {
    DTR_ASSIGN(result.imaginary, product(a.imaginary, b.real));
  } else {
    DTR_ASSIGN(result.imaginary, product(a.real, b.imaginary));
  }
  return result;
}

Result<ValueId> length_of(NodeImport& node, const Parts& x);
Result<ValueId> angle_of(NodeImport& node, const Parts& x);
// length · (cos angle + i sin angle).
Result<Parts> at_angle(NodeImport& node, ValueId length, ValueId angle);

// Rows by family. The first are the operators whose names say how their parts follow from the row
// of real numbers: std::nullopt for others.
std::optional<Operator> complex_row_by_parts(const Operator& real);
std::vector<Operator> complex_functions();

}  // namespace dtr::pt2
