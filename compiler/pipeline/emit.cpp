#include "compiler/pipeline/emit.h"

#include <type_traits>

#include "compiler/program/scalar_types.h"

namespace dtr {
namespace {

class Emitter {
 public:
  Emitter(Module& module, const Graph& graph, const Recipe& recipe)
      : module_(module), graph_(graph), recipe_(recipe) {
    tensors_.resize(graph.value_slots());
    emitted_.plan.method = graph.name;
    emitted_.plan.sources = module.sources;
  }

  Result<EmitResult> run(const std::vector<Partition>& partitions) {
    for (const ValueId input : graph_.inputs()) emitted_.plan.inputs.push_back(tensor(input));
    for (const Partition& partition : partitions) {
      if (const DelegateBackend* delegate = recipe_[partition.backend]->as_delegate()) {
        DTR_TRY(add_delegate_call(*delegate, partition));
      } else {
        for (const OpId op : partition.ops)
          DTR_TRY(add_kernel_call(*recipe_[partition.backend]->as_kernels(), op));
      }
      emitted_.backends.resize(emitted_.plan.calls.size(), partition.backend);
    }
    for (const ValueId output : graph_.outputs()) emitted_.plan.outputs.push_back(tensor(output));
    return std::move(emitted_);
  }

 private:
  TensorRef tensor(ValueId id) {
    TensorRef& ref = tensors_[id.index];
    if (ref.index != UINT32_MAX) return ref;
    const Value& value = graph_.value(id);
    PlanTensor planned{.name = value.name, .type = value.type};
    if (value.kind == ValueKind::kConstant)
      planned.constant = module_.constants.bytes(value.constant);
    if (value.producer.valid()) planned.origin = graph_.op(value.producer).origin;
    planned.readers = readers(graph_, id);
    ref = emitted_.plan.add_tensor(std::move(planned));
    return ref;
  }

  // A result of the call that is being planned.
  TensorRef made(ValueId id) {
    const TensorRef ref = tensor(id);
    emitted_.results.push_back({id, static_cast<uint32_t>(emitted_.plan.calls.size()), ref});
    return ref;
  }

  PlanArgument argument(const KernelArgument& from) {
    return std::visit(
        [&](const auto& value) -> PlanArgument {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, ValueId>) {
            return tensor(value);
          } else if constexpr (std::is_same_v<T, ConstantArgument>) {
            return emitted_.plan.add_tensor({.name = "constant",
                                             .type = value.type,
                                             .constant = module_.constants.bytes(value.constant)});
          } else if constexpr (std::is_same_v<T, ScratchArgument>) {
            return emitted_.plan.add_tensor(
                {.name = "scratch", .type = {.dtype = DType::kUint8, .shape = {value.bytes}}});
          } else if constexpr (std::is_same_v<T, std::vector<ValueId>>) {
            TensorRefs refs;
            for (const ValueId id : value) refs.emplace_back(tensor(id));
            return refs;
          } else if constexpr (std::is_same_v<T, DType>) {
            return static_cast<int64_t>(scalar_type(value));
          } else {
            return value;
          }
        },
        from);
  }

  Result<void> add_kernel_call(const KernelBackend& backend, OpId op) {
    DTR_ASSIGN(const KernelCall call, backend.kernel_call(module_, graph_, op));
    const BoundOpView view(graph_, op);
    KernelCallPlan planned{.kernel = std::string(call.name),
                           .origin = graph_.op(op).origin,
                           .macs = view->def->macs == nullptr ? 0 : view->def->macs(*view),
                           .cycles = backend.cost(graph_, op)};
    for (const KernelArgument& from : call.arguments) planned.arguments.push_back(argument(from));
    for (const ValueId result : graph_.op(op).results) planned.outputs.push_back(made(result));
    for (const Type& type : call.extra_outputs)
      planned.outputs.push_back(emitted_.plan.add_tensor(
          {.name = "unused", .type = type, .origin = graph_.op(op).origin}));
    emitted_.plan.calls.emplace_back(std::move(planned));
    emitted_.partitions.push_back(nullptr);
    return {};
  }

  Result<void> add_delegate_call(const DelegateBackend& backend, const Partition& partition) {
    DTR_ASSIGN(std::unique_ptr<LoweredPartition> lowered,
               backend.lower(module_, extract(graph_, partition)));
    DelegateCallPlan planned{.delegate_id = std::string(backend.delegate_id()),
                             .partition = lowered.get()};
    for (const ValueId input : partition.inputs) planned.inputs.push_back(tensor(input));
    for (const ValueId output : partition.outputs) planned.outputs.push_back(made(output));
    for (const OpId op : partition.ops)
      planned.origin = merge(planned.origin, graph_.op(op).origin);
    emitted_.plan.calls.emplace_back(std::move(planned));
    emitted_.partitions.push_back(std::move(lowered));
    return {};
  }

  Module& module_;
  const Graph& graph_;
  const Recipe& recipe_;
  EmitResult emitted_;
  std::vector<TensorRef> tensors_;  // by value slot
};

}  // namespace

Result<EmitResult> emit(Module& module, const Graph& graph, const Recipe& recipe,
                        const std::vector<Partition>& partitions) {
  return Emitter(module, graph, recipe).run(partitions);
}

}  // namespace dtr
