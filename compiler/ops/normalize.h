// A common form of normalizations: the rows of a tensor, their elements, and the parameters of each
// element.
#pragma once

#include <array>
#include <vector>

#include "compiler/ir/op_def.h"
#include "device/numerics/normalize.h"

namespace dtr::ops {

// A contiguous tensor viewed as (a, b, c, d): a row is (c, d), rows are indexed by (a, b). The gain
// and offset of an element are the entries b · step_b + c · step_c of weight and bias.
struct NormalizeShape {
  int64_t a = 1, b = 1, c = 1, d = 1;
  int64_t step_b = 0, step_c = 0;
  bool center = true;
  double epsilon = 0;

  int64_t count() const { return c * d; }
};
// The form of aten.layer_norm, aten.rms_norm and aten.group_norm.
NormalizeShape normalize_shape(const OpView& view);

// The integer form: gains and offsets in steps of the result; weight and bias may be empty.
struct QuantizedNormalize {
  numerics::NormalizeRow row;
  std::vector<numerics::NormalizeParameter> parameters;
  int gain_shift = 0;
};
QuantizedNormalize quantized_normalize(const OpView& view, std::span<const double> weight,
                                       std::span<const double> bias);

}  // namespace dtr::ops
