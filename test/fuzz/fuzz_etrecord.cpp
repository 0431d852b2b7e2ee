// Any bytes as a record: refused, or one that tells a trace. Checksums are off, so that damage
// reaches the JSON.
#include <cstddef>
#include <cstdint>
#include <span>

#include "host/profiler/etrecord.h"
#include "host/profiler/report.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"

namespace {

enum : size_t { kRead, kTold };
constexpr dtr::fuzz::Stage kStages[] = {{"read", 0.48}, {"told", 0.48}};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  dtr::fuzz::Depth depth;
  using dtr::npu::ProfileEvent;
  const auto record = dtr::EtRecord::parse(std::as_bytes(std::span(data, size)), "fuzz.etrecord",
                                           {.inflated_bytes = 1 << 24, .verify_checksums = false});
  if (!record) return 0;
  depth.reach(kRead);
  dtr::Trace trace;
  trace.runs.push_back({.events = {{ProfileEvent::kKernel, "mean.out", 0, -1, 0, 5},
                                   {ProfileEvent::kDelegate, "delegate", 1, -1, 5, 20},
                                   {ProfileEvent::kCall, "kernel 1", 1, 0, 6, 9},
                                   {ProfileEvent::kWait, "Wait", 1, 1, 9, 10},
                                   {ProfileEvent::kCall, "kernel 2", 1, 2, 10, 18}}});
  dtr::to_text(dtr::make_profile(trace, record->operators(trace), "fuzz.etrecord"), {});
  depth.reach(kTold);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {  // NOLINT(readability-identifier-naming)
  return dtr::fuzz::mutate_zip(data, size, max_size, seed);
}
