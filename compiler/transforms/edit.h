// Helpers that passes share to match and change graphs.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "compiler/ops/define.h"
#include "compiler/transforms/pass.h"

namespace dtr {

using ops::RealBounds;

// The state of a pass. A pass with more than one function derives from it and has `Result<size_t>
// run()`.
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

// PassDef::run of such a class. Errors: those of the pass.
template <class Pass>
Result<size_t> run_pass(Module& module, Graph& graph, Remarks& remarks) {
  return Pass(module, graph, remarks).run();
}

// Calls visit(op) for every op in program order; the callback may erase the op and insert others
// before it. Errors: the first one that the callback returns.
template <class Visit>
Result<void> for_each_op(const Graph& graph, Visit visit) {
  for (OpId id = graph.first_op(), next; id.valid(); id = next) {
    next = graph.op(id).next;
    DTR_TRY(visit(id));
  }
  return {};
}

// The same from the last op to the first; the callback may erase the op.
template <class Visit>
void for_each_op_backwards(const Graph& graph, Visit visit) {
  for (OpId id = graph.last_op(), previous; id.valid(); id = previous) {
    previous = graph.op(id).previous;
    visit(id);
  }
}

// A pass that visits every op once, in program order. `Pass` derives from it and has `Result<void>
// visit(OpId)`, which may erase the op and insert others before it, and counts its changes in
// `changes_`. Errors: those of `visit`.
template <class Pass>
class EachOpPass : public GraphPass {
 public:
  using GraphPass::GraphPass;
  Result<size_t> run() {
    DTR_TRY(for_each_op(graph_, [this](OpId id) { return static_cast<Pass*>(this)->visit(id); }));
    return changes_;
  }
};

// The elements of a float constant.
std::vector<double> constant_doubles(const Module& module, const Graph& graph, ValueId constant);
// A new constant of that float dtype, each value rounded once.
ValueId add_float_constant(Module& module, Rewriter& rewriter, DType dtype, Shape shape,
                           std::span<const double> values, std::string_view name);
bool is_float_constant(const Graph& graph, ValueId value);
// True if two values have the same dtype, shape and quantization. Layouts are not compared: they
// are assigned after passes.
bool same_type_and_quantization(const Graph& graph, ValueId a, ValueId b);
// True for a constant whose elements all have the real value `wanted` (its zero point for 0, if it
// is quantized).
bool is_constant_of(const Module& module, const Graph& graph, ValueId value, double wanted);

// The code of a real value, rounded and limited as `quantize` does; `to` is per tensor.
double code_of(double value, const Quantization& to);

// Erases an op of one result if the result has no readers.
void erase_if_unused(Rewriter& rewriter, OpId op);

// Replaces `op` by a new op of one result, which takes name, layout and quantization of the old
// result, and the op's origin unless the spec has one. Other new ops that it needs must have been
// inserted before `op`. Errors: those of Rewriter::insert.
Result<ValueId> replace_op(Rewriter& rewriter, OpId op, OpSpec spec);

// A view of `x`, inserted before that op. Errors: those of Rewriter::insert.
Result<ValueId> insert_view(Rewriter& rewriter, OpId before, ValueId x, const Shape& shape,
                            const Origin& origin);
// Replaces `op` by `spec`, an op on views of its operands, and a view back to its result's shape.
// The new op's result takes the old one's name. Errors: those of Rewriter::insert.
Result<void> replace_between_views(Rewriter& rewriter, OpId op, OpSpec spec);

// The origin of an op that replaces a pattern: the merged origins of `last` and of the ops between
// `from` and `last` that only `last` reads, directly or through each other.
Origin origin_back_to(const Graph& graph, ValueId from, OpId last);

// The value of all elements of a float constant; std::nullopt if it is not a constant or its
// elements differ.
std::optional<double> uniform_value(const Module& module, const Graph& graph, ValueId value);

// The bounds that relu and clamp limit to; std::nullopt for other ops.
std::optional<RealBounds> clamp_bounds(const Op& op);
// The name of the fused activation with these bounds ("relu6" for [0, 6]), if there is one.
std::optional<std::string_view> activation_name(const RealBounds& bounds);
// Bounds of all results of an op, if known: of its clamp or fused activation, or of its function
// (softmax, sigmoid, tanh).
std::optional<RealBounds> result_bounds(const Op& op);

// True if the op's operator supports a fused activation and the op has none.
bool takes_activation(const Op& op);

}  // namespace dtr
