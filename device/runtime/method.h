// A method of a program, ready to run in memory of the caller: exactly the bytes of `requirements`,
// nothing is allocated later. Not copyable: delegates keep pointers to its state.
//
//   Method::Requirements need;
//   Method::requirements(program, "forward", &need);
//   … state: need.state_bytes at 16; memories: need.memory_bytes(i) at 16 …
//   Method method;
//   method.prepare(program, "forward", state, memories);
//   method.set_input(0, input);
//   method.run();
//   const Tensor* y = method.output_tensor(0);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "device/runtime/program.h"

namespace dtr::runtime {

inline constexpr size_t kArenaAlignment = 16;
template <class Integer>
constexpr Integer padded(Integer bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}
inline constexpr uint64_t kMaxStateBytes = INT32_MAX;

// Input data of the caller; dtype, logical sizes and dimension order must be those of the program.
struct InputTensor {
  const void* data = nullptr;
  size_t bytes = 0;
  ScalarType dtype = ScalarType::kFloat;
  std::span<const int32_t> sizes = {};
  std::span<const uint8_t> dim_order = {};
};

class Method;

// Called before and after each instruction, for profiling, time limits and access to intermediate
// tensors. Either function may be null.
struct Observer {
  void* context = nullptr;
  // Returns false to end the run with kStopped.
  bool (*before)(void* context, const Method& method, uint32_t instruction) = nullptr;
  void (*after)(void* context, const Method& method, uint32_t instruction) = nullptr;
};

class Method {
  struct PreparedDelegate {
    const Delegate* delegate;
    void* state;
  };

 public:
  // Numbers of entries of each array in the state memory; their bytes differ between machines.
  struct Counts {
    // Values, with the elements of their lists of integers and of tensors; kernels; delegates; most
    // arguments of a call.
    size_t values = 0, integers = 0, list_values = 0, kernels = 0, delegates = 0, arguments = 0;
    uint64_t delegate_bytes = 0;  // sum of padded(Delegate::state_bytes)

    // 64 bits: a file of less than 2^31 bytes can require more than a 32-bit core can address.
    constexpr uint64_t state_bytes() const {
      return padded(uint64_t{values} * sizeof(Value) + uint64_t{integers} * sizeof(int64_t) +
                    uint64_t{list_values} * sizeof(Value*) +
                    uint64_t{kernels} * sizeof(KernelFunction) +
                    uint64_t{delegates} * sizeof(PreparedDelegate) +
                    uint64_t{arguments} * sizeof(Value*)) +
             delegate_bytes;
    }
  };
  struct Requirements {
    Counts counts = {};
    size_t state_bytes = 0;  // values, argument lists and delegate states
    uint32_t memories = 0;   // planned memories, numbered from 0 (memory_id 1 of the file)
    const int64_t* sizes = nullptr;
    size_t memory_bytes(uint32_t memory) const { return static_cast<size_t>(sizes[memory]); }
  };
  // Errors: kMissingMethod; kUnsupported if the state would need more than kMaxStateBytes.
  static Status requirements(const Program& program, std::string_view name,
                             Requirements* requirements);

  Method() = default;
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;
  ~Method() { release(); }

  // Prepares the method in `state` and the planned memories, which must outlive it. Errors:
  // kArenaTooSmall, kArenaMisaligned or kNull (`index`: the memory, UINT32_MAX: the state),
  // kMissingMethod, those of delegates.
  Status prepare(const Program& program, std::string_view name, std::span<std::byte> state,
                 std::span<const std::span<std::byte>> memories);
  // Sets the program's states (buffers that it keeps between runs, ExecuTorch's mutable buffers) to
  // their initial values: those of the program, else zeros. `prepare` does it too, unless
  // LoadOptions::states was null. Other contents of a memory with states are lost: set inputs after
  // it. Without states nothing changes. Errors: kNotPrepared; kMalformed, if the initial value of
  // value `index` is not in the program.
  Status reset();
  // Whether the program has states. Memories with states must not be shared.
  bool has_states() const;
  // Releases the delegates' states; the method can be prepared again.
  void release();

  size_t input_count() const;
  size_t output_count() const;
  // Null if the index is out of range or the value is not a tensor.
  const Tensor* input_tensor(size_t index) const;
  const Tensor* output_tensor(size_t index) const;
  // A value of the program by its index, which the debug map uses.
  const Value* value(size_t index) const;
  size_t instruction_count() const;
  // The operator (without overload) or delegate of an instruction, zero-terminated; empty if there
  // is no such instruction.
  std::string_view name(size_t instruction) const;
  // The arguments of an instruction; valid until the next call of this function or the next run.
  std::span<Value* const> arguments(size_t instruction) const;
  bool is_delegate(size_t instruction) const;

  // Copies the input to its planned memory, unless `input.data` is that memory. An input without
  // planned memory is used in place until the run ends, and must be aligned. The bytes may overlap
  // the planned memory. Errors: kNoSuchTensor (also if the method is not prepared), kInputDtype,
  // kInputShape, kInputDimOrder, kInputSize, kArenaMisaligned; kNull if a tensor with bytes has no
  // data.
  Status set_input(size_t index, const InputTensor& input);
  // Sets the memory of an output that the program does not plan. Errors: kNoSuchTensor,
  // kArenaTooSmall, kArenaMisaligned, kNull.
  Status set_output_memory(size_t index, std::span<std::byte> memory);
  // Runs all instructions. Inputs must be set before each run, since a run reuses their memory. The
  // method can be run again, also after an error. Errors: kInputNotSet, kOutputNotSet, kStopped,
  // those of kernels and delegates; kNotPrepared if `prepare` was not called or failed, or
  // `release` was called since.
  Status run(const Observer* observer = nullptr);

 private:
  friend Status reset_states(Method& method);
  void clear_states();
  static Counts count(const Program& program, const pte::ExecutionPlan& plan);
  Status check_memories(std::span<std::byte> state, uint64_t state_bytes,
                        std::span<const std::span<std::byte>> memories) const;
  void carve_state(std::byte* state, const Counts& counts);
  void read_values(std::span<const std::span<std::byte>> memories);
  Status prepare_delegates(std::byte* state);
  size_t io_count(bool output) const;
  Value* io_value(size_t index, bool output) const;
  const pte::Tensor& stored(const Value& value) const;

  const Program* program_ = nullptr;
  const pte::ExecutionPlan* plan_ = nullptr;
  // Arrays in the state memory; the delegates' own states follow them.
  Value* values_ = nullptr;
  int64_t* integers_ = nullptr;
  Value** list_values_ = nullptr;
  KernelFunction* kernels_ = nullptr;  // of the plan's operators; null: a plug-in has it
  PreparedDelegate* delegates_ = nullptr;
  Value** arguments_ = nullptr;  // of the current instruction
  uint32_t prepared_delegates_ = 0;
};

}  // namespace dtr::runtime
