#include "compiler/pipeline/spell_equalization.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/ops.h"
#include "compiler/quantizer/channel_factors.h"

namespace dtr {
namespace {

using Editor = pt2::ExportEditor;
using Name = Editor::Name;

bool is_layer_node(std::string_view target) {
  return target.starts_with("aten.conv") || target.starts_with("aten.linear.");
}
bool is_norm_of_rows(std::string_view target) {
  return target.starts_with("aten.layer_norm.") || target.starts_with("aten.rms_norm.");
}
bool is_norm_of_batches(std::string_view target) {
  return target.starts_with("aten.batch_norm.") ||
         target.starts_with("aten._native_batch_norm_legit");
}

std::vector<float> as_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

// The layer and the batch norm behind it, or a normalization of rows alone; nullopt: something else
// computes its constants too.
std::optional<EqualizationSpeller::Nodes> EqualizationSpeller::nodes_of(OpId id) const {
  const Op& op = graph_.op(id);
  Nodes nodes;
  for (const uint32_t source : op.origin.sources) {  // in the order of the file
    const std::string_view target = module_.sources[source].target;
    if (is_layer_node(target)) {
      if (nodes.layer || nodes.norm) return std::nullopt;
      nodes.layer = source;
    } else if (is_norm_of_batches(target)) {
      if (!nodes.layer || nodes.norm || editor_.argument(source, "weight").empty() ||
          editor_.argument(source, "bias").empty())
        return std::nullopt;
      nodes.norm = source;
    } else if (is_norm_of_rows(target)) {
      if (nodes.layer || nodes.norm) return std::nullopt;
      nodes.norm = source;
    }
  }
  const bool is_layer = op.def == &ops::kConvolution || op.def == &ops::kLinear;
  const std::optional<uint32_t> owner = is_layer ? nodes.layer : nodes.norm;
  if (!owner) return std::nullopt;
  const std::string weight = editor_.argument(*owner, "weight");
  if (weight.empty()) return std::nullopt;
  const Shape &shape = editor_.shape(weight), &computed = graph_.type(op.operands[1]).shape;
  const bool fits =
      element_count(shape) == element_count(computed) &&
      (!is_layer || (shape.size() >= 2 && shape[0] == computed[0] && shape[1] == computed[1]));
  return fits ? std::optional(nodes) : std::nullopt;
}

bool EqualizationSpeller::can_scale(OpId op) const { return nodes_of(op).has_value(); }

std::string EqualizationSpeller::name_of(ValueId value) const {
  const OpId producer = graph_.producer(value);
  if (!producer.valid()) return graph_.value(value).name;
  const std::vector<uint32_t>& sources = graph_.op(producer).origin.sources;
  if (sources.empty()) return {};
  const std::vector<std::string> results = editor_.results(sources.back());
  return results.size() == 1 ? results[0] : graph_.value(value).name;
}

bool EqualizationSpeller::can_scale_operand(OpId id, size_t operand) const {
  const Op& op = graph_.op(id);
  if (op.origin.sources.size() != 1) return false;
  const std::string name = name_of(op.operands[operand]);
  const std::vector<std::string> tensors = editor_.tensors(op.origin.sources[0]);
  return std::ranges::count(tensors, name) == 1 &&
         editor_.shape(name) == graph_.type(op.operands[operand]).shape;
}

std::string EqualizationSpeller::scaled(const std::string& tensor, const Shape& shape,
                                        const std::vector<float>& by, uint32_t before,
                                        std::string_view suffix) {
  Tensor factors(DType::kFloat32, shape);
  std::ranges::copy(by, factors.values<float>().begin());
  const std::string& node = module_.sources[before].name;
  const std::string buffer =
      editor_.add_buffer(fmt::format("quantization.{}.{}", node, suffix), factors);
  return editor_.add_node(
      before, before, "aten.mul.Tensor", {{"self", Name{tensor}}, {"other", Name{buffer}}},
      fmt::format("{}_{}", node, suffix), DType::kFloat32, editor_.shape(tensor));
}

void EqualizationSpeller::scale_argument(uint32_t node, std::string_view argument,
                                         const Shape& shape, const std::vector<float>& by,
                                         uint32_t before, std::string_view suffix) {
  if (const std::string tensor = editor_.argument(node, argument); !tensor.empty())
    editor_.set_argument(node, argument, scaled(tensor, shape, by, before, suffix));
}

void EqualizationSpeller::scale_layer(OpId id, const std::vector<double>& in,
                                      const std::vector<double>& out) {
  const Op& op = graph_.op(id);
  const Nodes nodes = *nodes_of(id);
  const uint32_t layer = *nodes.layer;
  const WeightMap map(graph_, op);
  const Shape weight = editor_.shape(editor_.argument(layer, "weight"));
  const auto taps = static_cast<size_t>(product(weight, 2, weight.size()));
  Shape shape(weight.size(), 1);
  std::copy_n(weight.begin(), 2, shape.begin());
  std::vector<float> by(static_cast<size_t>(weight[0] * weight[1]));
  for (size_t i = 0; i < by.size(); ++i) {
    const size_t element = i * taps;
    by[i] = static_cast<float>((in.empty() ? 1 : in[map.input(element)]) *
                               (out.empty() || nodes.norm ? 1 : out[map.output(element)]));
  }
  if (std::ranges::any_of(by, [](float factor) { return factor != 1; }))
    scale_argument(layer, "weight", shape, by, layer, "weight_factors");
  if (out.empty()) return;
  // Before the layer: the fusion of the batch norm into its weights is simulated there.
  const Shape channels{static_cast<int64_t>(out.size())};
  const uint32_t offsets = nodes.norm.value_or(layer);
  if (nodes.norm)
    scale_argument(offsets, "weight", channels, as_floats(out), layer, "gain_factors");
  scale_argument(offsets, "bias", channels, as_floats(out), layer, "bias_factors");
}

void EqualizationSpeller::scale_norm(OpId id, const std::vector<double>& out) {
  const uint32_t norm = *nodes_of(id)->norm;
  const Shape channels{static_cast<int64_t>(out.size())};
  scale_argument(norm, "weight", channels, as_floats(out), norm, "gain_factors");
  scale_argument(norm, "bias", channels, as_floats(out), norm, "bias_factors");
}

void EqualizationSpeller::scale_operand(OpId id, size_t operand, double by) {
  const Op& op = graph_.op(id);
  const uint32_t node = op.origin.sources[0];
  const std::string name = name_of(op.operands[operand]);
  editor_.replace_argument(
      node, name,
      editor_.add_node(node, node, "aten.mul.Tensor", {{"self", Name{name}}, {"other", by}},
                       name + "_scaled", DType::kFloat32, editor_.shape(name)));
}

void EqualizationSpeller::scale_input(ValueId input, size_t axis, const std::vector<float>& by) {
  const std::string& name = graph_.value(input).name;
  uint32_t first = 0;
  while (first + 1 < module_.sources.size() && !editor_.takes(first, name)) ++first;
  Shape shape(editor_.shape(name).size() - axis, 1);
  shape[0] = static_cast<int64_t>(by.size());
  const std::string product = scaled(name, shape, by, first, "input_factors");
  editor_.replace_uses(name, product);
  scaled_inputs_.insert(product);
}

}  // namespace dtr
