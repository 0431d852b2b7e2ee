// Runs a check on every instruction set of this machine that Highway dispatches to.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <vector>

namespace dtr::test {

class EveryTarget : public ::testing::Test {
 protected:
  void TearDown() override { choose(0); }

  template <class Check>
  void on_each(Check check) {
    for (const int64_t target : targets_) {
      SCOPED_TRACE(hwy::TargetName(target));
      choose(target);
      check();
    }
  }

 private:
  // 0: the best one.
  static void choose(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  const std::vector<int64_t> targets_ = hwy::SupportedAndGeneratedTargets();
};

}  // namespace dtr::test
