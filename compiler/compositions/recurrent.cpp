#include "compiler/compositions/recurrent.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtr::compositions {
namespace {

bool is_zero(const GraphBuilder& builder, ValueId value) {
  const auto elements = builder.constant_elements(value);
  return elements && std::ranges::all_of(*elements, [](double x) { return x == 0; });
}

Result<ValueId> linear(GraphBuilder& builder, ValueId x, ValueId weight, ValueId bias) {
  std::vector<ValueId> operands{x, weight};
  if (bias.valid()) operands.push_back(bias);
  return builder.emit("aten.linear", operands);
}

Result<ValueId> product(GraphBuilder& builder, ValueId a, ValueId b) {
  return builder.emit("aten.mul.Tensor", {a, b});
}
Result<ValueId> sum(GraphBuilder& builder, ValueId a, ValueId b) {
  return builder.emit("aten.add.Tensor", {a, b});
}

// Part `index` of `count` gates.
Result<ValueId> gate(GraphBuilder& builder, ValueId gates, int64_t index, int64_t count) {
  const int64_t extent = builder.type(gates).shape.back() / count;
  return builder.slice(gates, static_cast<int64_t>(builder.type(gates).rank()) - 1, index * extent,
                       (index + 1) * extent);
}

Result<CellState> lstm(GraphBuilder& builder, ValueId gates, const CellState& state,
                       ValueId projection) {
  ValueId part[4];
  for (int64_t i = 0; i < 4; ++i) {
    DTR_ASSIGN(part[i], gate(builder, gates, i, 4));
    DTR_ASSIGN(part[i], builder.emit(i == 2 ? "aten.tanh" : "aten.sigmoid", {part[i]}));
  }
  CellState next;
  DTR_ASSIGN(next.cell, product(builder, part[0], part[2]));
  if (!is_zero(builder, state.cell)) {
    DTR_ASSIGN(const ValueId kept, product(builder, part[1], state.cell));
    DTR_ASSIGN(next.cell, sum(builder, kept, next.cell));
  }
  DTR_ASSIGN(const ValueId bounded, builder.emit("aten.tanh", {next.cell}));
  DTR_ASSIGN(next.hidden, product(builder, part[3], bounded));
  if (projection.valid()) {
    DTR_ASSIGN(next.hidden, linear(builder, next.hidden, projection, {}));
  }
  return next;
}

// n + z · (h − n), where the reset gate r multiplies what n takes of the state.
Result<CellState> gru(GraphBuilder& builder, ValueId of_input, ValueId of_hidden, ValueId hidden) {
  ValueId x[3], h[3];
  for (int64_t i = 0; i < 3; ++i) {
    DTR_ASSIGN(x[i], gate(builder, of_input, i, 3));
    DTR_ASSIGN(h[i], gate(builder, of_hidden, i, 3));
  }
  ValueId gates[2];  // reset, update
  for (size_t i = 0; i < 2; ++i) {
    DTR_ASSIGN(gates[i], sum(builder, x[i], h[i]));
    DTR_ASSIGN(gates[i], builder.emit("aten.sigmoid", {gates[i]}));
  }
  DTR_ASSIGN(ValueId fresh, product(builder, gates[0], h[2]));
  DTR_ASSIGN(fresh, sum(builder, x[2], fresh));
  DTR_ASSIGN(fresh, builder.emit("aten.tanh", {fresh}));
  DTR_ASSIGN(const ValueId way, builder.emit("aten.sub.Tensor", {hidden, fresh}));
  DTR_ASSIGN(const ValueId part, product(builder, gates[1], way));
  DTR_ASSIGN(const ValueId next, sum(builder, fresh, part));
  return CellState{next, {}};
}

// The step behind the product with x, `of_input`.
Result<CellState> step(GraphBuilder& builder, Cell cell, ValueId of_input, const CellState& state,
                       const CellWeights& weights) {
  DTR_ASSIGN(const ValueId of_hidden,
             linear(builder, state.hidden, weights.hidden, weights.hidden_bias));
  if (cell == Cell::kGru) return gru(builder, of_input, of_hidden, state.hidden);
  DTR_ASSIGN(const ValueId gates, sum(builder, of_input, of_hidden));
  if (cell == Cell::kLstm) return lstm(builder, gates, state, weights.projection);
  DTR_ASSIGN(const ValueId next,
             builder.emit(cell == Cell::kTanh ? "aten.tanh" : "aten.relu", {gates}));
  return CellState{next, {}};
}

}  // namespace

Result<CellState> recurrent_cell(GraphBuilder& builder, Cell cell, ValueId x,
                                 const CellState& state, const CellWeights& weights) {
  DTR_ASSIGN(const ValueId of_input, linear(builder, x, weights.input, weights.input_bias));
  return step(builder, cell, of_input, state, weights);
}

Result<Recurrence> recurrent_layer(GraphBuilder& builder, Cell cell, ValueId x,
                                   const CellState& first, const CellWeights& weights,
                                   bool reverse) {
  const Shape shape = builder.type(x).shape;
  const int64_t steps = shape[0];
  DTR_ASSIGN(const ValueId of_inputs, linear(builder, x, weights.input, weights.input_bias));
  const int64_t gates = builder.type(of_inputs).shape.back();
  Recurrence result{{}, first};
  std::vector<ValueId> states(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t at = reverse ? steps - 1 - i : i;
    DTR_ASSIGN(ValueId of_input, builder.slice(of_inputs, 0, at, at + 1));
    DTR_ASSIGN(of_input, builder.view(of_input, {shape[1], gates}));
    DTR_ASSIGN(result.last, step(builder, cell, of_input, result.last, weights));
    const int64_t width = builder.type(result.last.hidden).shape.back();
    DTR_ASSIGN(states[static_cast<size_t>(at)],
               builder.view(result.last.hidden, {1, shape[1], width}));
  }
  DTR_ASSIGN(result.states, builder.concatenate(std::move(states), 0));
  return result;
}

}  // namespace dtr::compositions
