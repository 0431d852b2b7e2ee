// Recurrent layers, unrolled over their steps: linear layers, sigmoid, tanh, products and sums.
// Weights are PyTorch's: rows of `input` and `hidden` are the gates one after the other.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

enum class Cell : uint8_t { kLstm, kGru, kTanh, kRelu };

// Of one layer in one direction. Invalid: there is none.
struct CellWeights {
  ValueId input, hidden;            // [gates · H, I], [gates · H, H or P]
  ValueId input_bias, hidden_bias;  // [gates · H], both or neither
  ValueId projection;               // [P, H], of an LSTM
};

// Hidden state [N, H or P], and the cell state [N, H] of an LSTM.
struct CellState {
  ValueId hidden, cell;
};

// The state after one step for x of [N, I]. Errors of these: those of GraphBuilder::emit, for
// weights that do not fit.
Result<CellState> recurrent_cell(GraphBuilder& builder, Cell cell, ValueId x,
                                 const CellState& state, const CellWeights& weights);

// A layer in one direction over x of [T, N, I]: all hidden states [T, N, H or P] in the order of x,
// and the state after the last step taken. The products with x are one linear layer for all steps.
// Errors: the same.
struct Recurrence {
  ValueId states;
  CellState last;
};
Result<Recurrence> recurrent_layer(GraphBuilder& builder, Cell cell, ValueId x,
                                   const CellState& first, const CellWeights& weights,
                                   bool reverse);

}  // namespace dtr::compositions
