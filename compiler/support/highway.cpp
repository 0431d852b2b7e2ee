// What Highway's own library would choose at run time: the vector instructions that this processor
// has. The library is not linked because it measures the resolution of a timer when a process
// starts, which takes four milliseconds of processor time.
#include <hwy/targets.h>

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace hwy {
namespace {

int64_t chosen_for_test = 0;

#if HWY_ARCH_X86
// Processors, and compilers, count two instructions of AVX2's time apart from it.
bool has_f16c_and_lzcnt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_F16C) == 0) return false;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}

// __builtin_cpu_supports says no where the system does not keep the registers.
int64_t of_processor() {
  __builtin_cpu_init();
  int64_t targets = HWY_SCALAR | HWY_EMU128;
  const auto add = [&targets](int64_t target, bool has) {
    if (has) targets |= target;
    return has;
  };
  const auto has = [](auto... features) { return ((features != 0) && ...); };
  if (!add(HWY_SSSE3, has(__builtin_cpu_supports("ssse3")))) return targets;
  if (!add(HWY_SSE4, has(__builtin_cpu_supports("sse4.1"), __builtin_cpu_supports("sse4.2"),
                         __builtin_cpu_supports("aes"), __builtin_cpu_supports("pclmul"))))
    return targets;
  if (!add(HWY_AVX2, has(__builtin_cpu_supports("avx"), __builtin_cpu_supports("avx2"),
                         __builtin_cpu_supports("fma"), __builtin_cpu_supports("bmi"),
                         __builtin_cpu_supports("bmi2"), int{has_f16c_and_lzcnt()})))
    return targets;
  add(HWY_AVX3, has(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512vl"),
                    __builtin_cpu_supports("avx512dq"), __builtin_cpu_supports("avx512bw"),
                    __builtin_cpu_supports("avx512cd")));
  return targets;
}
#else
int64_t of_processor() { return HWY_STATIC_TARGET; }
#endif

}  // namespace

int64_t SupportedTargets() {
  static const int64_t found = of_processor();
  return chosen_for_test != 0 ? chosen_for_test : found;
}

void SetSupportedTargetsForTest(int64_t targets) { chosen_for_test = targets; }

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
