// Any bytes as an .onnx file: refused, or a program that keeps the rules of the IR.
#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/frontends/onnx/onnx.h"
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
  const auto import = dtr::onnx::import_onnx(std::as_bytes(std::span(data, size)), "fuzz.onnx");
  if (!import) return 0;
  DTR_CHECK(dtr::verify(*import).has_value());
  depth.reach(kImported);
  return 0;
}
