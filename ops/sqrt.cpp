// aten.sqrt: square root of x.
#include "ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::sqrt(x); };

}  // namespace

constinit const OpDef kSqrt = unary_op<kFunction>("aten.sqrt", "square root of x");

}  // namespace dtr::ops
