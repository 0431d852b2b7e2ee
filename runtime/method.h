// A method of a program, ready to run in memory that the caller gives: exactly as much as `requirements` says, nothing is allocated
// later. Not copyable while prepared: delegates hold state in it.
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

#include "runtime/program.h"

namespace dtr::runtime {

inline constexpr size_t kArenaAlignment = 16;
constexpr size_t padded(size_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

// An input as the caller has it: dtype, logical sizes and dimension order must be those of the program.
struct InputTensor {
  const void* data = nullptr;
  size_t bytes = 0;
  ScalarType dtype = ScalarType::kFloat;
  std::span<const int32_t> sizes = {};
  std::span<const uint8_t> dim_order = {};
};

class Method;

// Told before and after each instruction; for profiling, time limits and a look at intermediate tensors. Either function may be null.
struct Observer {
  void* context = nullptr;
  // Whether to go on: `false` ends the run with kStopped.
  bool (*before)(void* context, const Method& method, uint32_t instruction) = nullptr;
  void (*after)(void* context, const Method& method, uint32_t instruction) = nullptr;
};

class Method {
  // One instruction: a kernel, or a delegate if `kernel` is null.
  struct Step {
    KernelFunction kernel;
    const Delegate* delegate;
    void* delegate_state;
    Value** arguments;
    uint32_t argument_count;
  };

 public:
  // Entries of each array in the state memory: what it takes in bytes differs between machines.
  struct Counts {
    size_t values = 0, integers = 0, list_values = 0, steps = 0, arguments = 0, delegates = 0;
    size_t delegate_bytes = 0;  // sum of padded(Delegate::state_bytes)

    constexpr size_t state_bytes() const {
      return padded(values * sizeof(Value)) + padded(integers * sizeof(int64_t)) + padded(list_values * sizeof(Value*)) +
             padded(steps * sizeof(Step)) + padded(arguments * sizeof(Value*)) + padded(delegates * sizeof(void*)) + delegate_bytes;
    }
  };
  struct Requirements {
    Counts counts = {};
    size_t state_bytes = 0;  // values, argument lists and delegate states
    uint32_t memories = 0;   // planned memories, numbered from 0 (memory_id 1 of the file)
    const int64_t* sizes = nullptr;
    size_t memory_bytes(uint32_t memory) const { return static_cast<size_t>(sizes[memory]); }
  };
  static Status requirements(const Program& program, std::string_view name, Requirements* requirements);

  Method() = default;
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;
  ~Method() { release(); }

  // Fails with kArenaTooSmall or kArenaMisaligned (`index`: the memory, UINT32_MAX: the state), or with what a delegate says.
  Status prepare(const Program& program, std::string_view name, std::span<std::byte> state, std::span<const std::span<std::byte>> memories);
  // Gives the delegates' states back; the method can be prepared again.
  void release();

  size_t input_count() const;
  size_t output_count() const;
  // Null if the index is too large or the value is no tensor.
  const Tensor* input_tensor(size_t index) const;
  const Tensor* output_tensor(size_t index) const;
  // Value of the program by its index, as the debug map names it.
  const Value* value(size_t index) const { return index < value_count_ ? &values_[index] : nullptr; }
  size_t instruction_count() const { return step_count_; }
  // Operator (without overload) or delegate of an instruction; ends with a zero. Empty if there is no such instruction.
  std::string_view name(size_t instruction) const;
  // What an instruction gets, as an observer sees it.
  std::span<Value* const> arguments(size_t instruction) const;

  // Copies the input into its planned place, unless it is written there already; an input without one is used where it lies until the run
  // ends.
  Status set_input(size_t index, const InputTensor& input);
  // Memory of an output that the program does not plan.
  Status set_output_memory(size_t index, std::span<std::byte> memory);
  // Runs all instructions. Inputs must be set before each run: their memory is used again once they are read. After an error the method
  // can be run again, as after a run that was good.
  Status run(const Observer* observer = nullptr);

 private:
  class State;

  static Counts count(const Program& program, const pte::ExecutionPlan& plan);
  Status check_memories(std::span<std::byte> state, size_t state_bytes, std::span<const std::span<std::byte>> memories) const;
  void read_values(State& state, std::span<const std::span<std::byte>> memories);
  void read_instructions(State& state);
  Status prepare_delegates(State& state);
  Value* io_value(size_t index, bool output) const;

  const Program* program_ = nullptr;
  const pte::ExecutionPlan* plan_ = nullptr;
  Value* values_ = nullptr;
  size_t value_count_ = 0;
  Step* steps_ = nullptr;
  size_t step_count_ = 0;
  void** delegate_states_ = nullptr;
  size_t prepared_delegates_ = 0;
};

}  // namespace dtr::runtime
