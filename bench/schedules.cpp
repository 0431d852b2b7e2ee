// Compares the schedules of programs with the fastest ones that exist (test/unit/exact_schedule.h):
//
//     bench_schedules MODEL TARGET STATES PERCENT…
//
// One line for each partition and budget, in percent of the bytes of the plan without one: bytes,
// cycles of plan_within, cycles of the fastest plan or a bound of it, chain sets and states.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "compiler/backends/neutron/partition.h"
#include "compiler/ir/parser.h"
#include "compiler/pipeline/compile.h"
#include "compiler/targets/target.h"
#include "test/unit/exact_schedule.h"
#include "test/unit/small_networks.h"

namespace dtr {
namespace {

void print(std::string_view name, std::string_view target, uint32_t percent, size_t calls,
           const test::ScheduleComparison& compared) {
  const auto text = [](uint64_t cycles) {
    return cycles == UINT64_MAX ? "none" : std::to_string(cycles);
  };
  fmt::print("{} {} {} {} {} {} {} {} {:.4f} {}\n", name, target, percent, calls, compared.limit,
             text(compared.cycles), text(compared.exact.cycles),
             compared.exact.is_proven ? "proven" : "bound", compared.ratio(),
             compared.exact.states);
  std::fflush(stdout);
}

int compare(const std::string& model, const std::string& target, size_t states,
            std::span<const std::string> percents) {
  CompileSettings settings{.target = find_target(target), .samples = NoiseSamples{}};
  if (settings.target == nullptr) {
    fmt::print(stderr, "no target {}\n", target);
    return 1;
  }
  settings.io = Io::kInt8;
  const auto compiler = make_budget_compiler(model, settings);
  const Result<const Compilation*> compiled =
      compiler->compile({.bytes = settings.target->memory.sram_bytes});
  if (!compiled) {
    fmt::print(stderr, "{}: {}\n", model, to_text(compiled.error()));
    return 1;
  }
  const neutron::Machine machine{settings.target->npu, {}};
  const Module& module = (*compiled)->module;
  for (const std::unique_ptr<LoweredPartition>& lowered : (*compiled)->emitted.partitions) {
    const auto* partition = dynamic_cast<const neutron::NeutronPartition*>(lowered.get());
    if (partition == nullptr) continue;
    const std::span<const neutron::LoweredGraph> variants = partition->variants();
    for (const std::string& percent : percents) {
      const auto of = static_cast<uint32_t>(std::stoul(percent));
      print(model, target, of, variants[0].calls.size(),
            test::compare_schedules(machine, module, variants, of, states));
    }
  }
  return 0;
}

// The networks of test/unit/small_networks.h.
int compare_small(uint32_t first, uint32_t end, uint32_t most_layers, size_t states) {
  for (uint32_t seed = first; seed < end; ++seed) {
    Result<Module> module = parse_module(test::small_network(seed, most_layers), "small");
    for (const std::string_view target : {"imxrt700", "mcxn947", "imx95"}) {
      const neutron::Machine machine{find_target(target)->npu, {}};
      const auto backend = make_neutron_backend(machine.target);
      const auto lowered = backend->lower(*module, module->forward());
      const auto& partition = dynamic_cast<const neutron::NeutronPartition&>(**lowered);
      for (const uint32_t percent : {100u, 85u, 70u, 55u, 40u})
        print(fmt::format("small_{}", seed), target, percent, partition.variants()[0].calls.size(),
              test::compare_schedules(machine, *module, partition.variants(), percent, states));
    }
  }
  return 0;
}

}  // namespace
}  // namespace dtr

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + 1, values + count);
  const auto number = [&](size_t i) { return static_cast<uint32_t>(std::stoul(arguments[i])); };
  if (arguments.size() == 5 && arguments[0] == "small")
    return dtr::compare_small(number(1), number(2), number(3), number(4));
  if (arguments.size() < 4) {
    fmt::print(stderr, "bench_schedules MODEL TARGET STATES PERCENT...\n");
    return 2;
  }
  return dtr::compare(arguments[0], arguments[1], std::stoull(arguments[2]),
                      std::span(arguments).subspan(3));
}
