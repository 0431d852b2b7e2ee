// A recipe: the backends that share a model in order of preference, their options, and constraints
// that keep ops off backends. A target has one; a JSON file can replace it. This file turns names
// into backends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/backends/neutron/neutron.h"
#include "compiler/backends/neutron_ir/neutron_ir.h"
#include "compiler/partitioner/placement.h"
#include "compiler/quantizer/pattern.h"
#include "compiler/targets/target.h"

namespace dtr {

// Which program is chosen among those that fit the SRAM: the fastest; the smallest that takes at
// most 1 % more cycles than the fastest; the smallest.
enum class Optimize : uint8_t { kSpeed, kBalance, kSize };
// "speed", "balance", "size"; std::nullopt: none of them.
std::optional<Optimize> optimize_of(std::string_view name);
constexpr std::string_view name(Optimize optimize) {
  return optimize == Optimize::kSpeed ? "speed" : optimize == Optimize::kSize ? "size" : "balance";
}

// A number of bytes, in decimal digits, which K (1,024) or M (1,048,576) may follow. Error:
// kSramInvalid, also for 0.
Result<uint64_t> parse_sram_bytes(std::string_view text);

struct BackendOptions {
  // SRAM that the program may use; std::nullopt: all that the target has.
  std::optional<uint64_t> sram_bytes = {};
  std::optional<Optimize> optimize = {};  // std::nullopt: kSpeed
  // Where the program's constants are; std::nullopt: as the target has it.
  std::optional<ConstantMemory> constants = {};
  // Of the backends of the NPU, see docs/npu.md.
  bool row_packing = false;
  NeutronSchedule schedule = NeutronSchedule::kOwn;
  ConverterOptions converter = {};  // of neutron_ir
};

// Selects operators of the model: those that match every non-empty list.
struct Selector {
  std::vector<std::string> names;         // of nodes, or of their results
  std::vector<std::string> modules;       // paths; a module selects everything in it
  std::vector<std::string> module_types;  // "torch.nn.modules.conv.Conv2d", "Conv2d"; likewise
  std::vector<std::string> operators;     // "aten.softmax.int", "softmax"
  std::vector<std::string> inputs,
      outputs;  // of the model: operators that read such an input, or compute such an output

  bool empty() const { return *this == Selector{}; }
  bool operator==(const Selector&) const = default;
};

// Keeps operators that `where` selects and `except` does not off the named backends. An empty
// `where` selects every operator, an empty `except` none.
struct Constraint {
  Selector where, except;
  std::vector<std::string> keep_off;
};

struct RecipeSpec {
  std::vector<std::string> backends;  // first choice first; the last one is the fallback, in float
  BackendOptions options = {};
  std::vector<Constraint> constraints = {};
};

// The target's own; with a converter among the options, as use_converter changes it.
RecipeSpec recipe_of(const TargetDescription& target, const BackendOptions& options = {});
// Lets NXP's converter make the calls of the NPU: `neutron_ir` takes the place of `neutron`.
void use_converter(RecipeSpec& spec, const ConverterOptions& converter);
// Errors: kRecipeInvalid, if a backend needs a converter and none is given.
Result<void> check_recipe(const RecipeSpec& spec);
// Whether a backend of the recipe runs operators on the NPU.
bool uses_npu(const RecipeSpec& spec);
// The first backend whose constants another runtime or tool places; empty: Deuteron places all.
std::string_view who_places_constants(const RecipeSpec& spec);
// Reads a recipe from a JSON file (docs/recipes.md). Errors: kFileNotFound, kRecipeInvalid.
Result<RecipeSpec> read_recipe(const std::string& path, const TargetDescription& target);
// The same from text; `file` names it in messages. Error: kRecipeInvalid.
Result<RecipeSpec> parse_recipe(std::string_view text, const std::string& file,
                                const TargetDescription& target);

// Whether the recipe of a target that was read from `file` names backends that there are for it,
// each once, and ends with one that runs every operator. Error: kTargetInvalid.
Result<void> check_target_recipe(const TargetDescription& target, const std::string& file);

// Error: kSramInvalid, if the recipe's SRAM is more than the target has.
Result<void> check_sram(const TargetDescription& target, const RecipeSpec& spec);

// Where the program's constants are: the recipe's choice, else the target's.
ConstantMemory constants_of(const TargetDescription& target, const RecipeSpec& spec);

// Constructs the backends that the recipe names, which must exist (read_recipe checks them).
Recipe make_recipe(const TargetDescription& target, const RecipeSpec& spec);

// The constraints of a recipe, resolved for the ops of a graph.
class Exclusions {
 public:
  // Error: kRecipeInvalid, if `must_select` is set and a constraint selects no operator of the
  // graph.
  static Result<Exclusions> resolve(const Module& module, const Graph& graph,
                                    const RecipeSpec& spec, bool must_select);

  // By op slot, a bit for each backend.
  const std::vector<uint32_t>& masks() const { return masks_; }
  bool excluded(OpId op, size_t backend) const {
    return op.index < masks_.size() && (masks_[op.index] >> backend & 1U) != 0;
  }

 private:
  std::vector<uint32_t> masks_;
};

// The quantization patterns of the recipe's backends, in its order. Patterns of a
// backend do not see ops that constraints keep off it.
std::vector<std::unique_ptr<QuantizationPatterns>> make_patterns(const RecipeSpec& spec,
                                                                 const Exclusions& exclusions = {});

}  // namespace dtr
