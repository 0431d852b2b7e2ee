// Trigonometric and hyperbolic functions that no layer of its own has: aten.acos, aten.acosh,
// aten.asin, aten.asinh, aten.atanh, aten.cosh, aten.sinh, aten.tan.
#include "compiler/ops/unary.h"

namespace dtr::ops {

constinit const OpDef kAcos = unary_op<[](auto x) { return std::acos(x); }>(
    {.name = "aten.acos", .summary = "inverse cosine of x"});
constinit const OpDef kAcosh = unary_op<[](auto x) { return std::acosh(x); }>(
    {.name = "aten.acosh", .summary = "inverse hyperbolic cosine of x"});
constinit const OpDef kAsin = unary_op<[](auto x) { return std::asin(x); }>(
    {.name = "aten.asin", .summary = "inverse sine of x"});
constinit const OpDef kAsinh = unary_op<[](auto x) { return std::asinh(x); }>(
    {.name = "aten.asinh", .summary = "inverse hyperbolic sine of x"});
constinit const OpDef kAtanh = unary_op<[](auto x) { return std::atanh(x); }>(
    {.name = "aten.atanh", .summary = "inverse hyperbolic tangent of x"});
constinit const OpDef kCosh = unary_op<[](auto x) { return std::cosh(x); }>(
    {.name = "aten.cosh", .summary = "hyperbolic cosine of x"});
constinit const OpDef kSinh = unary_op<[](auto x) { return std::sinh(x); }>(
    {.name = "aten.sinh", .summary = "hyperbolic sine of x"});
constinit const OpDef kTan =
    unary_op<[](auto x) { return std::tan(x); }>({.name = "aten.tan", .summary = "tangent of x"});

}  // namespace dtr::ops
