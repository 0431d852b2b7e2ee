// Any text as saved calibration: refused, or written and read again to the same, and a model
// quantized with it.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "compiler/ir/verifier.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"
#include "test/fuzz/sample.h"

namespace {

enum : size_t { kRead, kQuantized };
constexpr dtr::fuzz::Stage kStages[] = {{"read", 0.1}, {"quantized", 0.1}};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  using namespace dtr;
  fuzz::Depth depth;
  std::optional<CalibrationResult> calibration;
  if (auto parsed = parse_calibration({reinterpret_cast<const char*>(data), size}, "fuzz.json"))
    calibration = std::move(*parsed);
  if (!calibration) return 0;
  const auto again = parse_calibration(to_json(*calibration), "again.json");
  DTR_CHECK(again.has_value() && *again == *calibration);
  depth.reach(kRead);
  for (const char* model : {"image", "sequence"}) {
    const auto quantized =
        quantize_model(fuzz::read_sample(model),
                       {.target = find_target("imxrt700"), .ranges = &*calibration, .threads = 1});
    if (!quantized) continue;
    DTR_CHECK(verify(quantized->module).has_value());
    depth.reach(kQuantized);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {  // NOLINT(readability-identifier-naming)
  return dtr::fuzz::mutate_json(data, size, max_size, seed);
}
