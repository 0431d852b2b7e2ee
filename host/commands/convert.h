// `deuteron convert` without its terminal: Neutron IR in, the same model with NeutronGraph
// operators out, as NXP's converter does it for ExecuTorch's NXP backend.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"
#include "compiler/targets/target.h"

namespace dtr {

struct ConvertOptions {
  std::string target{default_target().name};
  // Constants stay in flash, and the microcode copies them to SRAM; else they are in SRAM.
  bool fetch_constants_to_sram = false;
  // Payloads of version 1, whose runs record an event for each kernel: two more outputs, profile
  // and debug.
  bool profile = false;
};

// An operator that stays as it is.
struct KeptOperator {
  std::string name;  // of its first result
  std::string op;    // "CONV_2D"
  std::string reason;
};

struct ConvertedModel {
  std::vector<std::byte> tflite;
  // What was read and made: operators, graphs, kernels of each operator, in the form that
  // ExecuTorch's NXP backend reads for its debug handles.
  std::string log;
  std::string kernel_selection;         // C source: the kernels that the model calls
  size_t operators = 0;                 // of the model
  size_t converted = 0;                 // of them, in NeutronGraph operators or removed
  size_t graphs = 0;                    // NeutronGraph operators
  std::vector<KeptOperator> kept = {};  // in the model's order
};

// Converts the .tflite in `model`, which `name` names in messages. int8 operators compute as
// PyTorch does (tflite::Arithmetic::kPytorch). What the NPU does not run stays as it is; a model
// without any such operator is the result, byte by byte. A model that only adds zeros has no
// operator left; one that only moves data may have a graph without commands. Errors: kModelUnknown
// (no .tflite), kTfliteInvalid, kTargetUnknown, kOptionNeedsNpu, those of compile_model.
Result<ConvertedModel> convert_model(std::span<const std::byte> model, const std::string& name,
                                     const ConvertOptions& options);

// The same from file to file. `kernel_selection`: where the C source goes; empty: nowhere. Errors:
// also kFileNotFound and kFileNotWritable; an output that is an input is refused.
Result<ConvertedModel> convert_file(const std::string& input, const std::string& output,
                                    const std::string& kernel_selection,
                                    const ConvertOptions& options);

// ConvertedModel::kernel_selection for these kernels, by name; for the union of several models.
std::string kernel_table(std::vector<std::string> names);

}  // namespace dtr
