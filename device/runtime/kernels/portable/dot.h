// The product of two vectors.
#pragma once

#include <cstdint>
#include <type_traits>

namespace dtr::runtime::portable {

// Σ a[i · a_step] · b[i · b_step] for i from 0 to count - 1, added one after the other in float.
inline float dot(const float* a, int32_t a_step, const float* b, int32_t b_step, int32_t count) {
  float sum = 0;
  const auto add_all = [&](auto a_by, auto b_by) {
    const auto add = [&] {
      sum += *a * *b;
      a += a_by;
      b += b_by;
    };
    for (; count >= 4; count -= 4) {
      add();
      add();
      add();
      add();
    }
    for (; count > 0; --count) add();
  };
  if (a_step == 1 && b_step == 1) {  // addresses that a load computes itself
    constexpr std::integral_constant<int32_t, 1> kNext;
    add_all(kNext, kNext);
  } else {
    add_all(a_step, b_step);
  }
  return sum;
}

}  // namespace dtr::runtime::portable
