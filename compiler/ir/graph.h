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

// The source operators that an op stands for: sorted ids into Program::sources. An op that is part
// `part` of `parts` of them (split groups, tiles) says so.
struct Origin {
  std::vector<uint32_t> sources;
  uint32_t part = 0;
  uint32_t parts = 1;
  bool operator==(const Origin&) const = default;
};
Origin merge(const Origin& a,
             const Origin& b);  // union of the sources; whole unless both are the same part

enum class ValueKind : uint8_t { kInput, kConstant, kResult };

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
  std::vector<Use> uses;     // by ops, unordered; outputs of the graph are not in it
  uint32_t output_uses = 0;  // how often the value is an output of the graph
  bool erased = false;

  bool unused() const { return uses.empty() && output_uses == 0; }
  bool has_one_use() const { return uses.size() + output_uses == 1; }
};

struct Op {
  const OpDef* def = nullptr;
  std::vector<ValueId> operands;    // invalid where an optional operand is absent
  std::vector<uint32_t> use_slots;  // where each operand's use stands in `uses` of its value: uses
                                    // go in constant time
  std::vector<ValueId> results;
  Attributes attributes;
  Origin origin;
  OpId previous;
  OpId next;
  bool erased = false;
};

// Operand `index` of an op, invalid where it is absent.
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
  // The physical order in which the program gives an output. That of the value's type becomes the
  // same when layouts are assigned.
  Layout output_layout(size_t index) const { return output_layouts_.at(index); }

  // Ops in program order. The iterator stays valid while the op it stands on does; inserting and
  // erasing others is safe.
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
  // The op that makes a value, or invalid for inputs and constants.
  OpId producer(ValueId id) const { return id.valid() ? value(id).producer : OpId{}; }
  // The producer if it is an op of that kind, else invalid.
  OpId producer_if(ValueId id, const OpDef& def) const;
  // The one op that uses a value, or invalid if there are more, none, or the value is an output.
  OpId sole_user(ValueId id) const;

 private:
  friend class Rewriter;
  std::deque<Value> values_;  // not vectors: references stay valid
  std::deque<Op> ops_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<Layout> output_layouts_;  // one an output
  OpId first_, last_;
  size_t live_ops_ = 0;
  std::unordered_set<std::string> names_;  // of live values
  std::unordered_map<std::string, uint32_t>
      next_suffix_;  // per base name, so that unique names cost constant time
};

// The operands and results of an op as its functions see them. Refers to the graph: do not keep it
// across changes.
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
  std::string target;       // operator as the file names it: "aten.conv2d.default", "CONV_2D"
  std::string module_path;  // "features.3.conv"
  std::string source_line;  // "model.py:208": innermost frame outside torch
  std::vector<std::string> module_types = {};  // of the modules that it lies in, outermost first:
                                               // "__main__.Net", "torch.nn.modules.conv.Conv2d"
  bool operator==(const SourceOp&) const = default;
};

// Everything that is compiled together: named graphs (only `forward` compiles for now), constants,
// table of source operators.
struct Module {
  std::string file;  // as the user named it, for messages
  std::vector<Graph> graphs;
  ConstantPool constants;
  std::vector<SourceOp> sources;

  Graph& forward() { return graphs.front(); }
  const Graph& forward() const { return graphs.front(); }
};

// Whether some op of the graph works on quantized types, or quantize and dequantize say how it
// should: such a model is taken as it is.
bool is_quantized(const Graph& graph);

// Place of an op for a diagnostic: names of its first source operator.
Place place_of(const Module& module, const Origin& origin);
// Origins of the ops that read a value, in the order in which the ops were made, each once.
std::vector<Origin> readers(const Graph& graph, ValueId value);
Place place_of(const Module& module, const Graph& graph, OpId op);

}  // namespace dtr
