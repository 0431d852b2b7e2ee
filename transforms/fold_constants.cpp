// Replaces ops on constants by their result, evaluated in double and rounded once. Quantize and dequantize of constants stay: they are
// what `fold_quantization` reads. Results that are much larger than what they are made of (a pad, a broadcast) stay ops, because constants
// cost flash.
#include "ir/tensor.h"
#include "transforms/edit.h"

namespace dtr::passes {
namespace {

constexpr int64_t kMaxGrowthBytes = 4096;

class Pass {
 public:
  Pass(Program& program, Graph& graph) : program_(program), graph_(graph), rewriter_(graph) {}

  Result<size_t> run() {
    DTR_TRY(for_each_op(graph_, [&](OpId id) -> Status {
      if (!foldable(graph_.op(id))) return {};
      fold(id);
      return {};
    }));
    return changes_;
  }

 private:
  bool foldable(const Op& op) const {
    if (op.def == &ops::kQuantize || op.def == &ops::kDequantize || op.results.empty()) return false;
    int64_t operand_bytes = 0;
    bool quantized = false;
    for (const ValueId operand : op.operands) {
      if (!operand.valid()) continue;
      if (!graph_.is_constant(operand)) return false;
      operand_bytes += graph_.type(operand).bytes();
      quantized = quantized || graph_.type(operand).quantized();
    }
    int64_t result_bytes = 0;
    for (const ValueId result : op.results) {
      result_bytes += graph_.type(result).bytes();
      quantized = quantized || graph_.type(result).quantized();
    }
    return result_bytes <= operand_bytes + kMaxGrowthBytes && (quantized ? op.def->evaluate_integer : op.def->evaluate_double) != nullptr;
  }

  void fold(OpId id) {
    const Op& op = graph_.op(id);
    std::vector<Tensor> operands, results;
    std::vector<TensorView> operand_views, result_views;
    bool quantized = false;
    for (const ValueId operand : op.operands) {
      operands.push_back(operand.valid() ? load(operand) : Tensor());
      operand_views.push_back(operands.back().view());
      quantized = quantized || (operand.valid() && graph_.type(operand).quantized());
    }
    for (const ValueId result : op.results) {
      const Type& type = graph_.type(result);
      results.emplace_back(type.dtype == DType::kFloat32 ? DType::kFloat64 : type.dtype, type.shape);
      result_views.push_back(results.back().view());
      quantized = quantized || type.quantized();
    }
    (quantized ? op.def->evaluate_integer : op.def->evaluate_double)(BoundOpView(graph_, id), operand_views, result_views);

    const std::vector<ValueId> folded = op.results;
    std::vector<std::string> names;
    std::vector<ValueId> constants;
    for (size_t i = 0; i < folded.size(); ++i) {
      names.push_back(graph_.value(folded[i]).name);
      constants.push_back(
          store(results[i], Type(graph_.type(folded[i])), names.back()));  // a copy: a new constant moves the graph's values
      rewriter_.replace_uses(folded[i], constants.back());
    }
    rewriter_.erase(id);
    for (size_t i = 0; i < constants.size(); ++i) rewriter_.rename(constants[i], names[i]);
    ++changes_;
  }

  Tensor load(ValueId constant) const {
    const Type& type = graph_.type(constant);
    if (type.dtype != DType::kFloat32)
      return Tensor::copy_of(type.dtype, type.shape, program_.constants.bytes(graph_.value(constant).constant));
    Tensor converted(DType::kFloat64, type.shape);
    const std::vector<double> values = constant_doubles(program_, graph_, constant);
    std::copy(values.begin(), values.end(), converted.values<double>().begin());
    return converted;
  }

  ValueId store(const Tensor& tensor, const Type& type, std::string_view name) {
    if (type.dtype == DType::kFloat32) {
      const ValueId id = add_float_constant(program_, rewriter_, type.dtype, type.shape, tensor.values<double>(), name);
      rewriter_.set_layout(id, type.layout);
      return id;
    }
    return rewriter_.add_constant(type, program_.constants.add(type.dtype, tensor.bytes()), name);
  }

  Program& program_;
  Graph& graph_;
  Rewriter rewriter_;
  size_t changes_ = 0;
};

Result<size_t> run(Program& program, Graph& graph, Remarks&) { return Pass(program, graph).run(); }

}  // namespace

constinit const PassDef kFoldConstants{
    .name = "fold_constants", .summary = "replace ops on constants by their result", .exactness = Exactness::kFloatRounding, .run = run};

}  // namespace dtr::passes
