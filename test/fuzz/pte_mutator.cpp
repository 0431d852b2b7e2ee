// Mutations of a program that keep its FlatBuffer whole: sizes, orders, types, places, indices,
// lists, numbers and memory of its plans take hostile values, one at a time or all that are equal
// together, so that a changed size fits everywhere it stands. The checksum is made right again, as
// one who attacks would.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "compiler/program/reader.h"
#include "device/numerics/crc32.h"
#include "device/pte/program_generated.h"
#include "device/pte/verified_file.h"
#include "test/fuzz/mutators.h"

namespace {

using namespace dtr;

// What a number means: numbers of one kind that are equal may change together.
enum class Kind : uint8_t {
  kSize,
  kDimension,
  kType,
  kPlace,
  kMemory,
  kIndex,
  kOperator,
  kInteger,
  kReal,
  kFlag
};

struct Slot {
  Kind kind;
  uint8_t* at;
  size_t bytes;
};

class Plans {
 public:
  // `data` holds a program that pte::VerifiedFile::open has accepted.
  explicit Plans(const pte::Program& program) {
    each(program.execution_plan(), [&](const pte::ExecutionPlan& plan) { visit(plan); });
  }
  const std::vector<Slot>& slots() const { return slots_; }

 private:
  void visit(const pte::ExecutionPlan& plan) {
    list(Kind::kMemory, plan.non_const_buffer_sizes());
    list(Kind::kIndex, plan.inputs());
    list(Kind::kIndex, plan.outputs());
    each(plan.values(), [&](const pte::EValue& value) { visit(value); });
    each(plan.chains(), [&](const pte::Chain& chain) {
      each(chain.instructions(), [&](const pte::Instruction& instruction) { visit(instruction); });
    });
  }
  void visit(const pte::Instruction& instruction) {
    if (const pte::KernelCall* call = instruction.instr_args_as_KernelCall()) {
      field(Kind::kOperator, call, pte::KernelCall::VT_OP_INDEX, 4);
      list(Kind::kIndex, call->args());
    } else if (const pte::DelegateCall* delegate = instruction.instr_args_as_DelegateCall()) {
      list(Kind::kIndex, delegate->args());
    }
  }
  void visit(const pte::EValue& value) {
    if (const pte::Tensor* tensor = value.val_as_Tensor()) {
      list(Kind::kSize, tensor->sizes());
      list(Kind::kDimension, tensor->dim_order());
      field(Kind::kType, tensor, pte::Tensor::VT_SCALAR_TYPE, 1);
      field(Kind::kIndex, tensor, pte::Tensor::VT_DATA_BUFFER_IDX, 4);
      if (const pte::AllocationDetails* place = tensor->allocation_info()) {
        field(Kind::kIndex, place, pte::AllocationDetails::VT_MEMORY_ID, 4);
        field(Kind::kPlace, place, pte::AllocationDetails::VT_MEMORY_OFFSET_LOW, 4);
        field(Kind::kPlace, place, pte::AllocationDetails::VT_MEMORY_OFFSET_HIGH, 4);
      }
    } else if (const pte::Int* integer = value.val_as_Int()) {
      field(Kind::kInteger, integer, pte::Int::VT_INT_VAL, 8);
    } else if (const pte::Double* real = value.val_as_Double()) {
      field(Kind::kReal, real, pte::Double::VT_DOUBLE_VAL, 8);
    } else if (const pte::Bool* flag = value.val_as_Bool()) {
      field(Kind::kFlag, flag, pte::Bool::VT_BOOL_VAL, 1);
    } else if (const pte::IntList* integers = value.val_as_IntList()) {
      list(Kind::kIndex, integers->items());
    } else if (const pte::DoubleList* reals = value.val_as_DoubleList()) {
      list(Kind::kReal, reals->items());
    } else if (const pte::TensorList* tensors = value.val_as_TensorList()) {
      list(Kind::kIndex, tensors->items());
    }
  }

  // A list that is not in the file is empty.
  template <class Item, class Body>
  static void each(const flatbuffers::Vector<flatbuffers::Offset<Item>>* items, const Body& body) {
    for (uint32_t i = 0; items != nullptr && i < items->size(); ++i) body(*items->Get(i));
  }
  // The bytes belong to the mutator, which reads them through the schema's constant accessors.
  void add(Kind kind, const void* at, size_t bytes) {
    if (at != nullptr)
      slots_.push_back({kind, const_cast<uint8_t*>(static_cast<const uint8_t*>(at)), bytes});
  }
  template <class Table>
  void field(Kind kind, const Table* table, flatbuffers::voffset_t offset, size_t bytes) {
    add(kind, reinterpret_cast<const flatbuffers::Table*>(table)->GetAddressOf(offset),
        bytes);  // null: the default, not in the file
  }
  template <class T>
  void list(Kind kind, const flatbuffers::Vector<T>* items) {
    for (uint32_t i = 0; items != nullptr && i < items->size(); ++i)
      add(kind, items->Data() + i * sizeof(T), sizeof(T));
  }

  std::vector<Slot> slots_;
};

double hostile_real(std::minstd_rand& random, double value) {
  constexpr std::array<double, 14> kEdges{
      0.0,  -0.0,  1.0,   -1.0, 1e-12,        1e-38,           1e-300,
      1e30, -1e20, 1e300, 0.5,  2147483648.0, __builtin_inf(), __builtin_nan("")};
  return random() % 4 == 0 ? value * 1.5 : kEdges[random() % kEdges.size()];
}

int64_t load(const Slot& slot) {
  int64_t value = 0;
  std::memcpy(&value, slot.at, slot.bytes);
  return slot.bytes == 4 ? static_cast<int32_t>(value) : value;
}

void change(std::minstd_rand& random, const std::vector<Slot>& slots) {
  const Slot& chosen = slots[random() % slots.size()];
  const int64_t old = load(chosen);
  int64_t value = fuzz::hostile_integer(random, old);
  if (chosen.kind == Kind::kReal) {
    double real = 0;
    std::memcpy(&real, chosen.at, sizeof real);
    real = hostile_real(random, real);
    std::memcpy(&value, &real, sizeof value);
  } else if ((chosen.kind == Kind::kIndex || chosen.kind == Kind::kOperator ||
              chosen.kind == Kind::kPlace) &&
             random() % 4 != 0) {
    // Another index of the program: it is in range more often than not.
    const Slot& other = slots[random() % slots.size()];
    value = other.kind == chosen.kind ? load(other) : static_cast<int64_t>(random() % 64);
  } else if (chosen.kind == Kind::kMemory && random() % 2 == 0) {
    value = 1 << 20;  // room for larger tensors
  } else if (chosen.kind == Kind::kType) {
    value = static_cast<int64_t>(random() % 12);
  }
  const bool together =
      (chosen.kind == Kind::kSize || chosen.kind == Kind::kInteger) && random() % 2 == 0;
  for (const Slot& slot : slots)
    if (slot.at == chosen.at || (together && slot.kind == chosen.kind && load(slot) == old))
      std::memcpy(slot.at, &value, slot.bytes);
}

// The checksum that the program names, over what it is now.
void sign(std::span<std::byte> bytes, const pte::VerifiedFile& file) {
  const std::span<const std::byte> stored = file.named_data(pte::kChecksumKey);
  if (stored.size() != sizeof(uint32_t)) return;
  const uint32_t checksum =
      crc32_with_hole(bytes, static_cast<size_t>(stored.data() - bytes.data()));
  std::memcpy(const_cast<std::byte*>(stored.data()), &checksum, sizeof checksum);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {  // NOLINT(readability-identifier-naming)
  std::minstd_rand random(seed);
  if (random() % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const auto bytes = std::as_bytes(std::span(data, size));
  AlignedBytes copy(bytes);
  pte::VerifiedFile file;
  if (!pte::VerifiedFile::open(copy.bytes(), nullptr, &file).ok())
    return LLVMFuzzerMutate(data, size, max_size);
  // Changes that the reader refuses are seldom worth a run: another one is tried.
  for (int tries = random() % 8 == 0 ? 1 : 12; tries > 0; --tries) {
    copy = AlignedBytes(bytes);
    (void)pte::VerifiedFile::open(copy.bytes(), nullptr, &file);
    const Plans plans(file.program());
    if (plans.slots().empty()) return LLVMFuzzerMutate(data, size, max_size);
    for (size_t count = 1 + random() % 2; count > 0; --count) change(random, plans.slots());
    sign({const_cast<std::byte*>(copy.bytes().data()), size}, file);
    pte::VerifiedFile changed;
    if (pte::VerifiedFile::open(copy.bytes(), nullptr, &changed).ok()) break;
  }
  std::memcpy(data, copy.bytes().data(), size);
  return size;
}
