#include "compiler/backends/cortex_m/cortex_m.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/backends/cortex_m/rules.h"

namespace dtr {
namespace {

using cortex_m::KernelRule;

const KernelRule* find_rule(const OpDef* op) {
  for (const std::span<const KernelRule> rules :
       {cortex_m::convolution_rules(), cortex_m::elementwise_rules(), cortex_m::product_rules(),
        cortex_m::reduction_rules()})
    if (const auto at = std::ranges::find(rules, op, &KernelRule::op); at != rules.end())
      return &*at;
  return cortex_m::function_rule(*op);
}

// What every call takes to read its arguments.
constexpr double kCallCycles = 1500;

class CortexMBackend final : public KernelBackend {
 public:
  explicit CortexMBackend(const TargetDescription& target)
      : target_(target), core_(target.cpu.core) {}
  std::string_view name() const override { return "cortex_m"; }

  std::optional<OperatorRule> rule(const OpDef& op) const override {
    const KernelRule* found = find_rule(&op);
    if (found == nullptr) return std::nullopt;
    OperatorRule rule{.dtypes = found->any_dtype ? "float32, int8" : "int8", .conditions = {}};
    if (!found->any_dtype) rule.conditions.push_back(&cortex_m::kInt8);
    rule.conditions.insert(rule.conditions.end(), found->conditions.begin(),
                           found->conditions.end());
    return rule;
  }
  Refusal no_rule(const OpDef& op) const override {
    return {
        "cortex-m-no-kernel", fmt::format("the Cortex-M has no int8 kernel for {}", op.name), {}};
  }

  LayoutChoice layouts(const Graph& graph, OpId id) const override {
    const Op& op = graph.op(id);
    return find_rule(op.def)->layouts(graph, op);
  }

  uint64_t cost(const Graph& graph, OpId id) const override {
    const BoundOpView view(graph, id);
    const int64_t macs = view->def->macs == nullptr ? 0 : view->def->macs(*view);
    const Op& op = graph.op(id);
    const bool reads_more = !graph.is_constant(op.operands[0]) && macs == 0;
    const int64_t elements =
        std::max(graph.type(op.results[0]).elements(),
                 reads_more ? graph.type(op.operands[0]).elements() : int64_t{0});
    const KernelRule& rule = *find_rule(op.def);
    const cortex_m::Work work =
        (rule.work_of == nullptr ? rule.work : rule.work_of(*view))[static_cast<size_t>(core_)];
    return from_cpu_cycles(
        target_, static_cast<uint64_t>(kCallCycles + work.element * static_cast<double>(elements) +
                                       work.product * static_cast<double>(macs)));
  }

  Result<KernelCall> kernel_call(Module& module, const Graph& graph, OpId id) const override {
    const Op& op = graph.op(id);
    const BoundOpView view(graph, id);
    return find_rule(op.def)->call({module, graph, op, view, core_});
  }

 private:
  const TargetDescription& target_;
  cortex_m::Core core_;
};

}  // namespace

std::unique_ptr<KernelBackend> make_cortex_m_backend(const TargetDescription& target) {
  return std::make_unique<CortexMBackend>(target);
}

}  // namespace dtr
