#include "compiler/recipe.h"

#include "backends/cortex_m/cortex_m.h"
#include "backends/neutron/neutron.h"
#include "backends/portable/portable.h"
#include "quantizer/int8_patterns.h"

namespace dtr {
namespace {

// One row per backend: how it and its quantization patterns are made. A backend without patterns leaves ops float.
struct BackendRow {
  std::string_view name;
  std::unique_ptr<Backend> (*make)(const TargetDescription& target, const BackendOptions& options);
  std::unique_ptr<QuantizationPatterns> (*patterns)();
};

std::unique_ptr<Backend> make_neutron(const TargetDescription& target, const BackendOptions& options) {
  return make_neutron_backend(target.npu, {.row_packing = options.row_packing});
}
std::unique_ptr<QuantizationPatterns> neutron_patterns() { return make_int8_patterns({.machine = "the NPU"}); }

std::unique_ptr<Backend> make_cortex_m(const TargetDescription&, const BackendOptions&) { return make_cortex_m_backend(); }
std::unique_ptr<QuantizationPatterns> cortex_m_patterns() {
  return make_int8_patterns({.machine = "the Cortex-M", .divides_tensors = true});
}

std::unique_ptr<Backend> make_portable(const TargetDescription&, const BackendOptions&) { return make_portable_backend(); }

std::unique_ptr<Backend> make_executorch(const TargetDescription&, const BackendOptions&) { return make_executorch_backend(); }

constexpr BackendRow kBackends[] = {
    {"cortex_m", make_cortex_m, cortex_m_patterns},
    {"executorch", make_executorch, nullptr},
    {"neutron", make_neutron, neutron_patterns},
    {"portable", make_portable, nullptr},
};

const BackendRow& row_of(std::string_view name) {
  for (const BackendRow& row : kBackends)
    if (row.name == name) return row;
  DTR_CHECK(false);  // the recipes are our own data
}

}  // namespace

Recipe make_recipe(const TargetDescription& target, const BackendOptions& options) {
  Recipe recipe;
  for (const std::string_view name : target.recipe) recipe.push_back(row_of(name).make(target, options));
  return recipe;
}

std::vector<std::unique_ptr<QuantizationPatterns>> make_patterns(const TargetDescription& target) {
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  for (const std::string_view name : target.recipe)
    if (row_of(name).patterns != nullptr) patterns.push_back(row_of(name).patterns());
  return patterns;
}

}  // namespace dtr
