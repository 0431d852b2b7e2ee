// Everything that a compilation made, step by step. Every report is a function of it, called
// afterwards: report.h, placement_report.h, pattern_report.h, host/accuracy/check.h and
// quantization_report.h.
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
#include "compiler/recipes/recipe.h"
#include "compiler/transforms/remarks.h"

namespace dtr {

// Where the program has a value of the graph once the instruction that makes it has run, until
// others need the memory.
struct ProgramValue {
  ValueId value;
  uint32_t instruction = 0;
  int32_t index = -1;  // among the values of the program's plan
};

// Each member is filled by the step whose comment stands above it; later steps do not change it,
// but for `program.forward()`, which each step rewrites in place.
struct Compilation {
  // Read.
  const TargetDescription* target = nullptr;
  RecipeSpec recipe_spec;  // the settings' or the target's
  FileKind kind =
      FileKind::kUnknown;  // of the model's file; unknown for a program that was in memory
  std::span<const std::byte>
      model_bytes;  // the file, which `program` keeps; empty for a program that was in memory
  uint64_t source_hash = 0;     // content_hash of them; 0 without
  bool came_quantized = false;  // the model has quantized types: it is taken as it is
  Module module;                // forward(): the graph as the last step left it
  Graph as_read;                // the graph before all passes

  // Quantized. The graph behind it is what the program must compute: the integer reference.
  std::optional<CalibrationResult> calibration;  // of a float model
  std::optional<ConversionReport>
      conversion;  // of a float model; has the float graph after the passes
  Graph quantized;
  Remarks remarks;  // of passes

  // Placed. `program.forward()` is then the graph as it was compiled, with layouts.
  Recipe recipe;
  Placement placement;
  LayoutResult layouts;
  std::vector<Partition> partitions;  // calls of delegates and kernels, in order of execution

  // Written.
  EmitResult emitted;     // the plan of the program and its partitions
  MemoryMap memory;       // of the arena
  SerializedPte written;  // the .pte, and the .ptd with external constants
  std::vector<ProgramValue>
      values;  // by instruction; what exists inside of a delegate only is not among them

  // Real inputs, as the settings named them; null without.
  const Samples* samples() const {
    return bound_samples != nullptr ? bound_samples : own_samples ? &*own_samples : nullptr;
  }
  std::span<const std::byte> pte() const { return written.bytes; }
  std::span<const std::byte> tensor_file() const { return written.tensor_file; }

  // What `samples()` refers to: the caller's, or those that were read.
  const Samples* bound_samples = nullptr;
  std::optional<Samples> own_samples;
};

}  // namespace dtr
