// deuteron-random: all executors agree on seeded random graphs; prints the smallest graph on which
// they do not.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <map>

#include "compiler/backends/neutron/neutron.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/printer.h"
#include "compiler/support/thread_pool.h"
#include "compiler/targets/target.h"
#include "host/commands/compile_options.h"
#include "test/random/judge.h"
#include "test/random/random_graph.h"
#include "test/random/shrink.h"

namespace {

using namespace dtr;
using namespace dtr::test;

struct Options {
  uint64_t first = 1, count = 2000;
  unsigned jobs = 0;
  bool print = false, counts = false;
  const TargetDescription* target = find_target("imxrt700");
};

// Every third graph works on floats too.
bool in_float(uint64_t seed) { return seed % 3 == 0; }

Family family(uint64_t seed) {
  return seed % 5 == 1 ? Family::kOneDimension : seed % 5 == 3 ? Family::kTokens : Family::kAny;
}

Module make(const TargetDescription& target, uint64_t seed) {
  static const std::unique_ptr<DelegateBackend> npu = make_neutron_backend(target.npu);
  RandomOptions options{.floats = in_float(seed), .family = family(seed)};
  if (!in_float(seed))
    options.accept = [](const Module& module, OpId op) {
      return !npu->refuse(module.forward(), op);
    };
  return RandomGraph(seed, std::move(options)).make(static_cast<int>(1 + seed % 30));
}

// Prints what fails and the smallest graph that does; returns whether something did.
bool report(const TargetDescription& target, uint64_t seed) {
  Module module = make(target, seed);
  const size_t ops = module.forward().op_count();
  const Failure failure = judge_apart(module, seed, in_float(seed), target);
  if (!failure.failed()) return false;
  Module smallest = shrink(std::move(module), [&](Module& smaller) {
    return judge_apart(smaller, seed, in_float(seed), target).kind == failure.kind;
  });
  const Failure last = judge_apart(smallest, seed, in_float(seed), target);
  fmt::print(
      "seed {}: {}: {}\n{} ops instead of {}; the same with `deuteron-random --target {} --first "
      "{} --count 1`:\n{}\n",
      seed, failure.kind, last.text, smallest.forward().op_count(), ops, target.name, seed,
      print(smallest, {.elide_constants = true}));
  std::fflush(stdout);
  return true;
}

// What a process says before each graph, and once more of a graph with an operator that runs
// nowhere.
struct Progress {
  uint64_t seed = 0;
  bool refused = false;
};

// Judges every jobs-th seed in this process; the first that fails, or all seeds.
int judge_seeds(const Options& options, uint64_t offset, unsigned jobs, int progress) {
  for (uint64_t i = offset; i < options.count; i += jobs) {
    const uint64_t seed = options.first + i;
    Progress now{.seed = seed};
    if (write(progress, &now, sizeof(now)) != sizeof(now)) return 2;
    const Failure failure =
        judge(make(*options.target, seed), seed, in_float(seed), *options.target);
    if (failure.failed()) return 1;
    now = {.seed = seed, .refused = failure.refused};
    if (failure.refused && write(progress, &now, sizeof(now)) != sizeof(now)) return 2;
  }
  return 0;
}

// Several processes, each of which dies of its first failure, which is then looked at with care.
int run(const Options& options) {
  const unsigned jobs = options.jobs == 0 ? default_threads() : options.jobs;
  struct Worker {
    pid_t process;
    int progress;
  };
  std::vector<Worker> workers;
  for (unsigned job = 0; job < jobs; ++job) {
    std::array<int, 2> channel = {};
    DTR_CHECK(pipe(channel.data()) == 0);
    const pid_t process = fork();
    DTR_CHECK(process >= 0);
    if (process == 0) _exit(judge_seeds(options, job, jobs, channel[1]));
    close(channel[1]);
    workers.push_back({process, channel[0]});
  }
  bool failed = false;
  size_t refused = 0;
  for (const Worker& worker : workers) {
    Progress last;
    for (Progress now; read(worker.progress, &now, sizeof(now)) == sizeof(now); last = now)
      refused += now.refused ? 1 : 0;
    int status = 0;
    waitpid(worker.process, &status, 0);
    if (status == 0) continue;
    failed = true;
    if (!report(*options.target, last.seed))
      fmt::print("seed {} failed, but not when it was tried again\n", last.seed);
  }
  fmt::print("{} graphs from seed {}, {} with an operator that runs nowhere: {}\n", options.count,
             options.first, refused, failed ? "not all executors agree" : "all executors agree");
  return failed ? 1 : 0;
}

// How often each operator occurs.
void print_counts(const Options& options) {
  std::map<std::string_view, uint64_t> counts;
  for (const OpDef* op : all_ops()) counts[op->name] = 0;
  for (uint64_t i = 0; i < options.count; ++i) {
    const Module module = make(*options.target, options.first + i);
    for (const OpId op : module.forward().ops()) ++counts[module.forward().op(op).def->name];
  }
  for (const auto& [name, count] : counts) fmt::print("{:>8} {}\n", count, name);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Compiles and runs seeded random graphs on every executor; prints the smallest graph on "
      "which they disagree.",
      "deuteron-random");
  app.add_option("--first", options.first, "First seed")->capture_default_str();
  app.add_option("--count", options.count, "Number of graphs")->capture_default_str();
  app.add_option("--jobs", options.jobs, "Processes (0: all threads)");
  app.add_flag("--print", options.print, "Only print the first graph as IR text");
  app.add_flag("--counts", options.counts, "Only count the operators in the graphs");
  std::string target(options.target->name);
  app.add_option("--target", target, "Target with an NPU, or a target file")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto found = resolve_target(target);
  if (!found) {
    fmt::print(stderr, "{}\n", to_text(found.error()));
    return 2;
  }
  options.target = *found;
  if (options.print) {
    fmt::print("{}", print(make(*options.target, options.first), {.elide_constants = true}));
    return 0;
  }
  if (options.counts) {
    print_counts(options);
    return 0;
  }
  return run(options);
}
