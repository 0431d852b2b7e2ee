// device/pte/program.fbs as a table for verify_flatbuffer: the fields that the loader reads. Slots
// are flatc's constants, so the table follows the schema; a test compares it with flatc's own
// verifier (test/unit/flatbuffer_test.cpp).
#pragma once

#include "device/pte/flatbuffer.h"
#include "device/pte/program_generated.h"

namespace dtr::pte {

namespace program_schema {

// Tables. Members of a union are in its order.
enum Table : uint8_t {
  kProgram,
  kPlan,
  kValue,
  kValueTables,  // of KernelTypes
  kNull = kValueTables,
  kInt,
  kBool,
  kDouble,
  kTensor,
  kString,
  kIntList,
  kDoubleList,
  kBoolList,
  kTensorList,
  kOptionalTensorList,
  kInstructionTables,  // of InstructionArguments
  kKernelCall = kInstructionTables,
  kDelegateCall,
  kMoveCall,
  kJumpFalseCall,
  kFreeCall,
  kAllocation,
  kExtraInfo,
  kOperator,
  kInstruction,
  kReference,
  kDelegate,
  kChain,
  kBuffer,
  kInlineData,
  kSegment,
  kOffsets,
  kNamedData,
};
static_assert(kOptionalTensorList - kValueTables + 1 == static_cast<int>(KernelTypes::MAX));
static_assert(kTensor - kValueTables + 1 == static_cast<int>(KernelTypes::Tensor));
static_assert(kFreeCall - kInstructionTables + 1 == static_cast<int>(InstructionArguments::MAX));

using enum FieldKind;

// Fields that are never read (specs of a compiler, names of a container) are left out.
inline constexpr SchemaField kFields[] = {
    {kProgram, Program::VT_VERSION, kScalar, 4},
    {kProgram, Program::VT_EXECUTION_PLAN, kTables, kPlan},
    {kProgram, Program::VT_CONSTANT_BUFFER, kTables, kBuffer},
    {kProgram, Program::VT_BACKEND_DELEGATE_DATA, kTables, kInlineData},
    {kProgram, Program::VT_SEGMENTS, kTables, kSegment},
    {kProgram, Program::VT_CONSTANT_SEGMENT, kTable, kOffsets},
    {kProgram, Program::VT_MUTABLE_DATA_SEGMENTS, kTables, kOffsets},
    {kProgram, Program::VT_NAMED_DATA, kTables, kNamedData},
    {kPlan, ExecutionPlan::VT_NAME, kText, 0, kRequired},
    {kPlan, ExecutionPlan::VT_VALUES, kTables, kValue},
    {kPlan, ExecutionPlan::VT_INPUTS, kVector, 4},
    {kPlan, ExecutionPlan::VT_OUTPUTS, kVector, 4},
    {kPlan, ExecutionPlan::VT_CHAINS, kTables, kChain},
    {kPlan, ExecutionPlan::VT_OPERATORS, kTables, kOperator},
    {kPlan, ExecutionPlan::VT_DELEGATES, kTables, kDelegate},
    {kPlan, ExecutionPlan::VT_NON_CONST_BUFFER_SIZES, kVector, 8},
    {kValue, EValue::VT_VAL_TYPE, kScalar, 1},
    {kValue, EValue::VT_VAL, kUnion, kValueTables, static_cast<uint8_t>(KernelTypes::MAX)},
    {kInt, Int::VT_INT_VAL, kScalar, 8},
    {kBool, Bool::VT_BOOL_VAL, kScalar, 1},
    {kDouble, Double::VT_DOUBLE_VAL, kScalar, 8},
    {kTensor, Tensor::VT_SCALAR_TYPE, kScalar, 1},
    {kTensor, Tensor::VT_STORAGE_OFFSET, kScalar, 4},
    {kTensor, Tensor::VT_SIZES, kVector, 4},
    {kTensor, Tensor::VT_DIM_ORDER, kVector, 1},
    {kTensor, Tensor::VT_DATA_BUFFER_IDX, kScalar, 4},
    {kTensor, Tensor::VT_ALLOCATION_INFO, kTable, kAllocation},
    {kTensor, Tensor::VT_SHAPE_DYNAMISM, kScalar, 1},
    {kTensor, Tensor::VT_EXTRA_TENSOR_INFO, kTable, kExtraInfo},
    {kString, String::VT_STRING_VAL, kText, 0, kRequired},
    {kIntList, IntList::VT_ITEMS, kVector, 8, kRequired},
    {kDoubleList, DoubleList::VT_ITEMS, kVector, 8, kRequired},
    {kBoolList, BoolList::VT_ITEMS, kVector, 1, kRequired},
    {kTensorList, TensorList::VT_ITEMS, kVector, 4, kRequired},
    {kOptionalTensorList, OptionalTensorList::VT_ITEMS, kVector, 4, kRequired},
    {kKernelCall, KernelCall::VT_OP_INDEX, kScalar, 4},
    {kKernelCall, KernelCall::VT_ARGS, kVector, 4},
    {kDelegateCall, DelegateCall::VT_DELEGATE_INDEX, kScalar, 4},
    {kDelegateCall, DelegateCall::VT_ARGS, kVector, 4},
    {kAllocation, AllocationDetails::VT_MEMORY_ID, kScalar, 4},
    {kAllocation, AllocationDetails::VT_MEMORY_OFFSET_LOW, kScalar, 4},
    {kAllocation, AllocationDetails::VT_MEMORY_OFFSET_HIGH, kScalar, 4},
    {kExtraInfo, ExtraTensorInfo::VT_MUTABLE_DATA_SEGMENTS_IDX, kScalar, 8},
    {kExtraInfo, ExtraTensorInfo::VT_FULLY_QUALIFIED_NAME, kText},
    {kExtraInfo, ExtraTensorInfo::VT_LOCATION, kScalar, 1},
    {kOperator, Operator::VT_NAME, kText, 0, kRequired},
    {kOperator, Operator::VT_OVERLOAD, kText},
    {kInstruction, Instruction::VT_INSTR_ARGS_TYPE, kScalar, 1},
    {kInstruction, Instruction::VT_INSTR_ARGS, kUnion, kInstructionTables,
     static_cast<uint8_t>(InstructionArguments::MAX)},
    {kReference, BackendDelegateDataReference::VT_LOCATION, kScalar, 1},
    {kReference, BackendDelegateDataReference::VT_INDEX, kScalar, 4},
    {kDelegate, BackendDelegate::VT_ID, kText, 0, kRequired},
    {kDelegate, BackendDelegate::VT_PROCESSED, kTable, kReference, kRequired},
    {kChain, Chain::VT_INSTRUCTIONS, kTables, kInstruction},
    {kBuffer, Buffer::VT_STORAGE, kVector, 1},
    {kInlineData, BackendDelegateInlineData::VT_DATA, kVector, 1},
    {kSegment, DataSegment::VT_OFFSET, kScalar, 8},
    {kSegment, DataSegment::VT_SIZE, kScalar, 8},
    {kOffsets, SubsegmentOffsets::VT_SEGMENT_INDEX, kScalar, 4},
    {kOffsets, SubsegmentOffsets::VT_OFFSETS, kVector, 8},
    {kNamedData, NamedData::VT_KEY, kText, 0, kRequired},
    {kNamedData, NamedData::VT_SEGMENT_INDEX, kScalar, 4},
};
static_assert(depth(kFields) <= kMaxSchemaDepth);

}  // namespace program_schema

inline constexpr Schema kProgramSchema = program_schema::kFields;

}  // namespace dtr::pte
