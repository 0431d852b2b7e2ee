// Any bytes as a .tflite file: refused, or a program that keeps the rules of the IR. Metadata are
// read too, which a program does not depend on.
#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/frontends/tflite/tflite.h"
#include "compiler/ir/verifier.h"
#include "test/fuzz/depth.h"

namespace {

enum : size_t { kImported };
constexpr dtr::fuzz::Stage kStages[] = {{"imported", 0.12}};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  dtr::fuzz::Depth depth;
  (void)dtr::tflite::describe_tflite(std::as_bytes(std::span(data, size)), "fuzz.tflite");
  const auto import =
      dtr::tflite::parse_tflite(std::as_bytes(std::span(data, size)), "fuzz.tflite");
  if (!import) return 0;
  DTR_CHECK(dtr::verify(import->module).has_value());
  depth.reach(kImported);
  return 0;
}
