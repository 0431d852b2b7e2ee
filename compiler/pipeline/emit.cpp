#include "compiler/pipeline/emit.h"

#include <map>
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
    for (size_t i = 0; i < graph.state_count(); ++i)
      state_of_.emplace(graph.state(i), module.constants.bytes(graph.initial_state(i)));
  }

  Result<EmitResult> run(const std::vector<Partition>& partitions) {
    for (const ValueId input : std::span(graph_.inputs()).first(graph_.user_input_count()))
      emitted_.plan.inputs.push_back(tensor(input));
    for (const Partition& partition : partitions) {
      if (const DelegateBackend* delegate = recipe_[partition.backend]->as_delegate()) {
        DTR_TRY(add_delegate_call(*delegate, partition));
      } else {
        for (const OpId op : partition.ops)
          DTR_TRY(add_kernel_call(*recipe_[partition.backend]->as_kernels(), op));
      }
      emitted_.backends.resize(emitted_.plan.calls.size(), partition.backend);
    }
    for (const ValueId output : std::span(graph_.outputs()).first(graph_.user_output_count()))
      emitted_.plan.outputs.push_back(kept(output));
    write_states();
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
    if (const auto state = state_of_.find(id); state != state_of_.end())
      planned.initial_state = state->second;
    if (value.producer.valid()) planned.origin = graph_.op(value.producer).origin;
    planned.readers = readers(graph_, id);
    ref = emitted_.plan.add_tensor(std::move(planned));
    return ref;
  }

  // States are written last, as ExecuTorch's emitter does, since calls before read their old
  // values: `copy_` of each next value. What still reads an old value then, an output or another
  // state, reads a copy of it.
  void write_states() {
    std::vector<TensorRef> next;
    for (size_t i = 0; i < graph_.state_count(); ++i) {
      const ValueId value = graph_.next_state(i);
      next.push_back(value == graph_.state(i) ? tensor(value) : kept(value));
    }
    for (size_t i = 0; i < graph_.state_count(); ++i)
      if (const ValueId value = graph_.next_state(i); value != graph_.state(i))
        add_copy("aten::copy_", {tensor(graph_.state(i)), next[i], false}, {}, value);
  }

  // The tensor of a value, or of a copy of it if it is a state.
  TensorRef kept(ValueId id) {
    if (!state_of_.contains(id)) return tensor(id);
    const Value& value = graph_.value(id);
    const TensorRef copy =
        emitted_.plan.add_tensor({.name = value.name + ".old", .type = value.type});
    add_copy("aten::clone.out", {tensor(id), std::monostate()}, {copy}, id);
    return copy;
  }

  void add_copy(std::string_view kernel, std::vector<PlanArgument> arguments,
                std::vector<TensorRef> outputs, ValueId value) {
    const OpId producer = graph_.producer(value);
    emitted_.plan.calls.emplace_back(
        KernelCallPlan{.kernel = std::string(kernel),
                       .arguments = std::move(arguments),
                       .outputs = std::move(outputs),
                       .origin = producer.valid() ? graph_.op(producer).origin : Origin{},
                       .cycles = static_cast<uint64_t>(graph_.type(value).bytes()) / 2});
    emitted_.partitions.push_back(nullptr);
    emitted_.backends.push_back(static_cast<uint8_t>(recipe_.size() - 1));  // it takes everything
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
    KernelCallPlan planned{.kernel = call.name,
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
  std::vector<TensorRef> tensors_;                          // by value slot
  std::map<ValueId, std::span<const std::byte>> state_of_;  // initial values of the states
};

}  // namespace

Result<EmitResult> emit(Module& module, const Graph& graph, const Recipe& recipe,
                        const std::vector<Partition>& partitions) {
  return Emitter(module, graph, recipe).run(partitions);
}

}  // namespace dtr
