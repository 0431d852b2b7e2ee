// Any bytes as a .pt2 file: refused, or a program that keeps the rules of the IR. Checksums are
// off, so that damage reaches the JSON.
#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/frontends/pt2/pt2.h"
#include "compiler/ir/verifier.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"

namespace {

enum : size_t { kImported };
constexpr dtr::fuzz::Stage kStages[] = {{"imported", 0.35}};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  dtr::fuzz::Depth depth;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto program = dtr::pt2::parse_pt2(bytes, "fuzz.pt2",
                                           {.inflated_bytes = 1 << 24, .verify_checksums = false});
  if (!program) return 0;
  DTR_CHECK(dtr::verify(*program).has_value());
  depth.reach(kImported);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {  // NOLINT(readability-identifier-naming)
  return dtr::fuzz::mutate_zip(data, size, max_size, seed);
}
