#include "test/random/judge.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "compiler/backends/neutron/neutron.h"
#include "compiler/executors/executor.h"
#include "compiler/ir/parser.h"
#include "compiler/ir/verifier.h"
#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/report.h"
#include "compiler/recipes/selection.h"
#include "host/accuracy/compare.h"
#include "host/session/session.h"
#include "test/random/random_graph.h"

namespace dtr::test {
namespace {

Failure failure_of(std::string_view stage, const Diagnostic& diagnostic) {
  return {fmt::format("{}: {}", stage, info(diagnostic.id).name), to_text(diagnostic)};
}

std::vector<const simulator::KernelSet*> all_kernel_sets() {
  std::vector<const simulator::KernelSet*> kernel_sets = {&simulator::plain_kernel_set(),
                                                          &simulator::highway_kernel_set()};
  if (const simulator::KernelSet* vnni = simulator::vnni_kernel_set()) kernel_sets.push_back(vnni);
  return kernel_sets;
}

std::vector<Tensor> seeded_inputs(const Graph& graph, uint64_t seed) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    const Type& type = graph.type(id);
    inputs.push_back(Tensor::copy_of(
        type.dtype, type.shape,
        seeded_values(type.dtype, static_cast<size_t>(type.elements()), seed + id.index)));
    if (type.dtype == DType::kInt64)
      for (int64_t& index : inputs.back().values<int64_t>()) index = std::abs(index) % kIndexInputs;
  }
  return inputs;
}

// Depends on the seed and the name alone, so that an op keeps its draw while the graph around it
// shrinks. FNV-1a.
uint64_t draw(std::string_view name, uint64_t seed) {
  uint64_t hash = 0xCBF29CE484222325 ^ seed;
  for (const char letter : name) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001B3;
  return hash >> 32;
}

// Some operators kept off the NPU, some that it can run forced onto it.
void wish(const Module& module, uint64_t seed, CompileSettings& settings) {
  const std::unique_ptr<DelegateBackend> npu = make_neutron_backend(settings.target->npu);
  const Graph& graph = module.forward();
  for (const OpId op : graph.ops()) {
    const std::string& name = graph.value(graph.op(op).results[0]).name;
    const uint64_t drawn = draw(name, seed) % 6;
    if (drawn == 0) settings.keep_off.push_back(fmt::format("{}{}", kNodePrefix, name));
    if (drawn == 1 && !npu->refuse(graph, op))
      settings.force_on.push_back(fmt::format("{}{}", kNodePrefix, name));
  }
}

// Makes the result of some op the output.
Result<void> stop_early(Module& module, uint64_t seed) {
  std::string node;
  for (const OpId op : module.forward().ops()) {
    const std::string& name = module.forward().value(module.forward().op(op).results[0]).name;
    if (node.empty() || draw(name, seed) < draw(node, seed)) node = name;
  }
  return node.empty() ? Result<void>{} : stop_at(module, node);
}

// How far the reference itself is from the same graph in double. Kernels add in another order, and
// what a clamp leaves of a sum says nothing of how large its terms were, so a difference of a few
// times that is rounding.
double rounding_of(const Module& module, const std::vector<TensorView>& inputs,
                   const Tensor& expected, size_t output) {
  const auto in_double =
      make_reference_executor(module, module.forward(), Precision::kDouble)->run(inputs);
  if (!in_double) return 0;
  Comparison comparison;
  comparison.add((*in_double)[output].view(), expected.view());
  return comparison.max_absolute();
}

using Rounding = std::function<double(size_t output)>;
Failure compare_outputs(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual,
                        const char* kernel_set, const Rounding& rounding) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].shape() != actual[i].shape() || expected[i].dtype() != actual[i].dtype())
      return {"mismatch", fmt::format("output {} is {} {} instead of {} {}", i,
                                      name(actual[i].dtype()), to_string(actual[i].shape()),
                                      name(expected[i].dtype()), to_string(expected[i].shape()))};
    Comparison comparison;
    comparison.add(expected[i].view(), actual[i].view());
    const bool real = expected[i].dtype() == DType::kFloat32;
    double bound = real ? comparison.largest_expected() * 0x1p-20 : 0;
    if (real && comparison.max_absolute() > bound) bound = std::max(bound, 4 * rounding(i));
    if (comparison.max_absolute() > bound)
      return {
          "mismatch",
          fmt::format(
              "output {} with {} kernels: {} of {} elements differ, element {} is {} instead of {}",
              i, kernel_set, comparison.different(), comparison.elements(), comparison.index(),
              comparison.actual(), comparison.expected())};
  }
  return {};
}

// Judges the programs of one model, which differ in their budget of SRAM.
class ProgramJudge {
 public:
  ProgramJudge(uint64_t seed, bool in_float) : seed_(seed), in_float_(in_float) {}
  void add(const Compilation& made) {
    if (!failure_.failed() && expected_.empty()) failure_ = evaluate(made);
    if (!failure_.failed()) failure_ = run(made);
  }
  const Failure& failure() const { return failure_; }

 private:
  Failure evaluate(const Compilation& made) {
    if (const Result<void> valid = verify(made.module); !valid)
      return failure_of("verifier after placement", valid.error());
    inputs_ = seeded_inputs(made.as_read, seed_);
    Result<std::vector<Tensor>> expected =
        make_reference_executor(made.module, in_float_ ? made.module.forward() : made.as_read)
            ->run(views());
    if (!expected) return failure_of("reference", expected.error());
    expected_ = *std::move(expected);
    return {};
  }

  Failure run(const Compilation& made) const {
    const Rounding rounding = [&](size_t output) {
      return rounding_of(made.module, views(), expected_[output], output);
    };
    const SramUse sram = sram_use(made);
    if (sram.total_bytes > sram.budget_bytes)
      return {"budget",
              fmt::format("{} bytes of SRAM instead of {}", sram.total_bytes, sram.budget_bytes)};
    uint64_t cycles = 0;
    for (const simulator::KernelSet* kernel_set : all_kernel_sets()) {
      const Result<std::unique_ptr<Session>> session =
          Session::load(made.pte(), "random.pte", *kernel_set);
      if (!session) return failure_of("load", session.error());
      RunStats stats;
      const Result<std::vector<Tensor>> outputs = (*session)->run(views(), &stats);
      if (!outputs) return failure_of("run", outputs.error());
      if (Failure failure = compare_outputs(expected_, *outputs, kernel_set->name, rounding);
          failure.failed())
        return failure;
      if (stats.sram_touched_bytes > sram.total_bytes)
        return {"arena", fmt::format("byte {} of an arena of {} was touched",
                                     stats.sram_touched_bytes, sram.total_bytes)};
      if (cycles != 0 && cycles != stats.total_cycles)
        return {"cycles",
                fmt::format("{} cycles, with other kernels {}", stats.total_cycles, cycles)};
      cycles = stats.total_cycles;
    }
    return {};
  }

  std::vector<TensorView> views() const {
    std::vector<TensorView> views;
    for (const Tensor& input : inputs_) views.push_back(const_cast<Tensor&>(input).view());
    return views;
  }

  uint64_t seed_;
  bool in_float_;
  std::vector<Tensor> inputs_, expected_;
  Failure failure_;
};

}  // namespace

Failure judge(Module module, uint64_t seed, bool in_float, const TargetDescription& target) {
  if (const Result<void> valid = verify(module); !valid)
    return failure_of("verifier", valid.error());
  if (in_float && seed % 5 == 0)
    if (const Result<void> stopped = stop_early(module, seed); !stopped)
      return failure_of("stop", stopped.error());
  // What costs and wishes decide may run in float.
  CompileSettings settings{.target = &target,
                           .backend = {.row_packing = seed % 3 == 0},
                           .ranges = AsItIs{},
                           .weigh_costs = in_float && seed % 4 != 0,
                           .debug_map = seed % 2 == 0,
                           .threads = 1};
  if (in_float && seed % 2 == 0) wish(module, seed, settings);
  const auto may_refuse = [](DiagnosticId id) {
    return id == DiagnosticId::kNoBackend || id == DiagnosticId::kPlacementForced;
  };
  ProgramJudge programs(seed, in_float);
  const uint64_t all = settings.target->memory.sram_bytes;
  // Without a budget, the smallest, half of the SRAM where that is enough, and one between.
  std::vector<uint64_t> bytes;
  const auto compiler = make_budget_compiler(std::move(module), settings);
  while (bytes.size() < 4 && !programs.failure().failed()) {
    SramBudget budget{.bytes = all};
    if (bytes.size() == 1) budget.optimize = Optimize::kSize;
    if (bytes.size() == 2) budget.bytes = std::max(bytes[1], bytes[0] / 2);
    if (bytes.size() == 3)
      budget.bytes = bytes[1] + draw("budget", seed) % (bytes[0] - bytes[1] + 1);
    const Result<const Compilation*> made = compiler->compile(budget);
    if (!made && in_float && may_refuse(made.error().id)) return {.refused = true};
    if (!made) return failure_of("compile", made.error());
    programs.add(**made);
    bytes.push_back(sram_use(**made).total_bytes);
  }
  return programs.failure();
}

Failure judge_apart(Module& module, uint64_t seed, bool in_float, const TargetDescription& target) {
  std::array<int, 2> channel = {};
  DTR_CHECK(pipe(channel.data()) == 0);
  const pid_t process = fork();
  DTR_CHECK(process >= 0);
  if (process == 0) {
    close(channel[0]);
    dup2(channel[1], STDERR_FILENO);
    alarm(60);
    const Failure failure = judge(std::move(module), seed, in_float, target);
    const std::string text = failure.failed() ? failure.kind + "\n" + failure.text : std::string();
    const ssize_t written = write(channel[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(channel[1]);
  std::string text;
  std::array<char, 4096> buffer = {};
  for (ssize_t count; (count = read(channel[0], buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<size_t>(count));
  close(channel[0]);
  int status = 0;
  waitpid(process, &status, 0);
  if (WIFSIGNALED(status)) text = fmt::format("signal {}\n", WTERMSIG(status)) + text;
  if (status != 0) return {"crash", text};
  const size_t end = text.find('\n');
  return end == std::string::npos ? Failure{} : Failure{text.substr(0, end), text.substr(end + 1)};
}

}  // namespace dtr::test
