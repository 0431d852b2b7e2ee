#include "compiler/partitioner/backend.h"

namespace dtr {

KernelArgument kernel_argument(const Graph& graph, ValueId value) {
  if (!value.valid()) return std::monostate{};
  if (!graph.is_constant(value)) return value;
  return ConstantArgument{graph.type(value), graph.value(value).constant};
}

Result<bool> Backend::legalize(Program&, Graph&, OpId) const { return false; }

uint64_t Backend::bound(const Graph&, OpId) const { return 0; }
uint64_t Backend::hand_over_cycles() const { return 0; }
uint64_t Backend::conversion_cycles(int64_t) const { return 0; }

// Each backend overrides one of the two: delegates lower partitions, the others name kernels.
// NOLINTNEXTLINE(performance-unnecessary-value-param): backends that override it consume the graph
Result<std::unique_ptr<LoweredPartition>> Backend::lower(Program&, Graph) const { DTR_CHECK(false); }
Result<KernelCall> Backend::kernel_call(Program&, const Graph&, OpId) const { DTR_CHECK(false); }

}  // namespace dtr
