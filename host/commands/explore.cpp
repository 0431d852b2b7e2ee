#include "host/commands/explore.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "compiler/support/output_file.h"
#include "compiler/support/text.h"
#include "host/accuracy/search_tasks.h"
#include "host/session/session.h"
#include "host/tasks/packing.h"
#include "host/tasks/tasks.h"

namespace dtr {
namespace {

constexpr std::string_view kHint =
    "this is an error of Deuteron: report it with the model and the budget";

// What a program is compared by. It comes from a worker, perhaps of another machine.
struct ProgramRun {
  std::string model;
  FrontierPoint point;
  uint64_t planned_bytes = 0;  // of SRAM, for tensors
  uint32_t floats = 0;         // float_fingerprint
  std::vector<std::byte> outputs;
  std::vector<uint64_t> sizes;  // of each output in `outputs`
};

std::vector<std::byte> pack(const ProgramRun& run) {
  Packer packer;
  packer.add_text(run.model);
  packer.add(run.point);
  packer.add(run.planned_bytes);
  packer.add(run.floats);
  packer.add_sized(run.outputs);
  packer.add_sized(std::as_bytes(std::span(run.sizes)));
  return packer.take();
}

ProgramRun unpack(std::span<const std::byte> bytes) {
  ProgramRun run;
  Unpacker unpacker(bytes);
  std::span<const std::byte> outputs, sizes;
  DTR_CHECK(unpacker.take_text(run.model) && unpacker.take(run.point) &&
            unpacker.take(run.planned_bytes) && unpacker.take(run.floats) &&
            unpacker.take_sized(outputs) && unpacker.take_sized(sizes) && unpacker.at_end());
  run.outputs.assign(outputs.begin(), outputs.end());
  run.sizes.resize(sizes.size() / sizeof(uint64_t));
  if (!sizes.empty()) std::memcpy(run.sizes.data(), sizes.data(), sizes.size());
  return run;
}

// Compiles programs of one model, a budget a task, and runs each on the same input.
class ProgramWorker final : public TaskWorker {
 public:
  ProgramWorker(ModelSource source, const CompileSettings& settings)
      : compiler_(make_budget_compiler(std::move(source), settings)) {}

  Result<std::vector<std::byte>> run(size_t /*task*/, std::span<const std::byte> input) override {
    SramBudget budget;
    Unpacker unpacker(input);
    DTR_CHECK(unpacker.take(budget));
    DTR_ASSIGN(const Compilation* made, compiler_->compile(budget));
    if (!inputs_) floats_ = float_fingerprint(*made);
    DTR_ASSIGN(const std::unique_ptr<Session> session,
               Session::borrow(made->pte(), made->module.file, simulator::best_kernel_set(),
                               made->tensor_file()));
    if (!inputs_) inputs_ = Samples::random(session->signature(), 1);
    RunStats stats;
    DTR_ASSIGN(const std::vector<Tensor> outputs, session->run(inputs_->inputs(0), &stats));
    const SramUse sram = sram_use(*made);
    ProgramRun run{.model = made->module.file,
                   .point = {.budget_bytes = budget.bytes,
                             .optimize = budget.optimize,
                             .is_default = budget.bytes == sram.target_bytes &&
                                           budget.optimize == Optimize::kSpeed,
                             .sram_bytes = sram.total_bytes,
                             .value_bytes = sram.planned_bytes,
                             .touched_bytes = stats.sram_touched_bytes,
                             .cycles = stats.total_cycles +
                                       planned_cost(made->emitted, made->memory, 0).kernel_cycles,
                             .waiting_cycles = stats.stall_cycles,
                             .npu_calls = stats.npu_calls},
                   .planned_bytes = sram.total_bytes - sram.program_bytes,
                   .floats = floats_};
    for (const Tensor& output : outputs) {
      run.outputs.insert(run.outputs.end(), output.bytes().begin(), output.bytes().end());
      run.sizes.push_back(output.bytes().size());
    }
    return pack(run);
  }

 private:
  std::unique_ptr<BudgetCompiler> compiler_;
  std::optional<Samples> inputs_;
  uint32_t floats_ = 0;
};

// Collects the points of programs.
class Explorer {
 public:
  Explorer(const ModelSource& source, const CompileSettings& settings, uint32_t points)
      : source_(source), settings_(settings), points_(points) {
    frontier_.target = settings.target->name;
    frontier_.clock_hz = clock_hz(*settings.target);
  }

  Result<void> run(TaskExecutor* executor) {
    const TaskJob job{.open = [this]() -> Result<std::unique_ptr<TaskWorker>> { return open(); },
                      .noun = "programs"};
    if (executor != nullptr) {
      DTR_ASSIGN(pool_, executor->start(job));
    }
    // The program without a budget, and the smallest ones.
    const uint64_t all = settings_.target->memory.sram_bytes;
    DTR_TRY(add({{.bytes = all, .optimize = Optimize::kSpeed},
                 {.bytes = all, .optimize = Optimize::kSize},
                 {.bytes = all, .optimize = Optimize::kBalance}}));
    // Budgets from the smallest program to the one without a budget, a constant factor apart.
    const auto high = static_cast<double>(frontier_.points[0].sram_bytes);
    const auto low = static_cast<double>(frontier_.points[1].sram_bytes);
    if (low >= high) return {};
    std::vector<SramBudget> budgets;
    for (uint32_t i = 3; i < points_; ++i)
      budgets.push_back({.bytes = static_cast<uint64_t>(
                             std::llround(low * std::pow(high / low, (i - 2.0) / (points_ - 2)))),
                         .optimize = Optimize::kSpeed});
    return add(budgets);
  }

  Frontier take() {
    frontier_.programs = static_cast<uint32_t>(frontier_.points.size());
    std::vector<FrontierPoint>& points = frontier_.points;
    std::ranges::sort(points, [](const FrontierPoint& a, const FrontierPoint& b) {
      return std::tie(a.sram_bytes, a.cycles) < std::tie(b.sram_bytes, b.cycles);
    });
    uint64_t least = UINT64_MAX;
    std::erase_if(points, [&](const FrontierPoint& point) {
      const bool beaten = point.cycles >= least;
      least = std::min(least, point.cycles);
      return beaten;
    });
    return std::move(frontier_);
  }

 private:
  std::unique_ptr<TaskWorker> open() const {
    return std::make_unique<ProgramWorker>(copy_of(source_), settings_);
  }

  Result<void> add(const std::vector<SramBudget>& budgets) {
    std::vector<std::vector<std::byte>> inputs;
    for (const SramBudget& budget : budgets) {
      Packer packer;
      packer.add(budget);
      inputs.push_back(packer.take());
    }
    if (pool_ == nullptr) {
      if (own_ == nullptr) own_ = open();
      for (const std::vector<std::byte>& input : inputs) {
        DTR_ASSIGN(const std::vector<std::byte> result, own_->run(0, input));
        DTR_TRY(record(unpack(result)));
      }
      return {};
    }
    DTR_ASSIGN(const std::vector<std::vector<std::byte>> results, pool_->run(inputs));
    for (const std::vector<std::byte>& result : results) DTR_TRY(record(unpack(result)));
    return {};
  }

  Result<void> record(ProgramRun run) {
    const FrontierPoint& point = run.point;
    frontier_.model = run.model;
    if (point.touched_bytes > run.planned_bytes || point.sram_bytes > point.budget_bytes)
      return fail(DiagnosticId::kCheckFailed,
                  fmt::format("the program for {} bytes of SRAM plans {} and touches {}",
                              with_thousands(point.budget_bytes), with_thousands(point.sram_bytes),
                              with_thousands(point.touched_bytes)),
                  std::string(kHint), {.file = run.model});
    frontier_.points.push_back(point);
    if (!first_) {
      first_ = std::move(run);
      return {};
    }
    DTR_TRY(check_same_floats(first_->floats, run.floats));
    const auto differs = [&](std::string_view what) {
      return fail(DiagnosticId::kCheckFailed,
                  fmt::format("{} of the program for {} bytes of SRAM differs from that of the "
                              "program without a budget",
                              what, with_thousands(run.point.budget_bytes)),
                  std::string(kHint), {.file = run.model});
    };
    if (run.sizes != first_->sizes) return differs("the number of outputs");
    size_t begin = 0;
    for (size_t i = 0; i < run.sizes.size(); ++i) {
      const auto size = static_cast<size_t>(run.sizes[i]);
      if (!std::ranges::equal(std::span(run.outputs).subspan(begin, size),
                              std::span(first_->outputs).subspan(begin, size)))
        return differs(fmt::format("output {}", i));
      begin += size;
    }
    return {};
  }

  const ModelSource& source_;
  const CompileSettings& settings_;
  const uint32_t points_;
  Frontier frontier_;
  std::optional<ProgramRun> first_;
  std::unique_ptr<TaskPool> pool_;  // null: `own_` runs the tasks
  std::unique_ptr<TaskWorker> own_;
};

double milliseconds(const Frontier& frontier, uint64_t cycles) {
  return static_cast<double>(cycles) * 1e3 / frontier.clock_hz;
}

// The options of `compile` that make the program.
std::string options_of(const FrontierPoint& point) {
  if (point.is_default) return {};
  return point.optimize == Optimize::kSpeed ? fmt::format("--sram {}", point.budget_bytes)
                                            : fmt::format("--optimize {}", name(point.optimize));
}

// Between two budgets the program of the smaller one fits.
FrontierPlot plot_of(const Frontier& frontier) {
  FrontierPlot plot{.title = "Cycles against bytes of SRAM",
                    .x_label = "SRAM, bytes",
                    .logarithmic = true,
                    .left_serves = true,
                    .points = {}};
  for (const FrontierPoint& point : frontier.points)
    plot.points.push_back(
        {.x = static_cast<double>(point.sram_bytes),
         .cycles = point.cycles,
         .x_text = with_thousands(point.sram_bytes),
         .text = fmt::format("{} bytes, {} cycles, {} calls", with_thousands(point.sram_bytes),
                             with_thousands(point.cycles), point.npu_calls)});
  return plot;
}

}  // namespace

Result<Frontier> explore(const ModelSource& source, const ExploreOptions& options,
                         const CompileWatch& watch, std::optional<SampleSource> samples) {
  DTR_ASSIGN(CompileSettings settings, checked_settings(options.compile));
  if (settings.recipe && (settings.recipe->options.sram_bytes || settings.recipe->options.optimize))
    return fail(
        DiagnosticId::kSramInvalid,
        "`explore` chooses budgets itself: `sram` and `optimize` of the recipe have no effect",
        "leave them out of the recipe", {.file = options.compile.recipe});
  if (samples) settings.samples = *std::move(samples);
  DTR_TRY(check_outputs({options.compile.model, options.compile.calibration,
                         options.compile.load_calibration, options.compile.recipe},
                        {options.files.json, options.files.svg, options.files.html}));
  settings.progress = watch.progress;
  Explorer explorer(source, settings, options.points);
  DTR_TRY(explorer.run(options.compile.executor));
  Frontier frontier = explorer.take();
  DTR_TRY(write_frontier(options.files, to_json(frontier), to_svg(frontier), to_html(frontier)));
  return frontier;
}

std::string to_text(const Frontier& frontier) {
  TextTable table(
      {"SRAM", "tensors", "cycles", "ms", "waiting", "calls", "cycles over the fastest", "options"},
      {true, true, true, true, true, true, false, false});
  if (frontier.points.empty()) return {};
  const uint64_t least = frontier.points.back().cycles;
  const uint64_t most = frontier.points.front().cycles;
  for (const FrontierPoint& point : frontier.points) {
    const auto over = static_cast<double>(point.cycles) / static_cast<double>(least) - 1;
    table.add({with_thousands(point.sram_bytes), with_thousands(point.value_bytes),
               with_thousands(point.cycles),
               fmt::format("{:.3f}", milliseconds(frontier, point.cycles)),
               with_thousands(point.waiting_cycles), std::to_string(point.npu_calls),
               fmt::format("{:>+7.1f} % {}", 100 * over, cycles_bar(point.cycles, least, most)),
               options_of(point)});
  }
  return fmt::format(
      "{}\n{} programs of {} for {}, with equal outputs; those that no other one beats are shown\n"
      "ms: all cycles, simulated and estimated ones; `deuteron compile` prints the error of a "
      "time\n",
      table.text(60), frontier.programs, frontier.model, frontier.target);
}

std::string to_json(const Frontier& frontier) {
  std::string text = fmt::format(
      "{{\n  \"model\": {}, \"target\": {}, \"axis\": \"sram\", \"clock_hz\": {}, \"programs\": "
      "{},\n  \"points\": [",
      json_quote(frontier.model), json_quote(frontier.target), frontier.clock_hz,
      frontier.programs);
  for (size_t i = 0; i < frontier.points.size(); ++i) {
    const FrontierPoint& point = frontier.points[i];
    text += fmt::format(
        "{}\n    {{\"sram_bytes\": {}, \"value_bytes\": {}, \"touched_bytes\": {}, "
        "\"budget_bytes\": {}, \"optimize\": \"{}\", \"cycles\": {}, \"milliseconds\": {:.6f}, "
        "\"waiting_cycles\": {}, "
        "\"npu_calls\": {}}}",
        i == 0 ? "" : ",", point.sram_bytes, point.value_bytes, point.touched_bytes,
        point.budget_bytes, name(point.optimize), point.cycles,
        milliseconds(frontier, point.cycles), point.waiting_cycles, point.npu_calls);
  }
  return text + "\n  ]\n}\n";
}

std::string to_svg(const Frontier& frontier) { return to_svg(plot_of(frontier)); }

std::string to_html(const Frontier& frontier) {
  FrontierPage page{
      .title = frontier.model,
      .sentence = fmt::format(
          "{} programs for {}, each compiled and simulated, with equal outputs; shown are those "
          "that no other one beats in bytes and cycles.",
          frontier.programs, frontier.target),
      .columns = {"SRAM, bytes", "tensors", "cycles", "ms", "waiting", "calls", "options"},
      .rows = {}};
  for (const FrontierPoint& point : frontier.points)
    page.rows.push_back(
        {with_thousands(point.sram_bytes), with_thousands(point.value_bytes),
         with_thousands(point.cycles), fmt::format("{:.3f}", milliseconds(frontier, point.cycles)),
         with_thousands(point.waiting_cycles), std::to_string(point.npu_calls), options_of(point)});
  return to_html(page, plot_of(frontier));
}

}  // namespace dtr
