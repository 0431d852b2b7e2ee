#include "compiler/backends/neutron_ir/converter_log.h"

#include <algorithm>
#include <map>

#include "compiler/support/encode.h"

namespace dtr::neutron_ir {
namespace {

constexpr std::string_view kGraphs = "Graphs:", kExtracted = "= Extract Graphs =",
                           kGenerated = "Generate code for NeutronGraph",
                           kStatistics = "Statistics for NeutronGraph";

// Lines without the blanks around them.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) continue;
    lines.push_back(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
  }
  return lines;
}

// The name in `Name "subgraph_001":`; empty if the line is another one.
std::string_view quoted(std::string_view line, std::string_view title) {
  if (!line.starts_with(title)) return {};
  const size_t open = line.find('"'), close = line.rfind('"');
  return open == close ? std::string_view() : line.substr(open + 1, close - open - 1);
}

// What follows a title, as `Type: CONV_2D`; empty if the line is another one.
std::string_view value_of(std::string_view line, std::string_view title) {
  if (!line.starts_with(title)) return {};
  line.remove_prefix(title.size());
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

struct Part {
  std::string_view name;
  std::vector<std::string_view> kernels;
};
std::vector<Part> read_parts(std::string_view text) {
  std::vector<Part> parts;
  bool kernels = false;
  for (const std::string_view line : lines_of(text)) {
    const std::string_view name = quoted(line, "NeutronOperator");
    if (!name.empty()) parts.push_back({name, {}});
    const bool titled = line.ends_with(':') || line.starts_with("==");
    if (kernels && !titled && !parts.empty()) parts.back().kernels.push_back(line);
    kernels = titled ? line == "Kernels:" : kernels;
  }
  return parts;
}

// An operator in the listing of a part.
struct Node {
  std::vector<std::string_view> inputs, outputs;
};
std::map<std::string_view, std::vector<Node>> read_nodes(std::string_view text) {
  std::map<std::string_view, std::vector<Node>> found;
  std::vector<Node>* nodes = nullptr;
  std::vector<std::string_view>* list = nullptr;  // of names
  for (const std::string_view line : lines_of(text)) {
    if (const std::string_view name = value_of(line, "Name:"); !name.empty()) {
      nodes = &found[name];
      list = nullptr;
    } else if (line.starts_with(kStatistics)) {
      nodes = nullptr;  // of what follows no operator is told
    } else if (nodes == nullptr) {
      continue;
    } else if (!value_of(line, "Type:").empty()) {
      nodes->emplace_back();
      list = nullptr;
    } else if (line == "Inputs:" || line == "Outputs:") {
      if (nodes->empty()) continue;  // those of the part itself
      list = line == "Inputs:" ? &nodes->back().inputs : &nodes->back().outputs;
    } else if (list != nullptr && line.starts_with('[')) {
      const size_t end = line.find("]: ");
      if (end != std::string_view::npos) list->push_back(line.substr(end + 3));
    } else {
      list = nullptr;
    }
  }
  return found;
}

// The converter appends parts to names: "conv/permutation".
bool same_name(std::string_view a, std::string_view b) {
  const auto begins = [](std::string_view longer, std::string_view shorter) {
    return longer.size() > shorter.size() && longer.starts_with(shorter) &&
           longer[shorter.size()] == '/';
  };
  return a == b || begins(a, b) || begins(b, a);
}

class Matcher {
 public:
  explicit Matcher(const tflite::ModelFile& model) : model_(model) {}

  // The operators whose results a part makes by exactly their names; where there is none, those
  // whose tensors have names alike.
  std::vector<size_t> operators_of(const std::vector<Node>& nodes) const {
    std::vector<size_t> exact, alike;
    for (size_t i = 0; i < model_.operators.size(); ++i) {
      const std::vector<std::string_view> inputs = names(model_.operators[i].inputs),
                                          outputs = names(model_.operators[i].outputs);
      if (std::ranges::any_of(nodes, [&](const Node& node) { return node.outputs == outputs; }))
        exact.push_back(i);
      else if (std::ranges::any_of(nodes,
                                   [&](const Node& node) { return fits(node, inputs, outputs); }))
        alike.push_back(i);
    }
    return exact.empty() ? alike : exact;
  }

 private:
  // Of the data that an operator reads all inputs, or all but one and all outputs.
  static bool fits(const Node& node, const std::vector<std::string_view>& inputs,
                   const std::vector<std::string_view>& outputs) {
    const auto missing = [](const std::vector<std::string_view>& names,
                            const std::vector<std::string_view>& among) {
      return std::ranges::count_if(names, [&](std::string_view name) {
        return std::ranges::none_of(among,
                                    [&](std::string_view other) { return same_name(name, other); });
      });
    };
    const auto absent = missing(inputs, node.inputs);
    return absent == 0 || (absent == 1 && missing(outputs, node.outputs) == 0);
  }

  std::vector<std::string_view> names(const std::vector<int32_t>& tensors) const {
    std::vector<std::string_view> list;
    for (const int32_t index : tensors)
      if (index >= 0) list.push_back(model_.tensors[static_cast<size_t>(index)].name);
    return list;
  }

  const tflite::ModelFile& model_;
};

}  // namespace

std::optional<std::vector<LoggedKernel>> read_converter_log(std::string_view log,
                                                            const tflite::ModelFile& model) {
  std::vector<size_t> titles;
  for (size_t at = log.find(kGraphs); at != std::string_view::npos; at = log.find(kGraphs, at + 1))
    titles.push_back(at);
  if (titles.size() != 2) return std::nullopt;
  const size_t from = log.find(kExtracted, titles[0]);
  const size_t to = from == std::string_view::npos ? from : log.find(kGenerated, from);
  if (to == std::string_view::npos || to > titles[1]) return std::nullopt;
  const std::map<std::string_view, std::vector<Node>> nodes = read_nodes(log.substr(titles[1]));
  const Matcher matcher(model);
  std::vector<LoggedKernel> kernels;
  bool known = false;
  for (const Part& part : read_parts(log.substr(from, to - from))) {
    const auto listed = nodes.find(part.name);
    std::vector<size_t> operators;
    if (listed != nodes.end()) operators = matcher.operators_of(listed->second);
    known |= !operators.empty();
    for (const std::string_view kernel : part.kernels)
      kernels.push_back({as_terminal(kernel), operators});
  }
  if (!known || kernels.empty()) return std::nullopt;
  return kernels;
}

}  // namespace dtr::neutron_ir
