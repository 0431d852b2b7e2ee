// What passes know of numbers that exclude scores from a softmax.
#pragma once

#include <span>

#include "compiler/ir/graph.h"

namespace dtr::passes {

// exp(−100 + 83) is 2^-24, what float32 rounds away beside 1: so far may excluded scores be above
// the others.
inline constexpr double kExcluded = -100;
// What the elements of a mask of floats exclude with: −10,000, −1e9, the least float, −∞.
inline constexpr double kExcludedByInput = -9999;

// Addends up to this exclude: 100 and more below the least of those that do not, because a softmax
// only knows differences.
double exclusion_limit(std::span<const double> addend);

// Whether a row of the softmax has no element that takes part, by a mask of its operand's shape.
bool leaves_empty_row(const Graph& graph, OpId softmax, const Shape& shape,
                      std::span<const int8_t> mask);

}  // namespace dtr::passes
