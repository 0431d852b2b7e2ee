// The C++ side of deuteron.executorch.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "compiler/pipeline/node_annotations.h"
#include "host/commands/compile_options.h"
#include "host/executorch/partition.h"
#include "host/executorch/platform.h"
#include "python/src/convert.h"
#include "python/src/program.h"
#include "python/src/work.h"

namespace dtr::python {
namespace {

namespace et = executorch;

// Programs are read and simulated by code that may throw: a failed check, no memory. ExecuTorch's
// frames above are compiled without exceptions.
class GuardedBackend final : public et::BackendInterface {
 public:
  explicit GuardedBackend(et::Payloads payloads) : backend_(simulated_platform(), payloads) {}
  bool is_available() const override { return true; }
  et::Result<et::DelegateHandle*> init(et::BackendInitContext& context,
                                       et::FreeableBuffer* processed,
                                       et::ArrayRef<et::CompileSpec> specs) const override {
    try {
      return backend_.init(context, processed, specs);
    } catch (const std::exception& error) {
      tell(error);
      return et::Error::Internal;
    }
  }
  et::Error execute(et::BackendExecutionContext& context, et::DelegateHandle* handle,
                    et::Span<et::EValue*> arguments) const override {
    try {
      return backend_.execute(context, handle, arguments);
    } catch (const std::exception& error) {
      tell(error);
      return et::Error::Internal;
    }
  }
  void destroy(et::DelegateHandle* handle) const override { backend_.destroy(handle); }

 private:
  static void tell(const std::exception& error) { simulated_platform().log(nullptr, error.what()); }
  et::DeuteronBackend backend_;
};

// Options of DeuteronCompileSpec. `weigh_costs` alone is not one of the command.
CompileSettings settings_of(const nb::dict& values) {
  CompileOptions options;
  bool weigh_costs = true;
  OptionReader reader(values);
  reader.take("target", options.target)
      .take("schedule", options.schedule)
      .take("constants", options.constants)
      .take("row_packing", options.row_packing)
      .take("keep_off", options.keep_off)
      .take("force_on", options.force_on)
      .take("weigh_costs", weigh_costs);
  reader.finish();
  CompileSettings settings = take(checked_settings(options));
  settings.weigh_costs &= weigh_costs;
  settings.io_constants = false;  // of a delegate's payload nobody asks
  return settings;
}

// (node, delegated, id, reason, remedy, because_of) of each node that has an operator.
nb::list place_nodes(nb::handle model, const nb::dict& options) {
  const Source source(model);
  const CompileSettings settings = settings_of(options);
  const std::vector<NodePlacement> rows = work([&](Work&) {
    const Compilation compilation =
        take(place_model(ModelBytes{source.bytes(), source.name, source.detached}, settings));
    return node_placements(compilation);
  });
  nb::list list;
  for (const NodePlacement& row : rows)
    list.append(
        nb::make_tuple(row.node, row.delegated, row.id, row.reason, row.remedy, row.because_of));
  return list;
}

// The program of a partition, and the nodes of each of its events.
nb::tuple compile_partition(nb::handle model, const nb::dict& options) {
  const Source source(model);
  const CompileSettings settings = settings_of(options);
  std::vector<std::pair<int32_t, std::vector<std::string>>> events;
  const std::vector<std::byte> program = work([&](Work&) {
    const Compilation compilation =
        take(compile_model(ModelBytes{source.bytes(), source.name, source.detached}, settings));
    events = event_nodes(compilation);
    return std::vector(compilation.pte().begin(), compilation.pte().end());
  });
  return nb::make_tuple(to_bytes(program), events);
}

std::string_view kind_of(const QuantSpec& spec) {
  if (spec.kind == QuantSpec::Kind::kFixed) return "fixed";
  return spec.kind == QuantSpec::Kind::kSymmetric ? "symmetric" : "affine";
}

// What annotate_nodes says: groups (kind, histogram, least scale, scale, zero point), results
// (node, group), inputs (readers, tensor, group, per channel), nodes with values inside.
nb::tuple annotate(nb::handle model, const nb::dict& options) {
  const Source source(model);
  const CompileSettings settings = settings_of(options);
  const NodeAnnotations annotations = work([&](Work&) {
    return take(annotate_nodes({source.bytes(), source.name, source.detached}, settings));
  });
  nb::list groups, results, inputs;
  for (const QuantSpec& spec : annotations.groups)
    groups.append(nb::make_tuple(std::string(kind_of(spec)),
                                 spec.observer == QuantSpec::Observer::kHistogram, spec.least_scale,
                                 spec.scale, spec.zero_point));
  for (const AnnotatedResult& row : annotations.results)
    results.append(nb::make_tuple(row.node, row.group));
  for (const AnnotatedInput& row : annotations.inputs)
    inputs.append(nb::make_tuple(row.readers, row.tensor, row.group, row.per_channel));
  return nb::make_tuple(groups, results, inputs, annotations.interior);
}

}  // namespace

void bind_executorch(nb::module_& module) {
  // Backends are never destroyed: ExecuTorch keeps their addresses.
  module.def("executorch_register", [](const std::string& folder) {
    static auto* const backend = new GuardedBackend(et::Payloads::kPrograms);
    return register_with_executorch(folder, et::DeuteronBackend::kName, *backend);
  });
  module.def("executorch_register_neutron", [](const std::string& folder) {
    static auto* const backend = new GuardedBackend(et::Payloads::kNeutron);
    return register_with_executorch(folder, et::DeuteronBackend::kNeutronName, *backend);
  });
  module.def("executorch_place", &place_nodes, nb::arg("model"), nb::arg("options"));
  module.def("executorch_annotate", &annotate, nb::arg("model"), nb::arg("options"));
  module.def("executorch_compile", &compile_partition, nb::arg("model"), nb::arg("options"));
}

}  // namespace dtr::python
