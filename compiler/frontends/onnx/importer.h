// Imports the graph of an .onnx file: names to values, calls of functions and branches in place,
// and what the conversions of single operators (operators.h) use.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/frontends/onnx/operators.h"
#include "compiler/frontends/onnx/tensors.h"
#include "compiler/ir/constant_release.h"
#include "compiler/ir/dimensions.h"

namespace dtr::onnx {

// What a name stands for: a tensor, or the tensors of a sequence.
struct Binding {
  ValueId value;
  std::vector<ValueId> sequence = {};
  bool is_sequence = false;
};

using Versions = std::map<std::string, int64_t>;  // of the operators, by domain

// The names of one graph, branch or function. Branches see the names around them.
struct Scope {
  const Scope* outer = nullptr;
  // by name; stored tensors are read when they are first used
  mutable std::unordered_map<std::string, Binding> bindings = {};
  std::unordered_map<std::string, const pb::TensorProto*> stored = {};
  std::unordered_map<std::string, const pb::SparseTensorProto*> stored_sparse = {};
  // The call of a function whose body this is, for attributes that refer to those of the call.
  const pb::NodeProto* call = nullptr;
  const pb::FunctionProto* function = nullptr;
  const Scope* call_scope = nullptr;
  const Versions* versions = nullptr;
  std::string prefix = {};  // of names of source operators
  size_t depth = 0;
};

class Importer {
 public:
  // Constants that only led to others are released whenever `release_step` more bytes are there.
  Importer(pb::ModelProto& model, const std::string& path, const DimensionSizes& sizes,
           size_t release_step);
  // Imports the whole file. Errors: ids onnx-*.
  Result<Module> run() &&;

 private:
  friend class NodeImport;
  using Nodes = google::protobuf::RepeatedPtrField<pb::NodeProto>;

  Result<void> read_versions();
  Result<void> check_operators();
  Result<void> check_operators(const Nodes& nodes, const Versions& versions, size_t depth,
                               std::map<std::string, size_t>& missing, std::string& fix);
  Result<void> add_inputs(Scope& scope);
  // The shape and dtype that the main graph states for a value. Error: what it lacks, as a clause.
  tl::expected<Type, std::string> stated_type(const std::string& name) const;
  std::optional<int64_t> given_size(const std::string& input, size_t dim, const std::string& name);
  Result<std::optional<int64_t>> open_size(const pb::ValueInfoProto& input, size_t dim, size_t rank,
                                           size_t index, size_t inputs);
  Result<Shape> shape_of_input(const pb::ValueInfoProto& input, size_t index, size_t inputs);
  Result<void> finish(const Scope& scope);

  void add_stored(const pb::GraphProto& graph, Scope& scope);
  // Imports the nodes that `outputs` depend on. Error: of the nodes.
  Result<void> import_nodes(const Nodes& nodes, Scope& scope,
                            const std::vector<std::string>& outputs);
  Result<void> import_node(const pb::NodeProto& node, Scope& scope);
  // Frees constants of the main graph that nothing in it and no node behind `index` reads.
  void release_constants(const Scope& scope, int index,
                         const std::unordered_map<std::string, int>& last_use);
  Result<void> call_function(const pb::NodeProto& node, const pb::FunctionProto& function,
                             Scope& scope);
  // The outputs of a branch or loop body, whose inputs have these values.
  Result<std::vector<Binding>> import_subgraph(const pb::GraphProto& graph, const Scope& outer,
                                               const std::vector<Binding>& inputs,
                                               const std::string& prefix);
  // The value of a name. Error: kOnnxInvalid if nothing makes it.
  Result<Binding> lookup(const std::string& name, const Scope& scope, const Place& place);
  Result<ValueId> add_constant(const Tensor& tensor, const std::string& name);
  const pb::FunctionProto* find_function(const pb::NodeProto& node) const;

  // The attribute of a node; one that refers to the call of the function is looked up there.
  // nullptr: there is none.
  const pb::AttributeProto* find_attribute(const pb::NodeProto& node, const Scope& scope,
                                           const std::string& name) const;

  // An output of codes as the file has it: bytes.
  Result<ValueId> as_in_file(ValueId value);

  Place place(std::string node) const { return {.file = module_.file, .node = std::move(node)}; }
  void note(DiagnosticId id, std::string reason, std::string fix, std::string node);
  tl::unexpected<Diagnostic> invalid(std::string reason, std::string node) const;

  pb::ModelProto& model_;
  // Stored tensors of the main graph, whose elements are let go when they are read.
  std::unordered_map<const pb::TensorProto*, pb::TensorProto*> unread_;
  const DimensionSizes& sizes_;
  std::set<std::string> used_sizes_;           // names of `sizes_` that a dimension has
  std::map<std::string, int64_t> open_sizes_;  // by name in the file
  std::vector<std::string> open_dimensions_;   // for messages
  Module module_;
  Rewriter rewriter_;
  TensorReader tensors_;
  Versions versions_;
  std::map<const pb::FunctionProto*, Versions> function_versions_;
  std::map<std::string, const pb::FunctionProto*> functions_;  // by domain, name and overload
  std::set<uint32_t> unsigned_;     // quantized int8 values that are UINT8 in the file, less 128
  std::set<uint32_t> four_bits_;    // stored values of INT4 and UINT4, held as int8
  bool has_wide_unsigned_ = false;  // some integers are unsigned in the file, and wider here
  ConstantRelease release_;
  size_t nodes_left_;  // bounds what functions and loops repeat
};

}  // namespace dtr::onnx
