// How deep the inputs of a fuzz target get. A target names its stages ("decoded", "executed"), each
// with a floor: the share of the inputs of the seeded engine that must get there. Both engines,
// libFuzzer and the seeded one, print the shares; a target that refuses everything cannot pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dtr::fuzz {

struct Stage {
  const char* name;
  double floor;  // share of the inputs, 0 to 1
};

// Each target defines it: the stages in the order in which an input passes them, at most
// kMaxStages.
std::span<const Stage> stages();
inline constexpr size_t kMaxStages = 6;

// Counts one input: as executed from the start, and at the end for each stage that it reached.
class Depth {
 public:
  Depth();
  ~Depth();
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  void reach(size_t stage) { reached_ |= 1U << stage; }

 private:
  uint32_t reached_ = 0;
};

// The counts lie in memory that a child process shares with its parent.
void clear_counts();
uint64_t executed();
uint64_t reached(size_t stage);

// Whether the last input reached every stage.
bool last_was_deep();

// "5000 inputs: decoded 2435 (48.7 %, floor 30 %), executed 2425 (48.5 %, floor 30 %)".
std::string depth_line();
// Whether no stage is below its floor.
bool deep_enough();

}  // namespace dtr::fuzz
