// Edits a .pt2 file without PyTorch: adds nodes and buffers and replaces arguments. Everything else
// (parameters, names, signature, traces) is unchanged.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"

namespace dtr::pt2 {

class ExportEditor {
 public:
  // `bytes` must outlive the editor. Errors: those of ZipArchive; kPt2Invalid, kPt2Version.
  static Result<ExportEditor> open(std::span<const std::byte> bytes, const std::string& file);
  // The file with the nodes of regions in place of these (inline_regions); empty if there are none.
  // Errors: those of `open`, kZipCorrupt.
  static Result<std::vector<std::byte>> without_regions(std::span<const std::byte> bytes,
                                                        const std::string& file);
  ~ExportEditor();
  ExportEditor(ExportEditor&&) noexcept;
  ExportEditor& operator=(ExportEditor&&) noexcept;

  // A tensor of the graph, by name.
  struct Name {
    std::string text;
  };
  using Argument = std::variant<std::monostate, Name, std::vector<Name>, int64_t, double, bool,
                                std::string, std::vector<int64_t>, std::vector<double>,
                                DType>;  // None, …
  using Arguments = std::vector<std::pair<std::string_view, Argument>>;

  // Adds a buffer `target` ("quantization.conv2d.scale") to the module and returns its name in the
  // graph.
  std::string add_buffer(std::string_view target, const Tensor& content);

  // Adds a node before node `before` of the file and after nodes added there earlier. Returns the
  // name of its result, derived from `name`. Copies trace and module of node `like`. PyTorch takes
  // `alpha` by its name, other arguments by their place.
  std::string add_node(size_t before, size_t like, std::string_view target,
                       const Arguments& arguments, std::string_view name, DType dtype,
                       const Shape& shape);

  // Removes a node of the file. Nodes that are added later can take the names of its results, whose
  // readers stay.
  void remove_node(size_t node);

  // Another operator with the same arguments.
  void set_target(size_t node, std::string_view target);

  // The name in the graph of a buffer of the module ("cache.keys"); empty if there is none.
  std::string buffer(std::string_view target) const;
  // The names in the graph of the parameters of the module.
  std::vector<std::string> parameters() const;
  // True if there is a tensor of that name.
  bool has(std::string_view name) const;
  // True if a node of the file or an output has this tensor.
  bool is_read(std::string_view name) const;
  // The results of a node of the file; without name where it is no tensor.
  std::vector<std::string> results(size_t node) const;

  // The names of the tensors that the program returns to its caller.
  std::vector<std::string> outputs() const;
  // The program returns `to` in place of `from`.
  void replace_output(std::string_view from, std::string_view to);

  // The first result of a node of the file, and its argument of that name; empty if it is not a
  // tensor (`number`: not a number).
  std::string result(size_t node) const;
  std::string argument(size_t node, std::string_view argument) const;
  std::optional<double> number(size_t node, std::string_view argument) const;
  // An argument that is a list of integers; empty if it is none.
  std::vector<int64_t> integers(size_t node, std::string_view argument) const;
  // True if an argument of the node is computed from the sizes of the inputs.
  bool takes_sizes(size_t node) const;
  void set_argument(size_t node, std::string_view argument, std::string_view name);
  // The same for a bias, which may be None or absent.
  void set_bias(size_t node, std::string_view name);
  void clear_argument(size_t node, std::string_view argument);  // to None
  // All tensor arguments of a node in order, also those in lists.
  std::vector<std::string> tensors(size_t node) const;
  // True if a node of the file has this tensor as an argument; replaces it by `to`.
  bool takes(size_t node, std::string_view name) const;
  void replace_argument(size_t node, std::string_view from, std::string_view to);
  // Replaces `from` by `to` in all nodes of the file and in the outputs, but as what a copy_ writes
  // to. Added nodes are unchanged.
  void replace_uses(std::string_view from, std::string_view to);

  // The shape of a tensor of the graph; {} if there is no such tensor.
  Shape shape(std::string_view name) const;
  // The dtype of a tensor of the graph; std::nullopt if it has none of ours, as complex numbers.
  std::optional<DType> dtype(std::string_view name) const;
  // The changed archive. The editor must not be used afterwards. Error: kZipCorrupt.
  Result<std::vector<std::byte>> finish();

 private:
  struct State;
  explicit ExportEditor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dtr::pt2
