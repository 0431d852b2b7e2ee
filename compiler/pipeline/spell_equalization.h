// Writes the factors of equalization (equalize.h) into an export: products in front of weights and
// biases, which training sees as constants. Parameters stay what they were.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/frontends/pt2/export_editor.h"
#include "compiler/ir/graph.h"
#include "compiler/quantizer/equalize.h"

namespace dtr {

// `module` is the file that `editor` has open, after training_pipeline. Both must outlive it.
class EqualizationSpeller final : public FactorWriter {
 public:
  EqualizationSpeller(const Module& module, pt2::ExportEditor& editor)
      : module_(module), graph_(module.forward()), editor_(editor) {}

  // True for layers with a weight of their own, and with a batch norm only behind them, which has a
  // weight and a bias.
  bool can_scale(OpId op) const override;
  bool can_scale_operand(OpId op, size_t operand) const override;
  void scale_layer(OpId op, const std::vector<double>& in, const std::vector<double>& out) override;
  void scale_norm(OpId op, const std::vector<double>& out) override;
  void scale_operand(OpId op, size_t operand, double by) override;
  void scale_input(ValueId input, size_t axis, const std::vector<float>& by) override;

  // The products that scale inputs, which stay float.
  const std::set<std::string>& scaled_inputs() const { return scaled_inputs_; }

 private:
  struct Nodes {
    std::optional<uint32_t> layer, norm;
  };
  std::optional<Nodes> nodes_of(OpId op) const;
  std::string name_of(ValueId value) const;
  // `tensor` times a buffer of these elements, before node `before`.
  std::string scaled(const std::string& tensor, const Shape& shape, const std::vector<float>& by,
                     uint32_t before, std::string_view suffix);
  void scale_argument(uint32_t node, std::string_view argument, const Shape& shape,
                      const std::vector<float>& by, uint32_t before, std::string_view suffix);

  const Module& module_;
  const Graph& graph_;
  pt2::ExportEditor& editor_;
  std::set<std::string> scaled_inputs_;
};

}  // namespace dtr
