// The pipeline from a model to a program: what tools, tests and bindings call.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/pipeline/compilation.h"
#include "compiler/transforms/pass_manager.h"

namespace dtr {

// A model: the path of a file, a file's bytes under a name for messages (the bytes outlive the
// compilation), or a program that is in memory.
struct ModelBytes {
  std::span<const std::byte> bytes;
  std::string name;
};
using ModelSource = std::variant<std::string, ModelBytes, Module>;

// Real inputs: the ranges of a float model are chosen on them, and checks and reports run on them.
struct NoSamples {};
struct SampleFile {
  std::string path;  // .npz, .npy: arrays named as Samples::bind says
};
struct NoiseSamples {
  uint32_t count = 1;
};
// Binds samples to the model once its graph is read: for callers that have data in memory, whose
// arrays outlive the compilation.
using SampleBinding = std::function<Result<Samples>(const Graph& graph)>;
// Bound samples outlive the compilation; null: none.
using SampleSource =
    std::variant<NoSamples, const Samples*, SampleFile, NoiseSamples, SampleBinding>;

// Where the ranges of a float model come from. A model that comes quantized brings its own.
struct FromSamples {};
struct CalibrationFile {
  std::string path;  // written by save_calibration
};
// The graph is compiled op by op as it is, without passes, and what is float in it stays float: for
// tests, which state the graph that they want compiled.
struct AsItIs {};
// A calibration in memory outlives the call.
using RangeSource = std::variant<FromSamples, CalibrationFile, const CalibrationResult*, AsItIs>;

enum class Io : uint8_t { kFloat, kInt8 };

struct CompileSettings {
  const TargetDescription* target =
      nullptr;  // null: quantize_model of a model that comes quantized, whatever runs it
  BackendOptions backend = {};            // of the target's recipe
  std::optional<RecipeSpec> recipe = {};  // instead of it
  SampleSource samples = {};
  RangeSource ranges = {};
  QuantSpec::Observer observer =
      QuantSpec::Observer::kHistogram;  // kMinMax replaces what the patterns ask for
  std::string stop_at = {};             // node whose value becomes the output; empty: none
  Io io = Io::kFloat;
  std::vector<std::string> keep_off = {},
                           force_on = {};  // nodes and operators, see compiler/recipes/selection.h
  bool weigh_costs = true;                 // PlacementOptions
  bool debug_map = true;
  bool external_constants = false;  // WriteOptions
  unsigned threads = 0;             // of calibration; 0: all of the machine
  PassOptions passes = {};          // remarks go to the Compilation, unless they are given here
  ProgressFunction progress = {};   // of calibration

  // Called when a step is done, with its wall time.
  std::function<void(std::string_view step, double milliseconds)> after_step = {};
  // Called when the model is read, and when its graph is quantized: a tool refuses what it cannot
  // use before the work, and saves ranges, patterns and IR before later steps can fail. An error
  // ends the compilation.
  using Hook = std::function<Result<void>(const Compilation&)>;
  Hook on_read = {}, on_quantized = {};
};

RecipeSpec recipe_of(const CompileSettings& settings);

// A model to a program: reads the source once, takes its quantization or quantizes it, places, lays
// out, lowers, plans memory and writes. Errors: those of read_model; kNodeUnknown (stop_at,
// keep_off, force_on); kPt2UnsupportedDtype (float64); kMemoryExceeded; kCalibrationMissing (a
// float model without samples and ranges); those of reading samples, calibrate and convert;
// kRecipeInvalid; kNoBackend, kPlacementForced; those of backends; kProgramTooLarge; those of
// hooks.
Result<Compilation> compile_model(ModelSource source, const CompileSettings& settings);

// The same up to the quantized graph. For callers that run or judge the integer graph and want no
// program: `deuteron compare` on a model, saved calibrations under fuzzing, the cases of Neutron
// IR.
Result<Compilation> quantize_model(ModelSource source, const CompileSettings& settings);

// Whether the target could run a model of these types, before anything of their size is allocated.
// Errors: kPt2UnsupportedDtype (float64), kMemoryExceeded (a tensor that would not fit into SRAM
// even as int8).
Result<void> check_model(const Module& module, const TargetDescription& target);

}  // namespace dtr
