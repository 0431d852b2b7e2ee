// What libFuzzer does not know: it counts how deep the inputs get, prints it at the end
// (scripts/fuzz reads the line), and makes half of its inputs from deep ones. libFuzzer's corpus is
// mostly refused inputs, each of which reached other code of the reader, and a mutation of a
// refused input is refused again.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"

// The mutator of a target, which cmake/deuteron.cmake renames; none if it has no own.
extern "C" [[gnu::weak]] size_t dtr_target_mutator(uint8_t* data, size_t size, size_t max_size,
                                                   unsigned seed);

namespace {

constexpr size_t kMostDeep = 256;  // that are remembered; then one that is drawn gives way

std::vector<std::vector<uint8_t>> deep;
std::vector<uint8_t> last;  // the input before

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  dtr::fuzz::clear_counts();
  std::atexit([] { fmt::print(stderr, "depth: {}\n", dtr::fuzz::depth_line()); });
  return 0;
}

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  std::minstd_rand random(seed);
  if (!last.empty() && dtr::fuzz::last_was_deep()) {
    if (deep.size() < kMostDeep) {
      deep.push_back(std::move(last));
    } else {
      deep[random() % kMostDeep] = std::move(last);
    }
  }
  if (!deep.empty() && random() % 2 == 0) {
    const std::vector<uint8_t>& from = deep[random() % deep.size()];
    size = std::min(from.size(), max_size);
    std::copy_n(from.begin(), size, data);
  }
  const size_t made =
      dtr_target_mutator == nullptr
          ? LLVMFuzzerMutate(data, size, max_size)
          : dtr_target_mutator(data, size, max_size, static_cast<unsigned>(random()));
  last.assign(data, data + made);
  return made;
}
