// Any bytes as a .tflite that becomes one with NeutronGraph operators: refused, or a model that the
// converter takes again.
#include <cstddef>
#include <cstdint>
#include <span>

#include "host/commands/convert.h"
#include "test/fuzz/depth.h"

namespace {

enum : size_t { kRead, kConverted };
constexpr dtr::fuzz::Stage kStages[] = {{"read", 0.16}, {"converted", 0.15}};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dtr;
  fuzz::Depth depth;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto made = convert_model(bytes, "fuzz.tflite", {});
  if (!made) return 0;
  depth.reach(kRead);
  if (made->graphs == 0) return 0;
  DTR_CHECK(convert_model(made->tflite, "made.tflite", {}).has_value());
  depth.reach(kConverted);
  return 0;
}
