// aten.log_sigmoid: log(1 / (1 + exp(-x))).
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) {
  return (x < 0 ? x : decltype(x){0}) - std::log1p(std::exp(-std::abs(x)));
};

}  // namespace

constinit const OpDef kLogSigmoid =
    unary_op<kFunction>({.name = "aten.log_sigmoid", .summary = "log(1 / (1 + exp(-x)))"});

}  // namespace dtr::ops
