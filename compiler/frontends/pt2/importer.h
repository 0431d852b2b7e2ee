// Imports the graph of an Archive: liveness, constants, names, aliases of in-place operators,
// types. operators.cpp translates single operators.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/frontends/pt2/archive.h"
#include "compiler/frontends/pt2/operators.h"
#include "compiler/ir/constant_release.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/rewriter.h"

namespace dtr::pt2 {

class Importer {
 public:
  // `archive` and its memory must outlive the constants of `module`. Constants that only led to
  // others are released whenever `release_step` more bytes are there.
  Importer(const Archive& archive, Module& module, size_t release_step = ConstantRelease::kStep);
  Importer(const Importer&) = delete;
  Importer& operator=(const Importer&) = delete;
  // What is computed from parameters stays so, in place of becoming a constant: an export of these
  // operators can then be trained.
  void keep_parameters();
  // Errors: kPt2Invalid, kPt2UnsupportedOperator and other pt2 ids, each with the node and its
  // source line.
  Result<void> run();
  // Adds the elements that `.item()` takes of constants, where sizes or arguments need them.
  // Nothing is added for what cannot be computed: run() refuses it.
  void find_known_numbers(KnownNumbers& numbers);

 private:
  friend class NodeImport;
  // The value of a name of the file.
  struct Binding {
    ValueId value;            // invalid: a parameter that has not been read yet
    std::string_view target;  // parameters, buffers, constants: name in the module
    uint32_t storage = 0;     // names with the same storage are views of the same memory in PyTorch
  };

  // A buffer that the model writes: a state of the graph.
  struct WrittenBuffer {
    const InputSpec* spec;
    std::string_view next;  // name of its value after the run; empty: what its own name means then
  };

  // The names of the program's graph, or of a subgraph while a control flow operator runs it.
  struct Scope {
    const ExportedGraph* graph;
    size_t first_source;          // of the graph's nodes, in Module::sources
    std::vector<bool> live = {};  // by node
    // by name: index of the last live node that reads it, or node count
    std::unordered_map<std::string_view, size_t> last_use = {};
    std::unordered_map<std::string_view, Binding> bindings = {};  // by name
    std::vector<std::vector<std::string_view>> storages = {};     // names of each storage
    size_t borrowed_storages = 0;  // the first ones are the operands of a subgraph
  };

  void add_sources();
  void add_sources(const ExportedGraph& graph, const std::string& prefix);
  void find_written_buffers();
  void warn_of_written_input(std::string_view name);
  const WrittenBuffer* find_written(std::string_view input) const;
  Result<void> bind_state(const WrittenBuffer& buffer);
  Result<void> find_live_nodes();
  void find_live_nodes(Scope& scope) const;
  // The results of a subgraph on these operands. Errors: those of its nodes.
  Result<Values> run_subgraph(size_t subgraph, const Values& operands, const Place& place);
  Result<void> check_converted() const;
  struct MissingOperator {
    size_t count = 0;
    Place first;
  };
  struct MissingKey {
    std::string_view target;
    bool complex = false;
    auto operator<=>(const MissingKey&) const = default;
  };
  using MissingOperators = std::map<MissingKey, MissingOperator>;
  Result<void> check_operators();
  Result<void> find_missing(const Scope& scope, MissingOperators& missing);
  Result<void> check_static();
  Result<void> check_static(const Scope& scope);
  tl::unexpected<Diagnostic> refuse_symbolic(const ExportedGraph& graph, std::string_view argument,
                                             std::string_view symbol, const Place& place) const;
  void note_narrowed_floats();
  void note_complex(std::string_view name, std::string_view role);
  Result<void> bind_inputs();
  Result<void> bind_user_input(const InputSpec& spec);
  Result<void> import_node(size_t index);
  Result<void> bind_result(size_t index, const OperatorMatch& match, std::string_view name,
                           ValueId value, size_t first_new_op);
  Result<void> overwrite(size_t index, ValueId value);
  struct ScatteredSource {
    std::string_view name;
    ValueId value;
  };
  Result<std::optional<ScatteredSource>> scatter_into_source(std::string_view name, ValueId value);
  Result<void> set_outputs();
  void release_constants(size_t index);

  struct Stored {
    Type type;
    ConstantId id;
  };
  // The data of a parameter, buffer or constant, in the pool.
  Result<Stored> load(std::string_view name, std::string_view target, const Place& place);
  Result<ValueId> value_of(std::string_view name, const Place& place);
  Result<void> load_constant(std::string_view name, Binding& binding, const Place& place);
  bool is_leftover_counter(std::string_view name) const;
  // The op reads a parameter that keep_parameters keeps, or what was computed from one.
  bool reads_parameter(OpId op) const;
  Place place_of_node(size_t index) const;  // of the scope's graph
  Place place_of_source(size_t source) const;
  Scope scope_of(size_t subgraph) const;
  bool is_complex(std::string_view name) const;
  bool has_complex(const Node& node) const;  // among its operands and results
  OperatorMatch match_of(const Node& node) const;
  Result<void> bind(std::string_view name, Binding binding, const Place& place);

  const Archive& archive_;
  const ExportedProgram& file_;
  Module& module_;
  Rewriter rewriter_;
  std::vector<WrittenBuffer> written_;  // in the order of the file's inputs
  std::vector<size_t> first_source_;    // by subgraph
  Scope program_;
  Scope* scope_ = &program_;
  size_t nodes_left_;  // bounds what loops repeat
  ConstantRelease release_;
  std::set<std::string_view> parameters_;  // that keep_parameters keeps
};

}  // namespace dtr::pt2
