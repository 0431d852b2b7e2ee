// Makes arguments of kernels for the kernel fuzzer: of each kernel a valid call with random shapes
// and parameters, in which mostly one or two things are then broken. Every tensor keeps to what
// verify_plan guarantees (device/runtime/kernels/checks.h); nothing else holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "device/numerics/cortex_m_scratch.h"
#include "device/pte/scalar_type.h"

namespace dtr::fuzz {

// Numbers that follow from a seed and, as long as there are any, from bytes: one byte changed
// changes one number.
class Draws {
 public:
  explicit Draws(uint64_t seed, std::span<const uint8_t> bytes = {}) : seed_(seed), bytes_(bytes) {}

  uint64_t bits();
  int64_t between(int64_t low, int64_t high);  // both included; `low` if `high` is below it
  size_t below(size_t limit) { return static_cast<size_t>(bits() % limit); }
  bool chance(int percent) { return below(100) < static_cast<size_t>(percent); }
  template <class T>
  T pick(std::initializer_list<T> items) {
    return items.begin()[below(items.size())];
  }

 private:
  uint64_t seed_;
  std::span<const uint8_t> bytes_;
};

// What the contents of a tensor are.
enum class Fill : uint8_t { kBytes, kFloats, kPositive, kFlags, kBelow, kMultipliers, kShifts };

struct TensorSpec {
  ScalarType dtype = ScalarType::kFloat;
  std::vector<int32_t> sizes;
  std::vector<uint8_t> order;
  bool writable = false;
  Fill fill = Fill::kBytes;
  int64_t below = 1;             // kBelow
  uint8_t misalignment = 0;      // bytes behind a 16-byte boundary
  std::optional<size_t> inside;  // lies in the memory of that tensor of the call instead, `delta`
                                 // bytes behind its start
  uint32_t delta = 0;
};

using Numbers = std::vector<int64_t>;
using Reals = std::vector<double>;
using TensorList = std::vector<std::optional<TensorSpec>>;
using Argument = std::variant<std::monostate, int64_t, bool, double, TensorSpec, std::string,
                              Numbers, Reals, TensorList>;

struct Call {
  std::string kernel;
  std::vector<Argument> arguments;
};

// Scratch is of the size that a kernel of this core wants.
extern dtr::cortex_m::Core scratch_core;

// A valid call of the kernel; nullopt if nothing is known of it.
std::optional<Call> make_call(const std::string& kernel, Draws& draws);

// Breaks one thing.
void break_call(Call& call, Draws& draws);

struct DrawnCall {
  std::vector<std::byte> bytes;  // that KernelCall reads; empty if nothing is known of the kernel
  bool shares_memory = false;    // a tensor lies in the memory of another one
  bool valid = true;             // nothing is broken
};

// A call of the kernel: valid, or with one or two things broken.
DrawnCall draw_call(const std::string& kernel, Draws& draws);

// Whether results come out of the C library's transcendental functions: they differ between
// libraries in the last bit.
bool uses_libm(const std::string& kernel);

}  // namespace dtr::fuzz
