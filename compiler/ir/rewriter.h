// The only interface that changes a graph. Types of results come from the op's `infer`; a caller
// can only add a quantization.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace dtr {

// Describes an op to insert.
struct OpSpec {
  const OpDef* def = nullptr;
  std::vector<ValueId> operands = {};
  Attributes attributes = {};
  Origin origin = {};
  std::string name = {};  // of the first result; made unique; empty: derived from the op's name
  // Quantization of the results. Without it, ops with kMovesData or kKeepsQuantization take that of
  // operand 0, float operands give float results, and index results stay integers. An op with
  // quantized operands and an int8 result without a quantization is an error.
  std::optional<Quantization> quantization = {};
};

class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph) {}
  const Graph& graph() const { return graph_; }

  ValueId add_input(Type type, std::string_view name);
  // Adds a state behind all inputs; returns its value before the run. `set_outputs` must then list
  // the states' values after the run, in the order of the states, behind all other outputs.
  ValueId add_state(Type type, ConstantId initial, std::string_view name);
  void set_initial_state(size_t index, ConstantId initial) {
    graph_.initial_states_.at(index) = initial;
  }
  ValueId add_constant(Type type, ConstantId constant, std::string_view name);
  // If the number of outputs is unchanged, they keep their layouts; else all are contiguous.
  void set_outputs(std::vector<ValueId> outputs);
  void set_output_layout(size_t index, Layout layout) { graph_.output_layouts_.at(index) = layout; }

  // Inserts an op before `before` (at the end if invalid), verifies it and infers its types.
  // Errors: those of the op's `verify`, naming op, operand and rule.
  Result<OpId> insert(OpId before, OpSpec spec);
  // Inserts an op of one result and returns the result. Errors: as insert.
  Result<ValueId> insert_value(OpId before, OpSpec spec);
  Result<ValueId> append(OpSpec spec) { return insert_value(OpId{}, std::move(spec)); }

  // Replaces every use of `from`, also as an output, by `to`, which must have the same shape and
  // dtype.
  void replace_uses(ValueId from, ValueId to);
  // Sets an operand. If `index` is beyond the last operand, absent optional operands are added
  // before it.
  void set_operand(OpId op, size_t index, ValueId value);
  void set_attribute(OpId op, std::string_view name, AttributeValue value);
  void erase_attribute(OpId op, std::string_view name);
  void set_origin(OpId op, Origin origin);
  // Erases an op whose results are unused.
  void erase(OpId op);
  // replace_uses of the op's only result, then erase.
  void replace(OpId op, ValueId with);
  // Moves an op before another (to the end if invalid). The caller must keep definitions before
  // uses; the verifier checks it.
  void move_before(OpId op, OpId before);

  void set_quantization(ValueId value, std::optional<Quantization> quantization);
  void set_layout(ValueId value, Layout layout);
  // Sets dtype and quantization of a value that changes between float and integer.
  void set_element_type(ValueId value, DType dtype, std::optional<Quantization> quantization);
  void rename(ValueId value, std::string_view name);
  // Verifies an op again after its attributes or operands changed, and infers the shapes of its
  // results. Errors: those of the op's `verify`.
  Result<void> refresh(OpId op);

 private:
  std::string unique_name(std::string_view wanted);
  ValueId add_value(Value value);
  void add_use(ValueId value, Use use);
  void remove_use(ValueId value, Use use);
  void link(OpId op, OpId before);
  void unlink(OpId op);

  Graph& graph_;
};

}  // namespace dtr
