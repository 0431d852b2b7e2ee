// Rounds sizes and offsets up.
#pragma once

namespace dtr {

// The smallest multiple of `alignment` that is at least `value`; both of one integer type, value 0
// or more, alignment 1 or more, the result within the type.
template <class T>
constexpr T align_up(T value, T alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace dtr
