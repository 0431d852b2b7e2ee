// The parts of a model that `deuteron convert` converts, and the file that it makes of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/frontends/tflite/model_file.h"
#include "compiler/frontends/tflite/tflite.h"

namespace dtr {

// Commands of the NPU that stand for the same operators of the model, one after the other.
struct NeutronStep {
  std::vector<size_t> operators;     // by index
  std::vector<std::string> kernels;  // "Conv2d"
};

// A payload has a block of weights, in which ours keeps nothing: the program has its own.
inline constexpr uint32_t kNeutronWeightBytes = 16;

// One NeutronGraph: its operators, and what its custom operator holds.
struct NeutronGraph {
  tflite::OperatorSubset subset;
  std::vector<std::byte> microcode;  // header and program (device/executorch/neutron_payload.h)
  uint32_t scratch_bytes = 0;
  uint32_t profile_bytes = 0, debug_bytes = 0;
  bool records_profile = false;
  std::vector<NeutronStep> steps;
};

// Where each operator of a model runs. Operators of one graph have the same, even level; the other
// levels are of operators that stay. An operator reads what is made on its level or before.
struct GraphPlan {
  std::vector<size_t> level;  // by operator
};
GraphPlan plan_graphs(const tflite::ModelFile& file, const std::vector<bool>& converts);

// The model with these graphs in the places of their operators. If no operator stays, the file has
// the interface and the graphs alone; else everything of `bytes` that still counts. Error:
// kTfliteInvalid, if the file would exceed 2 GB.
Result<std::vector<std::byte>> write_model(std::span<const std::byte> bytes,
                                           const tflite::ModelFile& file, const GraphPlan& plan,
                                           std::span<const NeutronGraph> graphs,
                                           const std::string& name);
// A model without operators, each of whose outputs is the input of that index.
std::vector<std::byte> write_identity(const tflite::ModelFile& file,
                                      std::span<const size_t> inputs_of_outputs);

// ConvertedModel::log and ConvertedModel::kernel_selection.
std::string conversion_log(const tflite::ModelFile& file, std::span<const NeutronGraph> graphs,
                           std::string_view target);
std::string kernel_selection(std::span<const NeutronGraph> graphs);

}  // namespace dtr
