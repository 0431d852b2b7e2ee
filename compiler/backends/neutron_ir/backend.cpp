#include <fmt/format.h>

#include <set>

#include "compiler/backends/neutron_ir/converter.h"
#include "compiler/backends/neutron_ir/emitter.h"
#include "compiler/backends/neutron_ir/payload.h"

namespace dtr {
namespace neutron_ir {
namespace {

// One step: what happens within is the driver's business, scratch included. A kernel is a command,
// if the converter's log tells them; else each op has a row in reports, and no command.
class Converted final : public LoweredPartition {
 public:
  Converted(const Graph& graph, const std::vector<OpId>& ops, Conversion conversion)
      : payload_(std::move(conversion.payload)) {
    steps = 1;
    plans_scratch = false;
    if (const Result<NeutronPayload> payload = parse_neutron_payload(payload_); payload)
      runtime_bytes = payload->scratch;
    for (const ValueId input : graph.inputs())
      inputs.push_back({.bytes = static_cast<uint32_t>(graph.type(input).bytes())});
    for (const ValueId output : graph.outputs())
      outputs.push_back({.bytes = static_cast<uint32_t>(graph.type(output).bytes())});
    std::set<OpId> listed;  // that a kernel computes
    if (conversion.kernels) add_kernels(graph, ops, *conversion.kernels, listed);
    for (const OpId op : graph.ops())
      if (!listed.contains(op))
        step_info.push_back({.command = StepInfo::kNoCommand,
                             .kernel = "NeutronGraph",
                             .origin = graph.op(op).origin,
                             .macs = macs_of(graph, op)});
  }

  Result<std::vector<std::byte>> encode(std::span<const uint32_t>, uint32_t) const override {
    return payload_;
  }

 private:
  static int64_t macs_of(const Graph& graph, OpId op) {
    const BoundOpView view(graph, op);
    return view->def->macs == nullptr ? 0 : view->def->macs(*view);
  }

  void add_kernels(const Graph& graph, const std::vector<OpId>& ops,
                   const std::vector<LoggedKernel>& kernels, std::set<OpId>& listed) {
    uint32_t command = 0;
    for (const LoggedKernel& kernel : kernels) {
      StepInfo step{.command = command++, .kernel = kernel.name, .origin = {}};
      std::set<OpId> computed;
      for (const size_t index : kernel.operators) computed.insert(ops[index]);
      for (const OpId op : computed) {
        step.origin =
            op == *computed.begin() ? graph.op(op).origin : merge(step.origin, graph.op(op).origin);
        if (listed.insert(op).second) step.macs += macs_of(graph, op);
      }
      step_info.push_back(std::move(step));
    }
  }

  std::vector<std::byte> payload_;
};

class NeutronIrBackend final : public DelegateBackend {
 public:
  NeutronIrBackend(std::unique_ptr<DelegateBackend> machine, std::string target,
                   ConverterOptions options)
      : machine_(std::move(machine)), target_(std::move(target)), options_(std::move(options)) {}

  std::string_view name() const override { return "neutron_ir"; }
  std::string_view delegate_id() const override { return kNeutronDelegateId; }

  std::optional<OperatorRule> rule(const OpDef& op) const override {
    return with_form(op, machine_->rule(op));
  }
  std::optional<OperatorRule> rule_of(const Graph& graph, OpId op) const override {
    return with_form(*graph.op(op).def, machine_->rule_of(graph, op));
  }
  Refusal no_rule(const OpDef& op) const override {
    if (!machine_->rule(op)) return machine_->no_rule(op);
    return {.id = kNoForm,
            .reason = fmt::format(
                "TensorFlow Lite, in which the converter reads models, has no {} in int8", op.name),
            .remedy = std::string(kOtherForm)};
  }
  std::optional<std::string> violation(const Condition& condition,
                                       const OpQuery& query) const override {
    return machine_->violation(condition, query);
  }
  std::string with_numbers(std::string_view text) const override {
    return machine_->with_numbers(text);
  }

  LayoutChoice layouts(const Graph& graph, OpId op) const override {
    const Form* form = find_form(*graph.op(op).def);
    const BoundOpView view(graph, op);
    return form == nullptr ? LayoutChoice{} : form->layouts(*view);
  }

  uint64_t cost(const Graph& graph, OpId op) const override { return machine_->cost(graph, op); }
  uint64_t bound(const Graph& graph, OpId op) const override { return machine_->bound(graph, op); }
  uint64_t dispatch_cycles() const override { return machine_->dispatch_cycles(); }
  bool prefers_contiguous() const override { return true; }
  bool has_own_schedule() const override { return machine_->has_own_schedule(); }

  Result<std::unique_ptr<LoweredPartition>> lower(Module& module, Graph graph) const override {
    const NeutronIr ir = write_neutron_ir(module, graph);
    DTR_ASSIGN(Conversion conversion, convert(graph, ir.model, target_, options_));
    return std::make_unique<Converted>(graph, ir.ops, std::move(conversion));
  }

 private:
  static std::optional<OperatorRule> with_form(const OpDef& op, std::optional<OperatorRule> rule) {
    const Form* form = find_form(op);
    if (form == nullptr || !rule) return std::nullopt;
    rule->conditions.insert(rule->conditions.end(), form->conditions.begin(),
                            form->conditions.end());
    return rule;
  }

  std::unique_ptr<DelegateBackend> machine_;
  std::string target_;
  ConverterOptions options_;
};

}  // namespace
}  // namespace neutron_ir

std::unique_ptr<DelegateBackend> make_neutron_ir_backend(std::unique_ptr<DelegateBackend> machine,
                                                         std::string target,
                                                         ConverterOptions options) {
  return std::make_unique<neutron_ir::NeutronIrBackend>(std::move(machine), std::move(target),
                                                        std::move(options));
}

NeutronIr write_neutron_ir(const Module& module, const Graph& graph) {
  return neutron_ir::Emitter(module, graph).run();
}

}  // namespace dtr
