// Any bytes as a .pt2 file: refused, or a program that keeps the rules of the IR. Checksums are off, so that damage reaches the JSON.
#include <cstddef>
#include <cstdint>
#include <span>

#include "frontends/pt2/pt2.h"
#include "ir/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {  // NOLINT(readability-identifier-naming)
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto program = dtr::pt2::parse_pt2(bytes, "fuzz.pt2", {.inflated_bytes = 1 << 24, .verify_checksums = false});
  if (program) DTR_CHECK(dtr::verify(*program).has_value());
  return 0;
}
