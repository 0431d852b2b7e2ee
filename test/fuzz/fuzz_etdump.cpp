// Any bytes as a trace: refused, or one that a profile can be made of.
#include <cstddef>
#include <cstdint>
#include <span>

#include "host/profiler/etdump.h"
#include "host/profiler/report.h"
#include "test/fuzz/depth.h"

namespace {

enum : size_t { kRead, kTold };
constexpr dtr::fuzz::Stage kStages[] = {{"read", 0.23}, {"told", 0.23}};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  dtr::fuzz::Depth depth;
  const auto trace = dtr::parse_etdump(std::as_bytes(std::span(data, size)), "fuzz.etdump");
  if (!trace) return 0;
  depth.reach(kRead);
  dtr::to_text(dtr::make_profile(*trace, {}, "fuzz.etdump"), {});
  depth.reach(kTold);
  return 0;
}
