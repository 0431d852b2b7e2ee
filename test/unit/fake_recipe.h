// A recipe of a delegate that does as it is told, and the portable backend.
#pragma once

#include <gtest/gtest.h>

#include <set>

#include "compiler/backends/portable/portable.h"
#include "compiler/partitioner/placement.h"
#include "test/unit/parse.h"

namespace dtr {

using test::parse;

// A delegate that takes the ops it is told to, in the layout it is told to.
class FakeDelegate final : public DelegateBackend {
 public:
  FakeDelegate(std::set<std::string_view> takes, LayoutChoice layout, uint64_t hand_over)
      : takes_(std::move(takes)), layout_(layout), hand_over_(hand_over) {}
  std::string_view name() const override { return "fake"; }
  std::string_view delegate_id() const override { return "Fake"; }
  std::optional<OperatorRule> rule(const OpDef& op) const override {
    return takes_.contains(op.name) ? std::optional(OperatorRule{.dtypes = "any", .conditions = {}})
                                    : std::nullopt;
  }
  std::optional<OperatorRule> rule_of(const Graph& graph, OpId op) const override {
    ++questions;
    return rule(*graph.op(op).def);
  }
  Refusal no_rule(const OpDef&) const override {
    return {"fake-no", "the fake delegate does not take this operator", "take another"};
  }
  LayoutChoice layouts(const Graph&, OpId) const override { return layout_; }
  uint64_t cost(const Graph&, OpId) const override { return 1; }
  uint64_t dispatch_cycles() const override { return hand_over_; }
  Result<std::unique_ptr<LoweredPartition>> lower(Module&, Graph) const override {
    DTR_CHECK(false);
  }
  size_t max_operands() const override { return most_operands; }
  uint64_t max_work() const override { return most_work; }

  mutable size_t questions = 0;
  size_t most_operands = SIZE_MAX;
  uint64_t most_work = UINT64_MAX;

 private:
  std::set<std::string_view> takes_;
  LayoutChoice layout_;
  uint64_t hand_over_;
};

inline Recipe recipe_with(std::set<std::string_view> takes, LayoutChoice layout = {},
                          uint64_t hand_over = 0) {
  Recipe recipe;
  recipe.push_back(std::make_unique<FakeDelegate>(std::move(takes), layout, hand_over));
  recipe.push_back(make_portable_backend(*find_target("imxrt700")));
  return recipe;
}

}  // namespace dtr
