// Any bytes as a .tflite file: refused, or a program that keeps the rules of the IR.
#include <cstddef>
#include <cstdint>
#include <span>

#include "frontends/tflite/tflite.h"
#include "ir/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {  // NOLINT(readability-identifier-naming)
  const auto import = dtr::tflite::parse_tflite(std::as_bytes(std::span(data, size)), "fuzz.tflite");
  if (import) DTR_CHECK(dtr::verify(import->program).has_value());
  return 0;
}
