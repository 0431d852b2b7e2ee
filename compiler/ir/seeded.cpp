// Contents of `seeded<n>` constants.
#include <algorithm>
#include <cstring>

#include "compiler/ir/parser.h"

namespace dtr {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): the state is a counter, so that each word stands for
// itself.
uint64_t random_word(uint64_t seed, uint64_t index) {
  uint64_t word = seed + (index + 1) * 0x9E3779B97F4A7C15ULL;
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
  return word ^ (word >> 31);
}

template <class T, class Make>
void fill(std::vector<std::byte>& bytes, size_t elements, Make make) {
  for (size_t i = 0; i < elements; ++i) {
    const T value = make(i);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

std::vector<std::byte> seeded_values(DType dtype, size_t elements, uint64_t seed) {
  std::vector<std::byte> bytes(elements * byte_size(dtype));
  const auto word = [&](size_t i) { return random_word(seed, i); };
  // Bytes come eight from a word: weights are most of what is made here.
  auto byte = [&, cached = uint64_t{0}](size_t i) mutable {
    if (i % 8 == 0) cached = word(i / 8);
    return static_cast<uint8_t>(cached >> (8 * (i % 8)));
  };
  const auto unit = [&](size_t i) {
    return static_cast<int32_t>(word(i) >> 40) - (1 << 23);
  };  // 24 bits around 0: exact in a float
  switch (dtype) {
    case DType::kBool:
      fill<uint8_t>(bytes, elements, [&](size_t i) { return static_cast<uint8_t>(word(i) >> 63); });
      break;
    case DType::kUint8:
      fill<uint8_t>(bytes, elements, byte);
      break;
    case DType::kInt8:
      fill<int8_t>(bytes, elements, [&](size_t i) mutable {
        return std::max<int8_t>(static_cast<int8_t>(byte(i)), -127);
      });
      break;
    case DType::kInt16:
      fill<int16_t>(bytes, elements, [&](size_t i) {
        return std::max<int16_t>(static_cast<int16_t>(word(i) >> 48), -INT16_MAX);
      });
      break;
    case DType::kInt32:
      fill<int32_t>(bytes, elements,
                    [&](size_t i) { return static_cast<int32_t>(word(i) >> 51) - 4096; });
      break;
    case DType::kInt64:
      fill<int64_t>(bytes, elements,
                    [&](size_t i) { return static_cast<int64_t>(word(i) >> 56) - 128; });
      break;
    case DType::kFloat32:
      fill<float>(bytes, elements,
                  [&](size_t i) { return static_cast<float>(unit(i)) * 0x1p-23F; });
      break;
    case DType::kFloat64:
      fill<double>(bytes, elements,
                   [&](size_t i) { return static_cast<double>(unit(i)) * 0x1p-23; });
      break;
  }
  return bytes;
}

}  // namespace dtr
