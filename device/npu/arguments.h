// Checks the arguments of commands and computes the memory that they touch. Freestanding.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "device/npu/microcode.h"
#include "device/npu/target.h"

namespace dtr::npu {

#define DTR_NPU_KERNEL(type, function, opcode) \
  bool arguments_valid(const Target& target, const type& command);
#include "device/npu/commands.inc"

// Sizes are computed in 64 bits and saturate, so that a hostile argument cannot wrap to a small
// size.
inline constexpr uint64_t kTooLarge = uint64_t{1} << 40;

constexpr uint64_t product(std::initializer_list<uint64_t> factors) {
  uint64_t result = 1;
  for (const uint64_t factor : factors) {
    if (factor != 0 && result > kTooLarge / factor) return kTooLarge;
    result *= factor;
  }
  return result;
}

// `count` repetitions, `stride` bytes apart.
struct Repeat {
  uint64_t count = 1, stride = 0;
};

// Bytes that count as one cycle of a payload's work (kMaxPayloadCycles).
inline constexpr uint64_t kWorkBytes = 8;

// Memory that a command touches. `in_place`: the input may be the same memory as the output.
struct Access {
  Address address{};
  uint64_t bytes = 0;  // from the first to one past the last byte
  bool write = false;
  bool in_place = false;
  uint64_t run = 0;                 // contiguous bytes; all of them without repeats
  std::array<Repeat, 3> repeats{};  // of runs, innermost first

  // At most so many of `bytes` are touched: they count as work of a payload (kMaxPayloadCycles).
  uint64_t distinct_bytes() const {
    const uint64_t box = product({run, repeats[0].count, repeats[1].count, repeats[2].count});
    return box < bytes ? box : bytes;
  }
};
// True if no byte belongs to both; `distance` is from the first byte of `a` to the first of `b`.
// Boxes whose spans overlap are disjoint if all of their strides are multiples of one period and
// their runs are disjoint within it, as channels of one tensor are.
bool disjoint(const Access& a, const Access& b, int64_t distance);
inline bool same_box(const Access& a, const Access& b) {
  const auto same = [](const Repeat& x, const Repeat& y) {
    return x.count == y.count && (x.count == 1 || x.stride == y.stride);
  };
  return a.bytes == b.bytes && a.run == b.run && same(a.repeats[0], b.repeats[0]) &&
         same(a.repeats[1], b.repeats[1]) && same(a.repeats[2], b.repeats[2]);
}
struct Accesses {
  std::array<Access, 7> list{};  // the output is the last
  uint32_t count = 0;
  std::span<const Access> all() const& { return {list.data(), count}; }
  std::span<const Access> all() && = delete;
};
// The memory of a command. Boxes are exact, except for Move, Reduce and walks that are not images,
// which have their whole span. `Wait` and `End` touch none.
Accesses accesses(const Target& target, const Copy& command);
#define DTR_NPU_KERNEL(type, function, opcode) \
  Accesses accesses(const Target& target, const type& command);
#include "device/npu/commands.inc"
inline Accesses accesses(const Target&, const Wait&) { return {}; }
inline Accesses accesses(const Target&, const End&) { return {}; }

// The domain of numerics::requantize: a non-negative multiplier and a shift in [−31, 31] (with one
// rounding up to 30).
constexpr bool rescale_valid(int32_t multiplier, int32_t shift) {
  return multiplier >= 0 && shift >= -31 && shift <= 31;
}

}  // namespace dtr::npu
