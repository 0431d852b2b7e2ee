// Any text as a program: refused, or a program that verifies, prints to what reads back the same,
// and goes through all pipelines with its results unchanged (where evaluating it is cheap).
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "compiler/ir/parser.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verifier.h"
#include "compiler/transforms/pass_manager.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"

namespace {

enum : size_t { kRead, kTransformed, kEvaluated };
constexpr dtr::fuzz::Stage kStages[] = {{"read", 0.2}, {"transformed", 0.2}, {"evaluated", 0.2}};

constexpr int64_t kMaxElements = 4096;  // of a value
constexpr int64_t kMaxMacs = 1 << 20;   // of an op

bool cheap(const dtr::Graph& graph) {
  for (uint32_t i = 0; i < graph.value_slots(); ++i)
    if (graph.type(dtr::ValueId{i}).elements() > kMaxElements) return false;
  for (const dtr::OpId id : graph.ops()) {
    const dtr::BoundOpView view(graph, id);
    if (view->def->macs != nullptr && view->def->macs(*view) > kMaxMacs) return false;
    if (const auto* kernel = view->attributes->find("kernel_size"))
      for (const int64_t extent : std::get<dtr::Ints>(*kernel))
        if (extent > kMaxElements) return false;
  }
  return true;
}

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  dtr::fuzz::Depth depth;
  auto program = dtr::parse_module({reinterpret_cast<const char*>(data), size}, "fuzz.ir");
  if (!program) return 0;
  depth.reach(kRead);
  DTR_CHECK(dtr::verify(*program).has_value());
  const std::string text = dtr::print(*program);
  const auto again = dtr::parse_module(text);
  DTR_CHECK(again.has_value() && dtr::print(*again) == text);
  for (dtr::Graph& graph : program->graphs) {
    const bool evaluate = cheap(graph);
    for (const dtr::Pipeline& pipeline : dtr::all_pipelines()) {
      const auto runs =
          dtr::run_pipeline(*program, graph, pipeline,
                            {.verify_each = true,
                             .check_semantics = evaluate ? dtr::SemanticsCheck::kEachPass
                                                         : dtr::SemanticsCheck::kNone});
      DTR_CHECK(runs.has_value() || runs.error().id != dtr::DiagnosticId::kPassBrokeGraph);
    }
    depth.reach(kTransformed);
    if (evaluate) depth.reach(kEvaluated);
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {  // NOLINT(readability-identifier-naming)
  return dtr::fuzz::mutate_text(data, size, max_size, seed);
}
