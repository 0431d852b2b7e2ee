// deuteron compare
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/pipeline/read_model.h"
#include "compiler/support/output_file.h"
#include "host/accuracy/compare_outputs.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct CompareOptions {
  std::string expected, actual, data, json;
  std::vector<std::string> tensor_files;  // .ptd
  std::string method;
  uint32_t samples = 0;  // 0: all
  double step = 0;       // of both sides; 0: what is known of them
  // Required bounds; absent: not checked.
  std::optional<double> rtol, atol, max_steps, min_sqnr, min_argmax;
};

const CLI::App* add_compare(CLI::App& app, CompareOptions& o) {
  CLI::App* verb = app.add_subcommand("compare",
                                      "Compare B with A: results (.npz, .npy), programs or models; "
                                      "exit code 1 if a given bound does not hold");
  verb->add_option("A", o.expected,
                   "Reference: results, a program (.pte), or a model (.pt2, .tflite, .onnx, .ir)")
      ->required();
  verb->add_option("B", o.actual, "Results, program or model that is compared with it")->required();
  verb->add_option("--data", o.data, "Samples to run programs and models on (.npz, .npy)");
  add_tensor_files(verb, o.tensor_files);
  add_method(verb, o.method);
  verb->add_option("--samples", o.samples, "Compare only the first N samples (0: all)")
      ->capture_default_str();
  verb->add_option(
          "--step", o.step,
          "Quantization step of float outputs; default: the one of a program's last dequantize, or "
          "of its int8 outputs")
      ->check(number(std::numeric_limits<double>::min(), std::numeric_limits<double>::max(),
                     "POSITIVE"));
  verb->add_option("--rtol", o.rtol, "Bound: |a - b| <= atol + rtol * |a| for every element")
      ->check(number(0, std::numeric_limits<double>::max(), "NONNEGATIVE"));
  verb->add_option("--atol", o.atol, "Absolute part of the bound of --rtol")
      ->check(number(0, std::numeric_limits<double>::max(), "NONNEGATIVE"));
  verb->add_option("--max-steps", o.max_steps,
                   "Bound: largest difference of an element in quantization steps")
      ->check(number(0, std::numeric_limits<double>::max(), "NONNEGATIVE"));
  verb->add_option("--min-sqnr", o.min_sqnr, "Bound: least SQNR of an output in dB")
      ->check(number(-std::numeric_limits<double>::max(), std::numeric_limits<double>::max(), ""));
  verb->add_option(
          "--min-argmax", o.min_argmax,
          "Bound: least share of the samples (0 to 1) whose largest element has the same index")
      ->check(number(0, 1, "0 to 1"));
  verb->add_option("--json", o.json, "Write the figures as JSON");
  example(verb,
          "deuteron compare models/digits_cnn/float.pt2 digits.pte --data "
          "models/digits_cnn/test.npz --min-sqnr 25");
  return verb;
}

// The options that are for programs.
Result<void> check_programs(const CompareOptions& options) {
  const std::string option = !options.tensor_files.empty() ? "--tensors"
                             : !options.method.empty()     ? "--method"
                                                           : "";
  if (option.empty()) return {};
  bool any = false;
  for (const std::string& path : {options.expected, options.actual}) {
    DTR_ASSIGN(const FileKind kind, file_kind(path));
    any = any || kind == FileKind::kProgram;
  }
  if (any) return {};
  return fail(DiagnosticId::kModelUnknown,
              fmt::format("neither side is a program: {} has no effect", option), "omit " + option,
              {.file = options.expected});
}

Result<bool> run_compare(const CommonOptions&, const CompareOptions& options) {
  DTR_TRY(check_outputs({options.expected, options.actual, options.data}, {options.json}));
  OutputSource source{.path = options.expected,
                      .data = options.data,
                      .tensor_files = options.tensor_files,
                      .samples = options.samples,
                      .method = options.method};
  DTR_ASSIGN(const std::vector<Output> expected, read_outputs(source));
  source.path = options.actual;
  DTR_ASSIGN(const std::vector<Output> actual, read_outputs(source));
  DTR_TRY(check_programs(options));
  const auto is_stored = [](const Output& output) { return output.stored; };
  if (!options.data.empty() && std::ranges::all_of(expected, is_stored) &&
      std::ranges::all_of(actual, is_stored))
    print("note: both sides are results; {} is not used\n", options.data);
  const CompareRules rules{.expected = options.expected,
                           .actual = options.actual,
                           .step = options.step,
                           .rtol = options.rtol,
                           .atol = options.atol,
                           .max_steps = options.max_steps,
                           .min_sqnr = options.min_sqnr,
                           .min_argmax = options.min_argmax};
  DTR_ASSIGN(const std::vector<ComparedOutput> rows,
             compare_outputs(
                 expected, actual, rules, [](std::string_view text) { write_lines(stdout, text); },
                 [](const ComparedOutput& row) { print("{}", EncodedLines{to_text(row)}); }));
  if (!options.json.empty()) DTR_TRY(write_file(options.json, to_json(rows)));
  return std::ranges::all_of(rows, [](const ComparedOutput& row) { return row.broken.empty(); });
}

}  // namespace

std::unique_ptr<Verb> compare_verb() {
  return std::make_unique<VerbOf<CompareOptions, &add_compare, &run_compare>>();
}

}  // namespace dtr::tools
