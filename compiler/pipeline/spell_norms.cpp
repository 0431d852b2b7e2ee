#include "compiler/pipeline/spell_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "compiler/ops/ops.h"
#include "compiler/transforms/channel_affine.h"
#include "compiler/transforms/edit.h"

namespace dtr {
namespace {

using Editor = pt2::ExportEditor;
using Name = Editor::Name;

constexpr std::string_view kNorms[] = {"aten.layer_norm.default", "aten.rms_norm.default"};
constexpr std::string_view kNormedLayers[] = {
    "aten.linear.default",           "aten.conv1d.default",        "aten.conv1d.padding",
    "aten.conv2d.default",           "aten.conv2d.padding",        "aten.convolution.default",
    "aten.conv_transpose1d.default", "aten.conv_transpose2d.input"};

class NormSpeller {
 public:
  NormSpeller(const Module& module, Editor& editor)
      : module_(module), graph_(module.forward()), editor_(editor) {}

  bool spell(OpId id) const {
    const auto norm = node_of(id, kNorms);
    if (!norm) return false;
    const OperandAffine affine{.factor = editor_.argument(*norm, "weight"),
                               .offset = editor_.argument(*norm, "bias")};
    const std::vector<ValueId>& operands = graph_.op(id).operands;
    if ((affine.factor.empty() && affine.offset.empty()) ||
        !std::all_of(operands.begin() + 1, operands.end(), [&](ValueId operand) {
          return !operand.valid() || is_float_constant(graph_, operand);
        }))
      return false;
    const std::vector<OpId> layers = layers_behind_norm(graph_, id, !affine.offset.empty());
    if (layers.empty() || !std::ranges::all_of(layers, [&](OpId layer) {
          const auto node = node_of(layer, kNormedLayers);
          return node && !editor_.argument(*node, "weight").empty();
        }))
      return false;
    for (const OpId layer : layers)
      fold_into_layer(editor_, *node_of(layer, kNormedLayers), graph_.op(layer), affine);
    for (const char* const argument : {"weight", "bias"}) editor_.clear_argument(*norm, argument);
    return true;
  }

 private:
  // The node of the file that is this op and nothing else.
  std::optional<uint32_t> node_of(OpId id, std::span<const std::string_view> targets) const {
    const std::vector<uint32_t>& sources = graph_.op(id).origin.sources;
    if (sources.size() != 1) return std::nullopt;
    const std::string_view target = module_.sources[sources[0]].target;
    if (std::ranges::find(targets, target) == targets.end()) return std::nullopt;
    return sources[0];
  }

  const Module& module_;
  const Graph& graph_;
  Editor& editor_;
};

}  // namespace

void fold_into_layer(Editor& editor, uint32_t layer, const Op& op, const OperandAffine& affine) {
  const std::string weight = editor.argument(layer, "weight");
  const Shape shape = editor.shape(weight);
  const int64_t groups = op.attributes.get_or<int64_t>("groups", 1);
  const bool transposed = op.attributes.get_or("transposed", false);
  const auto add = [&](std::string_view target, const Editor::Arguments& arguments,
                       std::string_view suffix, const Shape& of) {
    return editor.add_node(layer, layer, target, arguments,
                           fmt::format("{}_{}", editor.result(layer), suffix), DType::kFloat32, of);
  };
  const auto view = [&](const std::string& of, std::string_view suffix, const Shape& to) {
    return add("aten.reshape.default", {{"self", Name{of}}, {"shape", to}}, suffix, to);
  };
  // The operand's channels are the second dimension of the weight, in each group of outputs for
  // itself; of a transposed convolution the first.
  const size_t axis = transposed ? 0 : groups > 1 ? 2 : 1;
  Shape by_group = shape;
  if (axis == 2) {
    by_group[0] /= groups;
    by_group.insert(by_group.begin(), groups);
  }
  Shape along(by_group.size(), 1);
  along[axis] = by_group[axis];
  if (axis == 2) along[0] = groups;
  const auto scaled = [&](const std::string& by, std::string_view suffix) {
    const std::string wide = view(by, fmt::format("{}_of_norm", suffix), along);
    const std::string self = axis == 2 ? view(weight, "weight_by_group", by_group) : weight;
    std::string product = add("aten.mul.Tensor", {{"self", Name{self}}, {"other", Name{wide}}},
                              fmt::format("weight_by_{}", suffix), by_group);
    if (axis == 2) product = view(product, fmt::format("weight_by_{}_of_all", suffix), shape);
    return product;
  };
  if (!affine.offset.empty()) {
    DTR_CHECK(takes_offsets(op));
    std::vector<int64_t> others;
    for (size_t i = 1; i < shape.size(); ++i) others.push_back(static_cast<int64_t>(i));
    std::string sum = add("aten.sum.dim_IntList",
                          {{"self", Name{scaled(affine.offset, "bias")}}, {"dim", others}},
                          "bias_behind_norm", {shape[0]});
    if (const std::string own = editor.argument(layer, "bias"); !own.empty())
      sum = add("aten.add.Tensor", {{"self", Name{sum}}, {"other", Name{own}}}, "bias_of_both",
                {shape[0]});
    editor.set_bias(layer, sum);
  }
  if (!affine.factor.empty()) editor.set_argument(layer, "weight", scaled(affine.factor, "gain"));
}

size_t spell_norms(const Module& module, Editor& editor) {
  const NormSpeller speller(module, editor);
  size_t count = 0;
  for (const OpId op : module.forward().ops()) count += speller.spell(op) ? 1 : 0;
  return count;
}

}  // namespace dtr
