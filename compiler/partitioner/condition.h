// The conditions under which a backend runs an operator, as data: the sentence that
// docs/operators.md and refusals print, the remedy, and the function that decides. Documentation
// and refusals share them, so they cannot disagree.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace dtr {

// Why an op does not run on a backend, in the words that the user reads.
struct Refusal {
  std::string_view id;  // stable, kebab-case: "npu-kernel-size"
  std::string reason;   // limit and this op's value: "the NPU takes kernels of at most 4096 per
                        // axis; this one is 5000x1"
  std::string remedy;   // what to change; may be empty
  // The two halves of the reason, if it has them.
  std::string limit = {}, value = {};
};

// The op that a condition decides about. A backend whose conditions depend on more, such as the
// machine, derives its own query from this.
struct OpQuery {
  const Graph& graph;
  OpId op;
  const OpView& view;
};

struct Condition {
  std::string_view id;
  // What must hold, a sentence. {max_kernel} and other names in braces stand for numbers of the
  // machine (Backend::with_numbers).
  std::string_view sentence;
  std::string_view remedy;
  // Decides: std::nullopt if the condition holds, else a clause with this op's value: "this one has
  // 7".
  std::optional<std::string> (*violation)(const OpQuery& query);
};
// In the order of evaluation: the first violated condition is the refusal.
using Conditions = std::vector<const Condition*>;

// std::nullopt if operand `index` is a constant or absent, else a clause that names the computed
// value.
std::optional<std::string> computed_operand(const OpQuery& query, size_t index);

}  // namespace dtr
