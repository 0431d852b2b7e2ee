// Any bytes as .npz and as .npy: refused, or arrays whose sizes fit. Checksums are off, so that
// damage reaches the headers of the arrays.
#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/ir/npz.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"

namespace {

enum : size_t { kRead };
constexpr dtr::fuzz::Stage kStages[] = {{"read", 0.2}};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  dtr::fuzz::Depth depth;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto tensors = dtr::parse_npz(bytes, "fuzz.npz",
                                          {.inflated_bytes = 1 << 24, .verify_checksums = false})) {
    for (const dtr::NamedTensor& named : *tensors) dtr::find_non_finite(named.tensor.view());
    depth.reach(kRead);
  }
  if (const auto tensor = dtr::parse_npy(bytes, {})) {
    DTR_CHECK(dtr::parse_npy(dtr::format_npy(tensor->view()), {}).has_value());
    depth.reach(kRead);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {  // NOLINT(readability-identifier-naming)
  return dtr::fuzz::mutate_zip(data, size, max_size, seed);
}
