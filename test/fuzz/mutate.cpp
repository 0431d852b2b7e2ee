#include "test/fuzz/mutate.h"

#include <algorithm>
#include <cstring>
#include <iterator>

// libFuzzer's interface: a target may mutate its format, and calls the engine for what is plain
// bytes. NOLINTBEGIN(readability-identifier-naming)
extern "C" {
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                                     unsigned seed);
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
}
// NOLINTEND(readability-identifier-naming)

namespace dtr::fuzz {
namespace {

constexpr size_t kGrowth = 4096;  // bytes by which a target's own mutator may make an input longer

// Of the input that is being made, for LLVMFuzzerMutate.
Random* current_random = nullptr;
const std::vector<Input>* current_seeds = nullptr;

size_t below(Random& random, size_t limit) { return static_cast<size_t>(random() % limit); }

// Values at which sizes, counts and offsets go wrong.
constexpr uint64_t kEdges[] = {0,          1,          2,         7,         0x7F,
                               0x80,       0xFF,       0x7FFF,    0xFFFF,    0x7FFFFFFF,
                               0x80000000, 0xFFFFFFFF, INT64_MAX, UINT64_MAX};

void mutate(Random& random, Input& input, const std::vector<Input>& seeds) {
  if (input.empty()) input.push_back(0);
  const size_t at = below(random, input.size());
  const size_t left = input.size() - at;
  switch (below(random, 12)) {
    case 0:
    case 1:
      input[at] ^= static_cast<uint8_t>(1U << below(random, 8));
      break;
    case 2:
    case 3:
      input[at] = static_cast<uint8_t>(random());
      break;
    case 4: {  // an edge value, little-endian
      const uint64_t value = kEdges[below(random, std::size(kEdges))];
      std::memcpy(&input[at], &value, std::min(left, size_t{1} << below(random, 4)));
      break;
    }
    case 5:
    case 6: {  // another digit in text: sizes and indices of JSON
      for (size_t i = at; i < input.size(); ++i)
        if (input[i] >= '0' && input[i] <= '9') {
          input[i] = static_cast<uint8_t>('0' + below(random, 10));
          break;
        }
      break;
    }
    case 7:
    case 8: {  // a piece onto another place: names and fields change roles
      const size_t from = below(random, input.size());
      const size_t size = std::min({left, input.size() - from, 1 + below(random, 64)});
      std::memmove(&input[at], &input[from], size);
      break;
    }
    case 9: {  // a piece of another seed
      const Input& other = seeds[below(random, seeds.size())];
      if (other.empty()) break;
      const size_t from = below(random, other.size());
      std::memcpy(&input[at], &other[from],
                  std::min({left, other.size() - from, 1 + below(random, 256)}));
      break;
    }
    case 10: {
      const auto first = input.begin() + static_cast<ptrdiff_t>(at);
      input.erase(first, first + static_cast<ptrdiff_t>(std::min(left, 1 + below(random, 32))));
      break;
    }
    default:
      input.resize(below(random, 16) == 0 ? at : input.size());
      break;
  }
}

void mutate_by_target(Random& random, Input& input) {
  const size_t size = input.size();
  input.resize(size + kGrowth);
  input.resize(
      LLVMFuzzerCustomMutator(input.data(), size, input.size(), static_cast<unsigned>(random())));
}

}  // namespace

Input make_input(uint64_t iteration, const std::vector<Input>& seeds) {
  Random random(iteration);
  current_random = &random;
  current_seeds = &seeds;
  Input input = seeds[below(random, seeds.size())];
  const bool by_target = LLVMFuzzerCustomMutator != nullptr && below(random, 8) != 0;
  for (size_t count = below(random, 2) == 0 ? 1 : 1 + below(random, 6); count > 0; --count) {
    if (by_target) {
      mutate_by_target(random, input);
    } else {
      mutate(random, input, seeds);
    }
  }
  return input;
}

}  // namespace dtr::fuzz

size_t LLVMFuzzerMutate(uint8_t* data, size_t size,
                        size_t max_size) {  // NOLINT(readability-identifier-naming)
  using namespace dtr::fuzz;
  Input input(data, data + size);
  mutate(*current_random, input, *current_seeds);
  const size_t kept = std::min(input.size(), max_size);
  std::copy_n(input.begin(), kept, data);
  return kept;
}
