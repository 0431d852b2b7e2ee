// Any bytes as a program: refused, or described, told as a profile, and run on the host's kernels
// with the NPU simulated. The checksum is off, so that damage gets through to the structure.
// fuzz_pte_plan is the same with mutations that keep the structure (pte_mutator.cpp).
#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/program/describe.h"
#include "compiler/program/reader.h"
#include "host/profiler/report.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/run_program.h"

namespace {

enum : size_t { kRead, kLoaded, kRun };
#ifdef DTR_FUZZ_PLANS
constexpr dtr::fuzz::Stage kStages[] = {{"read", 0.52}, {"loaded", 0.52}, {"run", 0.14}};
#else
constexpr dtr::fuzz::Stage kStages[] = {{"read", 0.3}, {"loaded", 0.29}, {"run", 0.24}};
#endif

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  using namespace dtr;
  fuzz::Depth depth;
  const auto bytes = std::as_bytes(std::span(data, size));
  (void)PteFile::parse(bytes, "fuzz.pte", true);
  if (const auto pte_file = PteFile::parse(bytes, "fuzz.pte", false)) {
    DTR_CHECK(!describe_program(*pte_file).empty());
    if (pte_file->debug_map() != nullptr)
      to_json(make_profile({}, OperatorMap(*pte_file->debug_map()), "fuzz.pte"), &*pte_file);
  }
  // A device does not read the debug map, which may be refused alone.
  const AlignedBytes copy(bytes);
  pte::VerifiedFile file;
  if (!pte::VerifiedFile::open(copy.bytes(), nullptr, &file).ok()) return 0;
  depth.reach(kRead);
  const fuzz::Outcome outcome = fuzz::run_program(copy.bytes());
  if (outcome >= fuzz::Outcome::kLoaded) depth.reach(kLoaded);
  if (outcome == fuzz::Outcome::kRun) depth.reach(kRun);
  return 0;
}
