// aten.log: natural logarithm of x.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::log(x); };

}  // namespace

constinit const OpDef kLog = unary_op<kFunction>("aten.log", "natural logarithm of x");

}  // namespace dtr::ops
