// Any bytes as the checkpoint of an evaluation that goes on: refused, or the evaluation ends, and a
// second one finds all of its results in the file and has the same score.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "compiler/support/output_file.h"
#include "compiler/support/temporary_folder.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"
#include "test/fuzz/resumed.h"

namespace {

enum : size_t { kEvaluated, kResumed };
constexpr dtr::fuzz::Stage kStages[] = {{"evaluated", 0.6}, {"resumed", 0.5}};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dtr;
  fuzz::Depth depth;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto folder = TemporaryFolder::create();
  DTR_CHECK(folder.has_value());
  const std::string path = folder->path() + "/checkpoint";
  DTR_CHECK(write_file(path, fuzz::with_checksums({bytes.begin(), bytes.end()})).has_value());
  std::string note, second_note;
  const auto first = fuzz::evaluate_sample(path, true, &note);
  if (!first) return 0;
  depth.reach(kEvaluated);
  const auto second = fuzz::evaluate_sample(path, true, &second_note);
  DTR_CHECK(second.has_value() && to_json(*second) == to_json(*first));
  DTR_CHECK(second_note == "the checkpoint holds 4 of 4 samples\n");
  if (note.starts_with("the checkpoint holds ") && note.find(" holds 0 ") == std::string::npos)
    depth.reach(kResumed);
  return 0;
}

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return dtr::fuzz::mutate_words(data, size, max_size, seed, 0);
}
