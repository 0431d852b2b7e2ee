#include "host/accuracy/compare_outputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/encode.h"

namespace dtr {
namespace {

// Arrays of a file that a program or model has no output for may be anything, labels for one; what
// else has no counterpart is missing.
Result<void> check_unpaired(const std::vector<Output>& outputs, const std::vector<Output>& others,
                            const std::string& file, const TextSink& note) {
  const bool others_stored =
      std::all_of(others.begin(), others.end(), [](const Output& other) { return other.stored; });
  for (const Output& output : outputs) {
    if (std::any_of(others.begin(), others.end(),
                    [&](const Output& other) { return other.name == output.name; }))
      continue;
    if (!output.stored || others_stored)
      return fail(DiagnosticId::kCompareMismatch, "the other side has no output of this name",
                  "compare results of the same model", {.file = file, .node = output.name});
    note(terminal_format("{}  only in {}: not compared\n", output.name, file));
  }
  return {};
}

// Outputs of the same name; if no name is shared, and there are as many on both sides, by order.
Result<std::vector<std::pair<const Output*, const Output*>>> pair_up(
    const std::vector<Output>& expected, const std::vector<Output>& actual,
    const CompareRules& rules, const TextSink& note) {
  std::vector<std::pair<const Output*, const Output*>> pairs;
  for (const Output& e : expected)
    for (const Output& a : actual)
      if (e.name == a.name) pairs.emplace_back(&e, &a);
  if (!pairs.empty()) {
    DTR_TRY(check_unpaired(expected, actual, rules.expected, note));
    DTR_TRY(check_unpaired(actual, expected, rules.actual, note));
    return pairs;
  }
  if (expected.size() != actual.size() || expected.empty())
    return fail(DiagnosticId::kCompareMismatch,
                fmt::format("no output has the same name on both sides, and {} has {}, {} has {}",
                            rules.expected, expected.size(), rules.actual, actual.size()),
                "compare results of the same model", {.file = rules.actual});
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

// Codes as values, where their meaning is known and the other side has values, or codes that mean
// something else.
std::optional<Output> in_values(const Output& codes, const Output& other) {
  const bool other_unit =
      is_float(other.samples.front().dtype()) || (other.codes && other.codes != codes.codes);
  if (!codes.codes || !other_unit) return std::nullopt;
  Output values{.name = codes.name, .step = double{codes.codes->scale()}, .samples = {}};
  for (const Tensor& sample : codes.samples)
    values.samples.push_back(real_values(
        sample.view(),
        {.dtype = sample.dtype(), .shape = sample.shape(), .quantization = codes.codes}));
  return values;
}

Result<Comparison> compare_samples(const Output& expected, const Output& actual,
                                   const CompareRules& rules) {
  const Place place{.file = rules.actual, .node = actual.name};
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
  const double step = rules.step > 0 && is_float(a.dtype()) ? rules.step
                      : actual.step > 0                     ? actual.step
                                                            : expected.step;
  Comparison comparison(step,
                        {.relative = rules.rtol.value_or(0), .absolute = rules.atol.value_or(0)});
  for (size_t i = 0; i < expected.samples.size(); ++i) {
    TensorView wanted = expected.samples[i].view();
    wanted.shape = actual.samples[i].shape();
    comparison.add(wanted, actual.samples[i].view());
  }
  return comparison;
}

// What the options ask for and this output does not keep.
std::vector<std::string> broken(const Comparison& c, const CompareRules& rules) {
  std::vector<std::string> broken;
  if ((rules.rtol || rules.atol) && c.beyond_tolerance() > 0)
    broken.push_back(fmt::format("{} elements are not within {} + {}·|a|", c.beyond_tolerance(),
                                 rules.atol.value_or(0), rules.rtol.value_or(0)));
  if (rules.max_steps && c.step() == 0)
    broken.emplace_back("compared in steps: the quantization step is not known; give --step");
  if (rules.max_steps && c.max_steps() > *rules.max_steps)
    broken.push_back(
        fmt::format("{:.4g} steps, at most {:.4g} asked for", c.max_steps(), *rules.max_steps));
  if (rules.min_sqnr && c.decibels() < *rules.min_sqnr)
    broken.push_back(
        fmt::format("{:.1f} dB, at least {:.1f} asked for", c.decibels(), *rules.min_sqnr));
  const double share = static_cast<double>(c.same_argmax()) /
                       static_cast<double>(std::max<uint64_t>(c.samples(), 1));
  if (rules.min_argmax && share < *rules.min_argmax)
    broken.push_back(
        fmt::format("argmax is the same in {:.4g} of the samples, at least {:.4g} asked for", share,
                    *rules.min_argmax));
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

// JSON has no infinity.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null";
}

}  // namespace

Result<std::vector<ComparedOutput>> compare_outputs(
    const std::vector<Output>& expected, const std::vector<Output>& actual,
    const CompareRules& rules, const TextSink& note,
    const std::function<void(const ComparedOutput&)>& on_row) {
  DTR_ASSIGN(const auto pairs, pair_up(expected, actual, rules, note));
  if (std::ranges::any_of(expected, &Output::integers))
    note(
        fmt::format("note: {} comes quantized and runs in integers, as its programs do; PyTorch's "
                    "floats may differ by steps (verify compares with them)\n",
                    rules.expected));
  std::vector<ComparedOutput> rows;
  for (const auto& [e, a] : pairs) {
    for (const Output* side : {e, a})
      if (side->unusable) return tl::unexpected(*side->unusable);
    const std::optional<Output> e_values = in_values(*e, *a), a_values = in_values(*a, *e);
    const Output &from = e_values ? *e_values : *e, &to = a_values ? *a_values : *a;
    const std::optional<Output> left = in_batches(from, to), right = in_batches(to, from);
    DTR_ASSIGN(const Comparison comparison,
               compare_samples(left ? *left : from, right ? *right : to, rules));
    const Tensor& first = right ? right->samples.front() : to.samples.front();
    rows.push_back({.name = a->name,
                    .type = fmt::format("{} {}", name(first.dtype()), to_string(first.shape())),
                    .shape = first.shape(),
                    .comparison = comparison,
                    .broken = broken(comparison, rules)});
    on_row(rows.back());
  }
  return rows;
}

std::string to_text(const ComparedOutput& row) {
  const Comparison& c = row.comparison;
  std::string text =
      terminal_format("{}  {}, {} sample{}: {} of {} elements differ\n", row.name, row.type,
                      c.samples(), c.samples() == 1 ? "" : "s", c.different(), c.elements());
  const std::string steps =
      c.step() == 0 ? "" : fmt::format(" ({:.4g} steps of {:.6g})", c.max_steps(), c.step());
  if (c.different() > 0)
    text += terminal_format(
        "  max difference {:.6g}{} at sample {}, {}: {:.8g} instead of {:.8g}\n", c.max_absolute(),
        steps, c.sample(), index_text(c.index(), row.shape), c.actual(), c.expected());
  text += terminal_format("  mean {:.6g}{}, SQNR {:.1f} dB, argmax the same in {} of {} samples\n",
                          c.mean_absolute(),
                          c.step() == 0 ? "" : fmt::format(" ({:.4f} steps)", c.mean_steps()),
                          c.decibels(), c.same_argmax(), c.samples());
  text += terminal_format("  elements by {}: {}\n", c.step() == 0 ? "difference" : "steps apart",
                          histogram_text(c));
  for (const std::string& rule : row.broken) text += terminal_format("  NOT {}\n", rule);
  return text;
}

std::string to_json(const std::vector<ComparedOutput>& rows) {
  std::string text = "[";
  for (const ComparedOutput& row : rows) {
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

}  // namespace dtr
