// Operators whose results are read in more digits than int8 has. Those that compute places: numbers
// of elements, and the points of a grid that samples an image, where a coordinate has steps of
// 1/255 of its range: of an image of 512 pixels two. Those that compute what a factorization reads,
// which may magnify a step of int8 to the size of its result. And those that a selection reads,
// such as the probabilities of a router: near ones share a code, so that int8 selects another
// element.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace dtr {

enum class ReadExactly { kPlaces, kFactorizations };

// The ops that stay float for what they compute: elementwise ones, and what only moves elements
// between such and float values. What scales or bounds the result of a convolution or
// matrix product in the same call is none of them. `quantized`, by op slot: those that would be
// int8.
std::vector<OpId> find_read_exactly(const Graph& graph, const std::vector<bool>& quantized,
                                    ReadExactly as);

// The ops that stay float round a selection: argmax or argmin of probabilities or in turns (topk),
// whose index this graph reads. They are the extremes, what computes their operand elementwise or
// as a softmax or sigmoid, and what follows from the selected elements alone. `quantized`: as
// above.
std::vector<OpId> find_selecting(const Graph& graph, const std::vector<bool>& quantized);

}  // namespace dtr
