// aten.softsign: x / (1 + |x|).
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = []<class T>(T x) { return std::isinf(x) ? std::copysign(T{1}, x) : x / (1 + std::abs(x)); };

}  // namespace

constinit const OpDef kSoftsign = unary_op<kFunction>("aten.softsign", "x / (1 + |x|)");

}  // namespace dtr::ops
