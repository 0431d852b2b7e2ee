// Any bytes as .npz and as .npy: refused, or arrays whose sizes fit. Checksums are off, so that damage reaches the headers of the arrays.
#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {  // NOLINT(readability-identifier-naming)
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto tensors = dtr::parse_npz(bytes, "fuzz.npz", {.inflated_bytes = 1 << 24, .verify_checksums = false})) {
    for (const dtr::NamedTensor& named : *tensors) dtr::find_non_finite(named.tensor.view());
  }
  if (const auto tensor = dtr::parse_npy(bytes, {})) DTR_CHECK(dtr::parse_npy(dtr::format_npy(tensor->view()), {}).has_value());
  return 0;
}
