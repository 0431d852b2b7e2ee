// Any text as a recipe file: refused, or applied to a model: which backend quantizes what, and what
// is kept off which.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/recipes/recipe.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"
#include "test/fuzz/sample.h"

namespace {

enum : size_t { kRead, kApplied };
constexpr dtr::fuzz::Stage kStages[] = {{"read", 0.13}, {"applied", 0.12}};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  using namespace dtr;
  fuzz::Depth depth;
  static const Module module = fuzz::read_sample("image");
  const TargetDescription& target = *find_target("imxrt700cm");
  const auto recipe =
      parse_recipe({reinterpret_cast<const char*>(data), size}, "fuzz.json", target);
  if (!recipe) return 0;
  depth.reach(kRead);
  (void)make_recipe(target, *recipe);
  const auto exclusions = Exclusions::resolve(module, module.forward(), *recipe, true);
  if (!exclusions) return 0;
  annotate(module.forward(), make_patterns(*recipe, *exclusions));
  depth.reach(kApplied);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {  // NOLINT(readability-identifier-naming)
  return dtr::fuzz::mutate_json(data, size, max_size, seed);
}
