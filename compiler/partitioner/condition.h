// The conditions under which a backend runs an operator, as data: the sentence that
// docs/operators.md prints and a refusal begins with, what to change, and the function that
// decides. Every backend lists its own, so that page and refusals cannot say different things.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace dtr {

// Why an op does not run on a backend. The texts are what the user reads.
struct Refusal {
  std::string_view id;  // stable, kebab-case: "npu-kernel-size"
  std::string reason;   // limit and this op's value: "the NPU takes kernels of at most 4096 per
                        // axis; this one is 5000x1"
  std::string remedy;   // what to change; may be empty
  // The two halves of the reason, where it has them.
  std::string limit = {}, value = {};
};

// May this op run? A backend whose conditions depend on more (the NPU's machine) derives its own
// query from this.
struct OpQuery {
  const Graph& graph;
  OpId op;
  const OpView& view;
};

struct Condition {
  std::string_view id;
  // What holds if the op runs, a sentence. Numbers of a machine stand in braces ({max_kernel});
  // Backend::with_numbers puts them in.
  std::string_view sentence;
  std::string_view remedy;
  // What this op has instead, a clause: "this one has 7". std::nullopt: the condition holds.
  std::optional<std::string> (*violation)(const OpQuery& query);
};
// In the order in which they are asked: the first that does not hold is the refusal.
using Conditions = std::vector<const Condition*>;

// Operand `index` is a constant or absent; else the clause that says which value is computed.
std::optional<std::string> computed_operand(const OpQuery& query, size_t index);

}  // namespace dtr
