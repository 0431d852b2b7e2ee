// The pipeline from a model to a program: what tools, tests and bindings call.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/samples.h"
#include "compiler/pipeline/report.h"
#include "compiler/quantizer/calibration.h"
#include "compiler/quantizer/convert.h"
#include "compiler/recipes/recipe.h"
#include "compiler/transforms/pass_manager.h"

namespace dtr {

enum class Io : uint8_t { kFloat, kInt8 };

struct CompileSettings {
  const TargetDescription* target = nullptr;
  BackendOptions backend = {};            // of the target's recipe
  std::optional<RecipeSpec> recipe = {};  // instead of it
  Io io = Io::kFloat;
  QuantSpec::Observer observer = QuantSpec::Observer::kHistogram;  // kMinMax replaces what the patterns ask for
  std::vector<std::string> keep_off = {}, force_on = {};           // nodes and operators, see compiler/recipes/selection.h
  bool weigh_costs = true;                                         // PlacementOptions
  bool debug_map = true;
  bool external_constants = false;  // WriteOptions
  uint64_t source_hash = 0;         // of the model file, for the program's manifest
  unsigned threads = 0;
  PassOptions passes = {};
  ProgressFunction progress = {};
  // Called when a stage is done, with its wall time.
  std::function<void(std::string_view stage, double milliseconds)> after_stage = {};
};

RecipeSpec recipe_of(const CompileSettings& settings);

// Whether the target could run a model of these types, before anything of their size is allocated.
// Errors: kPt2UnsupportedDtype (float64), kMemoryExceeded (a tensor that would not fit into SRAM even as int8).
Status check_model(const Program& program, const TargetDescription& target);

// Float passes, calibration (unless `calibration` holds one already; it is filled), conversion. `samples` may be null with a calibration.
// Errors: kCalibrationMissing without either, and those of the stages.
Result<ConversionReport> quantize_program(Program& program, const CompileSettings& settings, const Samples* samples,
                                          std::optional<CalibrationResult>& calibration);
// For models that come quantized: their types become those of integer ops.
Status import_quantization(Program& program, const CompileSettings& settings);

// Where the program has a value of the graph once the instruction that makes it has run, until others need the memory.
struct ProgramValue {
  ValueId value;
  uint32_t instruction = 0;
  int32_t index = -1;  // among the values of the program's plan
};

struct CompiledProgram {
  std::vector<std::byte> pte;
  std::vector<std::byte> tensor_file;  // .ptd, with external constants
  CompileReport report;
  std::vector<ProgramValue> values;  // by instruction; what exists inside of a delegate only is not among them
};

// A quantized (or float) graph to a program. Changes `program`: ops that no delegate takes fall back to float, layouts are assigned.
// Errors: kNoBackend, kSramExceeded, and those of backends.
Result<CompiledProgram> compile_program(Program& program, const CompileSettings& settings, const ConversionReport* conversion = nullptr);

}  // namespace dtr
