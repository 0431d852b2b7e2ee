// Keeps one of several ops that compute the same value: same kind, operands, attributes and result
// types. Constants are the same operand if their content and type are the same. Layouts
// must be equal too, because a conversion to another layout computes the same elements.
#include <unordered_map>

#include "compiler/ir/printer.h"
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

class MergeCommonSubexpressions : public GraphPass {
 public:
  using GraphPass::GraphPass;

  Result<size_t> run() {
    DTR_TRY(for_each_op(graph_, [&](OpId id) -> Result<void> {
      const auto [at, is_new] = first_.try_emplace(key_of(graph_.op(id)), id);
      if (is_new) return {};
      const OpId kept = at->second;
      for (size_t i = 0; i < graph_.op(id).results.size(); ++i)
        rewriter_.replace_uses(graph_.op(id).results[i], graph_.op(kept).results[i]);
      rewriter_.set_origin(kept, merge(graph_.op(kept).origin, graph_.op(id).origin));
      rewriter_.erase(id);
      ++changes_;
      return {};
    }));
    return changes_;
  }

 private:
  // Two ops have the same key if and only if they compute the same.
  std::string key_of(const Op& op) {
    std::string key(op.def->name);
    for (const ValueId operand : op.operands) {
      key += ' ';
      if (!operand.valid())
        key += '_';
      else if (graph_.is_constant(operand))
        key += "c" + std::to_string(graph_.value(operand).constant.index) + ":" +
               print(graph_.type(operand));
      else
        key += std::to_string(operand.index);
    }
    for (const auto& [name, value] : op.attributes) key += " " + name + "=" + print(value);
    for (const ValueId result : op.results) key += " " + print(graph_.type(result));
    return key;
  }

  std::unordered_map<std::string, OpId> first_;
};

}  // namespace

constinit const PassDef kMergeCommonSubexpressions{
    .name = "merge_common_subexpressions",
    .summary = "keep one of several ops that compute the same",
    .exactness = Exactness::kExact,
    .run = run_pass<MergeCommonSubexpressions>};

}  // namespace dtr::passes
