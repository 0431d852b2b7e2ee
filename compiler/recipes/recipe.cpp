#include "compiler/recipes/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "compiler/backends/cortex_m/cortex_m.h"
#include "compiler/backends/neutron/neutron.h"
#include "compiler/backends/portable/portable.h"
#include "compiler/ops/ops.h"
#include "compiler/quantizer/int8_patterns.h"
#include "compiler/recipes/recipe_file.h"
#include "compiler/recipes/selection.h"
#include "compiler/support/text.h"

namespace dtr {
namespace {

// One row per backend: how it and its quantization patterns are made. A backend without patterns
// leaves ops float.
struct BackendRow {
  std::string_view name;
  std::unique_ptr<Backend> (*make)(const TargetDescription& target, const BackendOptions& options);
  std::unique_ptr<QuantizationPatterns> (*patterns)();
  bool needs_npu = false;
  bool is_fallback = false;  // runs every op in float: the last backend of a recipe
  // Whether Deuteron places the constants that its calls read.
  bool places_constants = true;
  // Its calls are made by NXP's converter: the recipe needs one.
  bool needs_converter = false;
  std::span<const std::string_view> options = {};  // in a recipe file, beside the name
};

constexpr std::string_view kNeutron = "neutron", kNeutronIr = "neutron_ir";
constexpr std::array<std::string_view, 1> kNeutronOptions{"row_packing"};

std::unique_ptr<DelegateBackend> machine_of(const TargetDescription& target,
                                            const BackendOptions& options) {
  return make_neutron_backend(
      target.npu, {.row_packing = options.row_packing,
                   .schedule = options.schedule,
                   .constants_in_sram = options.constants.value_or(target.memory.constants) ==
                                        ConstantMemory::kSram});
}
std::unique_ptr<Backend> make_neutron(const TargetDescription& target,
                                      const BackendOptions& options) {
  return machine_of(target, options);
}
std::unique_ptr<QuantizationPatterns> neutron_patterns() {
  return make_int8_patterns({.backend = kNeutron, .machine = "the NPU"});
}

std::unique_ptr<Backend> make_neutron_ir(const TargetDescription& target,
                                         const BackendOptions& options) {
  return make_neutron_ir_backend(machine_of(target, options), std::string(target.name),
                                 options.converter);
}
std::unique_ptr<QuantizationPatterns> neutron_ir_patterns() {
  return make_int8_patterns({.backend = kNeutronIr, .machine = "the NPU", .fixed_tables = true});
}

std::unique_ptr<Backend> make_cortex_m(const TargetDescription& target, const BackendOptions&) {
  return make_cortex_m_backend(target);
}
std::unique_ptr<QuantizationPatterns> cortex_m_patterns() {
  return make_int8_patterns(
      {.backend = "cortex_m", .machine = "the Cortex-M", .divides_tensors = true});
}

std::unique_ptr<Backend> make_portable(const TargetDescription& target, const BackendOptions&) {
  return make_portable_backend(target);
}

std::unique_ptr<Backend> make_executorch(const TargetDescription& target, const BackendOptions&) {
  return make_executorch_backend(target);
}

constexpr BackendRow kBackends[] = {
    {.name = "cortex_m", .make = make_cortex_m, .patterns = cortex_m_patterns},
    {.name = "executorch",
     .make = make_executorch,
     .patterns = nullptr,
     .is_fallback = true,
     .places_constants = false},
    {.name = kNeutron,
     .make = make_neutron,
     .patterns = neutron_patterns,
     .needs_npu = true,
     .options = kNeutronOptions},
    {.name = kNeutronIr,
     .make = make_neutron_ir,
     .patterns = neutron_ir_patterns,
     .needs_npu = true,
     .places_constants = false,
     .needs_converter = true,
     .options = kNeutronOptions},
    {.name = "portable", .make = make_portable, .patterns = nullptr, .is_fallback = true},
};

const BackendRow* find_row(std::string_view name) {
  const auto* row = std::ranges::find(kBackends, name, &BackendRow::name);
  return row == std::end(kBackends) ? nullptr : row;
}

const BackendRow& row_of(std::string_view name) {
  const BackendRow* row = find_row(name);
  DTR_CHECK(row != nullptr);  // recipes are our own data, or checked when they are read
  return *row;
}

// Leaves out the ops that the backend is kept off.
class FilteredPatterns final : public QuantizationPatterns {
 public:
  FilteredPatterns(std::unique_ptr<QuantizationPatterns> all, size_t backend, Exclusions exclusions)
      : all_(std::move(all)), backend_(backend), exclusions_(std::move(exclusions)) {}

  std::string_view name() const override { return all_->name(); }
  tl::expected<OpAnnotation, FloatReason> annotate(const Graph& graph, OpId op) const override {
    if (exclusions_.excluded(op, backend_))
      return tl::unexpected(FloatReason{
          "kept-off", fmt::format("a constraint of the recipe keeps it off `{}`", all_->name()),
          "change the recipe"});
    return all_->annotate(graph, op);
  }

 private:
  std::unique_ptr<QuantizationPatterns> all_;
  size_t backend_;
  Exclusions exclusions_;
};

// ---- selectors

constexpr std::string_view kShowsNames = "`deuteron compile --emit-ir` shows names and modules";

bool is_quantize_or_dequantize(const Graph& graph, OpId op) {
  return op.valid() &&
         (graph.op(op).def == &ops::kQuantize || graph.op(op).def == &ops::kDequantize);
}

bool reads_input(const Graph& graph, OpId id, const std::string& name) {
  return std::ranges::any_of(graph.op(id).operands, [&](ValueId operand) {
    while (is_quantize_or_dequantize(graph, graph.producer(operand)))
      operand = graph.op(graph.producer(operand)).operands[0];
    return operand.valid() && !graph.is_constant(operand) && !graph.producer(operand).valid() &&
           graph.value(operand).name == name;
  });
}

// Outputs are known by the names of the values that the model's operators give them.
bool makes_output(const Graph& graph, OpId id, const std::string& name) {
  return std::ranges::any_of(graph.outputs(), [&](ValueId output) {
    while (is_quantize_or_dequantize(graph, graph.producer(output)))
      output = graph.op(graph.producer(output)).operands[0];
    return graph.producer(output) == id && graph.value(output).name == name;
  });
}

bool is_in_module(const Module& module, const Op& op, const std::string& path_of_module) {
  return std::ranges::any_of(op.origin.sources, [&](uint32_t source) {
    const std::string& path = module.sources[source].module_path;
    return path == path_of_module ||
           (path.starts_with(path_of_module) && path[path_of_module.size()] == '.');
  });
}

bool is_in_module_of_type(const Module& module, const Op& op, std::string_view type) {
  return std::ranges::any_of(op.origin.sources, [&](uint32_t source) {
    return std::ranges::any_of(module.sources[source].module_types, [&](std::string_view known) {
      return known == type ||
             (known.ends_with(type) && known[known.size() - type.size() - 1] == '.');
    });
  });
}

bool selects(const Module& module, const Graph& graph, const Selector& selector, OpId id) {
  const auto fits = [&](const std::vector<std::string>& list, auto matches) {
    return list.empty() || std::ranges::any_of(list, matches);
  };
  const Op& op = graph.op(id);
  return fits(selector.names,
              [&](const std::string& name) { return has_name(module, graph, id, name); }) &&
         fits(selector.modules,
              [&](const std::string& path_of_module) {
                return is_in_module(module, op, path_of_module);
              }) &&
         fits(selector.module_types,
              [&](const std::string& type) { return is_in_module_of_type(module, op, type); }) &&
         fits(selector.operators,
              [&](const std::string& name) { return is_operator(module, graph, id, name); }) &&
         fits(selector.inputs,
              [&](const std::string& name) { return reads_input(graph, id, name); }) &&
         fits(selector.outputs,
              [&](const std::string& name) { return makes_output(graph, id, name); });
}

}  // namespace

std::vector<std::string_view> backend_names(const TargetDescription& target, bool only_fallbacks) {
  std::vector<std::string_view> names;
  for (const BackendRow& row : kBackends)
    if ((!row.needs_npu || has_npu(target)) && (row.is_fallback || !only_fallbacks))
      names.push_back(row.name);
  return names;
}

bool has_option(std::string_view backend, std::string_view option) {
  const BackendRow* row = find_row(backend);
  return row != nullptr && std::ranges::find(row->options, option) != row->options.end();
}

RecipeSpec recipe_of(const TargetDescription& target, const BackendOptions& options) {
  RecipeSpec spec{.backends = {target.recipe.begin(), target.recipe.end()}, .options = options};
  if (!options.converter.command.empty()) use_converter(spec, options.converter);
  return spec;
}

void use_converter(RecipeSpec& spec, const ConverterOptions& converter) {
  spec.options.converter = converter;
  const std::string own(kNeutron), other(kNeutronIr);
  std::ranges::replace(spec.backends, own, other);
  for (Constraint& constraint : spec.constraints)
    std::ranges::replace(constraint.keep_off, own, other);
}

Result<void> check_recipe(const RecipeSpec& spec) {
  if (!spec.options.converter.command.empty()) return {};
  for (const std::string& name : spec.backends)
    if (row_of(name).needs_converter)
      return fail(
          DiagnosticId::kRecipeInvalid,
          fmt::format("the calls of `{}` are made by NXP's converter, and none is given", name),
          fmt::format("give its command with --converter, or write `{}`", kNeutron));
  return {};
}

std::optional<Optimize> optimize_of(std::string_view name) {
  for (const Optimize optimize : {Optimize::kSpeed, Optimize::kBalance, Optimize::kSize})
    if (name == dtr::name(optimize)) return optimize;
  return std::nullopt;
}

Result<uint64_t> parse_sram_bytes(std::string_view text) {
  std::string_view digits = text;
  uint64_t unit = 1;
  if (digits.ends_with('K')) unit = uint64_t{1} << 10;
  if (digits.ends_with('M')) unit = uint64_t{1} << 20;
  if (unit != 1) digits.remove_suffix(1);
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
  if (error != std::errc() || end != digits.data() + digits.size() || bytes == 0 ||
      bytes > UINT32_MAX / unit)
    return fail(
        DiagnosticId::kSramInvalid,
        fmt::format("`{}` is not a number of bytes from 1 to {}", text, with_thousands(UINT32_MAX)),
        "write bytes, or a number with K (1,024 bytes) or M (1,024 K), such as 64K");
  return bytes * unit;
}

Result<void> check_sram(const TargetDescription& target, const RecipeSpec& spec) {
  if (!spec.options.sram_bytes || *spec.options.sram_bytes <= target.memory.sram_bytes) return {};
  return fail(DiagnosticId::kSramInvalid,
              fmt::format("the budget is {} bytes of SRAM; {} has {} for the program",
                          with_thousands(*spec.options.sram_bytes), target.name,
                          with_thousands(target.memory.sram_bytes)),
              "give a smaller budget, or choose a target with more SRAM");
}

bool uses_npu(const RecipeSpec& spec) {
  return std::ranges::any_of(spec.backends,
                             [](const std::string& name) { return row_of(name).needs_npu; });
}

std::string_view who_places_constants(const RecipeSpec& spec) {
  for (const std::string& name : spec.backends)
    if (const BackendRow& row = row_of(name); !row.places_constants) return row.name;
  return {};
}

ConstantMemory constants_of(const TargetDescription& target, const RecipeSpec& spec) {
  return spec.options.constants.value_or(target.memory.constants);
}

Recipe make_recipe(const TargetDescription& target, const RecipeSpec& spec) {
  Recipe recipe;
  for (const std::string& name : spec.backends)
    recipe.push_back(row_of(name).make(target, spec.options));
  return recipe;
}

std::vector<std::unique_ptr<QuantizationPatterns>> make_patterns(const RecipeSpec& spec,
                                                                 const Exclusions& exclusions) {
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  for (size_t i = 0; i < spec.backends.size(); ++i) {
    const BackendRow& row = row_of(spec.backends[i]);
    if (row.patterns != nullptr)
      patterns.push_back(std::make_unique<FilteredPatterns>(row.patterns(), i, exclusions));
  }
  return patterns;
}

namespace {

std::vector<std::string> texts_of(const Selector& selector) {
  std::vector<std::string> texts;
  for (const auto* list : {&selector.names, &selector.modules, &selector.module_types,
                           &selector.operators, &selector.inputs, &selector.outputs})
    texts.insert(texts.end(), list->begin(), list->end());
  return texts;
}

}  // namespace

Result<Exclusions> Exclusions::resolve(const Module& module, const Graph& graph,
                                       const RecipeSpec& spec, bool must_select) {
  Exclusions found;
  found.masks_.resize(graph.op_slots());
  for (size_t number = 0; number < spec.constraints.size(); ++number) {
    const Constraint& constraint = spec.constraints[number];
    uint32_t mask = 0;
    for (size_t i = 0; i < spec.backends.size(); ++i)
      if (std::ranges::find(constraint.keep_off, spec.backends[i]) != constraint.keep_off.end())
        mask |= 1U << i;
    bool any = false, any_excepted = constraint.except.empty();
    for (const OpId op : graph.ops()) {
      if (!selects(module, graph, constraint.where, op)) continue;
      any = true;
      if (constraint.except.empty() || !selects(module, graph, constraint.except, op))
        found.masks_[op.index] |= mask;
      else
        any_excepted = true;
    }
    if (!any && must_select)
      return fail(DiagnosticId::kRecipeInvalid,
                  fmt::format("constraint {} of the recipe selects no operator of the model: `{}`",
                              number + 1, fmt::join(texts_of(constraint.where), "`, `")),
                  std::string(kShowsNames), {.file = module.file});
    if (!any_excepted && must_select)
      return fail(DiagnosticId::kRecipeInvalid,
                  fmt::format("`except` of constraint {} of the recipe selects none of the "
                              "operators that it selects",
                              number + 1),
                  std::string(kShowsNames), {.file = module.file});
  }
  return found;
}

}  // namespace dtr
