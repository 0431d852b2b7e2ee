// Prints how deep the inputs got when libFuzzer ends; scripts/fuzz reads the line.
#include <fmt/format.h>

#include <cstdlib>

#include "test/fuzz/depth.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {  // NOLINT(readability-identifier-naming)
  dtr::fuzz::clear_counts();
  std::atexit([] { fmt::print(stderr, "depth: {}\n", dtr::fuzz::depth_line()); });
  return 0;
}
