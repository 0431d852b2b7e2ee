// LSTM, RNN and SVDF layers: unrolled when the file is read. Their state is in variable tensors,
// which the interpreter keeps from run to run; here they are states of the graph. Integer forms are
// computed in real numbers between the codes of their input and output (stored_forms.cpp).
#include "compiler/compositions/recurrent.h"

#include <fmt/format.h>

#include "compiler/frontends/tflite/importer.h"

namespace dtr::tflite {
namespace {

using compositions::Cell;
using compositions::CellState;
using compositions::CellWeights;
using compositions::Recurrence;
using fb::BuiltinOperator;
using fb::OptionsType;
using Builder = Importer::Builder;
using Values = std::vector<ValueId>;

constexpr int64_t kMaxSteps = 4096;
constexpr double kNormEpsilon = 1e-8;

// A weight as real numbers; invalid if it is absent.
Result<ValueId> weight(Importer& importer, size_t operand) {
  return importer.has(operand) ? importer.real_value(operand) : Result<ValueId>(ValueId());
}

// The input of a layer as [T, N, I]. Without `sequence` it is one step, [N, I].
Result<ValueId> steps_of(Importer& importer, bool sequence, bool time_major) {
  const Shape shape = importer.tensor(0).shape;
  if (shape.size() != (sequence ? 3u : 2u) || element_count(shape) == 0)
    return importer.invalid(fmt::format("its input has shape {}", to_string(shape)));
  DTR_ASSIGN(const ValueId x, importer.real_value(0));
  Builder builder(importer);
  if (!sequence) return builder.view(x, {1, shape[0], shape[1]});
  if (shape[time_major ? 0 : 1] > kMaxSteps)
    return importer.unsupported(
        fmt::format("{} steps, at most {} are unrolled", shape[time_major ? 0 : 1], kMaxSteps));
  return time_major ? x : builder.permute(x, {1, 0, 2});
}

// Results of all steps, [T, N, …], in the order of dimensions that the input has.
Result<ValueId> in_order_of_input(Importer& importer, ValueId steps, bool sequence,
                                  bool time_major) {
  Builder builder(importer);
  const Shape shape = importer.type(steps).shape;
  if (!sequence) return builder.view(steps, {shape[1], shape[2]});
  return time_major ? steps : builder.permute(steps, {1, 0, 2});
}

// One direction of each, [T, N, …], as the outputs of the operator: joined, or apart.
Result<Values> outputs_of(Importer& importer, Values directions, bool merged, bool time_major) {
  if (merged) {
    DTR_ASSIGN(const ValueId all, Builder(importer).concatenate(std::move(directions), 2));
    directions = {all};
  }
  if (directions.size() != importer.op().outputs.size())
    return importer.invalid(fmt::format("it has {} outputs", importer.op().outputs.size()));
  for (size_t i = 0; i < directions.size(); ++i) {
    DTR_ASSIGN(directions[i], in_order_of_input(importer, directions[i], true, time_major));
    DTR_ASSIGN(directions[i], importer.as_output(directions[i], i));
  }
  return directions;
}

// ---- LSTM

// Where the operands of one direction are. Weights are four in a row, one a gate: input, forget,
// cell, output.
struct LstmOperands {
  size_t input = 1, hidden = 5, peephole = 9, bias = 12, projection = 16, state = 18, norm = 20;
};

// Four operands as one tensor, without those that are absent.
Result<ValueId> gates(Importer& importer, size_t first, bool coupled) {
  Values parts;
  for (size_t i = coupled ? 1 : 0; i < 4; ++i) {
    if (!importer.has(first + i)) return ValueId();
    DTR_ASSIGN(parts.emplace_back(), importer.real_value(first + i));
  }
  return Builder(importer).concatenate(std::move(parts), 0);
}

template <class Options>
Result<CellWeights> lstm_weights(Importer& importer, const Options& options,
                                 const LstmOperands& at) {
  CellWeights weights;
  compositions::LstmForm& form = weights.lstm;
  form.coupled = !importer.has(at.input);
  DTR_ASSIGN(weights.input, gates(importer, at.input, form.coupled));
  DTR_ASSIGN(weights.hidden, gates(importer, at.hidden, form.coupled));
  if (!weights.input.valid() || !weights.hidden.valid())
    return importer.invalid("weights of a gate are absent");
  for (const auto& [operand, gate] : {std::pair<size_t, size_t>{0, 0}, {1, 1}, {2, 3}}) {
    DTR_ASSIGN(form.peephole[gate], weight(importer, at.peephole + operand));
  }
  const bool normalized = at.norm != 0 && importer.has(at.norm + 1);
  for (size_t gate = form.coupled ? 1 : 0; gate < 4 && normalized; ++gate) {
    DTR_ASSIGN(form.norm_gain[gate], weight(importer, at.norm + gate));
    DTR_ASSIGN(form.norm_bias[gate], weight(importer, at.bias + gate));
    if (!form.norm_gain[gate].valid() || !form.norm_bias[gate].valid())
      return importer.invalid("the normalization of a gate is absent");
  }
  form.norm_epsilon = kNormEpsilon;
  if (!normalized) {
    DTR_ASSIGN(weights.input_bias, gates(importer, at.bias, form.coupled));
  }
  DTR_ASSIGN(weights.projection, weight(importer, at.projection));
  DTR_ASSIGN(weights.projection_bias, weight(importer, at.projection + 1));
  form.cell_limit = static_cast<double>(options.cell_clip());
  form.hidden_limit = static_cast<double>(options.proj_clip());
  if (!(form.cell_limit >= 0) || !(form.hidden_limit >= 0))
    return importer.invalid("a limit of its state is negative or no number");
  if (options.fused_activation_function() == fb::ActivationFunctionType::RELU)
    form.activation = "aten.relu";
  else if (options.fused_activation_function() != fb::ActivationFunctionType::TANH)
    return importer.unsupported("its cells have another activation than tanh or relu");
  return weights;
}

template <class Options>
Result<ValueId> lstm_direction(Importer& importer, const Options& options, ValueId x,
                               const LstmOperands& at, bool reverse) {
  DTR_ASSIGN(const CellWeights weights, lstm_weights(importer, options, at));
  CellState first;
  DTR_ASSIGN(first.hidden, importer.kept(at.state));
  DTR_ASSIGN(first.cell, importer.kept(at.state + 1));
  Builder builder(importer);
  DTR_ASSIGN(const Recurrence made,
             compositions::recurrent_layer(builder, Cell::kLstm, x, first, weights, reverse));
  DTR_TRY(importer.keep(at.state, made.last.hidden));
  DTR_TRY(importer.keep(at.state + 1, made.last.cell));
  return made.states;
}

Result<ValueId> sequence_lstm(Importer& importer) {
  DTR_ASSIGN(const auto* options, importer.options<fb::UnidirectionalSequenceLSTMOptions>(
                                      OptionsType::UnidirectionalSequenceLSTMOptions));
  if (options->diagonal_recurrent_tensors())
    return importer.unsupported("its weights of the state are diagonals");
  DTR_ASSIGN(const ValueId x, steps_of(importer, true, options->time_major()));
  DTR_ASSIGN(ValueId y, lstm_direction(importer, *options, x, {}, false));
  DTR_ASSIGN(y, in_order_of_input(importer, y, true, options->time_major()));
  return importer.as_output(y);
}

Result<ValueId> lstm(Importer& importer) {
  DTR_ASSIGN(const auto* options, importer.options<fb::LSTMOptions>(OptionsType::LSTMOptions));
  if (options->kernel_type() != fb::LSTMKernelType::FULL)
    return importer.unsupported("its form is the basic one, whose state is an input and an output");
  DTR_ASSIGN(const ValueId x, steps_of(importer, false, true));
  DTR_ASSIGN(ValueId y, lstm_direction(importer, *options, x, {}, false));
  DTR_ASSIGN(y, in_order_of_input(importer, y, false, true));
  return importer.as_output(y);
}

Result<Values> bidirectional_lstm(Importer& importer) {
  DTR_ASSIGN(const auto* options, importer.options<fb::BidirectionalSequenceLSTMOptions>(
                                      OptionsType::BidirectionalSequenceLSTMOptions));
  for (size_t operand = 39; operand < importer.op().inputs.size(); ++operand)
    if (importer.has(operand)) return importer.unsupported("it has an auxiliary input");
  DTR_ASSIGN(const ValueId x, steps_of(importer, true, options->time_major()));
  Values directions;
  const LstmOperands forward{.state = 35, .norm = 0};
  const LstmOperands backward{.input = 18,
                              .hidden = 22,
                              .peephole = 26,
                              .bias = 29,
                              .projection = 33,
                              .state = 37,
                              .norm = 0};
  DTR_ASSIGN(directions.emplace_back(), lstm_direction(importer, *options, x, forward, false));
  DTR_ASSIGN(directions.emplace_back(), lstm_direction(importer, *options, x, backward, true));
  return outputs_of(importer, std::move(directions), options->merge_outputs(),
                    options->time_major());
}

// ---- RNN

// Operands from `first` on: weights of the input and of the state, bias, state.
Result<ValueId> rnn_direction(Importer& importer, ValueId x, fb::ActivationFunctionType activation,
                              size_t first, bool reverse) {
  if (activation != fb::ActivationFunctionType::TANH &&
      activation != fb::ActivationFunctionType::RELU)
    return importer.unsupported("its cells have another activation than tanh or relu");
  const Cell cell = activation == fb::ActivationFunctionType::TANH ? Cell::kTanh : Cell::kRelu;
  CellWeights weights;
  DTR_ASSIGN(weights.input, importer.real_value(first));
  DTR_ASSIGN(weights.hidden, importer.real_value(first + 1));
  DTR_ASSIGN(weights.input_bias, weight(importer, first + 2));
  DTR_ASSIGN(const ValueId state, importer.kept(first + 3));
  Builder builder(importer);
  DTR_ASSIGN(const Recurrence made,
             compositions::recurrent_layer(builder, cell, x, {state, {}}, weights, reverse));
  DTR_TRY(importer.keep(first + 3, made.last.hidden));
  return made.states;
}

Result<ValueId> rnn(Importer& importer) {
  DTR_ASSIGN(const auto* options, importer.options<fb::RNNOptions>(OptionsType::RNNOptions));
  DTR_ASSIGN(const ValueId x, steps_of(importer, false, true));
  DTR_ASSIGN(ValueId y, rnn_direction(importer, x, options->fused_activation_function(), 1, false));
  DTR_ASSIGN(y, in_order_of_input(importer, y, false, true));
  return importer.as_output(y);
}

Result<ValueId> sequence_rnn(Importer& importer) {
  DTR_ASSIGN(const auto* options,
             importer.options<fb::SequenceRNNOptions>(OptionsType::SequenceRNNOptions));
  DTR_ASSIGN(const ValueId x, steps_of(importer, true, options->time_major()));
  DTR_ASSIGN(ValueId y, rnn_direction(importer, x, options->fused_activation_function(), 1, false));
  DTR_ASSIGN(y, in_order_of_input(importer, y, true, options->time_major()));
  return importer.as_output(y);
}

Result<Values> bidirectional_rnn(Importer& importer) {
  DTR_ASSIGN(const auto* options, importer.options<fb::BidirectionalSequenceRNNOptions>(
                                      OptionsType::BidirectionalSequenceRNNOptions));
  for (size_t operand = 9; operand < importer.op().inputs.size(); ++operand)
    if (importer.has(operand)) return importer.unsupported("it has an auxiliary input");
  DTR_ASSIGN(const ValueId x, steps_of(importer, true, options->time_major()));
  Values directions;
  for (const bool reverse : {false, true}) {
    DTR_ASSIGN(
        directions.emplace_back(),
        rnn_direction(importer, x, options->fused_activation_function(), reverse ? 5 : 1, reverse));
  }
  return outputs_of(importer, std::move(directions), options->merge_outputs(),
                    options->time_major());
}

// ---- SVDF

// A filter over the last M products of the input with its weights: a depthwise convolution over
// what is kept of them, and sums of `rank` filters each.
Result<ValueId> svdf(Importer& importer) {
  DTR_ASSIGN(const auto* options, importer.options<fb::SVDFOptions>(OptionsType::SVDFOptions));
  DTR_ASSIGN(const std::string activation,
             importer.activation(options->fused_activation_function()));
  const Shape in = importer.tensor(0).shape, of_weight = importer.tensor(1).shape,
              of_time = importer.tensor(2).shape;
  if (in.size() != 2 || of_weight.size() != 2 || of_time.size() != 2 || in[0] < 1 ||
      of_time[1] < 1 || of_weight[0] != of_time[0] || options->rank() < 1 ||
      of_weight[0] % options->rank() != 0)
    return importer.invalid("its operands do not fit");
  const int64_t batch = in[0], filters = of_time[0], memory = of_time[1], rank = options->rank();
  Builder builder(importer);
  DTR_ASSIGN(const ValueId x, importer.real_value(0));
  DTR_ASSIGN(const ValueId by_feature, importer.real_value(1));
  DTR_ASSIGN(ValueId by_time, importer.real_value(2));
  DTR_ASSIGN(ValueId products, builder.emit("aten.linear", {x, by_feature}));
  DTR_ASSIGN(products, builder.view(products, {batch, filters, 1}));
  DTR_ASSIGN(ValueId last, importer.kept(4));
  if (importer.type(last).shape != Shape{batch, filters * memory})
    return importer.invalid("its state does not fit its weights");
  DTR_ASSIGN(last, builder.view(last, {batch, filters, memory}));
  if (memory > 1) {
    DTR_ASSIGN(last, builder.slice(last, 2, 1, memory));
    DTR_ASSIGN(products, builder.concatenate({last, products}, 2));
  }
  DTR_ASSIGN(const ValueId next, builder.view(products, {batch, filters * memory}));
  DTR_TRY(importer.keep(4, next));
  DTR_ASSIGN(by_time, builder.view(by_time, {filters, 1, 1, memory}));
  DTR_ASSIGN(products, builder.view(products, {batch, filters, 1, memory}));
  DTR_ASSIGN(ValueId y, builder.emit("aten.convolution", {products, by_time},
                                     {{"stride", Ints{1, 1}},
                                      {"padding", Ints{0, 0}},
                                      {"dilation", Ints{1, 1}},
                                      {"transposed", false},
                                      {"output_padding", Ints{0, 0}},
                                      {"groups", filters}}));
  DTR_ASSIGN(y, builder.view(y, {batch, filters / rank, rank}));
  DTR_ASSIGN(y, builder.emit("aten.sum.dim_IntList", {y}, {{"dim", Ints{2}}, {"keepdim", false}}));
  DTR_ASSIGN(const ValueId bias, weight(importer, 3));
  if (bias.valid()) {
    DTR_ASSIGN(y, builder.emit("aten.add.Tensor", {y, bias}));
  }
  // LiteRT's integer kernel does not apply the activation: codes end at that of 0 where they have
  // to.
  if (importer.output().type != fb::TensorType::FLOAT32) return importer.as_output(y);
  if (activation == "relu") {
    DTR_ASSIGN(y, builder.emit("aten.relu", {y}));
  } else if (!activation.empty()) {
    DTR_ASSIGN(y, builder.emit("aten.clamp", {y},
                               {{"min", activation == "relu6" ? 0.0 : -1.0},
                                {"max", activation == "relu6" ? 6.0 : 1.0}}));
  }
  return importer.as_output(y);
}

constexpr OperatorDef kRecurrentOperators[] = {
    {BuiltinOperator::BIDIRECTIONAL_SEQUENCE_LSTM, 1, 48, nullptr, bidirectional_lstm},
    {BuiltinOperator::BIDIRECTIONAL_SEQUENCE_RNN, 9, 12, nullptr, bidirectional_rnn},
    {BuiltinOperator::LSTM, 1, 24, lstm},
    {BuiltinOperator::RNN, 5, 5, rnn},
    {BuiltinOperator::SVDF, 3, 5, svdf},
    {BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_LSTM, 1, 24, sequence_lstm},
    {BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_RNN, 5, 5, sequence_rnn},
};

}  // namespace

std::span<const OperatorDef> recurrent_operators() { return kRecurrentOperators; }

}  // namespace dtr::tflite
