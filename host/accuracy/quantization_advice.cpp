// The error that an operator adds has three causes: the rounding of its weights, the saturation and
// the rounding of its result. Each has another remedy.
#include "host/accuracy/quantization_advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/recipes/selection.h"
#include "compiler/support/encode.h"

namespace dtr {
namespace {

// `selector` names the operator to --keep-float.
std::string remedy(const ErrorRow& row, const TensorRow& tensor, const std::string& selector) {
  const std::string range = terminal_format("{:.4g} to {:.4g}", tensor.range.min, tensor.range.max);
  const double rounding = 1 - row.by_weights - row.by_saturation;
  const bool by_weights = row.by_weights > std::max(row.by_saturation, rounding);
  if (by_weights && row.narrow_weights)
    return terminal_format(
        "{:.0f} % of what it adds is the rounding of its weights, of which input channel {} has "
        "few "
        "codes: try --equalize and, where channels cannot be scaled, --round-weights error",
        100 * row.by_weights, *row.narrow_weights);
  if (by_weights)
    return terminal_format(
        "{:.0f} % of what it adds is the rounding of its weights: try --round-weights error",
        100 * row.by_weights);
  if (row.by_saturation > rounding)
    return terminal_format(
        "{:.2g} % of its elements, which go from {}, are beyond the codes' range: try --observer "
        "min-max",
        100 * row.saturated, range);
  if (tensor.narrow)
    return terminal_format(
        "one code is {:.3g} of its range of {}, and channel {} needs {:.3g} to {:.3g} alone: try "
        "--equalize",
        tensor.scale, range, tensor.narrow->channel, tensor.narrow->range.min,
        tensor.narrow->range.max);
  return terminal_format(
      "one code is {:.3g} of its range of {}: try --keep-float {}, or train it with quantization",
      tensor.scale, range, selector);
}

}  // namespace

std::string advice_of(const QuantizationReport& report, const Module& module, const Graph& model) {
  if (report.share_samples == 0 || report.outputs_db >= kGoodOutputDecibels) return {};
  const auto worst = std::ranges::max_element(
      report.operators, {}, [](const ErrorRow& row) { return row.share.value_or(0); });
  if (worst == report.operators.end() || worst->share.value_or(0) <= 0) return {};
  const auto tensor = std::ranges::find(report.tensors, worst->tensor, &TensorRow::name);
  if (tensor == report.tensors.end()) return {};
  const std::string& name = worst->name.empty() ? worst->tensor : worst->name;
  return terminal_format("{} ({}) causes {:.0f} % of the outputs' error; {}, or --accuracy auto",
                         name, worst->op, 100 * *worst->share,
                         remedy(*worst, *tensor, selector_of(module, model, name)));
}

}  // namespace dtr
