// Any text as a target file: refused, or a machine, for which a small model is compiled and run on
// the simulated NPU. Its outputs are those of the first target, bit by bit, if no operator runs in
// float: fields change cycles and sizes alone.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/ir/parser.h"
#include "compiler/pipeline/compile.h"
#include "compiler/targets/target_file.h"
#include "host/session/session.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"

namespace {

using namespace dtr;

enum : size_t { kRead, kCompiled };
constexpr fuzz::Stage kStages[] = {{"read", 0.13}, {"compiled", 0.11}};

// Channels that no array of a power of two divides; an accumulation that a small max_reduction
// splits; a depthwise convolution, a pool, an addition, a function and a layer of one row.
constexpr std::string_view kModel = R"(graph @forward(%x: i8[1,3,6,5] quant<0.05:-3>) {
  %w: i8[7,3,3,3] quant<range=-127..127, 0.01> = constant seeded<1>
  %a: i8[1,7,6,5] quant<0.05:4> = aten.convolution(%x, %w) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false}
  %d: i8[7,1,3,3] quant<range=-127..127, 0.01> = constant seeded<2>
  %b: i8[1,7,6,5] quant<0.05:4> = aten.convolution(%a, %d) {dilation = [1, 1], groups = 7, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false}
  %c: i8[1,7,6,5] quant<0.06:2> = aten.add.Tensor(%a, %b)
  %e: i8[1,7,3,2] quant<0.06:2> = aten.max_pool2d(%c) {ceil_mode = false, dilation = [1, 1], kernel_size = [2, 2], padding = [0, 0], stride = [2, 2]}
  %f: i8[1,7,3,2] quant<0.007874015748031496> = aten.tanh(%e)
  %g: i8[1,42] quant<0.007874015748031496> = aten.view(%f) {size = [1, 42]}
  %v: i8[5,42] quant<range=-127..127, 0.01> = constant seeded<3>
  %y: i8[1,5] quant<0.05> = aten.linear(%g, %v)
  return %y
}
)";

Result<Compilation> compiled(const TargetDescription& target) {
  auto module = parse_module(kModel, "fuzz.ir");
  DTR_CHECK(module.has_value());
  return compile_model(*std::move(module), {.target = &target, .ranges = AsItIs{}, .threads = 1});
}

std::vector<Tensor> outputs_of(const Compilation& program) {
  auto session = Session::load(program.pte(), "fuzz.pte");
  DTR_CHECK(session.has_value());
  Tensor input((*session)->signature().type((*session)->signature().inputs()[0]).dtype,
               {1, 3, 6, 5});
  int32_t value = 0;
  for (int8_t& element : input.values<int8_t>()) element = static_cast<int8_t>(value += 37);
  auto outputs = (*session)->run(std::vector{input.view()});
  DTR_CHECK(outputs.has_value());
  return *std::move(outputs);
}

// Whether the Cortex-M takes every operator that the NPU refuses, so that none is computed in
// float.
bool is_in_int8(const TargetDescription& target) {
  for (const std::string_view backend : target.recipe)
    if (backend != "neutron") return backend == "cortex_m";
  return false;
}

}  // namespace

std::span<const fuzz::Stage> fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  static const std::vector<Tensor> expected = outputs_of(*compiled(default_target()));
  fuzz::Depth depth;
  const auto target = parse_target({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!target) return 0;
  depth.reach(kRead);
  const auto again = parse_target(to_json(**target), "again.json");
  DTR_CHECK(again.has_value() && *again == *target);
  if (!check_target_recipe(**target, "fuzz.json")) return 0;
  const auto program = compiled(**target);
  if (!program) return 0;
  const std::vector<Tensor> outputs = outputs_of(*program);
  DTR_CHECK(!is_in_int8(**target) || std::ranges::equal(outputs[0].bytes(), expected[0].bytes()));
  depth.reach(kCompiled);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {  // NOLINT(readability-identifier-naming)
  return fuzz::mutate_json(data, size, max_size, seed);
}
