// Recurrent layers, unrolled over their steps: linear layers, sigmoid, tanh, products and sums.
// Weights are PyTorch's: rows of `input` and `hidden` are the gates one after the other.
#pragma once

#include <string_view>

#include "compiler/ir/builder.h"

namespace dtr::compositions {

enum class Cell : uint8_t { kLstm, kGru, kTanh, kRelu };

// What LSTMs of other formats have beyond PyTorch's. Gates are numbered as the rows of the weights:
// input, forget, cell, output. Invalid values: there is none.
struct LstmForm {
  // The weights of the input gate are missing; the gate is 1 − the forget gate.
  bool coupled = false;
  // [H]; weights of the cell state in the input, forget and output gate (peepholes). The output
  // gate reads the new state.
  ValueId peephole[4];
  // [H]; gain and bias of each gate's normalization over H, behind the sum of its products.
  ValueId norm_gain[4], norm_bias[4];
  double norm_epsilon = 0;
  // Bounds of the new cell state and of the new hidden state, in both directions; 0: none.
  double cell_limit = 0, hidden_limit = 0;
  // Of the cell gate and of the cell state; the gates have sigmoid.
  std::string_view activation = "aten.tanh";
};

// Of one layer in one direction. Invalid: there is none.
struct CellWeights {
  ValueId input, hidden;                // [gates · H, I], [gates · H, H or P]
  ValueId input_bias, hidden_bias;      // [gates · H]
  ValueId projection, projection_bias;  // [P, H] and [P], of an LSTM
  LstmForm lstm = {};
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
