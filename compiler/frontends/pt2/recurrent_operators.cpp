// LSTM, GRU and RNN, of any number of layers and directions, and their cells: unrolled when the
// model is read (compiler/compositions/recurrent.h). Every step reads the same weights.
#include "compiler/compositions/recurrent.h"

#include <fmt/format.h>

#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

using compositions::Cell;
using compositions::CellState;
using compositions::CellWeights;

constexpr int64_t kMaxSteps = 4096;  // over all layers and directions

// [T, N, …] ↔ [N, T, …].
Result<ValueId> exchanged(NodeImport& node, ValueId x) { return node.permute(x, {1, 0, 2}); }

// The weights of each layer and direction, in PyTorch's order.
Result<std::vector<CellWeights>> weights_of(NodeImport& node, int64_t count, bool biased,
                                            Cell cell) {
  DTR_ASSIGN(const Values params, node.tensors("params"));
  const auto each = count == 0 ? 0 : static_cast<int64_t>(params.size()) / count;
  const int64_t plain = biased ? 4 : 2;
  const bool projects = each == plain + 1 && cell == Cell::kLstm;
  if ((each != plain && !projects) || each * count != static_cast<int64_t>(params.size()))
    return node.unsupported(fmt::format("{} parameters for {} layers", params.size(), count));
  std::vector<CellWeights> all;
  for (int64_t i = 0; i < count; ++i) {
    const auto at = [&](int64_t offset) { return params[static_cast<size_t>(i * each + offset)]; };
    CellWeights weights{.input = at(0), .hidden = at(1)};
    if (biased) {
      weights.input_bias = at(2);
      weights.hidden_bias = at(3);
    }
    if (projects) weights.projection = at(plain);
    all.push_back(weights);
  }
  return all;
}

template <Cell kCell>
Result<Values> recurrent(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("input"));
  Values first;
  if (kCell == Cell::kLstm) {
    DTR_ASSIGN(first, node.tensors("hx"));
  } else {
    DTR_ASSIGN(first.emplace_back(), node.tensor("hx"));
  }
  DTR_ASSIGN(const bool biased, node.boolean("has_biases"));
  DTR_ASSIGN(const int64_t layers, node.integer("num_layers"));
  DTR_ASSIGN(const double dropout, node.number("dropout", 0));
  DTR_ASSIGN(const bool training, node.boolean("train", false));
  DTR_ASSIGN(const bool both_ways, node.boolean("bidirectional", false));
  DTR_ASSIGN(const bool batch_first, node.boolean("batch_first", false));
  if (training && dropout != 0)
    return node.unsupported("dropout in training mode", "call model.eval() before the export");
  const int64_t directions = both_ways ? 2 : 1;
  if (node.type(x).rank() != 3 || first.size() != (kCell == Cell::kLstm ? 2u : 1u))
    return node.unsupported(fmt::format("an input of shape {}, expected one of three dimensions",
                                        to_string(node.type(x).shape)));
  if (batch_first) {
    DTR_ASSIGN(x, exchanged(node, x));
  }
  const int64_t steps = node.type(x).shape[0];
  if (steps == 0 || layers < 1 || steps > kMaxSteps / (layers * directions))
    return node.unsupported(fmt::format("{} layers in {} directions over {} steps, at most {} "
                                        "steps are unrolled",
                                        layers, directions, steps, kMaxSteps),
                            "give the model a shorter part of the sequence, and its state as an "
                            "input and an output");
  DTR_ASSIGN(const std::vector<CellWeights> weights,
             weights_of(node, layers * directions, biased, kCell));
  Values last_hidden, last_cell;
  for (int64_t layer = 0; layer < layers; ++layer) {
    Values ways;
    for (int64_t way = 0; way < directions; ++way) {
      const int64_t index = layer * directions + way;
      const auto state_of = [&](ValueId all) -> Result<ValueId> {
        const Shape shape = node.type(all).shape;
        DTR_ASSIGN(const ValueId one, node.slice(all, 0, index, index + 1));
        return node.view(one, {shape[1], shape[2]});
      };
      const auto stacked = [&](ValueId one) -> Result<ValueId> {
        const Shape shape = node.type(one).shape;
        return node.view(one, {1, shape[0], shape[1]});
      };
      CellState state;
      DTR_ASSIGN(state.hidden, state_of(first[0]));
      if (kCell == Cell::kLstm) {
        DTR_ASSIGN(state.cell, state_of(first[1]));
      }
      DTR_ASSIGN(const compositions::Recurrence made,
                 compositions::recurrent_layer(node, kCell, x, state,
                                               weights[static_cast<size_t>(index)], way == 1));
      ways.push_back(made.states);
      DTR_ASSIGN(last_hidden.emplace_back(), stacked(made.last.hidden));
      if (kCell == Cell::kLstm) {
        DTR_ASSIGN(last_cell.emplace_back(), stacked(made.last.cell));
      }
    }
    DTR_ASSIGN(x, node.concatenate(std::move(ways), 2));
  }
  if (batch_first) {
    DTR_ASSIGN(x, exchanged(node, x));
  }
  DTR_ASSIGN(const ValueId hidden, node.concatenate(std::move(last_hidden), 0));
  if (kCell != Cell::kLstm) return Values{x, hidden};
  DTR_ASSIGN(const ValueId cell, node.concatenate(std::move(last_cell), 0));
  return Values{x, hidden, cell};
}

template <Cell kCell>
Result<Values> cell(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("input"));
  Values state;
  if (kCell == Cell::kLstm) {
    DTR_ASSIGN(state, node.tensors("hx"));
  } else {
    DTR_ASSIGN(state.emplace_back(), node.tensor("hx"));
  }
  if (node.type(x).rank() != 2 || state.size() != (kCell == Cell::kLstm ? 2u : 1u))
    return node.unsupported(
        fmt::format("an input of shape {}, expected a matrix", to_string(node.type(x).shape)));
  CellWeights weights;
  DTR_ASSIGN(weights.input, node.tensor("w_ih"));
  DTR_ASSIGN(weights.hidden, node.tensor("w_hh"));
  DTR_ASSIGN(weights.input_bias, node.optional_tensor("b_ih"));
  DTR_ASSIGN(weights.hidden_bias, node.optional_tensor("b_hh"));
  DTR_ASSIGN(const CellState next,
             compositions::recurrent_cell(
                 node, kCell, x, {state[0], kCell == Cell::kLstm ? state[1] : ValueId{}}, weights));
  return kCell == Cell::kLstm ? Values{next.hidden, next.cell} : Values{next.hidden};
}

}  // namespace

std::vector<Operator> recurrent_operators() {
  return {
      tensor_row("aten.gru.input", "aten.linear", recurrent<Cell::kGru>),
      tensor_row("aten.gru_cell.default", "aten.linear", cell<Cell::kGru>),
      tensor_row("aten.lstm.input", "aten.linear", recurrent<Cell::kLstm>),
      tensor_row("aten.lstm_cell.default", "aten.linear", cell<Cell::kLstm>),
      tensor_row("aten.rnn_relu.input", "aten.linear", recurrent<Cell::kRelu>),
      tensor_row("aten.rnn_relu_cell.default", "aten.linear", cell<Cell::kRelu>),
      tensor_row("aten.rnn_tanh.input", "aten.linear", recurrent<Cell::kTanh>),
      tensor_row("aten.rnn_tanh_cell.default", "aten.linear", cell<Cell::kTanh>),
  };
}

}  // namespace dtr::pt2
