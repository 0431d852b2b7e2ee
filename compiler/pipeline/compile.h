// The compilation pipeline from a model to a program, for tools, tests and bindings.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/ir/sample_files.h"
#include "compiler/pipeline/compilation.h"
#include "compiler/pipeline/sram_budget.h"
#include "compiler/transforms/pass_manager.h"

namespace dtr {

// A model: the path of a file, the bytes of a file with a name for messages (they must outlive the
// compilation, and so must weights that are not in them), or a module in memory.
struct ModelBytes {
  std::span<const std::byte> bytes;
  std::string name;
  std::vector<DetachedBytes> detached = {};
};
using ModelSource = std::variant<std::string, ModelBytes, Module>;

// Sample inputs: calibration chooses the ranges of a float model on them, and checks and reports
// run on them.
struct NoSamples {};
struct SampleFile {
  std::string path;  // .npz, .npy, or a folder of them: arrays named as Samples::bind says
  size_t most = kMostCalibrationSamples;  // that are kept of the data (compiler/ir/sample_files.h)
};
struct NoiseSamples {
  uint32_t count = 1;
};
// Binds samples to the model once its graph is read: for callers that have data in memory, whose
// arrays outlive the compilation.
using SampleBinding = std::function<Result<PickedSamples>(const Graph& graph)>;
// Bound samples must outlive the compilation; null: none.
using SampleSource =
    std::variant<NoSamples, const Samples*, SampleFile, NoiseSamples, SampleBinding>;

// Where the ranges of a float model come from. A quantized model has its own.
struct FromSamples {};
struct CalibrationFile {
  std::string path;  // written by save_calibration
};
// Compiles the graph without passes and without quantizing it: for tests, which state the graph to
// compile.
struct AsItIs {};
// A calibration in memory must outlive the call.
using RangeSource = std::variant<FromSamples, CalibrationFile, const CalibrationResult*, AsItIs>;

// The types of the program's inputs and outputs.
enum class Io : uint8_t { kFloat, kInt8 };

// How the weights of a float model become codes.
enum class Rounding : uint8_t {
  kNearest,  // each to the nearest code
  kError     // by the error of the layer's results (compiler/quantizer/round_weights.h)
};

struct CompileSettings {
  const TargetDescription* target =
      nullptr;                  // may be null only for quantize_model of a quantized model
  BackendOptions backend = {};  // options of the target's recipe
  std::optional<RecipeSpec> recipe = {};  // replaces the target's recipe
  SampleSource samples = {};
  RangeSource ranges = {};
  QuantSpec::Observer observer =
      QuantSpec::Observer::kHistogram;  // others replace it where the patterns have it
  std::vector<std::pair<std::string, int64_t>> dims = {};  // DimensionSizes::given
  bool equalize = false;  // of a float model: compiler/quantizer/equalize.h
  bool rotate = false;    // of a float model: compiler/quantizer/rotate.h
  Rounding rounding = Rounding::kNearest;
  std::vector<std::string> keep_float = {};  // nodes and operators that are not quantized
  std::string stop_at = {};                  // node whose value becomes the output; empty: none
  Io io = Io::kFloat;
  std::vector<std::string> keep_off = {},
                           force_on = {};  // nodes and operators, see compiler/recipes/selection.h
  bool weigh_costs = true;                 // PlacementOptions
  bool debug_map = true;
  bool external_constants = false, io_constants = true;  // WriteOptions
  bool keep_statistics = true;  // of calibration, behind `on_quantized`: 32 KB a value
  unsigned threads = 0;         // of calibration; 0: one for each processor
  PassOptions passes = {};  // remarks are stored in the Compilation unless `passes.remarks` is set
  ProgressFunction progress = {};  // of calibration

  // Called after each step, with its wall time.
  std::function<void(std::string_view step, double milliseconds)> after_step = {};
  // Called after the model is read, and after its graph is quantized: a tool can reject a model
  // before the work starts, and save ranges, patterns and IR before later steps can fail. An error
  // ends the compilation.
  using Hook = std::function<Result<void>(const Compilation&)>;
  Hook on_read = {}, on_quantized = {};
};

// The recipe of the settings, or the target's with the settings' backend options.
RecipeSpec recipe_of(const CompileSettings& settings);

// Compiles a model: reads the source once, uses its quantization or quantizes it, places, assigns
// layouts, lowers, plans memory and writes the program. Errors: those of read_model; kNodeUnknown
// (stop_at, keep_off, force_on, keep_float); kAccuracyOptions (equalize or Rounding::kError without
// samples); kPt2UnsupportedDtype (float64); kMemoryExceeded;
// kCalibrationMissing (a float model without samples and ranges); those of reading samples,
// calibrate and convert; kRecipeInvalid; kNoBackend, kPlacementForced; those of backends;
// kProgramTooLarge; those of hooks.
Result<Compilation> compile_model(ModelSource source, const CompileSettings& settings);

// Compiles a model to several programs, which differ in their budget of SRAM alone: everything
// before the memory plan is done once.
class BudgetCompiler {
 public:
  virtual ~BudgetCompiler() = default;
  // The program of a budget; it is there until the next call. Does not depend on the calls before.
  // Errors: those of compile_model.
  virtual Result<const Compilation*> compile(const SramBudget& budget) = 0;
};
// The settings must outlive the compiler; their own budget is not used.
std::unique_ptr<BudgetCompiler> make_budget_compiler(ModelSource source,
                                                     const CompileSettings& settings);

// The same up to the placement, for callers that cut the model into parts by it: the partitioner
// of ExecuTorch. Errors: those of compile_model up to that step.
Result<Compilation> place_model(ModelSource source, const CompileSettings& settings);

// The same up to the quantized graph, for callers that run or judge the integer graph and need no
// program: `deuteron compare` on a model, saved calibrations under fuzzing, the cases of Neutron
// IR. Errors: those of compile_model up to that step.
Result<Compilation> quantize_model(ModelSource source, const CompileSettings& settings);

// Checks that the target could run a model of these types, before memory of their size is
// allocated. Errors: kPt2UnsupportedDtype (float64), kMemoryExceeded (an input or output that would
// not fit into SRAM even as int8, another tensor of more than 16 times its bytes).
Result<void> check_model(const Module& module, const TargetDescription& target);

}  // namespace dtr
