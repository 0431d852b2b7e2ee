#include "compiler/pipeline/spell_batch_norms.h"

#include <fmt/format.h>

#include <string_view>

#include "compiler/pipeline/spell_norms.h"
#include "compiler/transforms/channel_affine.h"

namespace dtr {
namespace {

using Editor = pt2::ExportEditor;
using Name = Editor::Name;

// γ / √(var + eps), computed before node `layer`.
std::string norm_factor(Editor& editor, uint32_t layer, uint32_t norm) {
  const std::string variance = editor.argument(norm, "running_var"),
                    gamma = editor.argument(norm, "weight");
  const auto add = [&](std::string_view target, const Editor::Arguments& arguments,
                       std::string_view suffix) {
    return editor.add_node(layer, layer, target, arguments,
                           fmt::format("{}_{}", editor.result(layer), suffix), DType::kFloat32,
                           editor.shape(variance));
  };
  const std::string shifted = add(
      "aten.add.Tensor",
      {{"self", Name{variance}}, {"other", editor.number(norm, "eps").value_or(1e-5)}}, "variance");
  const std::string deviation = add("aten.sqrt.default", {{"self", Name{shifted}}}, "deviation");
  if (gamma.empty()) return add("aten.reciprocal.default", {{"self", Name{deviation}}}, "factor");
  return add("aten.div.Tensor", {{"self", Name{gamma}}, {"other", Name{deviation}}}, "factor");
}

}  // namespace

void fold_batch_norm_behind(Editor& editor, uint32_t norm, uint32_t layer, const Op& op) {
  const auto add = [&](std::string_view target, const std::string& a, const std::string& b,
                       std::string_view suffix) {
    return editor.add_node(layer, layer, target, {{"self", Name{a}}, {"other", Name{b}}},
                           fmt::format("{}_{}", editor.result(norm), suffix), DType::kFloat32,
                           editor.shape(a));
  };
  OperandAffine affine{.factor = norm_factor(editor, layer, norm), .offset = {}};
  if (takes_offsets(op)) {
    const std::string shift =
        add("aten.mul.Tensor", editor.argument(norm, "running_mean"), affine.factor, "shift");
    if (const std::string beta = editor.argument(norm, "bias"); beta.empty()) {
      affine.offset =
          editor.add_node(layer, layer, "aten.neg.default", {{"self", Name{shift}}},
                          editor.result(norm) + "_offset", DType::kFloat32, editor.shape(shift));
    } else {
      affine.offset = add("aten.sub.Tensor", beta, shift, "offset");
    }
  }
  fold_into_layer(editor, layer, op, affine);
  editor.replace_uses(editor.result(norm), editor.argument(norm, "input"));
  editor.remove_node(norm);
}

std::string simulate_fusion(Editor& editor, uint32_t layer, uint32_t norm, const Op& op,
                            const std::string& weight) {
  const Shape weight_shape = editor.shape(weight);
  const std::string result = editor.result(layer);
  // Behind permutes and views, if there are some.
  const std::string operand = editor.argument(norm, "input");
  const Shape operand_shape = editor.shape(operand);
  const bool transposed = op.attributes.get_or("transposed", false);
  const int64_t groups = transposed ? op.attributes.get<int64_t>("groups") : 1;
  const size_t axis = transposed ? 1 : 0;
  const int64_t channels = weight_shape[axis] * groups;
  // Of a transposed convolution each group has outputs of its own.
  Shape by_group = weight_shape;
  if (groups > 1) {
    by_group[0] /= groups;
    by_group.insert(by_group.begin(), groups);
  }
  Shape along_weight(by_group.size(), 1), along_result(operand_shape.size(), 1);
  along_weight[groups > 1 ? axis + 1 : axis] = weight_shape[axis];
  if (groups > 1) along_weight[0] = groups;
  along_result[1] = channels;

  const auto before = [&](std::string_view target, const Editor::Arguments& arguments,
                          std::string_view suffix, const Shape& shape) {
    return editor.add_node(layer, layer, target, arguments, fmt::format("{}_{}", result, suffix),
                           DType::kFloat32, shape);
  };
  const auto after = [&](std::string_view target, const Editor::Arguments& arguments,
                         std::string_view suffix) {
    return editor.add_node(norm, layer, target, arguments, fmt::format("{}_{}", result, suffix),
                           DType::kFloat32, operand_shape);
  };
  const std::string quotient = norm_factor(editor, layer, norm);
  // A channel without γ is quantized as it is: the batch norm makes it constant.
  const std::string absent =
      editor.add_node(layer, layer, "aten.eq.Scalar", {{"self", Name{quotient}}, {"other", 0.0}},
                      result + "_absent", DType::kBool, {channels});
  const std::string factor = before(
      "aten.masked_fill.Scalar", {{"self", Name{quotient}}, {"mask", Name{absent}}, {"value", 1.0}},
      "factor_or_one", {channels});
  const std::string wide =
      before("aten.reshape.default", {{"self", Name{factor}}, {"shape", along_weight}},
             "factor_of_weight", along_weight);
  const auto view = [&](const std::string& of, std::string_view suffix, const Shape& to) {
    return before("aten.reshape.default", {{"self", Name{of}}, {"shape", to}}, suffix, to);
  };
  const std::string grouped = groups > 1 ? view(weight, "weight_by_group", by_group) : weight;
  std::string scaled = before("aten.mul.Tensor", {{"self", Name{grouped}}, {"other", Name{wide}}},
                              "scaled_weight", by_group);
  if (groups > 1) scaled = view(scaled, "scaled_weight_of_all", weight_shape);

  const std::string tall = editor.add_node(
      norm, layer, "aten.reshape.default", {{"self", Name{factor}}, {"shape", along_result}},
      result + "_factor_of_result", DType::kFloat32, along_result);
  std::string unscaled =
      after("aten.div.Tensor", {{"self", Name{operand}}, {"other", Name{tall}}}, "unscaled");
  if (const std::string bias = editor.argument(layer, "bias"); !bias.empty()) {
    editor.clear_argument(layer, "bias");
    const std::string spread = editor.add_node(norm, layer, "aten.reshape.default",
                                               {{"self", Name{bias}}, {"shape", along_result}},
                                               result + "_bias", DType::kFloat32, along_result);
    unscaled =
        after("aten.add.Tensor", {{"self", Name{unscaled}}, {"other", Name{spread}}}, "biased");
  }
  editor.set_argument(norm, "input", unscaled);
  return scaled;
}

}  // namespace dtr
