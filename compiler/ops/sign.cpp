// aten.sign: −1, 0 or 1.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = []<class T>(T x) {
  return static_cast<T>((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0));
};

}  // namespace

constinit const OpDef kSign = unary_op_on_numbers<kFunction, int64_t>(
    {.name = "aten.sign", .summary = "-1, 0 or 1", .tflite = {"SIGN", 0}});

}  // namespace dtr::ops
