#include <fmt/format.h>

#include "compiler/backends/neutron_ir/converter.h"
#include "compiler/backends/neutron_ir/emitter.h"

namespace dtr {
namespace neutron_ir {
namespace {

// One step: what happens within is the driver's business, scratch included.
class Converted final : public LoweredPartition {
 public:
  Converted(const Graph& graph, std::vector<std::byte> payload) : payload_(std::move(payload)) {
    steps = 1;
    plans_scratch = false;
    for (const ValueId input : graph.inputs()) inputs.push_back({.bytes = static_cast<uint32_t>(graph.type(input).bytes())});
    for (const ValueId output : graph.outputs()) outputs.push_back({.bytes = static_cast<uint32_t>(graph.type(output).bytes())});
    for (const OpId op : graph.ops()) {
      const BoundOpView view(graph, op);
      step_info.push_back(
          {.kernel = "NeutronGraph", .origin = graph.op(op).origin, .macs = view->def->macs == nullptr ? 0 : view->def->macs(*view)});
    }
  }

  Result<std::vector<std::byte>> encode(std::span<const uint32_t>, uint32_t) const override { return payload_; }

 private:
  std::vector<std::byte> payload_;
};

class NeutronIrBackend final : public Backend {
 public:
  NeutronIrBackend(std::unique_ptr<Backend> machine, std::string target, ConverterOptions options)
      : machine_(std::move(machine)), target_(std::move(target)), options_(std::move(options)) {}

  std::string_view name() const override { return machine_->name(); }
  std::string_view delegate_id() const override { return kNeutronDelegateId; }

  std::optional<Refusal> refuse(const Program& program, const Graph& graph, OpId op) const override {
    if (std::optional<Refusal> refusal = machine_->refuse(program, graph, op)) return refusal;
    const Form* form = find_form(*graph.op(op).def);
    if (form == nullptr)
      return no_form(fmt::format("TensorFlow Lite, in which the converter reads models, has no {} in int8", graph.op(op).def->name));
    if (form->refuse == nullptr) return std::nullopt;
    const BoundOpView view(graph, op);
    return form->refuse(graph, graph.op(op), *view);
  }

  LayoutChoice layouts(const Graph& graph, OpId op) const override {
    const Form* form = find_form(*graph.op(op).def);
    const BoundOpView view(graph, op);
    return form == nullptr ? LayoutChoice{} : form->layouts(*view);
  }

  std::optional<OperatorSupport> support(const OpDef& op) const override {
    return find_form(op) == nullptr ? std::nullopt : machine_->support(op);
  }
  uint64_t cost(const Graph& graph, OpId op) const override { return machine_->cost(graph, op); }
  uint64_t bound(const Graph& graph, OpId op) const override { return machine_->bound(graph, op); }
  uint64_t hand_over_cycles() const override { return machine_->hand_over_cycles(); }
  bool prefers_contiguous() const override { return true; }

  Result<std::unique_ptr<LoweredPartition>> lower(Program& program, Graph graph) const override {
    DTR_ASSIGN(std::vector<std::byte> payload, convert(graph, write_neutron_ir(program, graph), target_, options_));
    return std::make_unique<Converted>(graph, std::move(payload));
  }

 private:
  std::unique_ptr<Backend> machine_;
  std::string target_;
  ConverterOptions options_;
};

}  // namespace
}  // namespace neutron_ir

std::unique_ptr<Backend> make_neutron_ir_backend(std::unique_ptr<Backend> machine, std::string target, ConverterOptions options) {
  return std::make_unique<neutron_ir::NeutronIrBackend>(std::move(machine), std::move(target), std::move(options));
}

std::vector<std::byte> write_neutron_ir(const Program& program, const Graph& graph) { return neutron_ir::Emitter(program, graph).run(); }

}  // namespace dtr
