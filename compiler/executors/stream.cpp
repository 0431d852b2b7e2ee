#include "compiler/executors/stream.h"

#include <algorithm>
#include <iterator>

namespace dtr {
namespace {

class Stream final : public Executor {
 public:
  Stream(const Module& module, const Graph& graph, std::unique_ptr<Executor> executor)
      : graph_(graph), executor_(std::move(executor)), states_(initial_states(module, graph)) {}

  Result<std::vector<Tensor>> run(std::span<const TensorView> inputs,
                                  const ValueObserver& observer) override {
    std::vector<TensorView> all(inputs.begin(), inputs.end());
    for (const Tensor& state : states_) all.push_back(state.view());
    DTR_ASSIGN(std::vector<Tensor> outputs, executor_->run(all, observer));
    const size_t first = graph_.user_output_count();
    for (size_t i = 0; i < states_.size(); ++i)
      states_[i] = as_state(i, std::move(outputs.at(first + i)));
    outputs.resize(first);
    return outputs;
  }

 private:
  // An executor that evaluates in double gives f64 where the graph has f32.
  Tensor as_state(size_t index, Tensor next) const {
    const Type& type = graph_.type(graph_.state(index));
    if (next.dtype() == type.dtype) return next;
    DTR_CHECK(next.dtype() == DType::kFloat64 && type.dtype == DType::kFloat32);
    Tensor narrowed(type.dtype, type.shape);
    std::ranges::transform(next.values<double>(), narrowed.values<float>().begin(),
                           [](double value) { return static_cast<float>(value); });
    return narrowed;
  }

  const Graph& graph_;
  std::unique_ptr<Executor> executor_;
  std::vector<Tensor> states_;
};

}  // namespace

std::vector<Tensor> initial_states(const Module& module, const Graph& graph) {
  std::vector<Tensor> states;
  for (size_t i = 0; i < graph.state_count(); ++i) {
    const Type& type = graph.type(graph.state(i));
    states.push_back(
        Tensor::copy_of(type.dtype, type.shape, module.constants.bytes(graph.initial_state(i))));
  }
  return states;
}

std::unique_ptr<Executor> make_stream(const Module& module, const Graph& graph,
                                      std::unique_ptr<Executor> executor) {
  if (graph.state_count() == 0) return executor;
  return std::make_unique<Stream>(module, graph, std::move(executor));
}

}  // namespace dtr
