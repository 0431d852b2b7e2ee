// A method of a program, ready to run in memory that the caller gives: exactly as much as
// `requirements` says, nothing is allocated later. Not copyable while prepared: delegates hold
// state in it.
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

// An input as the caller has it: dtype, logical sizes and dimension order must be those of the
// program.
struct InputTensor {
  const void* data = nullptr;
  size_t bytes = 0;
  ScalarType dtype = ScalarType::kFloat;
  std::span<const int32_t> sizes = {};
  std::span<const uint8_t> dim_order = {};
};

class Method;

// Told before and after each instruction; for profiling, time limits and a look at intermediate
// tensors. Either function may be null.
struct Observer {
  void* context = nullptr;
  // Whether to go on: `false` ends the run with kStopped.
  bool (*before)(void* context, const Method& method, uint32_t instruction) = nullptr;
  void (*after)(void* context, const Method& method, uint32_t instruction) = nullptr;
};

class Method {
  struct PreparedDelegate {
    const Delegate* delegate;
    void* state;
  };

 public:
  // Entries of each array in the state memory: what it takes in bytes differs between machines.
  struct Counts {
    // Values with what their lists of integers and of tensors hold; kernels; delegates; arguments
    // of the call that has most.
    size_t values = 0, integers = 0, list_values = 0, kernels = 0, delegates = 0, arguments = 0;
    uint64_t delegate_bytes = 0;  // sum of padded(Delegate::state_bytes)

    // Of 64 bits: a file of less than 2^31 bytes can ask for more than a core of 32 bits can
    // address.
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
  // kMissingMethod; kUnsupported, if the state would take more than kMaxStateBytes.
  static Status requirements(const Program& program, std::string_view name,
                             Requirements* requirements);

  Method() = default;
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;
  ~Method() { release(); }

  // Fails with kArenaTooSmall, kArenaMisaligned or kNull (`index`: the memory, UINT32_MAX: the
  // state), or with what a delegate says.
  Status prepare(const Program& program, std::string_view name, std::span<std::byte> state,
                 std::span<const std::span<std::byte>> memories);
  // Gives the delegates' states back; the method can be prepared again.
  void release();

  size_t input_count() const;
  size_t output_count() const;
  // Null if the index is too large or the value is no tensor.
  const Tensor* input_tensor(size_t index) const;
  const Tensor* output_tensor(size_t index) const;
  // Value of the program by its index, as the debug map names it.
  const Value* value(size_t index) const;
  size_t instruction_count() const;
  // Operator (without overload) or delegate of an instruction; ends with a zero. Empty if there is
  // no such instruction.
  std::string_view name(size_t instruction) const;
  // What an instruction gets, until this is asked of another one or one runs.
  std::span<Value* const> arguments(size_t instruction) const;
  bool is_delegate(size_t instruction) const;

  // Copies the input into its planned place, unless it is written there already; an input without
  // one is used where it lies until the run ends, and must be aligned. The bytes may overlap with
  // its planned place. kNull: no data for a tensor that has bytes.
  Status set_input(size_t index, const InputTensor& input);
  // Memory of an output that the program does not plan. kArenaTooSmall, kArenaMisaligned, kNull.
  Status set_output_memory(size_t index, std::span<std::byte> memory);
  // Runs all instructions. Inputs must be set before each run: their memory is used again once they
  // are read. After an error the method can be run again, as after a run that was good.
  // kNotPrepared: `prepare` was not called, failed, or `release` was called since.
  Status run(const Observer* observer = nullptr);

 private:
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
  // The state memory: these arrays, then the delegates' own states.
  Value* values_ = nullptr;
  int64_t* integers_ = nullptr;
  Value** list_values_ = nullptr;
  KernelFunction* kernels_ = nullptr;  // of the plan's operators
  PreparedDelegate* delegates_ = nullptr;
  Value** arguments_ = nullptr;  // of the instruction that runs
  uint32_t prepared_delegates_ = 0;
};

}  // namespace dtr::runtime
