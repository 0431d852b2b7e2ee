// All products of a compilation, step by step. Reports are functions of it, called afterwards:
// report.h, placement_report.h, pattern_report.h, host/accuracy/check.h and quantization_report.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/samples.h"
#include "compiler/partitioner/layout.h"
#include "compiler/partitioner/partition.h"
#include "compiler/pipeline/emit.h"
#include "compiler/pipeline/read_model.h"
#include "compiler/program/memory_planner.h"
#include "compiler/program/writer.h"
#include "compiler/quantizer/convert.h"
#include "compiler/quantizer/equalize.h"
#include "compiler/quantizer/rotate.h"
#include "compiler/quantizer/round_weights.h"
#include "compiler/recipes/recipe.h"
#include "compiler/transforms/remarks.h"

namespace dtr {

// Where the program stores a value of the graph: valid after `instruction` has run, until the
// memory is reused.
struct ProgramValue {
  ValueId value;
  uint32_t instruction = 0;
  int32_t index = -1;  // among the values of the program's plan
};

// Members are grouped by the step that fills them. Later steps do not change them, except for
// `module.forward()`, which each step rewrites in place.
struct Compilation {
  // Set by reading the model.
  const TargetDescription* target = nullptr;
  RecipeSpec recipe_spec;              // the settings' or the target's
  FileKind kind = FileKind::kUnknown;  // of the model's file; unknown for a module in memory
  std::span<const std::byte>
      model_bytes;              // the file, which `module` owns; empty for a module in memory
  uint64_t source_hash = 0;     // content_hash of the file; 0 for a module in memory
  bool came_quantized = false;  // the model has quantized types and is not quantized again
  Module module;                // forward() is the graph after the last step
  Graph as_read;                // the graph before all passes

  // Set by quantizing. `quantized` is the integer reference: the program must compute the same
  // results.
  std::optional<CalibrationResult> calibration;  // of a float model
  std::optional<ConversionReport>
      conversion;                          // of a float model; has the float graph after the passes
  std::optional<RotationReport> rotation;  // if the settings ask for it
  std::optional<Equalization> equalization;  // as rotation
  std::optional<RoundingReport> rounding;    // with Rounding::kError
  Graph quantized;
  Remarks remarks;  // of passes

  // Set before placing: inputs and outputs became int8 where they could (--io int8).
  bool wants_int8_io = false;

  // Set by placing. From here on `module.forward()` is the graph as it is compiled, with layouts.
  Recipe recipe;
  Placement placement;
  LayoutResult layouts;
  std::vector<Partition> partitions;  // calls of delegates and kernels, in order of execution

  // Set by writing the program.
  EmitResult emitted;     // the plan of the program and its partitions
  MemoryMap memory;       // of the arena
  SerializedPte written;  // the .pte, and the .ptd with external constants
  std::vector<ProgramValue>
      values;  // by instruction; without values that exist only inside of a delegate

  // The sample inputs that the settings name; null without.
  const Samples* samples() const {
    return bound_samples != nullptr ? bound_samples : own_samples ? &*own_samples : nullptr;
  }
  std::span<const std::byte> pte() const { return written.bytes; }
  std::span<const std::byte> tensor_file() const { return written.tensor_file; }

  // The samples of the caller, or those that were read.
  const Samples* bound_samples = nullptr;
  std::optional<Samples> own_samples;
  bool samples_are_noise = false;               // from NoiseSamples
  size_t samples_there = 0, samples_every = 1;  // PickedSamples
  // Whether the ranges of a float model were chosen on noise, here or by the run that saved them.
  bool calibrated_on_noise() const {
    return !came_quantized && calibration && calibration->on_noise;
  }
};

}  // namespace dtr
