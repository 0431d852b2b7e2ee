#include "device/runtime/method.h"

#include <cstring>
#include <new>

#include "device/pte/plan_access.h"

namespace dtr::runtime {
namespace {

template <class T>
using Tables = flatbuffers::Vector<flatbuffers::Offset<T>>;
using Instructions = Tables<pte::Instruction>;
using Values = Tables<pte::EValue>;
using Delegates = Tables<pte::BackendDelegate>;

constexpr uint32_t kState = UINT32_MAX;  // index of its errors

// Whether the bytes of the caller may be used in place; no bytes have no address.
Error check_address(const void* data, size_t bytes) {
  if (bytes == 0) return Error::kOk;
  if (data == nullptr) return Error::kNull;
  return reinterpret_cast<uintptr_t>(data) % kArenaAlignment == 0 ? Error::kOk
                                                                  : Error::kArenaMisaligned;
}

Status check_memory(std::span<std::byte> memory, uint64_t needed, uint32_t index) {
  if (memory.size() < needed) return {Error::kArenaTooSmall, index, static_cast<uint32_t>(needed)};
  return {check_address(memory.data(), static_cast<size_t>(needed)), index};
}

const Instructions& instructions(const pte::ExecutionPlan& plan) {
  return pte::tables<pte::Instruction>(plan.chains()->Get(0), pte::Chain::VT_INSTRUCTIONS);
}

const Values& values_of(const pte::ExecutionPlan& plan) {
  return pte::tables<pte::EValue>(&plan, pte::ExecutionPlan::VT_VALUES);
}
const Delegates& delegates_of(const pte::ExecutionPlan& plan) {
  return pte::tables<pte::BackendDelegate>(&plan, pte::ExecutionPlan::VT_DELEGATES);
}

const flatbuffers::Vector<int32_t>& io_indices(const pte::ExecutionPlan& plan, bool output) {
  return pte::list<int32_t>(
      &plan, output ? pte::ExecutionPlan::VT_OUTPUTS : pte::ExecutionPlan::VT_INPUTS);
}

bool is_delegate_call(const pte::Instruction& instruction) {
  return instruction.instr_args_type() == pte::InstructionArguments::DelegateCall;
}

}  // namespace

Method::Counts Method::count(const Program& program, const pte::ExecutionPlan& plan) {
  Counts counts;
  const Values& values = values_of(plan);
  counts.values = values.size();
  for (const pte::EValue* value : values) {
    const pte::KernelTypes type = value->val_type();
    if (type == pte::KernelTypes::IntList) counts.integers += pte::items<int64_t>(*value).size();
    if (type == pte::KernelTypes::TensorList || type == pte::KernelTypes::OptionalTensorList) {
      counts.list_values += pte::items<int32_t>(*value).size();
    }
  }
  counts.kernels = pte::tables<pte::Operator>(&plan, pte::ExecutionPlan::VT_OPERATORS).size();
  for (const pte::Instruction* instruction : instructions(plan)) {
    const size_t arguments = pte::arguments(*instruction).size();
    if (arguments > counts.arguments) counts.arguments = arguments;
  }
  const Delegates& delegates = delegates_of(plan);
  counts.delegates = delegates.size();
  for (const pte::BackendDelegate* delegate : delegates) {
    counts.delegate_bytes +=
        padded(program.find_delegate(delegate->id()->string_view())->state_bytes);
  }
  return counts;
}

Status Method::requirements(const Program& program, std::string_view name,
                            Requirements* requirements) {
  const pte::ExecutionPlan* plan = program.method(name);
  if (plan == nullptr) return {Error::kMissingMethod};
  requirements->counts = count(program, *plan);
  const uint64_t state_bytes = requirements->counts.state_bytes();
  if (state_bytes > kMaxStateBytes) return {Error::kUnsupported};
  requirements->state_bytes = static_cast<size_t>(state_bytes);
  // Entry 0 of the file's list is reserved and has no memory.
  const auto& sizes = pte::list<int64_t>(plan, pte::ExecutionPlan::VT_NON_CONST_BUFFER_SIZES);
  requirements->memories = sizes.size() > 0 ? sizes.size() - 1 : 0;
  requirements->sizes = sizes.data() + 1;
  return {};
}

Status Method::check_memories(std::span<std::byte> state, uint64_t state_bytes,
                              std::span<const std::span<std::byte>> memories) const {
  Status status = check_memory(state, state_bytes, kState);
  const auto& sizes = pte::list<int64_t>(plan_, pte::ExecutionPlan::VT_NON_CONST_BUFFER_SIZES);
  for (uint32_t i = 1; status.ok() && i < sizes.size(); ++i) {
    // One of no bytes must be there too: tensors are placed in it.
    if (i > memories.size())
      return {Error::kArenaTooSmall, i - 1, static_cast<uint32_t>(sizes.Get(i))};
    status = check_memory(memories[i - 1], static_cast<uint64_t>(sizes.Get(i)), i - 1);
  }
  return status;
}

Status Method::prepare(const Program& program, std::string_view name, std::span<std::byte> state,
                       std::span<const std::span<std::byte>> memories) {
  release();
  plan_ = program.method(name);
  if (plan_ == nullptr) return {Error::kMissingMethod};
  program_ = &program;
  const Counts counts = count(program, *plan_);
  const uint64_t state_bytes = counts.state_bytes();
  Status status = check_memories(state, state_bytes, memories);
  if (status.ok()) {
    std::memset(state.data(), 0, static_cast<size_t>(state_bytes));
    carve_state(state.data(), counts);
    read_values(memories);
    for (uint32_t i = 0; i < counts.kernels; ++i)
      kernels_[i] = program.find_kernel(operator_name(*plan_, i));
    status =
        prepare_delegates(state.data() + static_cast<size_t>(state_bytes - counts.delegate_bytes));
  }
  if (status.ok() && program.states() != nullptr) status = program.states()(*this);
  if (!status.ok()) release();
  return status;
}

// Into arrays, in the order in which their alignment falls. Zeros are values of none, and begin the
// life of what is trivial.
void Method::carve_state(std::byte* state, const Counts& counts) {
  values_ = reinterpret_cast<Value*>(state);
  integers_ = reinterpret_cast<int64_t*>(values_ + counts.values);
  list_values_ = reinterpret_cast<Value**>(integers_ + counts.integers);
  kernels_ = reinterpret_cast<KernelFunction*>(list_values_ + counts.list_values);
  delegates_ = reinterpret_cast<PreparedDelegate*>(kernels_ + counts.kernels);
  arguments_ = reinterpret_cast<Value**>(delegates_ + counts.delegates);
}

void Method::read_values(std::span<const std::span<std::byte>> memories) {
  int64_t* integer = integers_;
  Value** list_value = list_values_;
  const Values& all = values_of(*plan_);
  for (uint32_t i = 0; i < all.size(); ++i) {
    const pte::EValue& stored = *all.Get(i);
    Value& value = values_[i];
    switch (stored.val_type()) {
      case pte::KernelTypes::Int:
        value.kind = ValueKind::kInt;
        value.integer = pte::scalar<int64_t>(stored);
        break;
      case pte::KernelTypes::Bool:
        value.kind = ValueKind::kBool;
        value.flag = pte::scalar<uint8_t>(stored) != 0;
        break;
      case pte::KernelTypes::Double:
        value.kind = ValueKind::kDouble;
        value.number = pte::scalar<double>(stored);
        break;
      case pte::KernelTypes::Tensor: {
        const pte::Tensor& tensor = *static_cast<const pte::Tensor*>(stored.val());
        const auto& sizes = pte::list<int32_t>(&tensor, pte::Tensor::VT_SIZES);
        value.kind = ValueKind::kTensor;
        value.tensor.dtype = static_cast<ScalarType>(tensor.scalar_type());
        value.tensor.rank = static_cast<uint8_t>(sizes.size());
        value.tensor.sizes = sizes.data();
        value.tensor.dim_order = pte::list<uint8_t>(&tensor, pte::Tensor::VT_DIM_ORDER).data();
        if (const pte::AllocationDetails* at = tensor.allocation_info()) {
          value.tensor.data = memories[at->memory_id() - 1].data() + at->memory_offset_low();
          value.tensor.writable = true;
        } else {
          // Constants are read in place; no kernel writes to an input.
          value.tensor.data = const_cast<std::byte*>(program_->constant(tensor));
          value.tensor.writable = value.tensor.data == nullptr;
        }
        break;
      }
      case pte::KernelTypes::IntList: {
        const auto& items = pte::items<int64_t>(stored);
        value.kind = ValueKind::kInts;
        value.ints = {integer, items.size()};
        for (const int64_t index : items)
          *integer++ = pte::scalar<int64_t>(*all.Get(static_cast<uint32_t>(index)));
        break;
      }
      case pte::KernelTypes::TensorList:
      case pte::KernelTypes::OptionalTensorList: {
        const auto& items = pte::items<int32_t>(stored);
        value.kind = ValueKind::kTensors;
        value.tensors = {list_value, items.size()};
        for (const int32_t index : items) *list_value++ = index < 0 ? nullptr : &values_[index];
        break;
      }
      case pte::KernelTypes::String:
        value.kind = ValueKind::kString;
        value.string = {pte::items<char>(stored).data(), pte::items<char>(stored).size()};
        break;
      case pte::KernelTypes::DoubleList:
        value.kind = ValueKind::kDoubles;
        value.doubles = {pte::items<double>(stored).data(), pte::items<double>(stored).size()};
        break;
      case pte::KernelTypes::BoolList:
        value.kind = ValueKind::kBools;
        value.flags = {pte::items<uint8_t>(stored).data(), pte::items<uint8_t>(stored).size()};
        break;
      case pte::KernelTypes::Null:
      case pte::KernelTypes::NONE:
        break;
    }
  }
}

Status Method::prepare_delegates(std::byte* state) {
  for (const pte::BackendDelegate* stored : delegates_of(*plan_)) {
    const Delegate& delegate = *program_->find_delegate(stored->id()->string_view());
    Status status = delegate.prepare(delegate.context, state, program_->file().payload(*stored));
    status.index = prepared_delegates_;
    status.name = delegate.id;
    if (!status.ok()) return status;
    delegates_[prepared_delegates_++] = {&delegate, state};
    state += padded(delegate.state_bytes);
  }
  return {};
}

void Method::release() {
  for (; prepared_delegates_ > 0; --prepared_delegates_) {
    const PreparedDelegate& last = delegates_[prepared_delegates_ - 1];
    if (last.delegate->release != nullptr)
      last.delegate->release(last.delegate->context, last.state);
  }
  plan_ = nullptr;
}

size_t Method::input_count() const { return io_count(false); }
size_t Method::output_count() const { return io_count(true); }
size_t Method::instruction_count() const {
  return plan_ == nullptr ? 0 : instructions(*plan_).size();
}

const Value* Method::value(size_t index) const {
  return plan_ == nullptr || index >= values_of(*plan_).size() ? nullptr : &values_[index];
}

size_t Method::io_count(bool output) const {
  return plan_ == nullptr ? 0 : io_indices(*plan_, output).size();
}

Value* Method::io_value(size_t index, bool output) const {
  if (index >= io_count(output)) return nullptr;
  Value* value = &values_[io_indices(*plan_, output).Get(static_cast<uint32_t>(index))];
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

namespace {

// Whether the caller's tensor is what the program plans; nothing of it is read before its rank is
// known to be the same.
Error check_input(const InputTensor& given, const Tensor& planned) {
  if (given.dtype != planned.dtype) return Error::kInputDtype;
  if (given.sizes.size() != planned.rank) return Error::kInputShape;
  for (size_t i = 0; i < planned.rank; ++i) {
    if (given.sizes[i] != planned.sizes[i]) return Error::kInputShape;
  }
  if (given.dim_order.size() != planned.rank) return Error::kInputDimOrder;
  for (const uint8_t dim : given.dim_order) {
    if (dim >= planned.rank) return Error::kInputDimOrder;
  }
  Tensor ordered = planned;
  ordered.dim_order = given.dim_order.data();
  if (!same_order(ordered, planned)) return Error::kInputDimOrder;
  if (given.bytes != planned.bytes()) return Error::kInputSize;
  return given.data == nullptr && given.bytes > 0 ? Error::kNull : Error::kOk;
}

}  // namespace

Status Method::set_input(size_t index, const InputTensor& input) {
  Value* value = io_value(index, false);
  Status status{Error::kNoSuchTensor, static_cast<uint32_t>(index)};
  if (value == nullptr) return status;
  Tensor& tensor = value->tensor;
  status.error = check_input(input, tensor);
  if (!status.ok()) return status;
  if (stored(*value).allocation_info() == nullptr) {
    status.error = check_address(input.data, input.bytes);
    if (!status.ok()) return status;
    tensor.data = static_cast<std::byte*>(const_cast<void*>(input.data));
    tensor.writable = false;
  } else if (input.bytes > 0 && input.data != tensor.data) {
    std::memmove(tensor.data, input.data, input.bytes);  // they may overlap in part
  }
  value->set = true;
  return status;
}

// Copies the description of a tensor from the program.
const pte::Tensor& Method::stored(const Value& value) const {
  return *static_cast<const pte::Tensor*>(
      plan_->values()->Get(static_cast<uint32_t>(&value - values_))->val());
}

Status Method::set_output_memory(size_t index, std::span<std::byte> memory) {
  Value* value = io_value(index, true);
  const auto at = static_cast<uint32_t>(index);
  if (value == nullptr || stored(*value).allocation_info() != nullptr || !value->tensor.writable)
    return {Error::kNoSuchTensor, at};
  const Status status = check_memory(memory, value->tensor.bytes(), at);
  if (status.ok()) value->tensor.data = memory.data();
  return status;
}

Status Method::run(const Observer* observer) {
  static constexpr Observer kNobody;
  const Observer& watch = observer == nullptr ? kNobody : *observer;
  Status status;
  if (plan_ == nullptr) return {Error::kNotPrepared};
  for (uint32_t i = 0; i < input_count(); ++i) {
    const Value* value = io_value(i, false);
    if (value == nullptr || !value->set) return {Error::kInputNotSet, i};
  }
  for (uint32_t i = 0; i < output_count(); ++i) {
    const Value* value = io_value(i, true);
    if (value == nullptr || (value->tensor.data == nullptr && value->tensor.bytes() > 0))
      return {Error::kOutputNotSet, i};
  }
  for (uint32_t i = 0; i < input_count(); ++i) io_value(i, false)->set = false;
  for (uint32_t i = 0; i < instruction_count(); ++i) {
    if (watch.before != nullptr && !watch.before(watch.context, *this, i)) {
      status.error = Error::kStopped;
    } else {
      const pte::Instruction& instruction = *instructions(*plan_).Get(i);
      const uint32_t callee = pte::callee(instruction);
      const std::span<Value* const> given = arguments(i);
      if (is_delegate_call(instruction)) {
        status = delegates_[callee].delegate->run(delegates_[callee].delegate->context,
                                                  delegates_[callee].state, given);
      } else if (kernels_[callee] != nullptr) {
        status.error = kernels_[callee](given);
      } else {
        status = program_->run_plugin_kernel(*plan_, callee, given);
      }
    }
    if (!status.ok()) {
      status.index = i;
      status.name = name(i);
      return status;
    }
    if (watch.after != nullptr) watch.after(watch.context, *this, i);
  }
  return {};
}

std::string_view Method::name(size_t instruction) const {
  if (instruction >= instruction_count()) return {};
  const pte::Instruction& stored = *instructions(*plan_).Get(static_cast<uint32_t>(instruction));
  return is_delegate_call(stored) ? delegates_[pte::callee(stored)].delegate->id
                                  : operator_name(*plan_, pte::callee(stored)).name;
}

bool Method::is_delegate(size_t instruction) const {
  return instruction < instruction_count() && instructions(*plan_)
                                                      .Get(static_cast<uint32_t>(instruction))
                                                      ->instr_args_as_DelegateCall() != nullptr;
}

std::span<Value* const> Method::arguments(size_t instruction) const {
  if (instruction >= instruction_count()) return {};
  Value** next = arguments_;
  for (const int32_t index :
       pte::arguments(*instructions(*plan_).Get(static_cast<uint32_t>(instruction))))
    *next++ = &values_[index];
  return {arguments_, next};
}

}  // namespace dtr::runtime
