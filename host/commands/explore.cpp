#include "host/commands/explore.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "compiler/support/output_file.h"
#include "compiler/support/text.h"
#include "host/session/session.h"

namespace dtr {
namespace {

constexpr std::string_view kHint =
    "this is an error of Deuteron: report it with the model and the budget";

// Runs programs of one model on one input and collects their points.
class Explorer {
 public:
  explicit Explorer(const ExploreOptions& options) : options_(options) {}

  Result<std::optional<SramBudget>> next(const Compilation* made) {
    if (made != nullptr) DTR_TRY(add(*made));
    std::optional<SramBudget> budget;
    const uint64_t all = made == nullptr ? 0 : made->target->memory.sram_bytes;
    if (step_ == 0) {
      budget = first_budget_;
    } else if (step_ == 1) {
      budget = SramBudget{.bytes = all, .optimize = Optimize::kSize};
    } else if (step_ == 2) {
      budget = SramBudget{.bytes = all, .optimize = Optimize::kBalance};
    } else if (step_ < options_.points && frontier_.points.size() >= 2) {
      // Budgets from the smallest program to the one without a budget, a constant factor apart.
      const auto high = static_cast<double>(frontier_.points[0].sram_bytes);
      const auto low = static_cast<double>(frontier_.points[1].sram_bytes);
      if (low >= high) return std::nullopt;
      const double part = static_cast<double>(step_ - 2) / (options_.points - 2);
      budget =
          SramBudget{.bytes = static_cast<uint64_t>(std::llround(low * std::pow(high / low, part))),
                     .optimize = Optimize::kSpeed};
    }
    ++step_;
    if (budget) budget_ = budget->bytes;
    return budget;
  }

  void start(const TargetDescription& target) {
    frontier_.target = target.name;
    frontier_.clock_hz = clock_hz(target);
    first_budget_ = {.bytes = target.memory.sram_bytes, .optimize = Optimize::kSpeed};
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
  Result<void> add(const Compilation& made) {
    frontier_.model = made.module.file;
    DTR_ASSIGN(const std::unique_ptr<Session> session,
               Session::borrow(made.pte(), made.module.file, simulator::best_kernel_set(),
                               made.tensor_file()));
    if (!inputs_) inputs_ = Samples::random(session->signature(), 1);
    RunStats stats;
    DTR_ASSIGN(std::vector<Tensor> outputs, session->run(inputs_->inputs(0), &stats));
    const SramUse sram = sram_use(made);
    FrontierPoint point{
        .budget_bytes = budget_,
        .sram_bytes = sram.total_bytes,
        .value_bytes = sram.planned_bytes,
        .touched_bytes = stats.sram_touched_bytes,
        .cycles = stats.total_cycles + planned_cost(made.emitted, made.memory, 0).kernel_cycles,
        .waiting_cycles = stats.stall_cycles,
        .npu_calls = stats.npu_calls};
    if (point.touched_bytes > sram.total_bytes - sram.program_bytes || point.sram_bytes > budget_)
      return fail(DiagnosticId::kCheckFailed,
                  fmt::format("the program for {} bytes of SRAM plans {} and touches {}",
                              with_thousands(budget_), with_thousands(point.sram_bytes),
                              with_thousands(point.touched_bytes)),
                  std::string(kHint), {.file = made.module.file});
    if (outputs_.empty())
      outputs_ = std::move(outputs);
    else
      DTR_TRY(compare(outputs, made.module.file));
    frontier_.points.push_back(point);
    return {};
  }

  Result<void> compare(const std::vector<Tensor>& outputs, const std::string& file) const {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!std::ranges::equal(outputs[i].bytes(), outputs_[i].bytes()))
        return fail(DiagnosticId::kCheckFailed,
                    fmt::format("output {} of the program for {} bytes of SRAM differs from that "
                                "of the program without a budget",
                                i, with_thousands(budget_)),
                    std::string(kHint), {.file = file});
    return {};
  }

  const ExploreOptions& options_;
  Frontier frontier_;
  SramBudget first_budget_;
  uint64_t budget_ = 0;
  uint32_t step_ = 0;
  std::optional<Samples> inputs_;
  std::vector<Tensor> outputs_;  // of the first program
};

double milliseconds(const Frontier& frontier, uint64_t cycles) {
  return static_cast<double>(cycles) * 1e3 / frontier.clock_hz;
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

Result<Frontier> explore(ModelSource source, const ExploreOptions& options,
                         const CompileWatch& watch, std::optional<SampleSource> samples) {
  DTR_ASSIGN(CompileSettings settings, checked_settings(options.compile));
  if (samples) settings.samples = *std::move(samples);
  DTR_TRY(check_outputs({options.compile.model, options.compile.calibration,
                         options.compile.load_calibration, options.compile.recipe},
                        {options.files.json, options.files.svg, options.files.html}));
  settings.progress = watch.progress;
  Explorer explorer(options);
  explorer.start(*settings.target);
  DTR_TRY(compile_within_budgets(std::move(source), settings,
                                 [&](const Compilation* made) { return explorer.next(made); }));
  Frontier frontier = explorer.take();
  DTR_TRY(write_frontier(options.files, to_json(frontier), to_svg(frontier), to_html(frontier)));
  return frontier;
}

std::string to_text(const Frontier& frontier) {
  TextTable table(
      {"SRAM", "tensors", "cycles", "ms", "waiting", "calls", "cycles over the fastest"},
      {true, true, true, true, true, true, false});
  if (frontier.points.empty()) return {};
  const uint64_t least = frontier.points.back().cycles;
  const uint64_t most = frontier.points.front().cycles;
  for (const FrontierPoint& point : frontier.points) {
    const auto over = static_cast<double>(point.cycles) / static_cast<double>(least) - 1;
    table.add({with_thousands(point.sram_bytes), with_thousands(point.value_bytes),
               with_thousands(point.cycles),
               fmt::format("{:.3f}", milliseconds(frontier, point.cycles)),
               with_thousands(point.waiting_cycles), std::to_string(point.npu_calls),
               fmt::format("{:>+7.1f} % {}", 100 * over, cycles_bar(point.cycles, least, most))});
  }
  return fmt::format(
      "{}\n{} programs of {} for {}, with equal outputs; those that no other one beats are shown\n",
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
        "\"budget_bytes\": {}, \"cycles\": {}, \"milliseconds\": {:.6f}, \"waiting_cycles\": {}, "
        "\"npu_calls\": {}}}",
        i == 0 ? "" : ",", point.sram_bytes, point.value_bytes, point.touched_bytes,
        point.budget_bytes, point.cycles, milliseconds(frontier, point.cycles),
        point.waiting_cycles, point.npu_calls);
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
      .columns = {"SRAM, bytes", "tensors", "cycles", "ms", "waiting", "calls"},
      .rows = {}};
  for (const FrontierPoint& point : frontier.points)
    page.rows.push_back({with_thousands(point.sram_bytes), with_thousands(point.value_bytes),
                         with_thousands(point.cycles),
                         fmt::format("{:.3f}", milliseconds(frontier, point.cycles)),
                         with_thousands(point.waiting_cycles), std::to_string(point.npu_calls)});
  return to_html(page, plot_of(frontier));
}

}  // namespace dtr
