#include "host/accuracy/error_shares.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/executors/executor.h"
#include "compiler/ops/ops.h"
#include "compiler/support/thread_pool.h"
#include "host/accuracy/compare.h"

namespace dtr {

bool changes_quantization(const OpDef* def) {
  return def == &ops::kQuantize || def == &ops::kDequantize || def == &ops::kRequantize;
}

namespace {

// An op of the quantized graph, and the value of the float graph that its result stands for.
struct Replacement {
  OpId op;
  ValueId result, of;
};

// Signal and error of one output over all samples; the error's products with each step.
struct OutputSums {
  double signal = 0, error = 0;
  std::vector<double> products;
};

class Sharer {
 public:
  Sharer(const Module& module, const Graph& ideal, const Graph& quantized, unsigned threads)
      : module_(module), ideal_(ideal), quantized_(quantized), threads_(threads) {
    for (const OpId op : quantized.ops())
      for (const ValueId result : quantized.op(op).results)
        if (const ValueId of = counterpart(result); of.valid())
          replacements_.push_back({op, result, of});
    outputs_.resize(ideal.outputs().size());
    for (OutputSums& sums : outputs_) sums.products.resize(replacements_.size());
  }

  Result<ErrorShares> run(const Samples& samples, size_t most) {
    ErrorShares shares;
    if (ideal_.state_count() > 0 || replacements_.empty()) return shares;
    shares.samples = std::min({samples.size(), most, affordable()});
    for (size_t i = 0; i < shares.samples; ++i)
      DTR_TRY(add_sample(samples.inputs(i * samples.size() / shares.samples)));
    double all = 0;
    std::vector<double> parts(replacements_.size());
    for (const OutputSums& sums : outputs_) {
      if (!(sums.signal > 0) || !(sums.error > 0) || !std::isfinite(sums.error)) continue;
      all += sums.error / sums.signal;
      for (size_t k = 0; k < parts.size(); ++k) parts[k] += sums.products[k] / sums.signal;
    }
    for (size_t k = 0; k < parts.size(); ++k)
      shares.share[replacements_[k].op] += all > 0 ? parts[k] / all : 0;
    return shares;
  }

 private:
  // By value slot; constants of the module are viewed, all others owned.
  using Tensors = std::vector<Tensor>;

  ValueId counterpart(ValueId value) const {
    for (;;) {
      if (value.index < ideal_.value_slots() && !ideal_.value(value).erased)
        return ideal_.type(value).dtype == DType::kFloat32 ? value : ValueId();
      const OpId producer = quantized_.producer(value);
      if (!producer.valid() || !changes_quantization(quantized_.op(producer).def)) return {};
      value = quantized_.op(producer).operands[0];
    }
  }

  // Every step evaluates the ops behind it: half of them on average.
  size_t affordable() const {
    int64_t macs = 0;
    for (const OpId op : ideal_.ops())
      if (const auto count = ideal_.op(op).def->macs) macs += count(BoundOpView(ideal_, op));
    const int64_t each =
        std::max<int64_t>(1, macs * static_cast<int64_t>(replacements_.size()) / 2);
    return static_cast<size_t>(std::max<int64_t>(1, kMostShareMacs / each));
  }

  static Result<Tensors> values_of(Executor& executor, const Graph& graph,
                                   std::span<const TensorView> inputs) {
    Tensors tensors(graph.value_slots());
    const auto outputs = executor.run(inputs, [&](ValueId value, const TensorView& view) {
      const Type& type = graph.type(value);
      if (type.quantized() && type.quantization->per_channel()) return;
      const bool plain = !type.quantized() && type.dtype != DType::kFloat32;
      tensors[value.index] =
          plain ? Tensor::copy_of(view.dtype, view.shape, {view.data, view.bytes()})
                : real_values(view, type);
    });
    if (!outputs) return tl::unexpected(outputs.error());
    return tensors;
  }

  Result<void> add_sample(const std::vector<TensorView>& inputs) {
    const auto real = make_reference_executor(module_, ideal_);
    const auto integer = make_reference_executor(module_, quantized_);
    std::vector<Tensor> own;
    std::vector<TensorView> real_inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Type& type = quantized_.type(quantized_.inputs()[i]);
      own.push_back(type.quantized() ? real_values(inputs[i], type) : Tensor());
      real_inputs.push_back(type.quantized() ? own.back().view() : inputs[i]);
    }
    DTR_ASSIGN(const Tensors expected, values_of(*real, ideal_, real_inputs));
    DTR_ASSIGN(const Tensors actual, values_of(*integer, quantized_, inputs));
    // Outputs after each step; before the first they are the float model's.
    std::vector<std::vector<Tensor>> after(replacements_.size());
    parallel_for(after.size(), threads_,
                 [&](size_t k) { after[k] = outputs_after(k, expected, actual); });
    for (size_t o = 0; o < outputs_.size(); ++o) {
      const ValueId output = ideal_.outputs()[o];
      if (ideal_.type(output).dtype != DType::kFloat32) continue;
      add_output(outputs_[o], view_of(output, expected), after, o);
    }
    return {};
  }

  static void add_output(OutputSums& sums, const TensorView& expected,
                         const std::vector<std::vector<Tensor>>& after, size_t output) {
    const std::span<const float> wanted = expected.values<float>();
    const std::span<const float> given = after.back()[output].values<float>();
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!std::isfinite(wanted[i])) continue;
      const double error = static_cast<double>(given[i]) - wanted[i];
      sums.signal += static_cast<double>(wanted[i]) * wanted[i];
      sums.error += error * error;
      double before = wanted[i];
      for (size_t k = 0; k < after.size(); ++k) {
        const double now = after[k][output].values<float>()[i];
        sums.products[k] += (now - before) * error;
        before = now;
      }
    }
  }

  TensorView view_of(ValueId value, const Tensors& tensors) const {
    if (ideal_.is_constant(value)) {
      const Value& constant = ideal_.value(value);  // read only
      return {constant.type.dtype, constant.type.shape,
              const_cast<std::byte*>(module_.constants.bytes(constant.constant).data())};
    }
    return tensors[value.index].view();
  }

  // The outputs of the float graph, in which the values up to replacement `last` are those of the
  // quantized one.
  std::vector<Tensor> outputs_after(size_t last, const Tensors& expected,
                                    const Tensors& actual) const {
    std::vector<TensorView> views(ideal_.value_slots());
    std::vector<bool> changed(ideal_.value_slots());
    for (size_t k = 0; k <= last; ++k) {
      const auto& [op, result, of] = replacements_[k];
      const Tensor& given = actual[result.index];
      if (given.elements() != ideal_.type(of).elements()) continue;
      views[of.index] = given.view();
      views[of.index].shape = ideal_.type(of).shape;
      changed[of.index] = true;
    }
    // What the outputs need beyond values that are given.
    std::vector<bool> needed(ideal_.value_slots());
    for (const ValueId output : ideal_.outputs()) needed[output.index] = true;
    std::vector<OpId> ops;
    for (OpId id = ideal_.last_op(); id.valid(); id = ideal_.op(id).previous) {
      const Op& op = ideal_.op(id);
      if (std::ranges::none_of(op.results, [&](ValueId result) {
            return needed[result.index] && !changed[result.index];
          }))
        continue;
      ops.push_back(id);
      for (const ValueId operand : op.operands)
        if (operand.valid()) needed[operand.index] = true;
    }
    std::vector<Tensor> owned(ideal_.value_slots());
    for (auto id = ops.rbegin(); id != ops.rend(); ++id) {
      const Op& op = ideal_.op(*id);
      if (std::ranges::none_of(op.operands, [&](ValueId operand) {
            return operand.valid() && changed[operand.index];
          }))
        continue;
      evaluate(*id, expected, views, changed, owned);
    }
    std::vector<Tensor> outputs;
    for (const ValueId output : ideal_.outputs()) {
      const TensorView view =
          changed[output.index] ? views[output.index] : view_of(output, expected);
      outputs.push_back(Tensor::copy_of(view.dtype, view.shape, {view.data, view.bytes()}));
    }
    return outputs;
  }

  void evaluate(OpId id, const Tensors& expected, std::vector<TensorView>& views,
                std::vector<bool>& changed, std::vector<Tensor>& owned) const {
    const Op& op = ideal_.op(id);
    std::vector<TensorView> operands;
    for (const ValueId operand : op.operands)
      operands.push_back(!operand.valid()         ? TensorView{}
                         : changed[operand.index] ? views[operand.index]
                                                  : view_of(operand, expected));
    std::vector<Tensor> made;
    std::vector<TensorView> results;
    for (const ValueId result : op.results) {
      made.emplace_back(ideal_.type(result).dtype, ideal_.type(result).shape);
      results.push_back(made.back().view());
    }
    reference_evaluation(ideal_, id)(BoundOpView(ideal_, id), operands, results);
    for (size_t i = 0; i < made.size(); ++i) {
      const uint32_t result = op.results[i].index;
      if (changed[result]) continue;  // given by a replacement
      views[result] = results[i];
      owned[result] = std::move(made[i]);
      changed[result] = true;
    }
  }

  const Module& module_;
  const Graph& ideal_;
  const Graph& quantized_;
  const unsigned threads_;
  std::vector<Replacement> replacements_;  // in program order
  std::vector<OutputSums> outputs_;
};

}  // namespace

Result<ErrorShares> share_errors(const Module& module, const Graph& ideal, const Graph& quantized,
                                 const Samples& samples, size_t most_samples, unsigned threads) {
  return Sharer(module, ideal, quantized, threads).run(samples, most_samples);
}

}  // namespace dtr
