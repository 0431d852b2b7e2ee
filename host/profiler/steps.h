// Numbers the steps of the memory plan: a CPU kernel is one step, a delegate call as many as it has
// kernel calls on the NPU.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "device/pte/debug_map_generated.h"

namespace dtr {

class StepClock {
 public:
  explicit StepClock(const pte::DebugMap* map) {
    if (map == nullptr || map->calls() == nullptr) return;
    for (uint32_t i = 0; i < map->calls()->size(); ++i) {
      const pte::DebugCall& call = *map->calls()->Get(i);
      uint32_t step = call.first_step();
      steps_[{static_cast<int32_t>(i), -1}] = step;
      if (call.steps() == nullptr) continue;
      for (const pte::DebugStep* each : *call.steps()) {
        if (each->kernel()->string_view() == "Copy") continue;
        steps_[{static_cast<int32_t>(i), static_cast<int32_t>(each->command())}] = step++;
      }
    }
  }
  // The step of a call of the program (command −1), or of a kernel call inside of it.
  std::optional<uint32_t> of(int32_t instruction, int32_t command) const {
    const auto found = steps_.find({instruction, command});
    return found == steps_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::map<std::pair<int32_t, int32_t>, uint32_t> steps_;
};

}  // namespace dtr
