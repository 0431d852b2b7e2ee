// What Highway's library chooses at run time: here the one target of the compiler's options.
#include <hwy/targets.h>

namespace hwy {

int64_t SupportedTargets() { return HWY_STATIC_TARGET; }
void SetSupportedTargetsForTest(int64_t /*targets*/) {}
ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
