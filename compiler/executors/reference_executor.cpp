// The reference executor: evaluates the ops of a graph in program order, each by its OpDef. Tensors
// are freed after their last use.
#include <algorithm>
#include <memory>

#include "compiler/executors/executor.h"
#include "compiler/ops/custom.h"
#include "compiler/support/cancellation.h"

namespace dtr {
namespace {

constexpr int64_t kMaxTensorBytes = int64_t{1} << 32;

Tensor to_double(const TensorView& view) {
  Tensor converted(DType::kFloat64, view.shape);
  std::ranges::copy(view.values<float>(), converted.values<double>().begin());
  return converted;
}

class ReferenceExecutor final : public Executor {
 public:
  ReferenceExecutor(const Module& module, const Graph& graph, Precision precision)
      : module_(module),
        graph_(graph),
        precision_(precision),
        constants_(graph.value_slots()),
        converted_(graph.value_slots()),
        last_use_(graph.value_slots()) {
    for (uint32_t i = 0; i < graph.value_slots(); ++i) {
      const Value& value = graph.value({i});
      if (value.kind != ValueKind::kConstant || value.erased || value.unused()) continue;
      // Evaluation reads operands only, so that the pool's memory may be viewed as a tensor.
      constants_[i] = {value.type.dtype, value.type.shape,
                       const_cast<std::byte*>(module.constants.bytes(value.constant).data())};
      if (evaluated_dtype(value.type) != value.type.dtype) {
        converted_[i] = to_double(constants_[i]);
        constants_[i] = converted_[i].view();
      }
    }
    for (const OpId id : graph.ops())
      for (const ValueId operand : graph.op(id).operands)
        if (operand.valid()) last_use_[operand.index] = id;
    executable_ = check();
  }

  Result<std::vector<Tensor>> run(std::span<const TensorView> inputs,
                                  const ValueObserver& observer) override {
    DTR_TRY(executable_);
    DTR_CHECK(inputs.size() == graph_.inputs().size());
    std::vector<TensorView> views = constants_;
    std::vector<Tensor> owned(graph_.value_slots());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId id = graph_.inputs()[i];
      DTR_CHECK(inputs[i].shape == graph_.type(id).shape);
      views[id.index] = inputs[i];
      if (inputs[i].dtype != evaluated_dtype(graph_.type(id))) {
        DTR_CHECK(inputs[i].dtype == graph_.type(id).dtype);
        owned[id.index] = to_double(inputs[i]);
        views[id.index] = owned[id.index].view();
      }
      if (observer) observer(id, views[id.index]);
    }
    std::vector<TensorView> operands;
    std::vector<TensorView> results;
    for (const OpId id : graph_.ops()) {
      check_cancelled();
      const Op& op = graph_.op(id);
      operands.clear();
      results.clear();
      for (const ValueId operand : op.operands)
        operands.push_back(operand.valid() ? views[operand.index] : TensorView{});
      for (const ValueId result : op.results) {
        owned[result.index] =
            Tensor(evaluated_dtype(graph_.type(result)), graph_.type(result).shape);
        results.push_back(views[result.index] = owned[result.index].view());
      }
      evaluation(id)(BoundOpView(graph_, id), operands, results);
      DTR_TRY(ops::kernel_status(module_, graph_, id));
      for (const ValueId result : op.results) {
        if (observer) observer(result, views[result.index]);
        if (graph_.value(result).unused()) owned[result.index] = Tensor();
      }
      for (const ValueId operand : op.operands)
        if (operand.valid() && last_use_[operand.index] == id &&
            graph_.value(operand).output_uses == 0)
          owned[operand.index] = Tensor();
    }
    std::vector<Tensor> outputs;
    for (const ValueId id : graph_.outputs()) {
      const TensorView& view = views[id.index];
      const bool sole_owner =
          graph_.value(id).kind == ValueKind::kResult && graph_.value(id).output_uses == 1;
      outputs.push_back(sole_owner
                            ? std::move(owned[id.index])
                            : Tensor::copy_of(view.dtype, view.shape, {view.data, view.bytes()}));
    }
    return outputs;
  }

 private:
  DType evaluated_dtype(const Type& type) const {
    return type.dtype == DType::kFloat32 && precision_ == Precision::kDouble ? DType::kFloat64
                                                                             : type.dtype;
  }

  Evaluation evaluation(OpId id) const { return reference_evaluation(graph_, id, precision_); }

  // That every op is well formed and can be evaluated in memory that a machine has.
  Result<void> check() const {
    for (const OpId id : graph_.ops()) {
      const BoundOpView view(graph_, id);
      const auto at_op = [&](Diagnostic diagnostic) {
        diagnostic.place = place_of(module_, graph_, id);
        return tl::unexpected<Diagnostic>(std::move(diagnostic));
      };
      if (Result<void> verified = verify_op(view); !verified)
        return at_op(std::move(verified).error());
      if (evaluation(id) == nullptr)
        return at_op(
            {DiagnosticId::kIrInvalid,
             std::string(view->def->name) + " cannot be evaluated on operands of these types",
             {}});
      for (const Type* type : view->results) {
        const auto elements = checked_element_count(type->shape);
        if (!elements || *elements > kMaxTensorBytes / 8)
          return at_op({DiagnosticId::kIrInvalid,
                        std::string(view->def->name) + " makes a tensor of shape " +
                            to_string(type->shape) + ", too large to evaluate",
                        {}});
      }
    }
    return {};
  }

  const Module& module_;
  const Graph& graph_;
  Precision precision_;
  std::vector<TensorView> constants_;  // by value; views of the pool or of converted_
  std::vector<Tensor> converted_;      // constants in double
  std::vector<OpId> last_use_;         // by value
  Result<void> executable_;
};

}  // namespace

Evaluation reference_evaluation(const Graph& graph, OpId id, Precision precision) {
  const Op& op = graph.op(id);
  const auto integer = [&](ValueId value) {
    return value.valid() && graph.type(value).quantized() && !is_float(graph.type(value).dtype);
  };
  if ((!op.operands.empty() && integer(op.operands[0])) || integer(op.results[0]))
    return op.def->evaluate_integer;
  return precision == Precision::kDouble ? op.def->evaluate_double : op.def->evaluate_float;
}

std::unique_ptr<Executor> make_reference_executor(const Module& module, const Graph& graph,
                                                  Precision precision) {
  return std::make_unique<ReferenceExecutor>(module, graph, precision);
}

}  // namespace dtr
