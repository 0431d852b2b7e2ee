#include "compiler/backends/portable/portable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/backends/portable/costs.h"
#include "compiler/backends/portable/kernels.h"
#include "compiler/ir/rewriter.h"
#include "compiler/ops/ops.h"

namespace dtr {
namespace {

bool is_asymmetric(const Op& op) {
  const AttributeValue* end = op.attributes.find("padding_end");
  return end != nullptr && std::get<Ints>(*end) != op.attributes.get<Ints>("padding");
}

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
// Of the ways to place pixels, PyTorch's.
constexpr Condition kPlacesAsPytorch{
    "portable-resize", "the portable kernels place pixels as PyTorch does",
    "quantize the model, or export it from PyTorch",
    [](const OpQuery& query) -> std::optional<std::string> {
      const Op& op = query.graph.op(query.op);
      const bool half = op.attributes.get_or("half_pixel_centers", false);
      if (op.def == &ops::kUpsampleNearest2d && !op.attributes.get_or("align_corners", false) &&
          !half)
        return std::nullopt;
      if (op.def == &ops::kUpsampleBilinear2d) {
        const bool aligned = op.attributes.get<bool>("align_corners");
        if (op.attributes.get_or("half_pixel_centers", !aligned) != aligned) return std::nullopt;
      }
      return "this resize aligns them otherwise";
    }};
constexpr Condition kPadsAlike{
    "portable-asymmetric-padding", "the portable average pool pads both ends alike",
    "pad before the pool", [](const OpQuery& query) -> std::optional<std::string> {
      const Op& op = query.graph.op(query.op);
      return is_asymmetric(op) ? std::optional<std::string>("this one does not") : std::nullopt;
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
    OperatorRule rule{.dtypes = on_integers ? "float32, integers, bool" : "float32",
                      .conditions = {on_integers ? &kFloatOrIntegers : &kFloatOnly}};
    if (&op == &ops::kUpsampleNearest2d || &op == &ops::kUpsampleBilinear2d)
      rule.conditions.push_back(&kPlacesAsPytorch);
    if (&op == &ops::kAvgPool2d) rule.conditions.push_back(&kPadsAlike);
    return rule;
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
    int64_t cycles = portable::instructions(op.def->name, work);
    // `legalize` makes these ops of their own.
    if (op.attributes.find("activation") != nullptr)
      cycles +=
          portable::instructions(ops::kClamp.name, {.result = work.result, .operand = work.result});
    if (pads_first(op))
      cycles += portable::instructions(
          ops::kConstantPadNd.name,
          {.result = padded_elements(graph.type(op.operands[0]).shape, pads_of(graph, op)),
           .operand = work.operand});
    if (is_cut_behind(op))
      cycles += portable::instructions(ops::kSliceTensor.name,
                                       {.result = work.result, .operand = work.result});
    return from_cpu_cycles(target_,
                           static_cast<uint64_t>(cycles) * target_.cpu.float_percent / 100);
  }

  Result<bool> legalize(Module&, Graph& graph, OpId id) const override {
    const Op op = graph.op(id);
    bool changed = false;
    Rewriter rewriter(graph);
    if (pads_first(op)) {
      DTR_TRY(make_padding_explicit(rewriter, id));
      changed = true;
    }
    if (op.attributes.find("activation") != nullptr) {
      DTR_TRY(make_activation_explicit(rewriter, id));
      changed = true;
    }
    if (is_cut_behind(op)) {
      DTR_TRY(make_cut_explicit(rewriter, id));
      changed = true;
    }
    return changed;
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

  // What a pool with ceil_mode reads, whose last window may reach beyond the padding, becomes
  // padding.
  static Ints window_padding_end(const Graph& graph, const Op& op) {
    Ints end = op.attributes.get<Ints>("padding_end");
    if (!op.attributes.get_or("ceil_mode", false)) return end;
    const Shape& in = graph.type(op.operands[0]).shape;
    const Shape& out = graph.type(op.results[0]).shape;
    const auto at = [&](std::string_view name, size_t i) {
      return op.attributes.get<Ints>(name)[i];
    };
    const size_t first = in.size() - end.size();
    for (size_t i = 0; i < end.size(); ++i) {
      const int64_t read = (out[first + i] - 1) * at("stride", i) +
                           at("dilation", i) * (at("kernel_size", i) - 1) + 1;
      end[i] = read - in[first + i] - at("padding", i);
    }
    return end;
  }

  static bool is_transposed(const Op& op) {
    return op.def == &ops::kConvolution && op.attributes.get<bool>("transposed");
  }
  static bool pads_first(const Op& op) {
    return (op.def == &ops::kConvolution || op.def == &ops::kMaxPool2d) && is_asymmetric(op) &&
           !is_transposed(op);
  }
  static bool is_cut_behind(const Op& op) { return is_transposed(op) && is_asymmetric(op); }
  // Before and behind each dimension that has a window, the last dimension first.
  static Ints pads_of(const Graph& graph, const Op& op) {
    const auto& begin = op.attributes.get<Ints>("padding");
    const Ints end = window_padding_end(graph, op);
    Ints pad;
    for (size_t i = begin.size(); i-- > 0;) pad.insert(pad.end(), {begin[i], end[i]});
    return pad;
  }
  static int64_t padded_elements(Shape shape, const Ints& pad) {
    for (size_t i = 0; i < pad.size() / 2; ++i)
      shape[shape.size() - 1 - i] += pad[2 * i] + pad[2 * i + 1];
    return element_count(shape);
  }

  static Result<void> make_padding_explicit(Rewriter& rewriter, OpId id) {
    const Op op = rewriter.graph().op(id);
    const Ints pad = pads_of(rewriter.graph(), op);
    const size_t windows = op.attributes.get<Ints>("padding").size();
    const double fill = op.def == &ops::kMaxPool2d ? -INFINITY : 0.0;
    DTR_ASSIGN(const ValueId padded,
               rewriter.insert_value(id, {.def = &ops::kConstantPadNd,
                                          .operands = {op.operands[0]},
                                          .attributes = {{"pad", pad}, {"value", fill}},
                                          .origin = op.origin}));
    rewriter.set_operand(id, 0, padded);
    rewriter.set_attribute(id, "padding", Ints(windows, 0));
    rewriter.erase_attribute(id, "padding_end");
    if (op.def == &ops::kMaxPool2d) rewriter.set_attribute(id, "ceil_mode", false);
    return rewriter.refresh(id);
  }

  // The padding of a transposed convolution is what its result loses at both ends. The kernel takes
  // off the same at both; the rest is cut off behind it.
  static Result<void> make_cut_explicit(Rewriter& rewriter, OpId id) {
    const Op op = rewriter.graph().op(id);
    const auto& begin = op.attributes.get<Ints>("padding");
    const auto& end = op.attributes.get<Ints>("padding_end");
    const Shape wanted = rewriter.graph().type(op.results[0]).shape;
    OpSpec whole{.def = op.def, .operands = op.operands, .origin = op.origin};
    whole.attributes = op.attributes;
    Ints both;
    for (size_t i = 0; i < begin.size(); ++i) both.push_back(std::min(begin[i], end[i]));
    whole.attributes.set("padding", both);
    whole.attributes.erase("padding_end");
    DTR_ASSIGN(ValueId result, rewriter.insert_value(id, std::move(whole)));
    for (size_t i = 0; i < begin.size(); ++i) {
      if (begin[i] == end[i]) continue;
      const size_t dim = wanted.size() - begin.size() + i;
      const int64_t start = begin[i] - both[i];
      DTR_ASSIGN(result,
                 rewriter.insert_value(id, {.def = &ops::kSliceTensor,
                                            .operands = {result},
                                            .attributes = {{"dim", static_cast<int64_t>(dim)},
                                                           {"start", start},
                                                           {"end", start + wanted[dim]},
                                                           {"step", int64_t{1}}},
                                            .origin = op.origin}));
    }
    rewriter.replace(id, result);
    return {};
  }

  static Result<void> make_activation_explicit(Rewriter& rewriter, OpId id) {
    const Op op = rewriter.graph().op(id);
    const auto& activation = op.attributes.get<std::string>("activation");
    OpSpec spec{.def = &ops::kClamp, .operands = {op.results[0]}, .origin = op.origin};
    spec.attributes.set("min", activation == "relu_n1_to_1" ? -1.0 : 0.0);
    if (activation != "relu") spec.attributes.set("max", activation == "relu6" ? 6.0 : 1.0);
    rewriter.erase_attribute(id, "activation");
    const ValueId result = op.results[0];
    // The clamp takes over all uses of the result but its own.
    DTR_ASSIGN(const ValueId clamped,
               rewriter.insert_value(rewriter.graph().op(id).next, std::move(spec)));
    const OpId clamp = rewriter.graph().producer(clamped);
    rewriter.replace_uses(result, clamped);
    rewriter.set_operand(clamp, 0, result);
    return {};
  }

  const TargetDescription& target_;
};

}  // namespace

std::unique_ptr<KernelBackend> make_portable_backend(const TargetDescription& target) {
  return std::make_unique<PortableBackend>(target);
}

}  // namespace dtr
