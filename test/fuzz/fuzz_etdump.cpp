// Any bytes as a trace: refused, or one that a profile can be made of.
#include <cstddef>
#include <cstdint>
#include <span>

#include "profiler/etdump.h"
#include "profiler/report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {  // NOLINT(readability-identifier-naming)
  const auto trace = dtr::parse_etdump(std::as_bytes(std::span(data, size)), "fuzz.etdump");
  if (trace) dtr::to_text(dtr::make_profile(*trace, {}, "fuzz.etdump"), {});
  return 0;
}
