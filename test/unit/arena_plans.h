// What holds of every plan of an arena without trails.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "compiler/support/arena_planner.h"

namespace dtr::test {

// Buffers that live at the same time do not overlap, offsets are aligned, the total is the highest
// end.
inline void expect_sound(std::span<const ArenaBuffer> buffers, const ArenaPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), buffers.size());
  int64_t top = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_EQ(plan.offsets[i] % buffers[i].alignment, 0);
    if (buffers[i].size > 0) top = std::max(top, plan.offsets[i] + buffers[i].size);
    for (size_t j = 0; j < i; ++j) {
      const bool in_time =
          buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
      const bool in_space = plan.offsets[i] < plan.offsets[j] + buffers[j].size &&
                            plan.offsets[j] < plan.offsets[i] + buffers[i].size;
      EXPECT_FALSE(in_time && in_space) << i << " and " << j;
    }
  }
  EXPECT_EQ(plan.total, top);
}

}  // namespace dtr::test
