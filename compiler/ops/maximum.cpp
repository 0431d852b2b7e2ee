// aten.maximum: the larger of a and b with broadcasting; NaN if one of them is.
#include "compiler/ops/binary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto a, auto b) { return a > b || a != a ? a : b; };

constexpr AttributeDef kAttributes[] = {kQdqAttribute};

}  // namespace

constinit const OpDef kMaximum = binary_op<kFunction>("aten.maximum", "the larger of a and b with broadcasting", kAttributes, kCommutative);

}  // namespace dtr::ops
