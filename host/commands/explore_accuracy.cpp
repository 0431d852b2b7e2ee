#include "host/commands/explore_accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "compiler/support/output_file.h"
#include "compiler/support/text.h"
#include "compiler/targets/target.h"
#include "host/accuracy/accuracy_search.h"

namespace dtr {
namespace {

tl::unexpected<Diagnostic> no_samples(const CompileOptions& options, std::string reason) {
  return fail(DiagnosticId::kAccuracyOptions, std::move(reason),
              "give samples of real inputs with --calibrate DATA.npz", {.file = options.model});
}

std::vector<AccuracyStep> not_beaten(std::vector<AccuracyStep> points) {
  std::erase_if(points, [](const AccuracyStep& step) {
    return step.verdict == AccuracyStep::Verdict::kFailed;
  });
  std::ranges::stable_sort(points, [](const AccuracyStep& a, const AccuracyStep& b) {
    return std::make_tuple(a.cycles, -a.sqnr_db) < std::make_tuple(b.cycles, -b.sqnr_db);
  });
  double best = -1e300;
  std::erase_if(points, [&](const AccuracyStep& step) {
    if (step.sqnr_db < best + kLeastGain) return true;
    best = step.sqnr_db;
    return false;
  });
  return points;
}

double milliseconds(const AccuracyFrontier& frontier, uint64_t cycles) {
  return static_cast<double>(cycles) * 1e3 / frontier.clock_hz;
}

std::string given_options(const AccuracyStep& step) {
  return step.options.empty() ? "the default" : options_text(step);
}

// Who asks for so many decibels gets the next program that has them.
FrontierPlot plot_of(const AccuracyFrontier& frontier) {
  FrontierPlot plot{.title = "Cycles against the outputs' SQNR",
                    .x_label = "SQNR of the worst output, dB",
                    .logarithmic = false,
                    .left_serves = false,
                    .points = {}};
  for (const AccuracyStep& point : frontier.points)
    plot.points.push_back(
        {.x = point.sqnr_db,
         .cycles = point.cycles,
         .x_text = decibels_text(point),
         .text = fmt::format("{} dB, {} cycles: {}", decibels_text(point),
                             with_thousands(point.cycles), given_options(point))});
  return plot;
}

}  // namespace

Result<AccuracyFrontier> explore_accuracy(const ModelSource& source, const CompileOptions& options,
                                          const FrontierPaths& files, const CompileWatch& watch,
                                          std::optional<SampleSource> samples,
                                          std::span<const NamedTensor> labelled) {
  if (options.random_samples)
    return no_samples(options, "a search would choose the programs that are best on noise");
  if (!samples && options.calibration.empty())
    return no_samples(options, "programs are judged on samples and there are none");
  DTR_ASSIGN(CompileSettings settings, checked_settings(options));
  if (samples) settings.samples = *std::move(samples);
  DTR_TRY(check_outputs({options.model, options.calibration, options.recipe, options.data},
                        {files.json, files.svg, files.html}));
  AccuracySearchOptions search{.frontier = true,
                               .data = options.data,
                               .arrays = labelled,
                               .labels = options.labels,
                               .executor = options.executor,
                               .on_step = watch.on_step};
  if (options.seconds) search.seconds = *options.seconds;
  settings.progress = watch.progress;
  DTR_ASSIGN(AccuracySearchResult found, search_accuracy(source, settings, search));
  AccuracySummary& summary = found.summary;
  // The search was cut before its first program: the default, calibrated on all samples, is there.
  if (summary.steps.empty()) summary.steps.push_back(summary.start);
  AccuracyFrontier frontier{.model = found.first->module.file,
                            .target = std::string(settings.target->name),
                            .clock_hz = clock_hz(*settings.target),
                            .programs = summary.steps.size(),
                            .judged = judged_samples(summary),
                            .has_accuracy = summary.float_accuracy.has_value(),
                            .cut = summary.cut,
                            .points = not_beaten(std::move(summary.steps))};
  DTR_TRY(write_frontier(files, to_json(frontier), to_svg(frontier), to_html(frontier)));
  return frontier;
}

std::string to_text(const AccuracyFrontier& frontier) {
  if (frontier.points.empty()) return {};
  TextTable table({"dB", "accuracy", "cycles", "ms", "cycles over the fastest", "options"},
                  {true, true, true, true, false, false});
  const uint64_t least = frontier.points.front().cycles, most = frontier.points.back().cycles;
  for (const AccuracyStep& point : frontier.points) {
    const double over = static_cast<double>(point.cycles) / static_cast<double>(least) - 1;
    table.add({decibels_text(point), point.accuracy ? fmt::format("{:.4f}", *point.accuracy) : "",
               with_thousands(point.cycles),
               fmt::format("{:.3f}", milliseconds(frontier, point.cycles)),
               fmt::format("{:>+7.1f} % {}", 100 * over, cycles_bar(point.cycles, least, most)),
               given_options(point)});
  }
  std::string text = fmt::format(
      "{}\n{} programs of {} for {}; those that no other one beats in dB and cycles are shown, "
      "with their options\n{}\n",
      table.text(SIZE_MAX), frontier.programs, frontier.model, frontier.target, frontier.judged);
  if (!frontier.cut.empty())
    text += fmt::format("cut: {}: not everything was tried\n", frontier.cut);
  return text;
}

std::string to_json(const AccuracyFrontier& frontier) {
  std::string text = fmt::format(
      "{{\n  \"model\": {}, \"target\": {}, \"axis\": \"accuracy\", \"clock_hz\": {}, "
      "\"programs\": {}, \"judged\": {}, \"cut\": {},\n  \"points\": [",
      json_quote(frontier.model), json_quote(frontier.target), frontier.clock_hz, frontier.programs,
      json_quote(frontier.judged), frontier.cut.empty() ? "null" : json_quote(frontier.cut));
  for (size_t i = 0; i < frontier.points.size(); ++i) {
    const AccuracyStep& point = frontier.points[i];
    std::string options;
    for (const std::string& word : point.options)
      options += (options.empty() ? "" : ", ") + json_quote(word);
    text += fmt::format(
        "{}\n    {{\"sqnr_db\": {:.4f}, \"accuracy\": {}, \"cycles\": {}, \"milliseconds\": "
        "{:.6f}, \"options\": [{}]}}",
        i == 0 ? "" : ",", point.sqnr_db,
        point.accuracy ? fmt::format("{:.6f}", *point.accuracy) : "null", point.cycles,
        milliseconds(frontier, point.cycles), options);
  }
  return text + "\n  ]\n}\n";
}

std::string to_svg(const AccuracyFrontier& frontier) { return to_svg(plot_of(frontier)); }

std::string to_html(const AccuracyFrontier& frontier) {
  FrontierPage page{
      .title = frontier.model,
      .sentence = fmt::format(
          "{} programs for {}, each compiled and simulated; shown are those "
          "that no other one beats in dB and cycles. {}{}",
          frontier.programs, frontier.target, frontier.judged,
          frontier.cut.empty() ? "" : fmt::format(" Not everything was tried: {}.", frontier.cut)),
      .columns = {"dB", "accuracy", "cycles", "ms", "options"},
      .rows = {}};
  for (const AccuracyStep& point : frontier.points)
    page.rows.push_back(
        {decibels_text(point), point.accuracy ? fmt::format("{:.4f}", *point.accuracy) : "",
         with_thousands(point.cycles), fmt::format("{:.3f}", milliseconds(frontier, point.cycles)),
         given_options(point)});
  return to_html(page, plot_of(frontier));
}

}  // namespace dtr
