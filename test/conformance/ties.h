// Results that lie half-way between two codes: PyTorch rounds them to even, the integer
// specification away from zero, so that both are right.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/samples.h"
#include "compiler/ir/tensor.h"

namespace dtr::conformance {

// Elements of one output, of one sample.
struct RealSteps {
  // In double precision, in steps from zero and not rounded: what the last quantization rounds.
  std::vector<double> steps;
  // How far the integer specification may be from them before it rounds: what weights of 1/1024
  // cost an interpolation. Empty: it is exact.
  std::vector<double> error;
};

// By sample, of a quantized graph as it was read. Empty: the output is not what a quantization of
// one scale makes.
Result<std::vector<RealSteps>> real_steps(const Module& module, Graph graph, size_t output,
                                          const Samples& samples);

// `actual`, but with PyTorch's element wherever the real result is a tie and both are beside it.
// `ties` counts these elements. `step`: between two codes.
Tensor without_ties(const TensorView& expected, const TensorView& actual, const RealSteps& real,
                    double step, uint64_t& ties);

}  // namespace dtr::conformance
