// Any bytes as the records of a device (profile.bin): refused, or told in terms of the program that
// they say they are of.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "host/profiler/etdump.h"
#include "host/profiler/records.h"
#include "host/profiler/report.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"
#include "test/fuzz/sample.h"

namespace {

enum : size_t { kRead, kTold };
constexpr dtr::fuzz::Stage kStages[] = {{"read", 0.6}, {"told", 0.6}};

std::span<const dtr::PteFile> programs() {
  static const auto pte_files = [] {
    const auto make = [](const char* model, const char* target) {
      auto pte_file =
          dtr::PteFile::parse(dtr::fuzz::compile_sample(model, target).written.bytes, model);
      DTR_CHECK(pte_file.has_value());
      return std::move(*pte_file);
    };
    return std::array{make("image", "imxrt700"), make("image", "cortex-m33"),
                      make("sequence", "imxrt700")};
  }();
  return pte_files;
}

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  using namespace dtr;
  fuzz::Depth depth;
  const auto blocks = parse_blocks(std::as_bytes(std::span(data, size)), "fuzz.profile");
  if (!blocks) return 0;
  depth.reach(kRead);
  for (const PteFile& pte_file : programs()) {
    Trace trace;
    trace.program = trace_source(pte_file);
    for (const ProfileBlock& block : *blocks)
      if (block.header.program == trace.program->checksum)
        add_records(trace, block.header, block.records, pte_file);
    if (trace.runs.empty()) continue;
    const Profile profile = make_profile(trace, OperatorMap(*pte_file.debug_map()), "fuzz.profile");
    to_text(profile, {});
    to_json(profile, &pte_file);
    (void)parse_etdump(to_etdump(trace), "fuzz.etdump");
    depth.reach(kTold);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {  // NOLINT(readability-identifier-naming)
  return dtr::fuzz::mutate_words(data, size, max_size, seed, 0);
}
