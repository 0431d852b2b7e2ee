// Any bytes as a tensor file: refused, or described and given to programs that have their constants
// in one. The checksum is off.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/program/describe.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/run_program.h"
#include "test/fuzz/sample.h"

namespace {

enum : size_t { kRead, kUsed };
constexpr dtr::fuzz::Stage kStages[] = {{"read", 0.3}, {"used", 0.17}};

// Programs that name their constants.
std::span<const dtr::PteFile> programs() {
  static const auto pte_files = [] {
    const auto make = [](const char* model) {
      auto pte_file = dtr::PteFile::parse(
          dtr::fuzz::compile_sample(model, "cortex-m33", true).written.bytes, model);
      DTR_CHECK(pte_file.has_value());
      return std::move(*pte_file);
    };
    return std::array{make("image"), make("sequence")};
  }();
  return pte_files;
}

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  using namespace dtr;
  fuzz::Depth depth;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto pte_file = PtdFile::parse(bytes, "fuzz.ptd"))
    DTR_CHECK(!describe_tensor_file(*pte_file).empty());
  const AlignedBytes copy(bytes);
  pte::TensorFile file;
  if (!pte::TensorFile::open(copy.bytes(), false, &file).ok()) return 0;
  depth.reach(kRead);
  for (const PteFile& program : programs())
    if (fuzz::run_program(program.bytes(), pte::TensorFiles({&file, 1})) == fuzz::Outcome::kRun)
      depth.reach(kUsed);
  return 0;
}
