// Kernels on hostile arguments: none may read or write outside of its tensors, divide by zero,
// overflow, or take longer than its tensors justify, whatever a program says. The input decides
// which kernels run and every number of the first call; further calls follow from all of its bytes,
// so that two inputs share none.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "test/fuzz/call_maker.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/host_call.h"

namespace {

enum : size_t { kAccepted };
constexpr dtr::fuzz::Stage kStages[] = {{"most calls accepted", 0.7}};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  using namespace dtr::fuzz;
  constexpr int kCalls = 16;
  Depth depth;
  uint64_t seed = 0;
  const size_t head = std::min(size, sizeof seed);
  if (head > 0) std::memcpy(&seed, data, head);
  uint64_t further = seed;
  for (size_t i = head; i < size; ++i) further = (further ^ data[i]) * 0x100000001B3U;
  int accepted = 0;
  for (int i = 0; i < kCalls; ++i) {
    Draws draws(i == 0 ? seed : further + static_cast<uint64_t>(i) * 0xD1342543DE82EF95U,
                i == 0 ? std::span(data + head, size - head) : std::span<const uint8_t>());
    const NamedKernel& kernel = all_kernels()[draws.below(all_kernels().size())];
    const DrawnCall call = draw_call(kernel.name, draws);
    if (!call.bytes.empty() && run_call(kernel, call.bytes).error == dtr::runtime::Error::kOk)
      ++accepted;
  }
  if (2 * accepted >= kCalls) depth.reach(kAccepted);
  return 0;
}
