// aten.softsign: x / (1 + |x|).
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = []<class T>(T x) {
  return std::isinf(x) ? std::copysign(T{1}, x) : x / (1 + std::abs(x));
};

}  // namespace

constinit const OpDef kSoftsign = unary_op<kFunction>(
    {.name = "aten.softsign", .summary = "x / (1 + |x|)", .kernel = "deuteron::softsign.out"});

}  // namespace dtr::ops
