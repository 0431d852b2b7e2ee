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

// x between −limit and limit; 0: no limit.
Result<ValueId> limited(GraphBuilder& builder, ValueId x, double limit) {
  if (limit == 0) return x;
  return builder.emit("aten.clamp", {x}, {{"min", -limit}, {"max", limit}});
}

// A gate of an LSTM before its activation, from the products of all gates.
Result<ValueId> lstm_gate(GraphBuilder& builder, ValueId gates, size_t index, ValueId cell,
                          const LstmForm& form) {
  const int64_t missing = form.coupled ? 1 : 0;
  DTR_ASSIGN(ValueId x, gate(builder, gates, static_cast<int64_t>(index) - missing, 4 - missing));
  if (form.peephole[index].valid() && !is_zero(builder, cell)) {
    DTR_ASSIGN(const ValueId seen, product(builder, cell, form.peephole[index]));
    DTR_ASSIGN(x, sum(builder, x, seen));
  }
  if (!form.norm_gain[index].valid()) return x;
  return builder.emit(
      "aten.layer_norm", {x, form.norm_gain[index], form.norm_bias[index]},
      {{"normalized_shape", Ints{builder.type(x).shape.back()}}, {"eps", form.norm_epsilon}});
}

Result<CellState> lstm(GraphBuilder& builder, ValueId gates, const CellState& state,
                       const CellWeights& weights) {
  const LstmForm& form = weights.lstm;
  enum : size_t { kInput, kForget, kCell, kOutput };
  ValueId part[4];
  for (const size_t index : {kInput, kForget, kCell}) {
    if (index == kInput && form.coupled) continue;
    DTR_ASSIGN(part[index], lstm_gate(builder, gates, index, state.cell, form));
    DTR_ASSIGN(part[index],
               builder.emit(index == kCell ? form.activation : "aten.sigmoid", {part[index]}));
  }
  if (form.coupled) {
    DTR_ASSIGN(const ValueId one, builder.constant(DType::kFloat32, {1}, 1, "one"));
    DTR_ASSIGN(part[kInput], builder.emit("aten.sub.Tensor", {one, part[kForget]}));
  }
  CellState next;
  DTR_ASSIGN(next.cell, product(builder, part[kInput], part[kCell]));
  if (!is_zero(builder, state.cell)) {
    DTR_ASSIGN(const ValueId kept, product(builder, part[kForget], state.cell));
    DTR_ASSIGN(next.cell, sum(builder, kept, next.cell));
  }
  DTR_ASSIGN(next.cell, limited(builder, next.cell, form.cell_limit));
  DTR_ASSIGN(part[kOutput], lstm_gate(builder, gates, kOutput, next.cell, form));
  DTR_ASSIGN(part[kOutput], builder.emit("aten.sigmoid", {part[kOutput]}));
  DTR_ASSIGN(const ValueId bounded, builder.emit(form.activation, {next.cell}));
  DTR_ASSIGN(next.hidden, product(builder, part[kOutput], bounded));
  if (weights.projection.valid()) {
    DTR_ASSIGN(next.hidden,
               linear(builder, next.hidden, weights.projection, weights.projection_bias));
    DTR_ASSIGN(next.hidden, limited(builder, next.hidden, form.hidden_limit));
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
  if (cell == Cell::kLstm) return lstm(builder, gates, state, weights);
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
