#include "runtime/method.h"

#include <cstring>
#include <new>

#include "abi/program_generated.h"

namespace dtr::runtime {
namespace {

template <class Vector>
uint32_t size_of(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

bool aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kArenaAlignment == 0; }

std::string_view view(const flatbuffers::String* text) { return {text->c_str(), text->size()}; }

}  // namespace

// The state memory, cut into arrays in the order in which `Counts` lists them.
class Method::State {
 public:
  State(std::span<std::byte> memory, const Counts& counts)
      : next_(memory.data()),
        values(take<Value>(counts.values)),
        integers(take<int64_t>(counts.integers)),
        list_values(take<Value*>(counts.list_values)),
        steps(take<Step>(counts.steps)),
        arguments(take<Value*>(counts.arguments)),
        delegate_states(take<void*>(counts.delegates)) {}

  void* take_bytes(size_t bytes) {
    std::byte* taken = next_;
    next_ += padded(bytes);
    return taken;
  }

 private:
  template <class T>
  T* take(size_t count) {
    T* array = static_cast<T*>(take_bytes(count * sizeof(T)));
    for (size_t i = 0; i < count; ++i) new (array + i) T();
    return array;
  }

  std::byte* next_;

 public:
  Value* values;
  int64_t* integers;
  Value** list_values;
  Step* steps;
  Value** arguments;
  void** delegate_states;
};

Method::Counts Method::count(const Program& program, const pte::ExecutionPlan& plan) {
  Counts counts;
  counts.values = size_of(plan.values());
  for (size_t i = 0; i < counts.values; ++i) {
    const pte::EValue& value = *plan.values()->Get(static_cast<uint32_t>(i));
    if (const auto* list = value.val_as_IntList()) counts.integers += list->items()->size();
    if (const auto* list = value.val_as_TensorList()) counts.list_values += list->items()->size();
    if (const auto* list = value.val_as_OptionalTensorList()) counts.list_values += list->items()->size();
  }
  const auto* instructions = plan.chains()->Get(0)->instructions();
  counts.steps = size_of(instructions);
  for (size_t i = 0; i < counts.steps; ++i) {
    const pte::Instruction& instruction = *instructions->Get(static_cast<uint32_t>(i));
    if (const auto* call = instruction.instr_args_as_KernelCall()) counts.arguments += size_of(call->args());
    if (const auto* call = instruction.instr_args_as_DelegateCall()) counts.arguments += size_of(call->args());
  }
  counts.delegates = size_of(plan.delegates());
  for (size_t i = 0; i < counts.delegates; ++i) {
    counts.delegate_bytes += padded(program.find_delegate(view(plan.delegates()->Get(static_cast<uint32_t>(i))->id()))->state_bytes);
  }
  return counts;
}

Status Method::requirements(const Program& program, std::string_view name, Requirements* requirements) {
  const pte::ExecutionPlan* plan = program.method(name);
  if (plan == nullptr) return {Error::kMissingMethod};
  requirements->counts = count(program, *plan);
  requirements->state_bytes = requirements->counts.state_bytes();
  // Entry 0 of the file's list is reserved and has no memory.
  const uint32_t sizes = size_of(plan->non_const_buffer_sizes());
  requirements->memories = sizes > 0 ? sizes - 1 : 0;
  requirements->sizes = sizes > 0 ? plan->non_const_buffer_sizes()->data() + 1 : nullptr;
  return {};
}

Status Method::check_memories(std::span<std::byte> state, size_t state_bytes, std::span<const std::span<std::byte>> memories) const {
  constexpr uint32_t kState = UINT32_MAX;
  if (!aligned(state.data())) return {Error::kArenaMisaligned, kState};
  if (state.size() < state_bytes) return {Error::kArenaTooSmall, kState, static_cast<uint32_t>(state_bytes)};
  for (uint32_t i = 1; i < size_of(plan_->non_const_buffer_sizes()); ++i) {
    const auto needed = static_cast<size_t>(plan_->non_const_buffer_sizes()->Get(i));
    const std::span<std::byte> memory = i - 1 < memories.size() ? memories[i - 1] : std::span<std::byte>();
    if (memory.size() < needed) return {Error::kArenaTooSmall, i - 1, static_cast<uint32_t>(needed)};
    if (needed > 0 && !aligned(memory.data())) return {Error::kArenaMisaligned, i - 1};
  }
  return {};
}

Status Method::prepare(const Program& program, std::string_view name, std::span<std::byte> state,
                       std::span<const std::span<std::byte>> memories) {
  release();
  const pte::ExecutionPlan* plan = program.method(name);
  if (plan == nullptr) return {Error::kMissingMethod};
  program_ = &program;
  plan_ = plan;
  const Counts counts = count(program, *plan);
  if (const Status status = check_memories(state, counts.state_bytes(), memories); !status.ok()) {
    plan_ = nullptr;
    return status;
  }
  State cut(state, counts);
  values_ = cut.values;
  value_count_ = counts.values;
  steps_ = cut.steps;
  step_count_ = counts.steps;
  delegate_states_ = cut.delegate_states;
  read_values(cut, memories);
  const Status status = prepare_delegates(cut);
  if (!status.ok()) {
    release();
    return status;
  }
  read_instructions(cut);
  return {};
}

void Method::read_values(State& state, std::span<const std::span<std::byte>> memories) {
  for (uint32_t i = 0; i < value_count_; ++i) {
    const pte::EValue& stored = *plan_->values()->Get(i);
    Value& value = values_[i];
    const auto take_tensors = [&](const auto& items) {
      value.kind = ValueKind::kTensors;
      value.tensors = {state.list_values, items.size()};
      for (const int32_t index : items) *state.list_values++ = index < 0 ? nullptr : &values_[index];
    };
    switch (stored.val_type()) {
      case pte::KernelTypes::Int:
        value.kind = ValueKind::kInt;
        value.integer = stored.val_as_Int()->int_val();
        break;
      case pte::KernelTypes::Bool:
        value.kind = ValueKind::kBool;
        value.flag = stored.val_as_Bool()->bool_val();
        break;
      case pte::KernelTypes::Double:
        value.kind = ValueKind::kDouble;
        value.number = stored.val_as_Double()->double_val();
        break;
      case pte::KernelTypes::Tensor: {
        const pte::Tensor& tensor = *stored.val_as_Tensor();
        // Constants are read in place; no kernel writes to an input.
        auto* data = const_cast<std::byte*>(program_->constant(tensor));
        if (const pte::AllocationDetails* at = tensor.allocation_info()) {
          data = memories[at->memory_id() - 1].data() + at->memory_offset_low();
        }
        value.kind = ValueKind::kTensor;
        value.tensor = {data,
                        tensor.sizes() == nullptr ? nullptr : tensor.sizes()->data(),
                        tensor.dim_order() == nullptr ? nullptr : tensor.dim_order()->data(),
                        static_cast<ScalarType>(tensor.scalar_type()),
                        static_cast<uint8_t>(size_of(tensor.sizes())),
                        tensor.data_buffer_idx() == 0 && !pte::is_external(tensor)};
        break;
      }
      case pte::KernelTypes::String: {
        const std::string_view text = view(stored.val_as_String()->string_val());
        value.kind = ValueKind::kString;
        value.string = {text.data(), static_cast<uint32_t>(text.size())};
        break;
      }
      case pte::KernelTypes::IntList: {
        const auto& items = *stored.val_as_IntList()->items();
        value.kind = ValueKind::kInts;
        value.ints = {state.integers, items.size()};
        for (const int64_t index : items) {
          *state.integers++ = plan_->values()->Get(static_cast<uint32_t>(index))->val_as_Int()->int_val();
        }
        break;
      }
      case pte::KernelTypes::DoubleList:
        value.kind = ValueKind::kDoubles;
        value.doubles = {stored.val_as_DoubleList()->items()->data(), stored.val_as_DoubleList()->items()->size()};
        break;
      case pte::KernelTypes::BoolList:
        value.kind = ValueKind::kBools;
        value.flags = {stored.val_as_BoolList()->items()->data(), stored.val_as_BoolList()->items()->size()};
        break;
      case pte::KernelTypes::TensorList:
        take_tensors(*stored.val_as_TensorList()->items());
        break;
      case pte::KernelTypes::OptionalTensorList:
        take_tensors(*stored.val_as_OptionalTensorList()->items());
        break;
      case pte::KernelTypes::Null:
      case pte::KernelTypes::NONE:
        break;
    }
  }
}

Status Method::prepare_delegates(State& state) {
  for (uint32_t i = 0; i < size_of(plan_->delegates()); ++i) {
    const pte::BackendDelegate& stored = *plan_->delegates()->Get(i);
    const Delegate& delegate = *program_->find_delegate(view(stored.id()));
    delegate_states_[i] = state.take_bytes(delegate.state_bytes);
    Status status = delegate.prepare(delegate.context, delegate_states_[i], program_->file().payload(stored));
    if (!status.ok()) return {status.error, i, status.detail, delegate.id};
    prepared_delegates_ = i + 1;
  }
  return {};
}

void Method::read_instructions(State& state) {
  for (uint32_t i = 0; i < step_count_; ++i) {
    const pte::Instruction& instruction = *plan_->chains()->Get(0)->instructions()->Get(i);
    const flatbuffers::Vector<int32_t>* arguments = nullptr;
    Step& step = steps_[i];
    if (const auto* call = instruction.instr_args_as_KernelCall()) {
      step.kernel = program_->find_kernel(operator_name(*plan_, static_cast<uint32_t>(call->op_index())));
      arguments = call->args();
    } else {
      const auto index = static_cast<uint32_t>(instruction.instr_args_as_DelegateCall()->delegate_index());
      step.delegate = program_->find_delegate(view(plan_->delegates()->Get(index)->id()));
      step.delegate_state = delegate_states_[index];
      arguments = instruction.instr_args_as_DelegateCall()->args();
    }
    step.arguments = state.arguments;
    step.argument_count = size_of(arguments);
    for (uint32_t a = 0; a < step.argument_count; ++a) *state.arguments++ = &values_[arguments->Get(a)];
  }
}

void Method::release() {
  for (uint32_t i = 0; i < prepared_delegates_; ++i) {
    const Delegate& delegate = *program_->find_delegate(view(plan_->delegates()->Get(i)->id()));
    if (delegate.release != nullptr) delegate.release(delegate.context, delegate_states_[i]);
  }
  prepared_delegates_ = 0;
  program_ = nullptr;
  plan_ = nullptr;
  value_count_ = step_count_ = 0;
}

size_t Method::input_count() const { return plan_ == nullptr ? 0 : size_of(plan_->inputs()); }
size_t Method::output_count() const { return plan_ == nullptr ? 0 : size_of(plan_->outputs()); }

Value* Method::io_value(size_t index, bool output) const {
  if (index >= (output ? output_count() : input_count())) return nullptr;
  Value* value = &values_[(output ? plan_->outputs() : plan_->inputs())->Get(static_cast<uint32_t>(index))];
  return value->kind == ValueKind::kTensor ? value : nullptr;
}

const Tensor* Method::input_tensor(size_t index) const {
  const Value* value = io_value(index, false);
  return value == nullptr ? nullptr : &value->tensor;
}

const Tensor* Method::output_tensor(size_t index) const {
  const Value* value = io_value(index, true);
  return value == nullptr ? nullptr : &value->tensor;
}

Status Method::set_input(size_t index, const InputTensor& input) {
  Value* value = io_value(index, false);
  const auto at = static_cast<uint32_t>(index);
  if (value == nullptr) return {Error::kNoSuchTensor, at};
  Tensor& tensor = value->tensor;
  if (input.dtype != tensor.dtype) return {Error::kInputDtype, at};
  Tensor given = tensor;
  given.sizes = input.sizes.data();
  given.rank = static_cast<uint8_t>(input.sizes.size());
  if (input.sizes.size() != tensor.rank || !same_shape(given, tensor)) return {Error::kInputShape, at};
  given.dim_order = input.dim_order.data();
  if (input.dim_order.size() != tensor.rank) return {Error::kInputDimOrder, at};
  for (const uint8_t dim : input.dim_order) {
    if (dim >= tensor.rank) return {Error::kInputDimOrder, at};
  }
  if (!same_order(given, tensor)) return {Error::kInputDimOrder, at};
  if (input.bytes != tensor.bytes()) return {Error::kInputSize, at};
  const bool planned = plan_->values()->Get(plan_->inputs()->Get(at))->val_as_Tensor()->allocation_info() != nullptr;
  if (planned) {
    if (input.bytes > 0 && input.data != tensor.data) std::memcpy(tensor.data, input.data, input.bytes);
  } else {
    if (!aligned(input.data)) return {Error::kArenaMisaligned, at};
    tensor.data = static_cast<std::byte*>(const_cast<void*>(input.data));
    tensor.writable = false;
  }
  value->set = true;
  return {};
}

Status Method::set_output_memory(size_t index, std::span<std::byte> memory) {
  Value* value = io_value(index, true);
  const auto at = static_cast<uint32_t>(index);
  if (value == nullptr) return {Error::kNoSuchTensor, at};
  const pte::Tensor& stored = *plan_->values()->Get(plan_->outputs()->Get(at))->val_as_Tensor();
  if (stored.allocation_info() != nullptr || stored.data_buffer_idx() > 0 || pte::is_external(stored)) return {Error::kNoSuchTensor, at};
  if (!aligned(memory.data())) return {Error::kArenaMisaligned, at};
  if (memory.size() < value->tensor.bytes()) return {Error::kArenaTooSmall, at, static_cast<uint32_t>(value->tensor.bytes())};
  value->tensor.data = memory.data();
  return {};
}

Status Method::run(const Observer* observer) {
  for (uint32_t i = 0; i < input_count(); ++i) {
    const Value* value = io_value(i, false);
    if (value == nullptr || !value->set) return {Error::kInputNotSet, i};
  }
  for (uint32_t i = 0; i < output_count(); ++i) {
    const Value* value = io_value(i, true);
    if (value == nullptr || (value->tensor.data == nullptr && value->tensor.bytes() > 0)) return {Error::kOutputNotSet, i};
  }
  for (uint32_t i = 0; i < input_count(); ++i) io_value(i, false)->set = false;
  for (uint32_t i = 0; i < step_count_; ++i) {
    const Step& step = steps_[i];
    if (observer != nullptr && observer->before != nullptr && !observer->before(observer->context, *this, i)) {
      return {Error::kStopped, i, 0, name(i)};
    }
    const std::span<Value* const> arguments(step.arguments, step.argument_count);
    const Status status = step.kernel != nullptr ? Status{step.kernel(arguments)}
                                                 : step.delegate->run(step.delegate->context, step.delegate_state, arguments);
    if (!status.ok()) return {status.error, i, status.detail, name(i)};
    if (observer != nullptr && observer->after != nullptr) observer->after(observer->context, *this, i);
  }
  return {};
}

std::string_view Method::name(size_t instruction) const {
  if (instruction >= step_count_) return {};
  if (steps_[instruction].kernel == nullptr) return steps_[instruction].delegate->id;
  const pte::Instruction& stored = *plan_->chains()->Get(0)->instructions()->Get(static_cast<uint32_t>(instruction));
  return operator_name(*plan_, static_cast<uint32_t>(stored.instr_args_as_KernelCall()->op_index())).name;
}

std::span<Value* const> Method::arguments(size_t instruction) const {
  if (instruction >= step_count_) return {};
  return {steps_[instruction].arguments, steps_[instruction].argument_count};
}

}  // namespace dtr::runtime
