// LSTM, GRU and RNN: unrolled when the model is read (compiler/compositions/recurrent.h). The
// format has other orders of gates than PyTorch, which the compositions have.
#include "compiler/compositions/recurrent.h"

#include <fmt/format.h>

#include "compiler/frontends/onnx/operators.h"

namespace dtr::onnx {
namespace {

using compositions::Cell;
using compositions::CellState;
using compositions::CellWeights;

constexpr int64_t kMaxSteps = 4096;

// Part `way` of the first dimension, its gates in PyTorch's order.
Result<ValueId> with_gates(NodeImport& node, ValueId all, int64_t way, const Ints& order) {
  const Shape of = node.shape(all);
  DTR_ASSIGN(ValueId one, node.slice(all, 0, way, way + 1));
  Shape without(of.begin() + 1, of.end());
  DTR_ASSIGN(one, node.view(one, without));
  const int64_t each = without[0] / static_cast<int64_t>(order.size());
  Values parts;
  for (const int64_t gate : order) {
    DTR_ASSIGN(parts.emplace_back(), node.slice(one, 0, gate * each, (gate + 1) * each));
  }
  return node.concatenate(std::move(parts), 0);
}

// Of one direction. The file has the order input, output, forget.
Result<void> add_peepholes(NodeImport& node, ValueId all, int64_t way, CellWeights& weights) {
  DTR_ASSIGN(const ValueId one, node.slice(all, 0, way, way + 1));
  const int64_t hidden = node.shape(one)[1] / 3;
  for (const auto& [place, gate] : {std::pair<int64_t, size_t>{0, 0}, {1, 3}, {2, 1}}) {
    DTR_ASSIGN(const ValueId part, node.slice(one, 1, place * hidden, (place + 1) * hidden));
    DTR_ASSIGN(weights.lstm.peephole[gate], node.view(part, {hidden}));
  }
  return {};
}

// The state of one direction, [N, H]: stored, or zeros.
Result<ValueId> state_of(NodeImport& node, size_t input, int64_t way, int64_t batch, int64_t hidden,
                         bool batch_first) {
  if (!node.has(input)) return node.constant(DType::kFloat32, {batch, hidden}, 0, "state");
  DTR_ASSIGN(ValueId all, node.value(input));
  if (batch_first) {
    DTR_ASSIGN(all, node.permute(all, {1, 0, 2}));
  }
  DTR_ASSIGN(const ValueId one, node.slice(all, 0, way, way + 1));
  return node.view(one, {batch, hidden});
}

Result<void> check_activations(NodeImport& node, Cell& cell, int64_t ways) {
  DTR_ASSIGN(const std::vector<std::string> functions, node.strings("activations"));
  (void)node.has_attribute("activation_alpha");
  (void)node.has_attribute("activation_beta");
  if (functions.empty()) return {};
  const bool plain = cell == Cell::kTanh;
  const std::vector<std::string> usual = cell == Cell::kLstm
                                             ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                             : std::vector<std::string>{"Sigmoid", "Tanh"};
  const size_t each = plain ? 1 : usual.size();
  if (functions.size() != each * static_cast<size_t>(ways))
    return node.invalid(fmt::format("{} activations", functions.size()));
  if (plain && functions[0] == "Relu") cell = Cell::kRelu;
  for (size_t i = 0; i < functions.size(); ++i) {
    const std::string& wanted = plain ? (cell == Cell::kRelu ? "Relu" : "Tanh") : usual[i % each];
    if (plain && i > 0 && functions[i] != functions[0])
      return node.unsupported(
          fmt::format("{} forward and {} backward", functions[0], functions[i]),
          "Use one activation in both directions, or an RNN for each and a Concat.");
    if (functions[i] != wanted)
      return node.unsupported(fmt::format("the activation {}", functions[i]),
                              "Use the activations that are usual: Sigmoid and Tanh.");
  }
  return {};
}

// One step of a GRU whose reset gate multiplies the state before the product (version 1 of the
// cell, in the format linear_before_reset = 0).
Result<ValueId> gru_step(NodeImport& node, ValueId of_input, ValueId hidden,
                         const CellWeights& weights, int64_t size) {
  const auto gates = [&](ValueId x, int64_t first, int64_t count, int64_t dim) {
    return node.slice(x, dim, first * size, (first + count) * size);
  };
  const auto linear = [&](ValueId x, int64_t first, int64_t count) -> Result<ValueId> {
    DTR_ASSIGN(const ValueId weight, gates(weights.hidden, first, count, 0));
    Values operands{x, weight};
    if (weights.hidden_bias.valid()) {
      DTR_ASSIGN(operands.emplace_back(), gates(weights.hidden_bias, first, count, 0));
    }
    return node.emit("aten.linear", std::move(operands));
  };
  DTR_ASSIGN(ValueId both, linear(hidden, 0, 2));
  DTR_ASSIGN(const ValueId of_x, gates(of_input, 0, 2, 1));
  DTR_ASSIGN(both, node.add(both, of_x));
  DTR_ASSIGN(both, node.emit("aten.sigmoid", {both}));
  DTR_ASSIGN(const ValueId reset, gates(both, 0, 1, 1));
  DTR_ASSIGN(const ValueId update, gates(both, 1, 1, 1));
  DTR_ASSIGN(ValueId fresh, node.mul(reset, hidden));
  DTR_ASSIGN(fresh, linear(fresh, 2, 1));
  DTR_ASSIGN(const ValueId of_fresh, gates(of_input, 2, 1, 1));
  DTR_ASSIGN(fresh, node.add(fresh, of_fresh));
  DTR_ASSIGN(fresh, node.emit("aten.tanh", {fresh}));
  DTR_ASSIGN(ValueId way, node.sub(hidden, fresh));
  DTR_ASSIGN(way, node.mul(update, way));
  return node.add(fresh, way);
}

Result<compositions::Recurrence> gru_layer(NodeImport& node, ValueId x, const CellState& first,
                                           const CellWeights& weights, bool reverse) {
  const Shape of = node.shape(x);
  const int64_t size = node.shape(weights.hidden)[1];
  Values operands{x, weights.input};
  if (weights.input_bias.valid()) operands.push_back(weights.input_bias);
  DTR_ASSIGN(const ValueId of_inputs, node.emit("aten.linear", std::move(operands)));
  compositions::Recurrence result{{}, first};
  Values states(static_cast<size_t>(of[0]));
  for (int64_t i = 0; i < of[0]; ++i) {
    const int64_t at = reverse ? of[0] - 1 - i : i;
    DTR_ASSIGN(ValueId of_input, node.slice(of_inputs, 0, at, at + 1));
    DTR_ASSIGN(of_input, node.view(of_input, {of[1], 3 * size}));
    DTR_ASSIGN(result.last.hidden, gru_step(node, of_input, result.last.hidden, weights, size));
    DTR_ASSIGN(states[static_cast<size_t>(at)], node.view(result.last.hidden, {1, of[1], size}));
  }
  DTR_ASSIGN(result.states, node.concatenate(std::move(states), 0));
  return result;
}

// Operands: x, weights, weights of the state, biases, lengths, states, weights of peepholes.
template <Cell kCell>
Result<Values> recurrent(NodeImport& node) {
  Cell cell = kCell;
  DTR_ASSIGN(const std::string direction,
             node.word("direction", "forward", {"forward", "reverse", "bidirectional"}));
  DTR_ASSIGN(const bool batch_first, node.flag("layout"));
  (void)node.has_attribute("hidden_size");
  const bool before = kCell == Cell::kGru;
  bool resets_after = true;
  if (before) {
    DTR_ASSIGN(resets_after, node.flag("linear_before_reset"));
  }
  if (node.has_attribute("clip")) return node.unsupported("it limits its cells (clip)");
  if (kCell == Cell::kLstm) {
    DTR_ASSIGN(const bool coupled, node.flag("input_forget"));
    if (coupled) return node.unsupported("its input and forget gates are coupled");
  }
  const int64_t ways = direction == "bidirectional" ? 2 : 1;
  DTR_TRY(check_activations(node, cell, ways));
  DTR_ASSIGN(ValueId x, node.value(0));
  if (node.type(x).rank() != 3) return node.invalid("its operand has not three dimensions");
  if (batch_first) {
    DTR_ASSIGN(x, node.permute(x, {1, 0, 2}));
  }
  DTR_ASSIGN(const ValueId weight, node.value(1));
  DTR_ASSIGN(const ValueId hidden_weight, node.value(2));
  DTR_ASSIGN(const ValueId bias, node.optional_value(3));
  const Shape of = node.shape(x), of_hidden = node.shape(hidden_weight);
  const int64_t gates = kCell == Cell::kLstm ? 4 : kCell == Cell::kGru ? 3 : 1;
  if (node.type(weight).rank() != 3 || of_hidden.size() != 3 || of_hidden[0] != ways ||
      node.shape(weight)[0] != ways || of_hidden[1] != gates * of_hidden[2] ||
      (bias.valid() && node.shape(bias) != Shape{ways, 2 * of_hidden[1]}))
    return node.invalid("its weights do not fit");
  const int64_t steps = of[0], batch = of[1], hidden = of_hidden[2];
  if (steps < 1 || steps * ways > kMaxSteps)
    return node.unsupported(fmt::format("{} steps, at most {} are unrolled", steps, kMaxSteps),
                            "Give the model a shorter part of the sequence, and its state as an "
                            "input and an output.");
  if (node.has(4)) {
    DTR_ASSIGN(const Ints lengths, node.integers(4));
    for (const int64_t length : lengths)
      if (length != steps)
        return node.unsupported("sequences of different lengths",
                                "Export the model for sequences of one length.");
  }
  ValueId peepholes;
  if (node.has(7)) {
    DTR_ASSIGN(peepholes, node.value(7));
    if (node.shape(peepholes) != Shape{ways, 3 * hidden})
      return node.invalid("its peepholes do not fit");
  }
  // In the file: input, output, forget, cell; update, reset, new.
  const Ints order = kCell == Cell::kLstm  ? Ints{0, 2, 3, 1}
                     : kCell == Cell::kGru ? Ints{1, 0, 2}
                                           : Ints{0};
  Values states, last_hidden, last_cell;
  for (int64_t way = 0; way < ways; ++way) {
    CellWeights weights;
    DTR_ASSIGN(weights.input, with_gates(node, weight, way, order));
    DTR_ASSIGN(weights.hidden, with_gates(node, hidden_weight, way, order));
    if (bias.valid()) {
      DTR_ASSIGN(const ValueId of_input, node.slice(bias, 1, 0, gates * hidden));
      DTR_ASSIGN(const ValueId of_state, node.slice(bias, 1, gates * hidden, 2 * gates * hidden));
      DTR_ASSIGN(weights.input_bias, with_gates(node, of_input, way, order));
      DTR_ASSIGN(weights.hidden_bias, with_gates(node, of_state, way, order));
    }
    if (peepholes.valid()) DTR_TRY(add_peepholes(node, peepholes, way, weights));
    CellState first;
    DTR_ASSIGN(first.hidden, state_of(node, 5, way, batch, hidden, batch_first));
    if (kCell == Cell::kLstm) {
      DTR_ASSIGN(first.cell, state_of(node, 6, way, batch, hidden, batch_first));
    }
    const bool reverse = direction == "reverse" || way == 1;
    DTR_ASSIGN(const compositions::Recurrence made,
               resets_after ? compositions::recurrent_layer(node, cell, x, first, weights, reverse)
                            : gru_layer(node, x, first, weights, reverse));
    DTR_ASSIGN(states.emplace_back(), node.view(made.states, {steps, 1, batch, hidden}));
    DTR_ASSIGN(last_hidden.emplace_back(), node.view(made.last.hidden, {1, batch, hidden}));
    if (kCell == Cell::kLstm) {
      DTR_ASSIGN(last_cell.emplace_back(), node.view(made.last.cell, {1, batch, hidden}));
    }
  }
  Values results;
  DTR_ASSIGN(ValueId all, node.concatenate(std::move(states), 1));
  if (batch_first) {
    DTR_ASSIGN(all, node.permute(all, {2, 0, 1, 3}));
  }
  results.push_back(all);
  for (Values* last : {&last_hidden, &last_cell}) {
    if (last->empty()) continue;
    DTR_ASSIGN(ValueId joined, node.concatenate(std::move(*last), 0));
    if (batch_first) {
      DTR_ASSIGN(joined, node.permute(joined, {1, 0, 2}));
    }
    results.push_back(joined);
  }
  return results;
}

}  // namespace

std::vector<Operator> recurrent_operators() {
  return {
      row("GRU", 3, 6, recurrent<Cell::kGru>),
      row("LSTM", 3, 8, recurrent<Cell::kLstm>),
      row("RNN", 3, 6, recurrent<Cell::kTanh>),
  };
}

}  // namespace dtr::onnx
