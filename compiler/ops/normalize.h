// Normalizations as one form: rows of a tensor, their elements, and which parameters belong to
// those.
#pragma once

#include <array>
#include <vector>

#include "compiler/ir/op_def.h"
#include "device/numerics/normalize.h"

namespace dtr::ops {

// A contiguous tensor seen as (a, b, c, d): a row is (c, d), rows are counted by (a, b); the
// element's gain and offset are the entries b · step_b + c · step_c of weight and bias.
struct NormalizeShape {
  int64_t a = 1, b = 1, c = 1, d = 1;
  int64_t step_b = 0, step_c = 0;
  bool center = true;
  double epsilon = 0;

  int64_t count() const { return c * d; }
};
// Of aten.layer_norm, aten.rms_norm and aten.group_norm.
NormalizeShape normalize_shape(const OpView& view);

// The integer form: gains and offsets in units of the result's steps; weight and bias may be empty.
struct QuantizedNormalize {
  numerics::NormalizeRow row;
  std::vector<numerics::NormalizeParameter> parameters;
  int gain_shift = 0;
};
QuantizedNormalize quantized_normalize(const OpView& view, std::span<const double> weight,
                                       std::span<const double> bias);

}  // namespace dtr::ops
