// Sets of buffers on which the planner of the arena is judged (test/data/arena): those that were
// recorded from programs, a line each, and random ones, which follow from a number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <istream>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "compiler/support/arena_planner.h"

namespace dtr::test {

struct ArenaSet {
  std::string name;
  std::vector<ArenaBuffer> buffers;
  std::vector<ArenaTrail> trails;
};

// A line: name, counts of buffers and trails; size, alignment, first and last step of each buffer;
// operand, result and lag of each trail.
inline std::ostream& operator<<(std::ostream& out, const ArenaSet& set) {
  out << set.name << ' ' << set.buffers.size() << ' ' << set.trails.size();
  for (const ArenaBuffer& buffer : set.buffers)
    out << ' ' << buffer.size << ' ' << buffer.alignment << ' ' << buffer.first << ' '
        << buffer.last;
  for (const ArenaTrail& trail : set.trails)
    out << ' ' << trail.operand << ' ' << trail.result << ' ' << trail.lag;
  return out << '\n';
}

inline std::istream& operator>>(std::istream& in, ArenaSet& set) {
  size_t buffers = 0, trails = 0;
  if (!(in >> set.name >> buffers >> trails)) return in;
  set.buffers.resize(buffers);
  set.trails.resize(trails);
  for (ArenaBuffer& buffer : set.buffers)
    in >> buffer.size >> buffer.alignment >> buffer.first >> buffer.last;
  for (ArenaTrail& trail : set.trails) in >> trail.operand >> trail.result >> trail.lag;
  return in;
}

// Four kinds in turn: buffers of any size and range; chains with residuals, as networks have them;
// few sizes, as layers of a network share them; and chains in which results are written over
// operands.
constexpr int kRandomArenaSets = 120;

inline ArenaSet random_arena_set(uint32_t seed) {
  std::mt19937 random(seed + 1);
  const auto draw = [&](int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random() % static_cast<uint32_t>(high - low + 1));
  };
  ArenaSet set{.name = "random_" + std::to_string(seed), .buffers = {}, .trails = {}};
  const int32_t count = draw(8, 120);
  switch (seed % 4) {
    case 0: {
      const int32_t longest = draw(1, count / 2);
      for (int32_t i = 0; i < count; ++i) {
        const int32_t size = draw(1, 4096);
        const int32_t first = draw(0, count / 2);
        set.buffers.push_back({.size = size,
                               .alignment = draw(0, 9) == 0 ? 64 : 16,
                               .first = first,
                               .last = first + draw(0, longest)});
      }
      break;
    }
    case 1:
      for (int32_t i = 0; i < count; ++i) {
        const int32_t size = draw(64, 65536);
        const int32_t reach = draw(0, 3) == 0 ? draw(2, 6) : 1;
        set.buffers.push_back({.size = size, .first = i, .last = i + reach});
        if (draw(0, 2) == 0)
          set.buffers.push_back({.size = draw(16, 40000), .first = i, .last = i + draw(0, 1)});
      }
      break;
    case 2: {
      std::vector<int32_t> sizes;
      for (int32_t i = draw(2, 6); i > 0; --i) sizes.push_back(1024 * draw(1, 12));
      for (int32_t i = 0; i < count; ++i) {
        const int32_t size = sizes[random() % sizes.size()];
        const int32_t first = draw(0, count / 3);
        set.buffers.push_back({.size = size, .first = first, .last = first + draw(0, 8)});
      }
      break;
    }
    default:
      for (int32_t i = 0; i < count; ++i) {
        const int32_t size = draw(64, 32768);
        set.buffers.push_back({.size = size, .first = i, .last = i + draw(1, 3)});
        if (i > 0 && draw(0, 1) == 0 && set.buffers[i - 1].last >= i) {
          set.buffers[i - 1].last = i;
          set.trails.push_back({.operand = static_cast<uint32_t>(i - 1),
                                .result = static_cast<uint32_t>(i),
                                .lag = draw(-1000, size)});
        }
      }
  }
  return set;
}

}  // namespace dtr::test
