// What the files of `compiler/transforms/` share to match and change graphs.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "compiler/ops/define.h"
#include "compiler/transforms/pass.h"

namespace dtr {

using ops::RealBounds;

// What the functions of a pass share. A pass of more than one function derives from it and has
// `Result<size_t> run()`.
class GraphPass {
 public:
  GraphPass(Module& module, Graph& graph, Remarks& remarks)
      : module_(module), graph_(graph), rewriter_(graph), remarks_(remarks) {}

 protected:
  Module& module_;
  Graph& graph_;
  Rewriter rewriter_;
  Remarks& remarks_;
  size_t changes_ = 0;
};

// PassDef::run of such a class.
template <class Pass>
Result<size_t> run_pass(Module& module, Graph& graph, Remarks& remarks) {
  return Pass(module, graph, remarks).run();
}

// Calls visit(op) for every op in program order; the visit may erase the op and insert others
// before it.
template <class Visit>
Result<void> for_each_op(const Graph& graph, Visit visit) {
  for (OpId id = graph.first_op(), next; id.valid(); id = next) {
    next = graph.op(id).next;
    DTR_TRY(visit(id));
  }
  return {};
}

// The same from the last op to the first; the visit may erase the op.
template <class Visit>
void for_each_op_backwards(const Graph& graph, Visit visit) {
  for (OpId id = graph.last_op(), previous; id.valid(); id = previous) {
    previous = graph.op(id).previous;
    visit(id);
  }
}

// A pass that visits every op once, in program order: `Pass` derives from it and has `Status
// visit(OpId)`, which may erase the op and insert others before it, and counts what it changes in
// `changes_`.
template <class Pass>
class EachOpPass : public GraphPass {
 public:
  using GraphPass::GraphPass;
  Result<size_t> run() {
    DTR_TRY(for_each_op(graph_, [this](OpId id) { return static_cast<Pass*>(this)->visit(id); }));
    return changes_;
  }
};

// The real values of a float constant.
std::vector<double> constant_doubles(const Module& module, const Graph& graph, ValueId constant);
// A new constant of that float dtype, each value rounded once.
ValueId add_float_constant(Module& module, Rewriter& rewriter, DType dtype, Shape shape,
                           std::span<const double> values, std::string_view name);
bool is_float_constant(const Graph& graph, ValueId value);
// Whether dtype, shape and quantization of two values are the same: layouts of results are chosen
// later.
bool same_type_and_quantization(const Graph& graph, ValueId a, ValueId b);
// Whether a constant has this value everywhere: real value, so zero point where it is quantized.
bool is_constant_of(const Module& module, const Graph& graph, ValueId value, double wanted);

// Erases an op of one result that nobody reads any more.
void erase_if_unused(Rewriter& rewriter, OpId op);

// Puts a new op of one result in the place of `op`: its result takes name, layout and quantization
// of the old one, and the op's origin unless the spec has one. The new op only: others that were
// made for it stand before it.
Result<ValueId> replace_op(Rewriter& rewriter, OpId op, OpSpec spec);

// Of `last` and of the ops between `from` and it that only it reads, directly or through each
// other: what one op in their place stands for.
Origin origin_back_to(const Graph& graph, ValueId from, OpId last);

// The value that a float constant has everywhere, nullopt if it is no constant or has several.
std::optional<double> uniform_value(const Module& module, const Graph& graph, ValueId value);

// The bounds that an op clamps to: those of relu and clamp. An op of another kind has none.
std::optional<RealBounds> clamp_bounds(const Op& op);
// Name of the fused activation with these bounds: "relu6" for [0, 6].
std::optional<std::string_view> activation_name(const RealBounds& bounds);
// RealBounds that all results of an op are known to keep: of its clamp or fused activation, or of
// its kind (softmax, sigmoid, tanh).
std::optional<RealBounds> result_bounds(const Op& op);

// Whether the op may have a fused activation, and has none.
bool takes_activation(const Op& op);

}  // namespace dtr
