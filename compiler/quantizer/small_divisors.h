// Finds divisions whose divisors int8 does not hold: its codes are equally far apart, so that of a
// divisor much smaller than the greatest one little is left, and near zero nothing.
#pragma once

#include "compiler/quantizer/annotate.h"
#include "compiler/quantizer/calibration.h"

namespace dtr {

// The annotated ops that a second annotation is to keep float (Separations::small_divisors):
// divisions by what a product of computed tensors makes, if calibration saw a divisor below 1/32 of
// the greatest, or both signs; and what makes the operands of these and of such float divisions,
// back to the products, with those whose results such a product multiplies. (Linear attention
// divides two parts of a product of q and a product of k and v, whose sums span three decades.)
// Products with weights stay int8; so do products of more than an eighth of the graph's
// multiplications, which in float would cost more than the rest. Divisors of another origin, as
// 1 + x², are small where the dividend is, too; they stay float if one of them would be the code of
// zero, though calibration saw none, and the dividend is not small there (softplus(x) + .001).
// Values without statistics are left as they are.
std::vector<OpId> find_small_divisors(const Graph& graph, const Annotation& annotation,
                                      const CalibrationResult& calibration);

}  // namespace dtr
