#include "compiler/backends/portable/portable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/backends/portable/costs.h"
#include "compiler/backends/portable/kernels.h"
#include "compiler/backends/portable/rewrites.h"
#include "compiler/ops/ops.h"

namespace dtr {
namespace {

constexpr Condition kFloatOnly{
    "portable-float-only", "the CPU's float kernels compute in float32", "",
    [](const OpQuery& query) -> std::optional<std::string> {
      for (const ValueId value : query.graph.op(query.op).operands)
        if (value.valid() && query.graph.type(value).dtype != DType::kFloat32 &&
            query.graph.type(value).dtype != DType::kBool)  // a mask
          return fmt::format("the operand is {}", dtr::name(query.graph.type(value).dtype));
      return std::nullopt;
    }};
// Operators on numbers of any kind: comparisons, sums, choices by a mask.
constexpr Condition kFloatOrIntegers{
    "portable-float-or-integers", "the CPU's kernels compute float32 and plain integers", "",
    [](const OpQuery& query) -> std::optional<std::string> {
      for (const ValueId value : query.graph.op(query.op).operands) {
        if (!value.valid()) continue;
        const Type& type = query.graph.type(value);
        if (type.dtype == DType::kFloat64 || type.quantized())
          return fmt::format("the operand is {}{}", type.quantized() ? "quantized " : "",
                             dtr::name(type.dtype));
      }
      return std::nullopt;
    }};

class PortableBackend final : public KernelBackend {
 public:
  explicit PortableBackend(const TargetDescription& target) : target_(target) {}
  std::string_view name() const override { return "portable"; }

  std::optional<OperatorRule> rule(const OpDef& op) const override {
    const portable::Row* row = portable::find_row(&op);
    if (row == nullptr) return std::nullopt;
    if (row->moves_any_dtype) return OperatorRule{.dtypes = "any", .conditions = {}};
    const bool on_integers = op.has_trait(kOnIntegers);
    return OperatorRule{.dtypes = on_integers ? "float32, integers, bool" : "float32",
                        .conditions = {on_integers ? &kFloatOrIntegers : &kFloatOnly}};
  }
  Refusal no_rule(const OpDef& op) const override {
    return {"portable-no-kernel", fmt::format("there is no portable kernel for {}", op.name),
            "replace the operator"};
  }

  LayoutChoice layouts(const Graph& graph, OpId id) const override {
    const OpDef* def = graph.op(id).def;
    // These walk the result in its own order and read by strides.
    if (def == &ops::kQuantize || def == &ops::kDequantize || def == &ops::kToDimOrderCopy)
      return {.mixed = true};
    if (def->has_trait(kElementwise) && same_shapes(graph, id)) return {};
    if (moves_codes(graph, id)) return {.mixed = def == &ops::kPermute};
    return {.contiguous = true, .channels_last = false, .mixed = false};
  }

  uint64_t cost(const Graph& graph, OpId id) const override {
    const Op& op = graph.op(id);
    if (op.def == &ops::kCustom) return 0;  // not known (compiler/targets/time_error.cpp)
    const portable::Work work = work_of(graph, id);
    const auto cycles = [&](int64_t instructions) {
      return from_cpu_cycles(target_,
                             static_cast<uint64_t>(instructions) * target_.cpu.float_percent / 100);
    };
    const int64_t own = portable::instructions(op.def->name, work),
                  others = portable::instructions_of_rewriting(graph, id);
    // Kernels beside its own are rounded by themselves, as in the program; one may take its place.
    return others < 0 ? cycles(own + others) : cycles(own) + cycles(others);
  }

  Result<bool> legalize(Module& module, Graph& graph, OpId id) const override {
    return portable::rewrite(module, graph, id);
  }

  Result<KernelCall> kernel_call(Module& module, const Graph& graph, OpId id) const override {
    const portable::Row* row = portable::find_row(graph.op(id).def);
    DTR_CHECK(row != nullptr);  // `refuse` let nothing else pass
    return row->call(module, graph, graph.op(id));
  }

 private:
  static portable::Work work_of(const Graph& graph, OpId id) {
    const BoundOpView view(graph, id);
    const Op& op = graph.op(id);
    portable::Work work{.result = graph.type(op.results[0]).elements()};
    if (!op.operands.empty() && op.operands[0].valid())
      work.operand = graph.type(op.operands[0]).elements();
    // Operators of several results choose among boxes: they read all scores.
    if (op.results.size() > 1)
      for (const ValueId operand : op.operands)
        work.operand = std::max(work.operand, graph.type(operand).elements());
    if (op.def->macs != nullptr)
      work.products = op.def->macs(*view);
    else if (const AttributeValue* window = op.attributes.find("kernel_size"))
      work.products = work.result * element_count(std::get<Ints>(*window));
    return work;
  }

  static bool same_shapes(const Graph& graph, OpId id) {
    const Op& op = graph.op(id);
    return std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId operand) {
      return graph.type(operand).shape == graph.type(op.results[0]).shape;
    });
  }

  // True for ops that only move quantized values of one rank: our kernels take any layout. Floats
  // stay contiguous, because such programs also run with ExecuTorch's kernels, which require it.
  static bool moves_codes(const Graph& graph, OpId id) {
    const Op& op = graph.op(id);
    const Type& result = graph.type(op.results[0]);
    return result.quantized() && op.def->has_trait(kMovesData) && op.def != &ops::kView &&
           op.def != &ops::kIndexSelect && std::ranges::all_of(op.operands, [&](ValueId operand) {
             return graph.type(operand).rank() == result.rank();
           });
  }

  const TargetDescription& target_;
};

}  // namespace

std::unique_ptr<KernelBackend> make_portable_backend(const TargetDescription& target) {
  return std::make_unique<PortableBackend>(target);
}

}  // namespace dtr
