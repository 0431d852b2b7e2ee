// Replaces ops on constants by their result, evaluated in double and rounded once, whatever their
// dtype. Quantize and dequantize of constants stay: they are what `fold_quantization` reads.
// Results that are much larger than what they are made of (a pad, a broadcast) stay ops, because
// constants cost flash; ops on such results are folded.
#include "compiler/ops/constant_folding.h"
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

constexpr int64_t kMaxGrowthBytes = 4096;

class FoldConstants : public GraphPass {
 public:
  using GraphPass::GraphPass;

  Result<size_t> run() {
    DTR_TRY(for_each_op(graph_, [&](OpId id) -> Result<void> {
      if (!foldable(id)) return {};
      fold(id);
      return {};
    }));
    return changes_;
  }

 private:
  bool foldable(OpId id) const {
    return ops::reads_only_static(graph_, id, kMaxGrowthBytes) &&
           ops::worth_storing(graph_, id, kMaxGrowthBytes);
  }

  void fold(OpId id) {
    const std::vector<Tensor> results = ops::evaluate_on_constants(module_, graph_, id);
    const std::vector<ValueId> folded = graph_.op(id).results;
    std::vector<std::string> names;
    std::vector<ValueId> constants;
    for (size_t i = 0; i < folded.size(); ++i) {
      names.push_back(graph_.value(folded[i]).name);
      const Type& type = graph_.type(folded[i]);
      constants.push_back(rewriter_.add_constant(
          type, module_.constants.add(type.dtype, results[i].bytes()), names.back()));
      rewriter_.replace_uses(folded[i], constants.back());
    }
    rewriter_.erase(id);
    for (size_t i = 0; i < constants.size(); ++i) rewriter_.rename(constants[i], names[i]);
    ++changes_;
  }
};

}  // namespace

constinit const PassDef kFoldConstants{.name = "fold_constants",
                                       .summary = "replace ops on constants by their result",
                                       .exactness = Exactness::kFloatRounding,
                                       .keeps_sources = true,
                                       .run = run_pass<FoldConstants>};

}  // namespace dtr::passes
