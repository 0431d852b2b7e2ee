// Any bytes as a .pt2 file: refused, or a program that keeps the rules of the IR, and an export
// that qat-prepare writes into. Checksums are off, so that damage reaches the JSON.
#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/frontends/pt2/export_editor.h"
#include "compiler/frontends/pt2/pt2.h"
#include "compiler/ir/verifier.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"

namespace {

enum : size_t { kImported };
constexpr dtr::fuzz::Stage kStages[] = {{"imported", 0.35}};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dtr::fuzz::Depth depth;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto program = dtr::pt2::parse_pt2(bytes, "fuzz.pt2",
                                           {.inflated_bytes = 1 << 24, .verify_checksums = false});
  if (!program) return 0;
  DTR_CHECK(dtr::verify(*program).has_value());
  depth.reach(kImported);
  if (auto editor = dtr::pt2::ExportEditor::open(bytes, "fuzz.pt2")) {
    editor->add_buffer("fuzz", dtr::Tensor(dtr::DType::kFloat32, {2}));
    (void)editor->finish();
  }
  return 0;
}

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return dtr::fuzz::mutate_zip(data, size, max_size, seed);
}
