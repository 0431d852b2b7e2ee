#include "device/pte/verify_plan.h"

#include <cstdint>
#include <type_traits>

#include "device/pte/plan_access.h"
#include "device/pte/scalar_type.h"

namespace dtr::pte {
namespace {

// There are enumerators in the schema with the same numbers as in device/pte/scalar_type.h.
static_assert(static_cast<int>(ScalarType::Char) == static_cast<int>(dtr::ScalarType::kChar));
static_assert(static_cast<int>(ScalarType::Int) == static_cast<int>(dtr::ScalarType::kInt));
static_assert(static_cast<int>(ScalarType::Long) == static_cast<int>(dtr::ScalarType::kLong));
static_assert(static_cast<int>(ScalarType::Float) == static_cast<int>(dtr::ScalarType::kFloat));
static_assert(static_cast<int>(ScalarType::Bool) == static_cast<int>(dtr::ScalarType::kBool));

class PlanVerifier {
 public:
  PlanVerifier(const VerifiedFile& file, const ExecutionPlan& plan)
      : file_(file),
        plan_(plan),
        values_(tables<EValue>(&plan, ExecutionPlan::VT_VALUES)),
        left_(file.bytes().size()) {}

  // Of a failed check, `at` is the entry of its list.
  Error run(uint32_t& at) {
    const auto& memories = sizes();
    for (at = 0; at < memories.size(); ++at) {
      if (static_cast<uint64_t>(memories.Get(at)) > INT32_MAX) return Error::kMalformed;
    }
    for (at = 0; at < values_.size(); ++at) {
      if (const Error error = check_value(value(at)); error != Error::kOk) return error;
    }
    at = 0;
    if (!indices_fit(indices(ExecutionPlan::VT_INPUTS)) ||
        !indices_fit(indices(ExecutionPlan::VT_OUTPUTS)))
      return Error::kMalformed;
    const auto& delegates = tables<BackendDelegate>(&plan_, ExecutionPlan::VT_DELEGATES);
    for (; at < delegates.size(); ++at) {
      // Equal partitions of a model may share a payload, which is read once for each delegate
      // prepared.
      const std::span<const std::byte> payload = file_.payload(*delegates.Get(at));
      if (payload.data() == nullptr || !spend(payload.size() / 256)) return Error::kMalformed;
    }
    at = 0;
    const auto& chains = tables<Chain>(&plan_, ExecutionPlan::VT_CHAINS);
    if (chains.size() != 1) return chains.size() == 0 ? Error::kMalformed : Error::kUnsupported;
    const auto& instructions = tables<Instruction>(chains.Get(0), Chain::VT_INSTRUCTIONS);
    for (; at < instructions.size(); ++at) {
      if (const Error error = check_instruction(*instructions.Get(at)); error != Error::kOk)
        return error;
    }
    return Error::kOk;
  }

 private:
  static Error malformed_unless(bool good) { return good ? Error::kOk : Error::kMalformed; }

  const EValue& value(uint32_t index) const { return *values_.Get(index); }
  const flatbuffers::Vector<int64_t>& sizes() const {
    return list<int64_t>(&plan_, ExecutionPlan::VT_NON_CONST_BUFFER_SIZES);
  }
  const flatbuffers::Vector<int32_t>& indices(flatbuffers::voffset_t slot) const {
    return list<int32_t>(&plan_, slot);
  }
  bool indices_fit(const flatbuffers::Vector<int32_t>& indices) const {
    for (const int32_t index : indices) {
      if (static_cast<uint32_t>(index) >= values_.size()) return false;
    }
    return true;
  }

  Error check_value(const EValue& value) {
    if (value.val() == nullptr) return Error::kMalformed;
    switch (value.val_type()) {
      case KernelTypes::NONE:
        return Error::kMalformed;
      case KernelTypes::Tensor:
        return check_tensor(*static_cast<const Tensor*>(value.val()));
      case KernelTypes::IntList:
      case KernelTypes::TensorList:
      case KernelTypes::OptionalTensorList:
        return check_list(value);
      default:
        return value.val_type() <= KernelTypes::MAX ? Error::kOk : Error::kUnsupported;
    }
  }

  // Tensors of a list need memory whether the list is used or not: instructions that share it are
  // not to look at each of them again. One loop for both widths of indices, to save flash.
  Error check_list(const EValue& stored) {
    const bool wide = stored.val_type() == KernelTypes::IntList;
    const KernelTypes type = wide ? KernelTypes::Int : KernelTypes::Tensor;
    const auto& words = items<int32_t>(stored);
    for (uint32_t i = 0; i < words.size(); ++i) {
      const int64_t index = wide ? items<int64_t>(stored).Get(i) : words.Get(i);
      if (index == -1 && stored.val_type() == KernelTypes::OptionalTensorList) continue;
      if (static_cast<uint64_t>(index) >= values_.size() ||
          value(static_cast<uint32_t>(index)).val_type() != type) {
        return Error::kMalformed;
      }
      if (!has_memory(static_cast<uint32_t>(index))) return Error::kUnsupported;
    }
    return Error::kOk;
  }

  Error check_tensor(const Tensor& tensor) const {
    const size_t element = byte_size(static_cast<dtr::ScalarType>(tensor.scalar_type()));
    const auto& sizes = list<int32_t>(&tensor, Tensor::VT_SIZES);
    const auto& order = list<uint8_t>(&tensor, Tensor::VT_DIM_ORDER);
    const uint32_t rank = sizes.size();
    if (element == 0 || tensor.shape_dynamism() == TensorShapeDynamism::DynamicUnbound ||
        word(&tensor, Tensor::VT_STORAGE_OFFSET) != 0 || rank > kMaxRank) {
      return Error::kUnsupported;
    }
    if (order.size() != rank) return Error::kMalformed;
    auto bytes = static_cast<int32_t>(
        element);  // fits: sizes, offsets and strides of kernels are 32 bits wide
    bool empty = false;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < rank; ++i) {
      const int32_t size = sizes.Get(i);
      const uint32_t dim = order.Get(i);
      if (size < 0 || dim >= rank) return Error::kMalformed;
      empty |= size == 0;
      if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes)) return Error::kMalformed;
      seen |= 1u << dim;
    }
    if (seen + 1 != 1u << rank) return Error::kMalformed;
    if (empty) bytes = 0;
    const AllocationDetails* planned = tensor.allocation_info();
    const bool external = is_external(tensor);
    const uint32_t constant = word(&tensor, Tensor::VT_DATA_BUFFER_IDX);
    if (planned != nullptr) {
      // One with data is a state: reset_states checks its initial value.
      return external
                 ? Error::kUnsupported
                 : malformed_unless(planned_fits(*planned, static_cast<uint32_t>(bytes), element));
    }
    if (external)
      return malformed_unless(tensor.extra_tensor_info()->fully_qualified_name() != nullptr);
    if (constant == 0) return Error::kOk;
    const std::span<const std::byte> data = file_.constant(constant);
    return malformed_unless(data.data() != nullptr && data.size() >= static_cast<uint32_t>(bytes) &&
                            reinterpret_cast<uintptr_t>(data.data()) % element == 0);
  }

  bool planned_fits(const AllocationDetails& at, uint32_t bytes, size_t element) const {
    const uint32_t memory = word(&at, AllocationDetails::VT_MEMORY_ID);
    if (memory == 0 || memory >= sizes().size() ||
        word(&at, AllocationDetails::VT_MEMORY_OFFSET_HIGH) != 0)
      return false;
    const auto size = static_cast<uint32_t>(sizes().Get(memory));
    const uint32_t offset = word(&at, AllocationDetails::VT_MEMORY_OFFSET_LOW);
    return offset <= size && bytes <= size - offset && offset % element == 0;
  }

  // Whether a value needs none, has some in the program, or gets some from the caller.
  bool has_memory(uint32_t index) {
    if (value(index).val_type() != KernelTypes::Tensor) return true;
    const Tensor& tensor = *static_cast<const Tensor*>(value(index).val());
    return word(&tensor, Tensor::VT_DATA_BUFFER_IDX) > 0 || is_external(tensor) ||
           tensor.allocation_info() != nullptr ||
           is_listed(indices(ExecutionPlan::VT_INPUTS), index) ||
           is_listed(indices(ExecutionPlan::VT_OUTPUTS), index);
  }
  // What is not linear in the file may cost as much as it has bytes, and no more: no small file
  // takes long.
  bool spend(size_t cost) {
    if (cost > left_) return false;
    left_ -= cost;
    return true;
  }
  // A search of inputs or outputs.
  bool is_listed(const flatbuffers::Vector<int32_t>& indices, uint32_t wanted) {
    if (!spend(indices.size() / 16 + 1)) return false;
    for (const int32_t index : indices) {
      if (static_cast<uint32_t>(index) == wanted) return true;
    }
    return false;
  }

  Error check_instruction(const Instruction& instruction) {
    const InstructionArguments type = instruction.instr_args_type();
    if (instruction.instr_args() == nullptr || type == InstructionArguments::NONE)
      return Error::kMalformed;
    if (type > InstructionArguments::DelegateCall) return Error::kUnsupported;
    const bool is_kernel = type == InstructionArguments::KernelCall;
    const auto& callees =
        tables<void>(&plan_, is_kernel ? ExecutionPlan::VT_OPERATORS : ExecutionPlan::VT_DELEGATES);
    const auto& given = arguments(instruction);
    if (callee(instruction) >= callees.size() || !indices_fit(given)) return Error::kMalformed;
    for (const int32_t index : given) {
      if (!has_memory(static_cast<uint32_t>(index))) return Error::kUnsupported;
    }
    return Error::kOk;
  }

  const VerifiedFile& file_;
  const ExecutionPlan& plan_;
  const flatbuffers::Vector<flatbuffers::Offset<EValue>>& values_;
  size_t left_;
};

}  // namespace

Status verify_plans(const VerifiedFile& file) {
  const auto& plans = tables<ExecutionPlan>(&file.program(), Program::VT_EXECUTION_PLAN);
  for (uint32_t i = 0; i < plans.size(); ++i) {
    uint32_t at = 0;
    if (const Error error = PlanVerifier(file, *plans.Get(i)).run(at); error != Error::kOk)
      return {error, at, i};
  }
  return {};
}

}  // namespace dtr::pte
