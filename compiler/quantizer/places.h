// Operators that compute places: numbers of elements, and the points of a grid that samples an
// image. In int8 a coordinate has steps of 1/255 of its range: of an image of 512 pixels two.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace dtr {

// The ops that stay float for the places that they compute: elementwise ones, and what only moves
// elements between such and float values. What scales or bounds the result of a convolution or
// matrix product in the same call is none of them. `quantized`, by op slot: those that would be
// int8.
std::vector<OpId> find_places(const Graph& graph, const std::vector<bool>& quantized);

}  // namespace dtr
