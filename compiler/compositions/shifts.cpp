#include "compiler/compositions/shifts.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace dtr::compositions {
namespace {

constexpr double kMostOfPower = 62;  // 2^63 is no int64

Result<ValueId> converted(GraphBuilder& builder, ValueId x, DType dtype) {
  if (builder.type(x).dtype == dtype) return x;
  return builder.emit("convert", {x}, {{"dtype", std::string(name(dtype))}});
}

Result<ValueId> quotient(GraphBuilder& builder, ValueId x, ValueId by) {
  return builder.emit("aten.div.Tensor_mode", {x, by}, {{"rounding_mode", std::string("floor")}});
}

// 2^places, wrapped as int64: 0 from 2^64 on and for places below zero.
Result<ValueId> factors(GraphBuilder& builder, ValueId places) {
  const auto known = builder.constant_elements(places);
  if (known) {
    std::vector<double> powers;
    for (const double count : *known) {
      const bool beyond = count < 0 || count > kMostOfPower + 1;
      powers.push_back(beyond ? 0 : count > kMostOfPower ? -std::exp2(count) : std::exp2(count));
    }
    return builder.constant(DType::kInt64, powers, builder.type(places).shape);
  }
  DTR_ASSIGN(const ValueId count, converted(builder, places, DType::kInt64));
  DTR_ASSIGN(const ValueId two, builder.constant(DType::kInt64, {}, 2, "two"));
  return builder.emit("aten.pow.Tensor_Tensor", {two, count});
}

// x / 2^places, in two steps where the sign of an int64 is all that may remain.
Result<ValueId> shifted_right(GraphBuilder& builder, ValueId x, ValueId places, bool wide) {
  const auto known = builder.constant_elements(places);
  if (known) {
    std::vector<double> powers, rest;
    for (const double count : *known) {
      const bool beyond = count < 0 || count > kMostOfPower;
      powers.push_back(std::exp2(beyond ? kMostOfPower : count));
      rest.push_back(beyond ? 2 : 1);
    }
    const Shape shape = builder.type(places).shape;
    DTR_ASSIGN(const ValueId by, builder.constant(DType::kInt64, powers, shape));
    DTR_ASSIGN(x, quotient(builder, x, by));
    if (!wide || std::ranges::count(rest, 2.0) == 0) return x;
    DTR_ASSIGN(const ValueId by_rest, builder.constant(DType::kInt64, rest, shape));
    return quotient(builder, x, by_rest);
  }
  const auto number = [&](double value) {
    return builder.constant(DType::kInt64, {}, value, "number");
  };
  DTR_ASSIGN(ValueId count, converted(builder, places, DType::kInt64));
  DTR_ASSIGN(const ValueId zero, number(0));
  DTR_ASSIGN(const ValueId all, number(kMostOfPower + 1));
  DTR_ASSIGN(const ValueId is_place, builder.emit("aten.ge.Tensor", {count, zero}));
  DTR_ASSIGN(count, builder.emit("aten.where.self", {is_place, count, all}));
  DTR_ASSIGN(const ValueId bounded, builder.emit("aten.clamp", {count}, {{"max", kMostOfPower}}));
  DTR_ASSIGN(const ValueId two, number(2));
  DTR_ASSIGN(const ValueId by, builder.emit("aten.pow.Tensor_Tensor", {two, bounded}));
  DTR_ASSIGN(x, quotient(builder, x, by));
  if (!wide) return x;
  DTR_ASSIGN(const ValueId is_beyond, builder.emit("aten.gt.Tensor", {count, bounded}));
  DTR_ASSIGN(const ValueId one, number(1));
  DTR_ASSIGN(const ValueId rest, builder.emit("aten.where.self", {is_beyond, two, one}));
  return quotient(builder, x, rest);
}

}  // namespace

Result<ValueId> shift(GraphBuilder& builder, ValueId x, ValueId places, bool left) {
  const DType dtype = builder.type(x).dtype;
  DTR_ASSIGN(ValueId y, converted(builder, x, DType::kInt64));
  if (left) {
    DTR_ASSIGN(const ValueId by, factors(builder, places));
    DTR_ASSIGN(y, builder.emit("aten.mul.Tensor", {y, by}));
  } else {
    DTR_ASSIGN(y, shifted_right(builder, y, places, dtype == DType::kInt64));
  }
  return converted(builder, y, dtype);
}

}  // namespace dtr::compositions
