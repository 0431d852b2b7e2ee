// Outputs of two sides held against each other, under rules that the user asks for: `deuteron
// compare` without its terminal.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/accuracy/compare.h"
#include "host/accuracy/outputs.h"

namespace dtr {

struct CompareRules {
  std::string expected, actual;  // names of both sides, for messages
  double step = 0;               // of both sides; 0: what is known of them
  // What must hold; absent: is not asked for.
  std::optional<double> rtol, atol, max_steps, min_sqnr, min_argmax;
};

struct ComparedOutput {
  std::string name;
  std::string type;  // "f32 1x10"
  Shape shape;
  Comparison comparison;
  std::vector<std::string> broken;  // what should hold and does not
};

// Takes lines as they are known.
using TextSink = std::function<void(std::string_view)>;

// One row an output, given to `on_row` as it is known. Outputs of one name are compared; if no name
// is shared, and there are as many on both sides, by order. `note` is told of stored arrays that
// have no counterpart. Errors: kCompareMismatch, and why a stored array is unusable.
Result<std::vector<ComparedOutput>> compare_outputs(
    const std::vector<Output>& expected, const std::vector<Output>& actual,
    const CompareRules& rules, const TextSink& note,
    const std::function<void(const ComparedOutput&)>& on_row);

std::string to_text(const ComparedOutput& row);
std::string to_json(const std::vector<ComparedOutput>& rows);

}  // namespace dtr
