// The limits of a program that is loaded (device/pte/verify_plan.h), each at the limit and one
// beyond.
#include "device/pte/verify_plan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "device/pte/flatbuffer.h"
#include "device/pte/program_generated.h"
#include "device/pte/scalar_type.h"
#include "test/unit/plan_builder.h"

namespace dtr {
namespace {

using namespace pte;  // NOLINT(google-build-using-namespace): the schema's words
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// The parts of a plan; a test fills them in, sharing tables and vectors as it likes.
struct Parts {
  FlatBufferBuilder b;
  std::vector<Offset<EValue>> values;
  std::vector<int32_t> inputs, outputs;
  std::vector<Offset<Instruction>> instructions;
  std::vector<Offset<BackendDelegate>> delegates;
  std::vector<Offset<BackendDelegateInlineData>> payloads;
  std::vector<Offset<Buffer>> buffers;
  std::vector<int64_t> memories = {0, 64};
  std::string name = "forward";

  void add(Offset<pte::Tensor> tensor) {
    values.push_back(CreateEValue(b, KernelTypes::Tensor, tensor.Union()));
  }
  Offset<Instruction> call(Offset<flatbuffers::Vector<int32_t>> arguments) {
    return CreateInstruction(b, InstructionArguments::KernelCall,
                             CreateKernelCall(b, 0, arguments).Union());
  }
  std::vector<std::byte> finish() {
    const std::vector chains{CreateChainDirect(b, &inputs, &outputs, &instructions)};
    const std::vector operators{CreateOperatorDirect(b, "aten::relu", "out")};
    const std::vector plans{CreateExecutionPlanDirect(b, name.c_str(), 0, &values, &inputs,
                                                      &outputs, &chains, &operators, &delegates,
                                                      &memories)};
    FinishProgramBuffer(b, CreateProgramDirect(b, 0, &plans, &buffers, &payloads));
    const auto* bytes = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
    return {bytes, bytes + b.GetSize()};
  }
};

struct Opened {
  Error error;
  double seconds;
};
Opened open(const std::vector<std::byte>& program) {
  const test::AlignedCopy bytes(program);
  VerifiedFile file;
  const auto start = std::chrono::steady_clock::now();
  const Error error = VerifiedFile::open(bytes.bytes(), nullptr, &file).error;
  return {error, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

// What is said of a tensor; dimensions are in order where a test says nothing else.
struct Said {
  std::vector<int32_t> sizes = {};
  pte::ScalarType dtype = pte::ScalarType::Char;
  std::vector<uint8_t> order = {};
  uint32_t constant = 0;
  bool planned = false;
  uint32_t memory = 1, offset = 0, offset_high = 0;
  int32_t storage_offset = 0;
  uint32_t beyond_alignment = 0;  // of the constant: bytes behind a place for elements of any type
  TensorShapeDynamism dynamism = TensorShapeDynamism::Static;
  int64_t reserved_bytes = 0;  // of entry 0 of the memories, which is none
};
Error tensor(Said said) {
  Parts parts;
  if (said.order.empty()) {
    said.order.resize(said.sizes.size());
    std::iota(said.order.begin(), said.order.end(), uint8_t{0});
  }
  const auto place =
      said.planned ? CreateAllocationDetails(parts.b, said.memory, said.offset, said.offset_high)
                   : 0;
  const auto sizes = parts.b.CreateVector(said.sizes);
  const auto order = parts.b.CreateVector(said.order);
  parts.buffers.push_back(CreateBuffer(parts.b, 0));
  parts.b.ForceVectorAlignment(8 - said.beyond_alignment, 1, 16);
  parts.buffers.push_back(CreateBuffer(parts.b, parts.b.CreateVector(std::vector<uint8_t>(8))));
  parts.add(CreateTensor(parts.b, said.dtype, said.storage_offset, sizes, order, said.constant,
                         place, said.dynamism));
  parts.memories[0] = said.reserved_bytes;
  if (!said.planned && said.constant == 0) parts.inputs.push_back(0);
  return open(parts.finish()).error;
}

TEST(VerifyPlan, BytesOfATensorFit31Bits) {
  EXPECT_EQ(tensor({.sizes = {INT32_MAX}}), Error::kOk);
  EXPECT_EQ(tensor({.sizes = {1 << 15, 1 << 16}}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {(1 << 29) - 1}, .dtype = pte::ScalarType::Float}), Error::kOk);
  EXPECT_EQ(tensor({.sizes = {1 << 29}, .dtype = pte::ScalarType::Float}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {(1 << 28) - 1}, .dtype = pte::ScalarType::Long}), Error::kOk);
  EXPECT_EQ(tensor({.sizes = {1 << 28}, .dtype = pte::ScalarType::Long}), Error::kMalformed);
  // 2^64 elements: a product of 32 or of 64 bits is 0.
  EXPECT_EQ(tensor({.sizes = {1 << 16, 1 << 16}}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {1 << 16, 1 << 16, 1 << 16, 1 << 16}}), Error::kMalformed);
}

// Kernels multiply some of the dimensions: those of an empty tensor are as small as those of any
// other.
TEST(VerifyPlan, ZerosCountAsOnes) {
  for (const std::vector<int32_t>& sizes :
       {std::vector{0, INT32_MAX}, {INT32_MAX, 0}, {1 << 15, 0, (1 << 16) - 1}, {0, 0, 0}, {0}})
    EXPECT_EQ(tensor({.sizes = sizes}), Error::kOk);
  for (const std::vector<int32_t>& sizes : {std::vector{0, 1 << 15, 1 << 16},
                                            {1 << 15, 1 << 16, 0},
                                            {1 << 15, 0, 1 << 16},
                                            {0, INT32_MAX, INT32_MAX, INT32_MAX}})
    EXPECT_EQ(tensor({.sizes = sizes}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {0, 1 << 29}, .dtype = pte::ScalarType::Float}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {0, (1 << 29) - 1}, .dtype = pte::ScalarType::Float}), Error::kOk);
}

TEST(VerifyPlan, DimensionsAreNotNegativeAndAPermutation) {
  EXPECT_EQ(tensor({.sizes = {2, -1}}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {0, -1}}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {INT32_MIN}}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {2, 3, 4}, .order = {2, 0, 1}}), Error::kOk);
  EXPECT_EQ(tensor({.sizes = {2, 3, 4}, .order = {2, 0, 2}}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {2, 3, 4}, .order = {2, 0, 3}}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {2, 3, 4}, .order = {2, 0, 255}}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {2, 3, 4}, .order = {1, 0}}), Error::kMalformed);
  EXPECT_EQ(tensor({}), Error::kOk);  // a scalar
  EXPECT_EQ(tensor({.sizes = std::vector<int32_t>(kMaxRank, 1)}), Error::kOk);
  EXPECT_EQ(tensor({.sizes = std::vector<int32_t>(kMaxRank + 1, 1)}), Error::kUnsupported);
}

TEST(VerifyPlan, PlacesLieInTheirMemoryAndAreAligned) {
  const auto at = [](uint32_t offset, int32_t elements, pte::ScalarType dtype) {
    return tensor({.sizes = {elements}, .dtype = dtype, .planned = true, .offset = offset});
  };
  EXPECT_EQ(at(0, 64, pte::ScalarType::Char), Error::kOk);
  EXPECT_EQ(at(0, 65, pte::ScalarType::Char), Error::kMalformed);
  EXPECT_EQ(at(63, 1, pte::ScalarType::Char), Error::kOk);
  EXPECT_EQ(at(63, 2, pte::ScalarType::Char), Error::kMalformed);
  EXPECT_EQ(at(64, 0, pte::ScalarType::Char), Error::kOk);
  EXPECT_EQ(at(65, 0, pte::ScalarType::Char), Error::kMalformed);
  EXPECT_EQ(at(UINT32_MAX, 1, pte::ScalarType::Char), Error::kMalformed);
  EXPECT_EQ(at(UINT32_MAX - 3, 1, pte::ScalarType::Float), Error::kMalformed);
  for (const auto& [dtype, size] : {std::pair{pte::ScalarType::Short, 2u},
                                    {pte::ScalarType::Float, 4u},
                                    {pte::ScalarType::Long, 8u},
                                    {pte::ScalarType::Double, 8u}}) {
    EXPECT_EQ(at(size, 1, dtype), Error::kOk);
    EXPECT_EQ(at(size / 2, 1, dtype), Error::kMalformed);
    EXPECT_EQ(at(size + 1, 0, dtype), Error::kMalformed);
  }
  EXPECT_EQ(tensor({.sizes = {1}, .planned = true, .memory = 0}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {1}, .planned = true, .memory = 0, .reserved_bytes = 64}),
            Error::kMalformed);  // no memory of the caller belongs to it
  EXPECT_EQ(tensor({.sizes = {1}, .planned = true, .memory = 2}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {1}, .planned = true, .offset_high = 1}), Error::kMalformed);
  for (const auto& [bytes, error] : {std::pair{int64_t{INT32_MAX}, Error::kOk},
                                     {int64_t{INT32_MAX} + 1, Error::kMalformed},
                                     {int64_t{-1}, Error::kMalformed},
                                     {INT64_MIN, Error::kMalformed}}) {
    Parts parts;
    parts.memories.push_back(bytes);
    EXPECT_EQ(open(parts.finish()).error, error) << bytes;
  }
}

// Of no tensor does the runtime skip what is stored before it.
TEST(VerifyPlan, TensorsBeginAtTheirStorage) {
  for (const int32_t offset : {1, -1, INT32_MAX}) {
    EXPECT_EQ(tensor({.sizes = {4}, .storage_offset = offset}), Error::kUnsupported);
    EXPECT_EQ(tensor({.sizes = {4}, .planned = true, .storage_offset = offset}),
              Error::kUnsupported);
    EXPECT_EQ(tensor({.sizes = {4}, .constant = 1, .storage_offset = offset}), Error::kUnsupported);
  }
}

TEST(VerifyPlan, ConstantsLieInTheirBuffer) {
  EXPECT_EQ(tensor({.sizes = {8}, .constant = 1}), Error::kOk);
  EXPECT_EQ(tensor({.sizes = {9}, .constant = 1}), Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {2}, .dtype = pte::ScalarType::Float, .constant = 1}), Error::kOk);
  EXPECT_EQ(tensor({.sizes = {3}, .dtype = pte::ScalarType::Float, .constant = 1}),
            Error::kMalformed);
  EXPECT_EQ(tensor({.sizes = {8}, .constant = 2}), Error::kMalformed);
}

TEST(VerifyPlan, ConstantsAreAlignedForTheirElements) {
  const auto beyond = [](uint32_t bytes, pte::ScalarType dtype) {
    return tensor({.sizes = {1}, .dtype = dtype, .constant = 1, .beyond_alignment = bytes});
  };
  EXPECT_EQ(beyond(0, pte::ScalarType::Long), Error::kOk);
  EXPECT_EQ(beyond(4, pte::ScalarType::Long), Error::kMalformed);
  EXPECT_EQ(beyond(4, pte::ScalarType::Double), Error::kMalformed);
  EXPECT_EQ(beyond(4, pte::ScalarType::Float), Error::kOk);
  EXPECT_EQ(beyond(4, pte::ScalarType::Char), Error::kOk);
}

// Sizes without bounds have no memory that would be enough.
TEST(VerifyPlan, SizesAreBounded) {
  for (const auto& [dynamism, error] : {std::pair{TensorShapeDynamism::Static, Error::kOk},
                                        {TensorShapeDynamism::DynamicBound, Error::kOk},
                                        {TensorShapeDynamism::DynamicUnbound, Error::kUnsupported}})
    EXPECT_EQ(tensor({.sizes = {4}, .planned = true, .dynamism = dynamism}), error);
}

// Lists of a program with `values` values that are one list of `entries` entries.
std::vector<std::byte> shared_lists(KernelTypes type, size_t values, size_t entries) {
  Parts parts;
  parts.values.push_back(CreateEValue(parts.b, KernelTypes::Int, CreateInt(parts.b, 7).Union()));
  Offset<void> list;
  if (type == KernelTypes::IntList) {
    list = CreateIntList(parts.b, parts.b.CreateVector(std::vector<int64_t>(entries, 0))).Union();
  } else {
    const std::vector<int32_t> sizes{1};
    const std::vector<uint8_t> order{0};
    parts.add(CreateTensorDirect(parts.b, pte::ScalarType::Char, 0, &sizes, &order, 0,
                                 CreateAllocationDetails(parts.b, 1, 0, 0)));
    list =
        CreateTensorList(parts.b, parts.b.CreateVector(std::vector<int32_t>(entries, 1))).Union();
  }
  const auto value = CreateEValue(parts.b, type, list);
  parts.values.insert(parts.values.end(), values, value);
  return parts.finish();
}

// A list of 8,000 bytes may be reached so often that all of it is kMaxSharing times the file, and
// not once more.
TEST(VerifyPlan, WhatIsSharedCountsEachTime) {
  for (const KernelTypes type : {KernelTypes::IntList, KernelTypes::TensorList}) {
    const size_t entries = type == KernelTypes::IntList ? 1000 : 2000;
    size_t most = 0;
    while (open(shared_lists(type, most + 1, entries)).error == Error::kOk) ++most;
    EXPECT_EQ(most, kMaxSharing);
    EXPECT_EQ(open(shared_lists(type, most + 1, entries)).error, Error::kMalformed);
  }
}

// What would take 10^12 steps, megabytes of state that a core of 32 bits counts as 768 bytes, and
// hundreds of gigabytes.
TEST(VerifyPlan, SmallFilesDoNotTakeLong) {
  for (const auto& [type, values, entries] :
       {std::tuple{KernelTypes::IntList, size_t{20000}, size_t{26844}},
        {KernelTypes::TensorList, size_t{20000}, size_t{53688}},
        {KernelTypes::TensorList, size_t{300000}, size_t{300000}}}) {
    const Opened opened = open(shared_lists(type, values, entries));
    EXPECT_EQ(opened.error, Error::kMalformed);
    EXPECT_LT(opened.seconds, 1.0);
  }
  for (const bool shared_arguments : {true, false}) {
    Parts parts;
    const std::vector<int32_t> sizes{1};
    const std::vector<uint8_t> order{0};
    for (int i = 0; i < 2; ++i)
      parts.add(CreateTensorDirect(parts.b, pte::ScalarType::Char, 0, &sizes, &order));
    const auto list =
        CreateTensorList(parts.b, parts.b.CreateVector(std::vector<int32_t>(1000, 0)));
    parts.values.push_back(CreateEValue(parts.b, KernelTypes::TensorList, list.Union()));
    parts.inputs.assign(2000, 1);
    parts.outputs.assign(2000, 1);
    parts.outputs.back() = 0;  // the tensor of the list is found last
    auto arguments = parts.b.CreateVector(std::vector<int32_t>(1000, 2));
    for (int i = 0; i < 500; ++i) {
      if (!shared_arguments)
        arguments = parts.b.CreateVector(std::vector<int32_t>(20, i % 2 == 0 ? 2 : 0));
      parts.instructions.push_back(parts.call(arguments));
    }
    const Opened opened = open(parts.finish());
    EXPECT_NE(opened.error, Error::kOk);
    EXPECT_LT(opened.seconds, 1.0);
  }
}

// Inputs and outputs without a place are searched for: 300 of each, used twice, are fine.
TEST(VerifyPlan, ManyInputsAndOutputsOfTheCaller) {
  Parts parts;
  const std::vector<int32_t> sizes{1};
  const std::vector<uint8_t> order{0};
  for (int32_t i = 0; i < 600; ++i) {
    parts.add(CreateTensorDirect(parts.b, pte::ScalarType::Char, 0, &sizes, &order));
    (i % 2 == 0 ? parts.inputs : parts.outputs).push_back(i);
  }
  for (int32_t i = 0; i < 600; ++i)
    parts.instructions.push_back(parts.call(parts.b.CreateVector(std::vector{i, 599 - i})));
  EXPECT_EQ(open(parts.finish()).error, Error::kOk);
  // A tensor that nobody places and that is neither is refused where it is used, in a list or not.
  for (const bool in_list : {true, false}) {
    Parts none;
    none.add(CreateTensorDirect(none.b, pte::ScalarType::Char, 0, &sizes, &order));
    EXPECT_EQ(none.values.size(), 1u);
    if (in_list) {
      const auto list = CreateTensorList(none.b, none.b.CreateVector(std::vector<int32_t>{0}));
      none.values.push_back(CreateEValue(none.b, KernelTypes::TensorList, list.Union()));
    } else {
      none.instructions.push_back(none.call(none.b.CreateVector(std::vector<int32_t>{0})));
    }
    EXPECT_EQ(open(none.finish()).error, Error::kUnsupported);
  }
}

// Delegates may share a payload, as equal parts of a model do.
TEST(VerifyPlan, DelegatesMayShareAPayload) {
  const auto with = [](int delegates) {
    Parts parts;
    parts.payloads.push_back(CreateBackendDelegateInlineData(
        parts.b, parts.b.CreateVector(std::vector<uint8_t>(100000))));
    for (int i = 0; i < delegates; ++i)
      parts.delegates.push_back(CreateBackendDelegateDirect(
          parts.b, "DeuteronBackend",
          CreateBackendDelegateDataReference(parts.b, DataLocation::Inline, 0)));
    return open(parts.finish()).error;
  };
  EXPECT_EQ(with(200), Error::kOk);
  EXPECT_EQ(with(1000), Error::kMalformed);
}

}  // namespace
}  // namespace dtr
