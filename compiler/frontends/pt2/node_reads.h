// What a node of the file is, and the tensors that it reads.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "compiler/frontends/pt2/schema.h"

namespace dtr::pt2 {

inline std::string_view without_prefix(std::string_view text, std::string_view prefix) {
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return text;
}

inline std::string_view operator_name(const Node& node) {
  return without_prefix(node.target, "torch.ops.");
}

// Calls visit(name) for every tensor that the node reads.
template <class Visit>
void for_each_read(const Node& node, Visit visit) {
  for (const auto& [argument, value] : node.inputs) {
    if (const auto* one = std::get_if<TensorName>(&value)) {
      if (!one->name.empty()) visit(one->name);
    } else if (const auto* many = std::get_if<std::vector<TensorName>>(&value)) {
      for (const TensorName& each : *many)
        if (!each.name.empty()) visit(each.name);
    }
  }
}

// The first tensor that the node reads, of which a view is.
inline std::string_view first_read(const Node& node) {
  std::string_view first;
  for_each_read(node, [&](std::string_view name) {
    if (first.empty()) first = name;
  });
  return first;
}

// The tensor that an operator writes to: its argument `out`, or its first tensor if it works in
// place.
inline std::string_view written_tensor(const Node& node) {
  for (const auto& [argument, value] : node.inputs)
    if (const auto* tensor = std::get_if<TensorName>(&value);
        tensor != nullptr && argument == "out")
      return tensor->name;
  return first_read(node);
}

}  // namespace dtr::pt2
