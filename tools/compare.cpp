// deuteron compare
#include "host/accuracy/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/pipeline/read_model.h"
#include "compiler/support/output_file.h"
#include "host/accuracy/outputs.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct CompareOptions {
  std::string expected, actual, data, json;
  std::vector<std::string> tensor_files;  // .ptd
  uint32_t samples = 0;                   // 0: all
  double step = 0;                        // of both sides; 0: what is known of them
  // What must hold; absent: is not asked for.
  std::optional<double> rtol, atol, max_steps, min_sqnr, min_argmax;
};

const CLI::App* add_compare(CLI::App& app, CompareOptions& o) {
  CLI::App* verb = app.add_subcommand("compare",
                                      "How far B is from A: results (.npz, .npy), programs or "
                                      "models; exit code 1 if what is asked for does not hold");
  verb->add_option("A", o.expected,
                   "What is expected: results, a program (.pte), or a model (.pt2, .tflite, .ir)")
      ->required();
  verb->add_option("B", o.actual, "What is held against it")->required();
  verb->add_option("--data", o.data, "Samples to run programs and models on (.npz, .npy)");
  add_tensor_files(verb, o.tensor_files);
  verb->add_option("--samples", o.samples, "Compare only the first N samples (0: all)")
      ->capture_default_str();
  verb->add_option(
          "--step", o.step,
          "Quantization step of float outputs; default: that with which a program dequantizes them")
      ->check(number(std::numeric_limits<double>::min(), std::numeric_limits<double>::max(),
                     "POSITIVE"));
  verb->add_option("--rtol", o.rtol, "All close: |a - b| <= atol + rtol * |a| for every element")
      ->check(number(0, std::numeric_limits<double>::max(), "NONNEGATIVE"));
  verb->add_option("--atol", o.atol, "The absolute part of it")
      ->check(number(0, std::numeric_limits<double>::max(), "NONNEGATIVE"));
  verb->add_option("--max-steps", o.max_steps,
                   "No element is further apart than this many quantization steps")
      ->check(number(0, std::numeric_limits<double>::max(), "NONNEGATIVE"));
  verb->add_option("--min-sqnr", o.min_sqnr, "Every output has this many dB or more")
      ->check(number(-std::numeric_limits<double>::max(), std::numeric_limits<double>::max(), ""));
  verb->add_option("--min-argmax", o.min_argmax,
                   "Share of the samples (0 to 1) whose largest element is the same one")
      ->check(number(0, 1, "0 to 1"));
  verb->add_option("--json", o.json, "Write the figures as JSON");
  example(verb,
          "deuteron compare models/digits_cnn/float.pt2 digits.pte --data "
          "models/digits_cnn/test.npz --min-sqnr 25");
  return verb;
}

struct Row {
  std::string name;
  std::string type;  // "f32 1x10"
  Shape shape;
  Comparison comparison;
  std::vector<std::string> broken;  // what should hold and does not
};

// Arrays of a file that a program or model has no output for may be anything, labels for one; what
// else has no counterpart is missing.
Status check_unpaired(const std::vector<Output>& outputs, const std::vector<Output>& others,
                      const std::string& file) {
  const bool others_stored =
      std::all_of(others.begin(), others.end(), [](const Output& other) { return other.stored; });
  for (const Output& output : outputs) {
    if (std::any_of(others.begin(), others.end(),
                    [&](const Output& other) { return other.name == output.name; }))
      continue;
    if (!output.stored || others_stored)
      return fail(DiagnosticId::kCompareMismatch, "the other side has no output of this name",
                  "compare results of the same model", {.file = file, .node = output.name});
    print("{}  only in {}: not compared\n", output.name, file);
  }
  return {};
}

// Outputs of the same name; if no name is shared, and there are as many on both sides, by order.
Result<std::vector<std::pair<const Output*, const Output*>>> pair_up(
    const std::vector<Output>& expected, const std::vector<Output>& actual,
    const CompareOptions& options) {
  std::vector<std::pair<const Output*, const Output*>> pairs;
  for (const Output& e : expected)
    for (const Output& a : actual)
      if (e.name == a.name) pairs.emplace_back(&e, &a);
  if (!pairs.empty()) {
    DTR_TRY(check_unpaired(expected, actual, options.expected));
    DTR_TRY(check_unpaired(actual, expected, options.actual));
    return pairs;
  }
  if (expected.size() != actual.size() || expected.empty())
    return fail(DiagnosticId::kCompareMismatch,
                fmt::format("no output has the same name on both sides, and {} has {}, {} has {}",
                            options.expected, expected.size(), options.actual, actual.size()),
                "compare results of the same model", {.file = options.actual});
  for (size_t i = 0; i < expected.size(); ++i) pairs.emplace_back(&expected[i], &actual[i]);
  return pairs;
}

// A batch axis of 1 may be there or not.
bool same_elements(const Tensor& a, const Tensor& b) {
  const auto without_batch = [](Shape shape) {
    if (!shape.empty() && shape[0] == 1) shape.erase(shape.begin());
    return shape;
  };
  return a.shape() == b.shape() || without_batch(a.shape()) == without_batch(b.shape());
}

// Stored results as the samples of a side that was computed: the arrays of a program whose samples
// are batches have all of their elements along the first axis. nullopt: they are that already.
std::optional<Output> in_batches(const Output& stored, const Output& computed) {
  const Shape& batch = computed.samples.front().shape();
  const Tensor& first = stored.samples.front();
  if (!stored.stored || computed.stored || batch.empty() || batch[0] < 1 ||
      first.shape() != Shape(batch.begin() + 1, batch.end()) ||
      stored.samples.size() != computed.samples.size() * static_cast<size_t>(batch[0]))
    return std::nullopt;
  Output grouped{.name = stored.name, .step = stored.step, .stored = true, .samples = {}};
  for (auto at = stored.samples.begin(); at != stored.samples.end();) {
    std::vector<std::byte> bytes;
    for (int64_t i = 0; i < batch[0]; ++i, ++at)
      bytes.insert(bytes.end(), at->bytes().begin(), at->bytes().end());
    grouped.samples.push_back(Tensor::copy_of(first.dtype(), batch, bytes));
  }
  return grouped;
}

Result<Comparison> compare_samples(const Output& expected, const Output& actual,
                                   const CompareOptions& options) {
  const Place place{.file = options.actual, .node = actual.name};
  const Tensor &e = expected.samples.front(), &a = actual.samples.front();
  if (expected.samples.size() != actual.samples.size())
    return fail(DiagnosticId::kCompareMismatch,
                fmt::format("there are {} samples instead of {}", actual.samples.size(),
                            expected.samples.size()),
                "use the same data for both, or --samples N", place);
  if (!same_elements(e, a) || is_float(e.dtype()) != is_float(a.dtype()))
    return fail(DiagnosticId::kCompareMismatch,
                fmt::format("the output is {} {} instead of {} {}", name(a.dtype()),
                            to_string(a.shape()), name(e.dtype()), to_string(e.shape())),
                "compare results of the same model", place);
  const double step = options.step > 0 && is_float(a.dtype()) ? options.step
                      : actual.step > 0                       ? actual.step
                                                              : expected.step;
  Comparison comparison(
      step, {.relative = options.rtol.value_or(0), .absolute = options.atol.value_or(0)});
  for (size_t i = 0; i < expected.samples.size(); ++i) {
    TensorView wanted = expected.samples[i].view();
    wanted.shape = actual.samples[i].shape();
    comparison.add(wanted, actual.samples[i].view());
  }
  return comparison;
}

// What the options ask for and this output does not keep.
std::vector<std::string> broken(const Comparison& c, const CompareOptions& options) {
  std::vector<std::string> broken;
  if ((options.rtol || options.atol) && c.beyond_tolerance() > 0)
    broken.push_back(fmt::format("{} elements are not within {} + {}·|a|", c.beyond_tolerance(),
                                 options.atol.value_or(0), options.rtol.value_or(0)));
  if (options.max_steps && c.step() == 0)
    broken.emplace_back("the quantization step is not known; give --step");
  if (options.max_steps && c.max_steps() > *options.max_steps)
    broken.push_back(
        fmt::format("{:.4g} steps, at most {:.4g} asked for", c.max_steps(), *options.max_steps));
  if (options.min_sqnr && c.decibels() < *options.min_sqnr)
    broken.push_back(
        fmt::format("{:.1f} dB, at least {:.1f} asked for", c.decibels(), *options.min_sqnr));
  const double share = static_cast<double>(c.same_argmax()) /
                       static_cast<double>(std::max<uint64_t>(c.samples(), 1));
  if (options.min_argmax && share < *options.min_argmax)
    broken.push_back(
        fmt::format("argmax is the same in {:.4g} of the samples, at least {:.4g} asked for", share,
                    *options.min_argmax));
  return broken;
}

// "[0, 3, 1]" of a flat index.
std::string index_text(int64_t flat, const Shape& shape) {
  if (element_count(shape) == 0) return "[]";
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d]) index[d] = flat % shape[d];
  return fmt::format("[{}]", fmt::join(index, ", "));
}

// "0: 12, 1: 3, 5-8: 1": bins that hold something, in steps; "0: 12, to 1e-05: 3, more: 1" in the
// output's own unit.
std::string histogram_text(const Comparison& c) {
  const bool steps = c.step() != 0;
  std::string text;
  double begin = 0;
  for (size_t i = 0; i < c.histogram().size(); ++i) {
    const bool last = i == c.bin_ends().size();
    const double end = last ? 0 : c.bin_ends()[i];
    const std::string several =
        steps ? fmt::format("{}-{}", begin, end) : fmt::format("to {}", end);
    const std::string range = last ? "more" : begin == end ? fmt::format("{}", end) : several;
    if (c.histogram()[i] > 0)
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", range, c.histogram()[i]);
    begin = steps ? end + 1 : end;
  }
  return text;
}

void print_row(const Row& row) {
  const Comparison& c = row.comparison;
  print("{}  {}, {} sample{}: {} of {} elements differ\n", row.name, row.type, c.samples(),
        c.samples() == 1 ? "" : "s", c.different(), c.elements());
  const std::string steps =
      c.step() == 0 ? "" : fmt::format(" ({:.4g} steps of {:.6g})", c.max_steps(), c.step());
  if (c.different() > 0)
    print("  max difference {:.6g}{} at sample {}, {}: {:.8g} instead of {:.8g}\n",
          c.max_absolute(), steps, c.sample(), index_text(c.index(), row.shape), c.actual(),
          c.expected());
  print("  mean {:.6g}{}, SQNR {:.1f} dB, argmax the same in {} of {} samples\n", c.mean_absolute(),
        c.step() == 0 ? "" : fmt::format(" ({:.4f} steps)", c.mean_steps()), c.decibels(),
        c.same_argmax(), c.samples());
  print("  elements by {}: {}\n", c.step() == 0 ? "difference" : "steps apart", histogram_text(c));
  for (const std::string& text : row.broken) print("  NOT {}\n", text);
}

// JSON has no infinity.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null";
}

std::string to_json(const std::vector<Row>& rows) {
  std::string text = "[";
  for (const Row& row : rows) {
    const Comparison& c = row.comparison;
    std::vector<std::string> failures;
    for (const std::string& failure : row.broken) failures.push_back(json_quote(failure));
    text += fmt::format(
        "{}\n  {{\"output\": {}, \"samples\": {}, \"elements\": {}, \"different\": {}, "
        "\"max_absolute\": {}, \"mean_absolute\": {}, "
        "\"sample\": {}, \"index\": {}, \"expected\": {}, \"actual\": {}, \"sqnr_db\": {:.4f}, "
        "\"same_argmax\": {}, \"step\": {}, "
        "\"max_steps\": {}, \"mean_steps\": {}, \"bin_ends\": [{}], \"histogram\": [{}], "
        "\"failures\": [{}]}}",
        text.size() == 1 ? "" : ",", json_quote(row.name), c.samples(), c.elements(), c.different(),
        number(c.max_absolute()), number(c.mean_absolute()), c.sample(),
        index_text(c.index(), row.shape), number(c.expected()), number(c.actual()), c.decibels(),
        c.same_argmax(), number(c.step()), number(c.max_steps()), number(c.mean_steps()),
        fmt::join(c.bin_ends(), ", "), fmt::join(c.histogram(), ", "), fmt::join(failures, ", "));
  }
  return text + "\n]\n";
}

// They are for programs.
Status check_tensor_files(const CompareOptions& options) {
  bool any = false;
  for (const std::string& path : {options.expected, options.actual}) {
    DTR_ASSIGN(const FileKind kind, file_kind(path));
    any = any || kind == FileKind::kProgram;
  }
  if (any) return {};
  return fail(DiagnosticId::kModelUnknown, "neither side is a program: --tensors has nothing to do",
              "leave --tensors away", {.file = options.tensor_files.front()});
}

Result<bool> run_compare(const CommonOptions&, const CompareOptions& options) {
  DTR_TRY(check_outputs({options.expected, options.actual, options.data}, {options.json}));
  OutputSource source{.path = options.expected,
                      .data = options.data,
                      .tensor_files = options.tensor_files,
                      .samples = options.samples};
  DTR_ASSIGN(const std::vector<Output> expected, read_outputs(source));
  source.path = options.actual;
  DTR_ASSIGN(const std::vector<Output> actual, read_outputs(source));
  if (!options.tensor_files.empty()) DTR_TRY(check_tensor_files(options));
  const auto is_stored = [](const Output& output) { return output.stored; };
  if (!options.data.empty() && std::ranges::all_of(expected, is_stored) &&
      std::ranges::all_of(actual, is_stored))
    print("note: both sides are results; {} is not used\n", options.data);
  DTR_ASSIGN(const auto pairs, pair_up(expected, actual, options));
  std::vector<Row> rows;
  bool good = true;
  for (const auto& [e, a] : pairs) {
    for (const Output* side : {e, a})
      if (side->unusable) return tl::unexpected(*side->unusable);
    const std::optional<Output> left = in_batches(*e, *a), right = in_batches(*a, *e);
    DTR_ASSIGN(const Comparison comparison,
               compare_samples(left ? *left : *e, right ? *right : *a, options));
    const Tensor& first = right ? right->samples.front() : a->samples.front();
    rows.push_back({.name = a->name,
                    .type = fmt::format("{} {}", name(first.dtype()), to_string(first.shape())),
                    .shape = first.shape(),
                    .comparison = comparison,
                    .broken = broken(comparison, options)});
    print_row(rows.back());
    good &= rows.back().broken.empty();
  }
  if (!options.json.empty()) DTR_TRY(write_file(options.json, to_json(rows)));
  return good;
}

}  // namespace

std::unique_ptr<Verb> compare_verb() {
  return std::make_unique<VerbOf<CompareOptions, &add_compare, &run_compare>>();
}

}  // namespace dtr::tools
