#include "abi/verify_plan.h"

#include <cstdint>

#include "abi/program_generated.h"
#include "abi/scalar_type.h"

namespace dtr::pte {
namespace {

// There are enumerators in the schema with the same numbers as in abi/scalar_type.h.
static_assert(static_cast<int>(ScalarType::Char) == static_cast<int>(dtr::ScalarType::kChar));
static_assert(static_cast<int>(ScalarType::Int) == static_cast<int>(dtr::ScalarType::kInt));
static_assert(static_cast<int>(ScalarType::Long) == static_cast<int>(dtr::ScalarType::kLong));
static_assert(static_cast<int>(ScalarType::Float) == static_cast<int>(dtr::ScalarType::kFloat));
static_assert(static_cast<int>(ScalarType::Bool) == static_cast<int>(dtr::ScalarType::kBool));

constexpr uint64_t kMaxTensorBytes = INT32_MAX;  // sizes, offsets and strides of kernels fit into 32 bits

template <class Vector>
uint32_t count(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// Whether the elements lie where a load of 8 bytes may: the FlatBuffers verifier looks at the length of a vector only. A vector without
// elements may end anywhere.
template <class T>
bool aligned(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr || vector->size() == 0 || reinterpret_cast<uintptr_t>(vector->Data()) % sizeof(T) == 0;
}

class PlanVerifier {
 public:
  PlanVerifier(const ProgramFile& file, const ExecutionPlan& plan) : file_(file), plan_(plan), values_(count(plan.values())) {}

  Status run() {
    if (plan_.name() == nullptr) return fail(Error::kMalformed, 0);
    if (!memories_fit()) return fail(Error::kMalformed, 0);
    for (uint32_t i = 0; i < values_; ++i) {
      if (const Error error = check_value(*plan_.values()->Get(i)); error != Error::kOk) return fail(error, i);
    }
    if (!indices_fit(plan_.inputs()) || !indices_fit(plan_.outputs())) return fail(Error::kMalformed, 0);
    for (uint32_t i = 0; i < count(plan_.operators()); ++i) {
      if (plan_.operators()->Get(i)->name() == nullptr) return fail(Error::kMalformed, i);
    }
    for (uint32_t i = 0; i < count(plan_.delegates()); ++i) {
      if (!delegate_fits(*plan_.delegates()->Get(i))) return fail(Error::kMalformed, i);
    }
    if (count(plan_.chains()) != 1) return fail(count(plan_.chains()) == 0 ? Error::kMalformed : Error::kUnsupported, 0);
    const Chain& chain = *plan_.chains()->Get(0);
    for (uint32_t i = 0; i < count(chain.instructions()); ++i) {
      if (const Error error = check_instruction(*chain.instructions()->Get(i)); error != Error::kOk) return fail(error, i);
    }
    return {};
  }

 private:
  static Status fail(Error error, uint32_t index) { return {error, index}; }

  bool memories_fit() const {
    if (!aligned(plan_.non_const_buffer_sizes())) return false;
    for (uint32_t i = 0; i < count(plan_.non_const_buffer_sizes()); ++i) {
      const int64_t size = plan_.non_const_buffer_sizes()->Get(i);
      if (size < 0 || size > INT32_MAX) return false;
    }
    return true;
  }

  bool is_value(int64_t index) const { return index >= 0 && index < values_; }
  bool is_value(int64_t index, KernelTypes type) const {
    return is_value(index) && plan_.values()->Get(static_cast<uint32_t>(index))->val_type() == type;
  }
  template <class Vector>
  bool indices_fit(const Vector* indices) const {
    for (uint32_t i = 0; i < count(indices); ++i) {
      if (!is_value(indices->Get(i))) return false;
    }
    return true;
  }

  Error check_value(const EValue& value) const {
    if (value.val() == nullptr) return Error::kMalformed;
    switch (value.val_type()) {
      case KernelTypes::Null:
      case KernelTypes::Int:
      case KernelTypes::Bool:
      case KernelTypes::Double:
        return Error::kOk;
      case KernelTypes::Tensor:
        return check_tensor(*value.val_as_Tensor());
      case KernelTypes::String:
        return malformed_unless(value.val_as_String()->string_val() != nullptr);
      case KernelTypes::IntList:
        return check_list(value.val_as_IntList()->items(), KernelTypes::Int, false);
      case KernelTypes::DoubleList:
        return malformed_unless(value.val_as_DoubleList()->items() != nullptr);
      case KernelTypes::BoolList:
        return malformed_unless(value.val_as_BoolList()->items() != nullptr);
      case KernelTypes::TensorList:
        return check_list(value.val_as_TensorList()->items(), KernelTypes::Tensor, false);
      case KernelTypes::OptionalTensorList:
        return check_list(value.val_as_OptionalTensorList()->items(), KernelTypes::Tensor, true);
      case KernelTypes::NONE:
        return Error::kMalformed;
    }
    return Error::kUnsupported;
  }

  static Error malformed_unless(bool good) { return good ? Error::kOk : Error::kMalformed; }

  template <class Vector>
  Error check_list(const Vector* items, KernelTypes type, bool optional) const {
    if (items == nullptr || !aligned(items)) return Error::kMalformed;
    for (uint32_t i = 0; i < items->size(); ++i) {
      const int64_t index = items->Get(i);
      if (!is_value(index, type) && !(optional && index == -1)) return Error::kMalformed;
    }
    return Error::kOk;
  }

  Error check_tensor(const Tensor& tensor) const {
    const size_t element = byte_size(static_cast<dtr::ScalarType>(tensor.scalar_type()));
    if (element == 0 || tensor.shape_dynamism() == TensorShapeDynamism::DynamicUnbound || tensor.storage_offset() != 0) {
      return Error::kUnsupported;
    }
    const uint32_t rank = count(tensor.sizes());
    if (rank > kMaxRank) return Error::kUnsupported;
    if (count(tensor.dim_order()) != rank) return Error::kMalformed;
    uint64_t bytes = element;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < rank; ++i) {
      const int32_t size = tensor.sizes()->Get(i);
      const uint32_t dim = tensor.dim_order()->Get(i);
      if (size < 0 || dim >= rank || (seen >> dim & 1u) != 0) return Error::kMalformed;
      seen |= 1u << dim;
      bytes *= static_cast<uint32_t>(size);
      if (bytes > kMaxTensorBytes) return Error::kMalformed;
    }
    const AllocationDetails* planned = tensor.allocation_info();
    if (is_external(tensor)) {
      if (planned != nullptr) return Error::kUnsupported;  // state with an initial value
      return malformed_unless(tensor.extra_tensor_info()->fully_qualified_name() != nullptr);
    }
    const bool constant = tensor.data_buffer_idx() > 0;
    if (constant && planned != nullptr) return Error::kUnsupported;  // state with an initial value
    if (planned != nullptr) return malformed_unless(planned_fits(*planned, bytes, element));
    return malformed_unless(!constant || constant_fits(tensor.data_buffer_idx(), bytes, element));
  }

  bool planned_fits(const AllocationDetails& at, uint64_t bytes, size_t element) const {
    if (at.memory_id() == 0 || at.memory_id() >= count(plan_.non_const_buffer_sizes()) || at.memory_offset_high() != 0) return false;
    const auto memory = static_cast<uint64_t>(plan_.non_const_buffer_sizes()->Get(at.memory_id()));
    const uint64_t offset = at.memory_offset_low();
    return offset <= memory && bytes <= memory - offset && offset % element == 0;
  }

  bool constant_fits(uint32_t index, uint64_t bytes, size_t element) const {
    const Program& program = file_.program();
    const std::byte* data = nullptr;
    if (const SubsegmentOffsets* at = program.constant_segment(); at != nullptr && at->offsets() != nullptr) {
      if (at->segment_index() >= count(program.segments()) || index >= at->offsets()->size()) return false;
      const std::span<const std::byte> segment = file_.segment(at->segment_index());
      const uint64_t offset = at->offsets()->Get(index);
      if (offset > segment.size() || bytes > segment.size() - offset) return false;
      data = segment.data() + offset;
    } else {
      if (index >= count(program.constant_buffer())) return false;
      const auto* storage = program.constant_buffer()->Get(index)->storage();
      if (storage == nullptr || bytes > storage->size()) return false;
      data = reinterpret_cast<const std::byte*>(storage->data());
    }
    return reinterpret_cast<uintptr_t>(data) % element == 0;
  }

  bool delegate_fits(const BackendDelegate& delegate) const {
    if (delegate.id() == nullptr || delegate.processed() == nullptr) return false;
    const Program& program = file_.program();
    switch (delegate.processed()->location()) {
      case DataLocation::Segment:
        return delegate.processed()->index() < count(program.segments());
      case DataLocation::Inline:
        return delegate.processed()->index() < count(program.backend_delegate_data());
    }
    return false;
  }

  template <class Vector>
  Error check_arguments(const Vector* arguments) const {
    if (!indices_fit(arguments)) return Error::kMalformed;
    for (uint32_t i = 0; i < count(arguments); ++i) {
      if (!has_memory(arguments->Get(i))) return Error::kUnsupported;
    }
    return Error::kOk;
  }

  // Whether a value needs none, has some in the program, or gets some from the caller.
  bool has_memory(int64_t index) const {
    const EValue& value = *plan_.values()->Get(static_cast<uint32_t>(index));
    if (const auto* list = value.val_as_TensorList()) return all_have_memory(*list->items());
    if (const auto* list = value.val_as_OptionalTensorList()) return all_have_memory(*list->items());
    return tensor_has_memory(index);
  }
  bool tensor_has_memory(int64_t index) const {
    const Tensor* tensor = plan_.values()->Get(static_cast<uint32_t>(index))->val_as_Tensor();
    return tensor == nullptr || tensor->data_buffer_idx() > 0 || is_external(*tensor) || tensor->allocation_info() != nullptr ||
           contains(plan_.inputs(), index) || contains(plan_.outputs(), index);
  }
  bool all_have_memory(const flatbuffers::Vector<int32_t>& tensors) const {
    for (const int32_t index : tensors) {
      if (index >= 0 && !tensor_has_memory(index)) return false;
    }
    return true;
  }
  static bool contains(const flatbuffers::Vector<int32_t>* indices, int64_t wanted) {
    for (uint32_t i = 0; i < count(indices); ++i) {
      if (indices->Get(i) == wanted) return true;
    }
    return false;
  }

  Error check_instruction(const Instruction& instruction) const {
    if (instruction.instr_args() == nullptr) return Error::kMalformed;
    switch (instruction.instr_args_type()) {
      case InstructionArguments::KernelCall: {
        const KernelCall& call = *instruction.instr_args_as_KernelCall();
        const bool known = call.op_index() >= 0 && static_cast<uint32_t>(call.op_index()) < count(plan_.operators());
        return known ? check_arguments(call.args()) : Error::kMalformed;
      }
      case InstructionArguments::DelegateCall: {
        const DelegateCall& call = *instruction.instr_args_as_DelegateCall();
        const bool known = call.delegate_index() >= 0 && static_cast<uint32_t>(call.delegate_index()) < count(plan_.delegates());
        return known ? check_arguments(call.args()) : Error::kMalformed;
      }
      case InstructionArguments::NONE:
        return Error::kMalformed;
      default:
        return Error::kUnsupported;
    }
  }

  const ProgramFile& file_;
  const ExecutionPlan& plan_;
  uint32_t values_;
};

}  // namespace

Status verify_plans(const ProgramFile& file) {
  const auto* plans = file.program().execution_plan();
  const SubsegmentOffsets* constants = file.program().constant_segment();
  if (constants != nullptr && !aligned(constants->offsets())) return {Error::kMalformed};
  for (uint32_t i = 0; i < count(plans); ++i) {
    Status status = PlanVerifier(file, *plans->Get(i)).run();
    status.detail = i;
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace dtr::pte
