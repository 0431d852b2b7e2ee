// Accessors for a verified plan. Shared out-of-line helpers instead of flatc's functions per field,
// to save flash. Freestanding.
#pragma once

#include <cstdint>

#include "device/pte/program_generated.h"

namespace dtr::pte {

// The vector that a field (flatc's VT_…) of a table refers to; an empty one if the field is absent.
const void* list_at(const void* table, flatbuffers::voffset_t slot);
template <class T>
const flatbuffers::Vector<T>& list(const void* table, flatbuffers::voffset_t slot) {
  return *static_cast<const flatbuffers::Vector<T>*>(list_at(table, slot));
}
template <class T>
const flatbuffers::Vector<flatbuffers::Offset<T>>& tables(const void* table,
                                                          flatbuffers::voffset_t slot) {
  return list<flatbuffers::Offset<T>>(table, slot);
}
// A 32-bit field; 0 if it is absent.
uint32_t word(const void* table, flatbuffers::voffset_t slot);

// Every table of KernelTypes has a single field, in the same slot.
static_assert(Int::VT_INT_VAL == 4 && Bool::VT_BOOL_VAL == 4 && Double::VT_DOUBLE_VAL == 4 &&
              String::VT_STRING_VAL == 4 && IntList::VT_ITEMS == 4 && DoubleList::VT_ITEMS == 4 &&
              BoolList::VT_ITEMS == 4 && TensorList::VT_ITEMS == 4 &&
              OptionalTensorList::VT_ITEMS == 4);

// A number or a flag; T() if it is absent.
template <class T>
T scalar(const EValue& value) {
  return static_cast<const flatbuffers::Table*>(value.val())->GetField<T>(Int::VT_INT_VAL, T());
}
// A string (without its terminator) or a list.
template <class T>
const flatbuffers::Vector<T>& items(const EValue& value) {
  return list<T>(value.val(), IntList::VT_ITEMS);
}

// The operator or delegate index of a call, and its arguments: KernelCall and DelegateCall have the
// same two fields.
static_assert(KernelCall::VT_OP_INDEX == 4 && DelegateCall::VT_DELEGATE_INDEX == 4 &&
              KernelCall::VT_ARGS == 6 && DelegateCall::VT_ARGS == 6);
inline uint32_t callee(const Instruction& instruction) {
  return word(instruction.instr_args(), KernelCall::VT_OP_INDEX);
}
inline const flatbuffers::Vector<int32_t>& arguments(const Instruction& instruction) {
  return list<int32_t>(instruction.instr_args(), KernelCall::VT_ARGS);
}

// True for a call of an in-place operator, such as aten::copy_ or aten::index_put_, which writes to
// its first argument. The values that such calls write are the states of a program.
inline bool is_in_place(const ExecutionPlan& plan, const Instruction& instruction) {
  if (instruction.instr_args_type() != InstructionArguments::KernelCall ||
      arguments(instruction).size() == 0)
    return false;
  const Operator& called = *plan.operators()->Get(callee(instruction));
  return flatbuffers::GetStringView(called.name()).ends_with('_');
}

}  // namespace dtr::pte
