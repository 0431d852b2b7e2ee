// aten.cos: cosine of x.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::cos(x); };

}  // namespace

constinit const OpDef kCos = unary_op<kFunction>("aten.cos", "cosine of x");

}  // namespace dtr::ops
