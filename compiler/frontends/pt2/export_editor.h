// Changes a .pt2 file without PyTorch: nodes and buffers are added to its graph and arguments
// replaced; all else, parameters, names, signature, traces, stays as it is.
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
  ~ExportEditor();
  ExportEditor(ExportEditor&&) noexcept;
  ExportEditor& operator=(ExportEditor&&) noexcept;

  // A tensor of the graph by its name.
  struct Name {
    std::string text;
  };
  using Argument = std::variant<Name, int64_t, double, bool, std::vector<int64_t>>;
  using Arguments = std::vector<std::pair<std::string_view, Argument>>;

  // Adds a buffer `target` ("quantization.conv2d.scale") to the module and returns its name in the
  // graph.
  std::string add_buffer(std::string_view target, const Tensor& content);

  // Adds a node that runs before node `before` of the file and after those added there earlier, and
  // returns the name of its result, made of `name`. Trace and module are those of node `like`.
  std::string add_node(size_t before, size_t like, std::string_view target,
                       const Arguments& arguments, std::string_view name, DType dtype,
                       const Shape& shape);

  // The first result of a node of the file, and what it takes as `argument`; empty if that is no
  // tensor (number: no number).
  std::string result(size_t node) const;
  std::string argument(size_t node, std::string_view argument) const;
  std::optional<double> number(size_t node, std::string_view argument) const;
  void set_argument(size_t node, std::string_view argument, std::string_view name);
  void clear_argument(size_t node, std::string_view argument);  // to None
  // All tensors that a node takes, in order, those of lists too.
  std::vector<std::string> tensors(size_t node) const;
  // Whether a node of the file takes a tensor; taking `to` instead of it.
  bool takes(size_t node, std::string_view name) const;
  void replace_argument(size_t node, std::string_view from, std::string_view to);
  // Every node of the file that takes `from` takes `to`, and so do outputs of the program. Nodes
  // that were added keep what they have.
  void replace_uses(std::string_view from, std::string_view to);

  // Shape of a tensor of the graph; () of none.
  Shape shape(std::string_view name) const;
  // The changed archive; the editor is used up. Errors: kZipCorrupt.
  Result<std::vector<std::byte>> finish();

 private:
  struct State;
  explicit ExportEditor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dtr::pt2
