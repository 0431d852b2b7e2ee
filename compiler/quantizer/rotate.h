// Rotation of residual streams: mixes the channels of a value so that a few far ones become all a
// little larger, without changing the function of the float graph.
//
// A residual stream x is what additions make of results of layers and constants, and what
// normalizations and layers read. With an orthogonal matrix Q the stream becomes x·Q: layers and
// constants that add to it are multiplied by Q, and layers that read it by Qᵀ, all of them in their
// constants. Q also keeps the row of ones, 1·Q = 1, so that the mean of a row stays what it is, and
// a layer norm without weights commutes with Q: norm(x·Q) = norm(x)·Q. Its weights and biases move
// into the layers that read it. Here Q is the Kronecker product of 2/m · J − I for the factors m of
// the number of channels, J a matrix of ones: for m = 4 that is Hadamard's matrix, whose elements
// are ±1/2. So one far channel of 192 = 4·4·4·3 becomes at most a twelfth of itself in each. A
// factor 2 only exchanges channels, and a large prime mixes little.
//
// Sources: Ashkboos et al., SliceGPT, 2024 (rotations commute with normalizations); Ashkboos et
// al., QuaRot, 2024 (rotations against outliers, with Hadamard's matrices).
#pragma once

#include <cstddef>

#include "compiler/ir/graph.h"

namespace dtr {

struct RotationReport {
  size_t streams = 0;
  size_t layers = 0;  // whose weights were multiplied
};

// Rewrites constants of `graph`; ops and values keep their ids. A stream is rotated if a
// normalization over its last dimension reads it, and only if all that computes and reads it is
// exact: linear layers and convolutions with constant weights and without activation, additions,
// subtractions, products with a number, what moves whole channels, and normalizations with constant
// parameters that such layers read. What is an input, an output, a state, or has a bias in front of
// a padded convolution leaves its stream as it is.
RotationReport rotate_streams(Module& module, Graph& graph);

}  // namespace dtr
