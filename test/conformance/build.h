// A model compiled for a target, and what is known of it.
#pragma once

#include <memory>

#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/report.h"
#include "host/session/session.h"

namespace dtr::conformance {

struct Built {
  Compilation compiled;
  std::unique_ptr<Session> session;
};

// Quantized models as they are, float ones calibrated with `samples`.
// Everything that can runs on the NPU, even where the CPU would be faster.
Result<std::unique_ptr<Built>> build(Module module, const Samples* samples,
                                     const TargetDescription& target = *find_target("imxrt700"));
Result<std::unique_ptr<Built>> build(Module module, const Samples* samples,
                                     const CompileSettings& settings);

// Gives every input of rank 3 and more the other layout: what an export with the other strides
// says.
void flip_input_layouts(Graph& graph);

// What becomes of a model when its inputs have the other layout.
struct LayoutComparison {
  bool equal = true;            // all outputs of all samples, bit for bit
  uint64_t compared = 0;        // bytes of outputs
  uint64_t cycles[2] = {0, 0};  // of the NPU, as exported and flipped
  size_t conversions[2] = {0, 0};
  uint64_t conversion_cycles[2] = {0, 0};  // of the kernel calls that only move data on the NPU
  std::vector<OperatorRow> moves;          // these calls, of both programs

  // Cycles differ by at most 1 %.
  bool same_cycles() const;
};
Result<LayoutComparison> compare_layouts(const std::string& model, const Samples& samples,
                                         size_t count);

}  // namespace dtr::conformance
