// The only way to change a graph. Types of results come from the op's `infer`; a caller may add
// quantization, nothing else.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace dtr {

// What a new op is made of.
struct OpSpec {
  const OpDef* def = nullptr;
  std::vector<ValueId> operands = {};
  Attributes attributes = {};
  Origin origin = {};
  std::string name = {};  // of the first result; made unique; empty: from the op's name
  // Quantization of the result(s). Without it, ops with kMovesData or kKeepsQuantization take that
  // of operand 0; an op on float operands gives float, one that makes indices integers. An op on
  // quantized operands that gives int8 without either is an error.
  std::optional<Quantization> quantization = {};
};

class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph) {}
  const Graph& graph() const { return graph_; }

  ValueId add_input(Type type, std::string_view name);
  ValueId add_constant(Type type, ConstantId constant, std::string_view name);
  // As many outputs as before keep their layouts; else all are contiguous.
  void set_outputs(std::vector<ValueId> outputs);
  void set_output_layout(size_t index, Layout layout) { graph_.output_layouts_.at(index) = layout; }

  // Inserts an op before `before` (at the end if invalid). Verifies and infers: an error names the
  // op, operand and rule.
  Result<OpId> insert(OpId before, OpSpec spec);
  // insert for an op of one result, returning that.
  Result<ValueId> insert_value(OpId before, OpSpec spec);
  Result<ValueId> append(OpSpec spec) { return insert_value(OpId{}, std::move(spec)); }

  // Every use of `from`, outputs included, becomes a use of `to`. Types must have the same shape
  // and dtype.
  void replace_uses(ValueId from, ValueId to);
  // An optional operand beyond the last one is added, absent ones before it included.
  void set_operand(OpId op, size_t index, ValueId value);
  void set_attribute(OpId op, std::string_view name, AttributeValue value);
  void erase_attribute(OpId op, std::string_view name);
  void set_origin(OpId op, Origin origin);
  // Erases an op whose results are unused.
  void erase(OpId op);
  // replace_uses of the only result, then erase.
  void replace(OpId op, ValueId with);
  // Moves an op before another (at the end if invalid). The caller keeps the order valid; the
  // verifier checks it.
  void move_before(OpId op, OpId before);

  void set_quantization(ValueId value, std::optional<Quantization> quantization);
  void set_layout(ValueId value, Layout layout);
  // Dtype and quantization together, where a value changes between float and integer.
  void set_element_type(ValueId value, DType dtype, std::optional<Quantization> quantization);
  void rename(ValueId value, std::string_view name);
  // Runs `verify` and `infer` of an op again after attributes or operands changed; updates shapes
  // of its results.
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
