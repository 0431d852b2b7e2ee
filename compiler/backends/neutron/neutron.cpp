#include "compiler/backends/neutron/neutron.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/backends/neutron/lowering/fusion.h"
#include "compiler/backends/neutron/partition.h"
#include "compiler/backends/neutron/schedule/shared_weights.h"
#include "compiler/ops/ops.h"

namespace dtr {
namespace neutron {
namespace {

class NeutronBackend final : public DelegateBackend {
 public:
  NeutronBackend(const npu::Target& target, NeutronOptions options) : machine_{target, options} {
    if (options.nxp_like()) machine_.options.prefetch_calls = std::min(options.prefetch_calls, 1U);
  }

  std::string_view name() const override { return "neutron"; }
  std::string_view delegate_id() const override { return "DeuteronBackend"; }

  std::optional<OperatorRule> rule(const OpDef& op) const override {
    return as_operator_rule(find_rule(op));
  }
  std::optional<OperatorRule> rule_of(const Graph& graph, OpId op) const override {
    return as_operator_rule(find_rule(graph, op));
  }
  Refusal no_rule(const OpDef& op) const override {
    return {"npu-operator", fmt::format("the NPU has no kernel for {}", op.name),
            "the CPU runs it; `deuteron ops` lists what the NPU runs"};
  }
  std::optional<std::string> violation(const Condition& condition,
                                       const OpQuery& query) const override {
    return condition.violation(NpuQuery{query, machine_});
  }
  std::string with_numbers(std::string_view text) const override {
    return neutron::with_numbers(text, machine_.target);
  }

  LayoutChoice layouts(const Graph& graph, OpId op) const override {
    const BoundOpView view(graph, op);
    const LoweringRule* rule = find_rule(graph, op);
    return rule == nullptr ? LayoutChoice{} : rule->layouts(*view);
  }

  uint64_t cost(const Graph& graph, OpId op) const override {
    const BoundOpView view(graph, op);
    const LoweringRule* rule = find_rule(graph, op);
    if (rule == nullptr) return 0;
    if (rule->cost != nullptr) return rule->cost(machine_, *view);
    const std::optional<Kernel> kernel = rule->estimate(machine_, *view);
    return kernel ? machine_.target.call_host_cycles + cycles(machine_.target, *kernel).total : 0;
  }

  // The array is busy with nothing but products, or the write port with nothing but results; the
  // call may be that of a neighbour.
  uint64_t bound(const Graph& graph, OpId op) const override {
    const BoundOpView view(graph, op);
    const npu::Target& target = machine_.target;
    const auto macs =
        static_cast<uint64_t>(view->def->macs == nullptr ? 0 : view->def->macs(*view));
    uint64_t written = 0;
    for (const Type* result : view->results) written += static_cast<uint64_t>(result->elements());
    const uint64_t array = uint64_t{target.pipelines} * target.macs;
    return std::max((macs + array - 1) / array,
                    (written + target.write_port - 1) / target.write_port);
  }

  size_t max_operands() const override { return npu::kMaxOperands; }
  // Half of what a runtime loads: ops that run in stripes compute rows more than once.
  uint64_t max_work() const override { return npu::kMaxPayloadCycles / 2; }
  bool has_own_schedule() const override { return !machine_.options.nxp_like(); }
  // As a kernel call: the host enters the driver once more and blocks until the delegate is done.
  uint64_t dispatch_cycles() const override { return machine_.target.call_host_cycles; }

  Result<std::unique_ptr<LoweredPartition>> lower(Module& module, Graph graph) const override {
    std::vector<LoweredGraph> variants;
    // What is computed in place in a concatenation keeps all of it in memory from the first part
    // on.
    if (!machine_.options.nxp_like()) variants.push_back(calls_of(module, graph, true));
    if (variants.empty() || has_concatenation(graph))
      variants.push_back(calls_of(module, graph, false));
    share_equal_constants(variants);
    if (!machine_.options.nxp_like()) find_shared_weights(machine_.target, variants);
    DTR_ASSIGN(Plan plan, plan_unlimited(machine_, module, variants));
    NeutronPartition partition(machine_, std::move(graph), std::move(variants), std::move(plan));
    DTR_TRY(partition.check_work(module));
    return std::make_unique<NeutronPartition>(std::move(partition));
  }
  std::optional<uint64_t> call_cycles(Module& module, const Graph& graph) const override {
    const Result<std::unique_ptr<LoweredPartition>> lowered = lower(module, graph);
    return lowered ? std::optional((*lowered)->planned_cycles()) : std::nullopt;
  }

 private:
  static std::optional<OperatorRule> as_operator_rule(const LoweringRule* rule) {
    if (rule == nullptr) return std::nullopt;
    return OperatorRule{.dtypes = "int8",
                        .conditions = {rule->conditions.begin(), rule->conditions.end()}};
  }
  static bool has_concatenation(const Graph& graph) {
    for (const OpId op : graph.ops())
      if (graph.op(op).def == &ops::kCat) return true;
    return false;
  }

  LoweredGraph calls_of(const Module& module, const Graph& graph, bool join) const {
    Builder builder(machine_, module, graph, join);
    for (const Group& group : plan_groups(machine_, module, graph)) {
      const LoweringRule* rule = find_rule(graph, group.head);
      DTR_CHECK(rule != nullptr);  // placement has called `refuse` for every op
      rule->lower(builder, group);
      builder.end_op();
    }
    return builder.finish();
  }

  Machine machine_;
};

}  // namespace
}  // namespace neutron

std::unique_ptr<DelegateBackend> make_neutron_backend(const npu::Target& target,
                                                      NeutronOptions options) {
  DTR_CHECK(npu::is_machine(target));  // rows of compiler/targets/ are
  return std::make_unique<neutron::NeutronBackend>(target, options);
}

}  // namespace dtr
