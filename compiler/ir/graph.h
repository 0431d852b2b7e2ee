// Graph: straight-line SSA over tensors. Values and ops are handles into tables owned by the graph;
// ops form a linked list, so that passes insert and erase anywhere in constant time. A reference to
// a value or op stays valid while others are added. Read through `Graph`, change through `Rewriter`
// (compiler/ir/rewriter.h).
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/ir/attributes.h"
#include "compiler/ir/constant_pool.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/type.h"

namespace dtr {

struct ValueId {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  auto operator<=>(const ValueId&) const = default;
};

struct OpId {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  auto operator<=>(const OpId&) const = default;
};

// The source operators that an op implements: sorted ids into Module::sources. If they are split
// over several ops (groups, tiles), this op is part `part` of `parts`.
struct Origin {
  std::vector<uint32_t> sources;
  uint32_t part = 0;
  uint32_t parts = 1;
  // A step of a computation that int8 would spoil, as a factorization: quantization leaves the op
  // float (GraphBuilder::KeepsFloat).
  bool keeps_float = false;
  bool operator==(const Origin&) const = default;
};
// Union of the sources; a whole op unless both are the same part; float only if both are kept so.
Origin merge(const Origin& a, const Origin& b);

enum class ValueKind : uint8_t { kInput, kConstant, kResult };

// An operand that refers to a value.
struct Use {
  OpId op;
  uint32_t operand;
  bool operator==(const Use&) const = default;
};

struct Value {
  Type type;
  std::string name;  // unique in the graph, [A-Za-z_][A-Za-z0-9_.]*
  ValueKind kind = ValueKind::kResult;
  OpId producer;             // kResult
  uint32_t result = 0;       // kResult: which result of the producer
  ConstantId constant;       // kConstant
  std::vector<Use> uses;     // by ops, unordered, without outputs of the graph
  uint32_t output_uses = 0;  // how often the value is an output of the graph
  bool erased = false;

  bool unused() const { return uses.empty() && output_uses == 0; }
  bool has_one_use() const { return uses.size() + output_uses == 1; }
};

struct Op {
  const OpDef* def = nullptr;
  std::vector<ValueId> operands;  // invalid where an optional operand is absent
  // index of each operand's use in `uses` of its value, to remove uses in constant time
  std::vector<uint32_t> use_slots;
  std::vector<ValueId> results;
  Attributes attributes;
  Origin origin;
  OpId previous;
  OpId next;
  bool erased = false;
};

// Operand `index` of an op, invalid if it is absent.
inline ValueId operand_or_absent(const Op& op, size_t index) {
  return index < op.operands.size() ? op.operands[index] : ValueId{};
}

class Graph {
 public:
  std::string name = "forward";

  const Value& value(ValueId id) const { return values_.at(id.index); }
  const Op& op(OpId id) const { return ops_.at(id.index); }
  const Type& type(ValueId id) const { return value(id).type; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }

  // States: tensors that the program keeps between runs. Each is an input, whose value is the state
  // before the run, and an output, the state after it, of the same type. They are the last inputs
  // and the last outputs, in the same order, so that a pass that keeps inputs and outputs keeps
  // states too.
  size_t state_count() const { return initial_states_.size(); }
  size_t user_input_count() const { return inputs_.size() - initial_states_.size(); }
  size_t user_output_count() const { return outputs_.size() - initial_states_.size(); }
  ValueId state(size_t index) const { return inputs_.at(user_input_count() + index); }
  ValueId next_state(size_t index) const { return outputs_.at(user_output_count() + index); }
  // The state before the first run, and after a reset.
  ConstantId initial_state(size_t index) const { return initial_states_.at(index); }
  // The physical layout in which the program returns an output. Layout assignment gives the value's
  // type the same layout.
  Layout output_layout(size_t index) const { return output_layouts_.at(index); }

  // Ops in program order. An iterator stays valid as long as its op exists; other ops may be
  // inserted and erased.
  class OpIterator {
   public:
    OpIterator(const Graph* graph, OpId id) : graph_(graph), id_(id) {}
    OpId operator*() const { return id_; }
    OpIterator& operator++() {
      id_ = graph_->op(id_).next;
      return *this;
    }
    bool operator==(const OpIterator& other) const { return id_ == other.id_; }

   private:
    const Graph* graph_;
    OpId id_;
  };
  struct OpRange {
    OpIterator first, last;
    OpIterator begin() const { return first; }
    OpIterator end() const { return last; }
  };
  OpRange ops() const { return {{this, first_}, {this, OpId{}}}; }
  OpId first_op() const { return first_; }
  OpId last_op() const { return last_; }
  size_t op_count() const { return live_ops_; }
  // Upper bounds of the handles, for side tables indexed by them.
  size_t value_slots() const { return values_.size(); }
  size_t op_slots() const { return ops_.size(); }

  bool is_constant(ValueId id) const {
    return id.valid() && value(id).kind == ValueKind::kConstant;
  }
  // Marks, by index in the pool, the constants that ops, outputs and states refer to.
  void mark_constants(std::vector<bool>& used) const;
  // The op that computes a value; invalid for inputs and constants.
  OpId producer(ValueId id) const { return id.valid() ? value(id).producer : OpId{}; }
  // The producer if its operator is `def`, else invalid.
  OpId producer_if(ValueId id, const OpDef& def) const;
  // The only op that uses a value; invalid if there are none or several, or if the value is an
  // output.
  OpId sole_user(ValueId id) const;

 private:
  friend class Rewriter;
  std::deque<Value> values_;  // not vectors: references stay valid
  std::deque<Op> ops_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<Layout> output_layouts_;  // one an output
  std::vector<ConstantId> initial_states_;
  OpId first_, last_;
  size_t live_ops_ = 0;
  std::unordered_set<std::string> names_;  // of live values
  std::unordered_map<std::string, uint32_t>
      next_suffix_;  // by base name, to make unique names in constant time
};

// The operands and results of an op, as the functions of its OpDef take them. Refers to the graph:
// invalid after changes.
class BoundOpView {
 public:
  BoundOpView(const Graph& graph, OpId op);
  operator const OpView&() const { return view_; }
  const OpView* operator->() const { return &view_; }
  const OpView& operator*() const { return view_; }
  BoundOpView(const BoundOpView&) = delete;
  BoundOpView& operator=(const BoundOpView&) = delete;

 private:
  std::vector<const Type*> types_;
  OpView view_;
};

// One operator of the user's model, numbered in graph order; passes never change the table.
struct SourceOp {
  std::string name;         // of the node in the file: "conv2d_1"
  std::string target;       // operator in the file: "aten.conv2d.default", "CONV_2D"
  std::string module_path;  // "features.3.conv"
  std::string source_line;  // "model.py:208": innermost frame outside torch
  // of the enclosing modules, outermost first: "__main__.Net", "torch.nn.modules.conv.Conv2d"
  std::vector<std::string> module_types = {};
  bool operator==(const SourceOp&) const = default;
};

// A model in memory: named graphs (only `forward` is compiled for now), constants, table of source
// operators.
struct Module {
  std::string file;  // path as the user gave it, for messages
  std::vector<Graph> graphs;
  ConstantPool constants;
  std::vector<SourceOp> sources;
  std::vector<Diagnostic> notes;  // what was read in another form than the file has it

  Graph& forward() { return graphs.front(); }
  const Graph& forward() const { return graphs.front(); }
};

// True if an op of the graph computes on quantized types, or quantize and dequantize ops state its
// quantization: such a model is not quantized again.
bool is_quantized(const Graph& graph);

// The place of an op for diagnostics: its first source operator.
Place place_of(const Module& module, const Origin& origin);
// Distinct origins of the ops that read a value, in the order in which the ops were created.
std::vector<Origin> readers(const Graph& graph, ValueId value);
Place place_of(const Module& module, const Graph& graph, OpId op);

}  // namespace dtr
