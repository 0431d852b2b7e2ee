// Any bytes as a float export that is prepared for training: refused, or an export that the
// importer reads again or refuses. Checksums are off, so that damage reaches the JSON.
#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/frontends/pt2/pt2.h"
#include "compiler/ir/verifier.h"
#include "compiler/pipeline/qat_prepare.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"

namespace {

enum : size_t { kPrepared };
constexpr dtr::fuzz::Stage kStages[] = {{"prepared", 0.35}};
constexpr dtr::ZipLimits kLimits{.inflated_bytes = 1 << 24, .verify_checksums = false};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dtr;
  fuzz::Depth depth;
  const auto bytes = std::as_bytes(std::span(data, size));
  auto module = pt2::parse_pt2(bytes, "fuzz.pt2", kLimits);
  if (!module) return 0;
  const auto prepared =
      qat_prepare(*std::move(module), bytes, {.target = &default_target(), .threads = 1}, nullptr);
  if (!prepared) return 0;
  // Damage in what was not read is still there, and before training there are no ranges: the
  // importer may refuse the new export.
  if (const auto again = pt2::parse_pt2(prepared->archive, "prepared.pt2", kLimits))
    DTR_CHECK(verify(*again).has_value());
  depth.reach(kPrepared);
  return 0;
}

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return dtr::fuzz::mutate_zip(data, size, max_size, seed);
}
