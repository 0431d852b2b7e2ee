#include "test/conformance/build.h"

#include <algorithm>
#include <cstring>

#include "compiler/ir/rewriter.h"
#include "compiler/pipeline/read_model.h"

namespace dtr::conformance {

Result<std::unique_ptr<Built>> build(Module module, const Samples* samples,
                                     const TargetDescription& target) {
  return build(std::move(module), samples,
               CompileSettings{.target = &target, .weigh_costs = false, .threads = 1});
}

Result<std::unique_ptr<Built>> build(Module module, const Samples* samples,
                                     const CompileSettings& settings) {
  CompileSettings with_samples = settings;
  with_samples.samples = samples;
  auto built = std::make_unique<Built>();
  DTR_ASSIGN(built->compiled, compile_model(std::move(module), with_samples));
  const Compilation& compiled = built->compiled;
  DTR_ASSIGN(built->session, Session::load(compiled.pte(), compiled.module.file,
                                           simulator::best_kernel_set(), compiled.tensor_file()));
  return built;
}

void flip_input_layouts(Graph& graph) {
  Rewriter rewriter(graph);
  for (const ValueId input : graph.inputs())
    if (graph.type(input).rank() >= 3)
      rewriter.set_layout(input, graph.type(input).layout == Layout::kContiguous
                                     ? Layout::kChannelsLast
                                     : Layout::kContiguous);
}

bool LayoutComparison::same_cycles() const {
  const uint64_t more = std::max(cycles[0], cycles[1]), less = std::min(cycles[0], cycles[1]);
  return (more - less) * 100 <= less;
}

Result<LayoutComparison> compare_layouts(const std::string& model, const Samples& samples,
                                         size_t count) {
  LayoutComparison proof;
  std::vector<std::vector<Tensor>> outputs;
  for (const size_t flipped : {size_t{0}, size_t{1}}) {
    DTR_ASSIGN(Module module, read_model(model));
    if (flipped == 1) flip_input_layouts(module.forward());
    DTR_ASSIGN(const std::unique_ptr<Built> built, build(std::move(module), &samples));
    const CompileReport report = compile_report(built->compiled);
    for (const OperatorRow& row : report.operators)
      if (row.kernel == "Move") {
        proof.moves.push_back(row);
        proof.conversion_cycles[flipped] += row.cycles;
      }
    proof.conversions[flipped] = report.transposes.size();
    for (size_t i = 0; i < std::min(count, samples.size()); ++i) {
      RunStats stats;
      DTR_ASSIGN(std::vector<Tensor> results, built->session->run(samples.inputs(i), &stats));
      proof.cycles[flipped] = stats.total_cycles;
      if (flipped == 0) {
        outputs.push_back(std::move(results));
        continue;
      }
      for (size_t k = 0; k < results.size(); ++k) {
        proof.equal &= std::ranges::equal(results[k].bytes(), outputs[i][k].bytes());
        proof.compared += results[k].bytes().size();
      }
    }
  }
  return proof;
}

}  // namespace dtr::conformance
