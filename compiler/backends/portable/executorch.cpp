// Deuteron's runtime has kernels that ExecuTorch's lacks. This backend composes their operators
// from kernels that both have, so that a program runs unchanged on either runtime. ExecuTorch's
// kernels require all tensors of a call in one dimension order, hence all layouts are contiguous.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/backends/portable/kernels.h"
#include "compiler/backends/portable/portable.h"
#include "compiler/ir/builder.h"
#include "compiler/ops/ops.h"

namespace dtr {
namespace {

// Replaces an op by a composition of others, which are inserted before it.
class Composer final : public GraphBuilder {
 public:
  Composer(Module& module, Graph& graph, OpId id)
      : GraphBuilder(module, graph, graph.op(id).origin, {}, id), op_(graph.op(id)) {}

  const Op& op() const { return op_; }
  ValueId operand(size_t index) const { return operand_or_absent(op_, index); }
  ValueId number(float value) {
    return add_constant(DType::kFloat32, {}, {{double{value}}}, "number");
  }
  ValueId integer(int64_t value) {
    return add_constant(DType::kInt64, {}, {{static_cast<double>(value)}}, "number");
  }
  // A vector of codes that mean what those of `like` do.
  ValueId table(Type like, const Ints& codes) {
    std::vector<std::byte> bytes;
    for (const int64_t code : codes) bytes.push_back(static_cast<std::byte>(code));
    like.shape = {static_cast<int64_t>(codes.size())};
    like.layout = Layout::kContiguous;
    return rewriter_.add_constant(like, module_.constants.add(like.dtype, bytes), "codes");
  }
  // A view, even if the shape is that already.
  Result<ValueId> shaped(ValueId value, const Shape& shape) {
    return emit("aten.view", {value}, {{"size", shape}});
  }
  void finish(ValueId result) { rewriter_.replace(before_, result); }

 private:
  Op op_;
};

using Composition = Result<ValueId> (*)(Composer&);

// relu6(x + 3) / 6.
Result<ValueId> hardsigmoid(Composer& c) {
  DTR_ASSIGN(const ValueId shifted, c.emit("aten.add.Tensor", {c.operand(0), c.number(3)}));
  DTR_ASSIGN(const ValueId clamped, c.emit("aten.clamp", {shifted}, {{"min", 0.0}, {"max", 6.0}}));
  return c.emit("aten.div.Tensor", {clamped, c.number(6)});
}

Result<ValueId> hardswish(Composer& c) {
  DTR_ASSIGN(const ValueId gate, hardsigmoid(c));
  return c.emit("aten.mul.Tensor", {c.operand(0), gate});
}

Result<ValueId> silu(Composer& c) {
  DTR_ASSIGN(const ValueId gate, c.emit("aten.sigmoid", {c.operand(0)}));
  return c.emit("aten.mul.Tensor", {c.operand(0), gate});
}

// log(1 + e^x) = relu(x) + log(1 + e^-|x|), where nothing overflows.
Result<ValueId> log_one_plus_exp(Composer& c, ValueId x) {
  DTR_ASSIGN(const ValueId magnitude, c.emit("aten.abs", {x}));
  DTR_ASSIGN(const ValueId negative, c.emit("aten.neg", {magnitude}));
  DTR_ASSIGN(const ValueId power, c.emit("aten.exp", {negative}));
  DTR_ASSIGN(const ValueId sum, c.emit("aten.add.Tensor", {power, c.number(1)}));
  DTR_ASSIGN(const ValueId rest, c.emit("aten.log", {sum}));
  DTR_ASSIGN(const ValueId linear, c.emit("aten.relu", {x}));
  return c.emit("aten.add.Tensor", {linear, rest});
}

Result<ValueId> log_sigmoid(Composer& c) {
  DTR_ASSIGN(const ValueId mirrored, c.emit("aten.neg", {c.operand(0)}));
  DTR_ASSIGN(const ValueId soft, log_one_plus_exp(c, mirrored));
  return c.emit("aten.neg", {soft});
}

Result<ValueId> mish(Composer& c) {
  DTR_ASSIGN(const ValueId soft, log_one_plus_exp(c, c.operand(0)));
  DTR_ASSIGN(const ValueId gate, c.emit("aten.tanh", {soft}));
  return c.emit("aten.mul.Tensor", {c.operand(0), gate});
}

// Beyond the threshold PyTorch gives x, as the logarithm does in float32 if the threshold is not
// small.
constexpr double kLeastThreshold = 15;
double linear_from(const Op& op) { return op.attributes.get_or("threshold", 20.0); }

Result<ValueId> softplus(Composer& c) {
  const auto beta = static_cast<float>(c.op().attributes.get_or("beta", 1.0));
  DTR_ASSIGN(const ValueId scaled, c.emit("aten.mul.Tensor", {c.operand(0), c.number(beta)}));
  DTR_ASSIGN(const ValueId soft, log_one_plus_exp(c, scaled));
  return c.emit("aten.div.Tensor", {soft, c.number(beta)});
}

double limit(const Op& op) { return op.attributes.get_or("lambd", 0.5); }

// 1 where x > bound, else 0.
Result<ValueId> above(Composer& c, ValueId x, double bound) {
  DTR_ASSIGN(const ValueId distance,
             c.emit("aten.sub.Tensor", {x, c.number(static_cast<float>(bound))}));
  DTR_ASSIGN(const ValueId clamped, c.emit("aten.clamp", {distance}, {{"min", 0.0}, {"max", 1.0}}));
  return c.emit("aten.ceil", {clamped});
}

// 0 for every number, NaN for NaN.
Result<ValueId> zero(Composer& c) {
  return c.emit("aten.clamp", {c.operand(0)}, {{"min", 0.0}, {"max", 0.0}});
}

Result<ValueId> hardshrink(Composer& c) {
  if (std::isnan(limit(c.op()))) return c.operand(0);  // no number is inside
  if (limit(c.op()) > std::numeric_limits<float>::max()) return zero(c);
  DTR_ASSIGN(const ValueId magnitude, c.emit("aten.abs", {c.operand(0)}));
  DTR_ASSIGN(const ValueId kept, above(c, magnitude, limit(c.op())));
  return c.emit("aten.mul.Tensor", {c.operand(0), kept});
}

Result<ValueId> softshrink(Composer& c) {
  const double bound = limit(c.op());
  if (bound > std::numeric_limits<float>::max()) return zero(c);
  DTR_ASSIGN(const ValueId inner,
             c.emit("aten.clamp", {c.operand(0)}, {{"min", -bound}, {"max", bound}}));
  return c.emit("aten.sub.Tensor", {c.operand(0), inner});
}

// x / (1 + |x|).
Result<ValueId> softsign(Composer& c) {
  DTR_ASSIGN(const ValueId magnitude, c.emit("aten.abs", {c.operand(0)}));
  DTR_ASSIGN(const ValueId sum, c.emit("aten.add.Tensor", {magnitude, c.number(1)}));
  return c.emit("aten.div.Tensor", {c.operand(0), sum});
}

// The value where `kept` is 0, and 0 where it is 1. A product with infinity or NaN would be NaN in
// both places.
Result<ValueId> where_not(Composer& c, ValueId kept, float value) {
  if (std::isnan(value)) {
    DTR_ASSIGN(const ValueId quotient, c.emit("aten.div.Tensor", {kept, kept}));
    return c.emit("aten.sub.Tensor", {quotient, c.number(1)});
  }
  if (std::isinf(value)) {
    DTR_ASSIGN(const ValueId logarithm, c.emit("aten.log", {kept}));
    return value < 0 ? Result<ValueId>(logarithm) : c.emit("aten.neg", {logarithm});
  }
  DTR_ASSIGN(const ValueId replaced, c.emit("aten.sub.Tensor", {c.number(1), kept}));
  return c.emit("aten.mul.Tensor", {replaced, c.number(value)});
}

// x where it is above the threshold, else the value. What is multiplied by 0 is finite.
Result<ValueId> threshold(Composer& c) {
  const auto bound = static_cast<float>(c.op().attributes.get<double>("threshold"));
  const auto value = static_cast<float>(c.op().attributes.get<double>("value"));
  if (std::isnan(bound)) return c.operand(0);  // no number is at or below it
  if (std::isinf(bound) && bound > 0) {        // every number is
    DTR_ASSIGN(const ValueId kept, zero(c));
    DTR_ASSIGN(const ValueId lower, where_not(c, kept, value));
    return c.emit("aten.add.Tensor", {kept, lower});
  }
  // Above −infinity is all whose half is above the least number.
  const bool infinite = std::isinf(bound);
  const double least = infinite ? double{std::numeric_limits<float>::lowest()} : double{bound};
  DTR_ASSIGN(const ValueId judged, infinite
                                       ? c.emit("aten.mul.Tensor", {c.operand(0), c.number(0.5F)})
                                       : Result<ValueId>(c.operand(0)));
  DTR_ASSIGN(const ValueId kept, above(c, judged, least));
  DTR_ASSIGN(const ValueId limited, c.emit("aten.clamp", {c.operand(0)}, {{"min", least}}));
  DTR_ASSIGN(const ValueId upper, c.emit("aten.mul.Tensor", {limited, kept}));
  DTR_ASSIGN(const ValueId lower, where_not(c, kept, value));
  return c.emit("aten.add.Tensor", {upper, lower});
}

// relu(x) − weight · relu(−x).
Result<ValueId> prelu(Composer& c) {
  DTR_ASSIGN(const ValueId upper, c.emit("aten.relu", {c.operand(0)}));
  DTR_ASSIGN(const ValueId mirrored, c.emit("aten.neg", {c.operand(0)}));
  DTR_ASSIGN(const ValueId below, c.emit("aten.relu", {mirrored}));
  DTR_ASSIGN(const ValueId scaled, c.emit("aten.mul.Tensor", {below, c.operand(1)}));
  return c.emit("aten.sub.Tensor", {upper, scaled});
}

Result<ValueId> rms_norm(Composer& c) {
  const auto rank = static_cast<int64_t>(c.type(c.operand(0)).rank());
  const auto count = static_cast<int64_t>(c.op().attributes.get<Ints>("normalized_shape").size());
  Ints dims;
  for (int64_t dim = rank - count; dim < rank; ++dim) dims.push_back(dim);
  DTR_ASSIGN(const ValueId square, c.emit("aten.mul.Tensor", {c.operand(0), c.operand(0)}));
  DTR_ASSIGN(const ValueId mean,
             c.emit("aten.mean.dim", {square}, {{"dim", dims}, {"keepdim", true}}));
  const auto epsilon = static_cast<float>(c.op().attributes.get<double>("eps"));
  DTR_ASSIGN(const ValueId sum, c.emit("aten.add.Tensor", {mean, c.number(epsilon)}));
  DTR_ASSIGN(const ValueId factor, c.emit("aten.rsqrt", {sum}));
  DTR_ASSIGN(const ValueId normal, c.emit("aten.mul.Tensor", {c.operand(0), factor}));
  return c.operand(1).valid() ? c.emit("aten.mul.Tensor", {normal, c.operand(1)})
                              : Result<ValueId>(normal);
}

// Both as batches of the result's, which have one dimension.
Result<ValueId> matmul(Composer& c) {
  const Shape out = c.type(c.op().results[0]).shape;
  const int64_t rows =
      c.type(c.operand(0)).shape.size() < 2 ? 1 : *(c.type(c.operand(0)).shape.end() - 2);
  const int64_t columns =
      c.type(c.operand(1)).shape.size() < 2 ? 1 : c.type(c.operand(1)).shape.back();
  const int64_t depth = c.type(c.operand(0)).shape.back();
  const size_t matrix_dims = (c.type(c.operand(0)).shape.size() < 2 ? 0u : 1u) +
                             (c.type(c.operand(1)).shape.size() < 2 ? 0u : 1u);
  const Shape batch(out.begin(), out.end() - static_cast<ptrdiff_t>(matrix_dims));
  const auto as_batch = [&](ValueId value, int64_t height, int64_t width) -> Result<ValueId> {
    const Shape& own = c.type(value).shape;
    Shape one(own.begin(), own.end() - static_cast<ptrdiff_t>(std::min<size_t>(own.size(), 2)));
    Shape all = batch;
    for (Shape* shape : {&one, &all}) shape->insert(shape->end(), {height, width});
    one.insert(one.begin(), all.size() - one.size(), 1);
    DTR_ASSIGN(const ValueId matrix, c.shaped(value, one));
    DTR_ASSIGN(const ValueId expanded,
               one == all ? Result<ValueId>(matrix)
                          : c.emit("aten.expand", {matrix}, {{"size", Ints(all)}}));
    return c.shaped(expanded, {element_count(batch), height, width});
  };
  DTR_ASSIGN(const ValueId left, as_batch(c.operand(0), rows, depth));
  DTR_ASSIGN(const ValueId right, as_batch(c.operand(1), depth, columns));
  DTR_ASSIGN(const ValueId product, c.emit("aten.matmul", {left, right}));
  return c.shaped(product, out);
}

// What is cut off, then what is added. The list begins with the last dimension.
Result<ValueId> pad(Composer& c) {
  Ints pad = c.op().attributes.get<Ints>("pad");
  ValueId value = c.operand(0);
  const Shape shape = c.type(value).shape;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t dim = shape.size() - 1 - i;
    const int64_t start = std::max<int64_t>(-pad[2 * i], 0);
    const int64_t end = shape[dim] + std::min<int64_t>(pad[2 * i + 1], 0);
    if (start > 0 || end < shape[dim]) {
      DTR_ASSIGN(value, c.emit("aten.slice.Tensor", {value},
                               {{"dim", static_cast<int64_t>(dim)},
                                {"start", start},
                                {"end", end},
                                {"step", int64_t{1}}}));
    }
    for (const size_t side : {2 * i, 2 * i + 1}) pad[side] = std::max<int64_t>(pad[side], 0);
  }
  return c.emit("aten.constant_pad_nd", {value},
                {{"pad", pad}, {"value", c.op().attributes.get<double>("value")}});
}

// softmax of scores that are the least there is where the mask lets no element take part, and 0
// there: all of a row without any.
Result<ValueId> masked_softmax(Composer& c) {
  constexpr double kLeast = std::numeric_limits<float>::lowest();
  DTR_ASSIGN(const ValueId excluded, c.emit("aten.logical_not", {c.operand(1)}));
  DTR_ASSIGN(const ValueId scores,
             c.emit("aten.masked_fill", {c.operand(0), excluded}, {{"value", kLeast}}));
  DTR_ASSIGN(const ValueId parts, c.emit("aten.softmax", {scores}, c.op().attributes));
  return c.emit("aten.masked_fill", {parts, excluded}, {{"value", 0.0}});
}

// x − floor(x / y) · y. ExecuTorch's kernel for integers subtracts y from some results that have
// its sign already: remainder(6, 5) is −4 there.
Result<ValueId> remainder(Composer& c) {
  DTR_ASSIGN(const ValueId quotient, c.emit("aten.div.Tensor_mode", {c.operand(0), c.operand(1)},
                                            {{"rounding_mode", std::string("floor")}}));
  DTR_ASSIGN(const ValueId whole, c.emit("aten.mul.Tensor", {quotient, c.operand(1)}));
  return c.emit("aten.sub.Tensor", {c.operand(0), whole});
}

// ExecuTorch's kernel for floats leaves the quotient as division rounds it, 3.0000002 for 3.
Result<ValueId> floor_division(Composer& c) {
  DTR_ASSIGN(const ValueId quotient,
             c.emit("aten.div.Tensor_mode", {c.operand(0), c.operand(1)}, c.op().attributes));
  return c.emit("aten.round", {quotient});
}

// True if a floor division is rounded behind, as `floor_division` leaves it.
bool is_rounded(const Graph& graph, ValueId value) {
  const Value& quotient = graph.value(value);
  return quotient.output_uses == 0 && std::ranges::all_of(quotient.uses, [&](const Use& use) {
           return graph.op(use.op).def == &ops::kRound;
         });
}

// An element of the table, whose index is the code less the least one.
Result<ValueId> lookup(Composer& c) {
  const Type x = c.type(c.operand(0)), y = c.type(c.op().results[0]);
  ValueId index = c.operand(0);
  if (x.quantized()) {
    const Quantization& q = *x.quantization;
    DTR_ASSIGN(const ValueId real, c.emit("dequantize", {index}));
    DTR_ASSIGN(const ValueId code, c.emit("aten.mul.Tensor", {real, c.number(1.0F / q.scale())}));
    // Half a step more, because the conversion cuts fractions off.
    DTR_ASSIGN(index, c.emit("aten.add.Tensor",
                             {code, c.number(static_cast<float>(q.zero_point()) + 128.5F)}));
  }
  DTR_ASSIGN(index, c.emit("convert", {index}, {{"dtype", std::string("i64")}}));
  if (!x.quantized() && x.dtype == DType::kInt8) {
    DTR_ASSIGN(index, c.emit("aten.add.Tensor", {index, c.integer(128)}));
  }
  DTR_ASSIGN(index, c.shaped(index, {x.elements()}));
  const ValueId table = c.table(y, c.op().attributes.get<Ints>("codes"));
  DTR_ASSIGN(const ValueId taken,
             c.emit("aten.index_select", {table, index}, {{"dim", int64_t{0}}}, y.quantization));
  return c.emit("aten.view", {taken}, {{"size", x.shape}}, y.quantization);
}

// ExecuTorch's kernel takes a list of indices, and gives the result the rank of x.
Result<ValueId> index_select(Composer& c) {
  const Type result = c.type(c.op().results[0]);
  DTR_ASSIGN(const ValueId list, c.shaped(c.operand(1), {c.type(c.operand(1)).elements()}));
  DTR_ASSIGN(const ValueId taken,
             c.emit("aten.index_select", {c.operand(0), list},
                    {{"dim", c.op().attributes.get<int64_t>("dim")}}, result.quantization));
  return c.emit("aten.view", {taken}, {{"size", result.shape}}, result.quantization);
}

struct CompositionRow {
  const OpDef* op;
  Composition compose;
};
constexpr CompositionRow kCompositions[] = {
    {&ops::kHardshrink, hardshrink},
    {&ops::kHardsigmoid, hardsigmoid},
    {&ops::kHardswish, hardswish},
    {&ops::kLogSigmoid, log_sigmoid},
    {&ops::kLookup, lookup},
    {&ops::kMish, mish},
    {&ops::kPrelu, prelu},
    {&ops::kRmsNorm, rms_norm},
    {&ops::kSilu, silu},
    {&ops::kSoftplus, softplus},
    {&ops::kSoftshrink, softshrink},
    {&ops::kSoftsign, softsign},
    {&ops::kThreshold, threshold},
};

constexpr std::string_view kKernelsOfExecutorch[] = {
#define DTR_EXECUTORCH_KERNEL(name) name,
#include "compiler/backends/portable/executorch_kernels.inc"
#undef DTR_EXECUTORCH_KERNEL
};
static_assert(std::ranges::is_sorted(kKernelsOfExecutorch));

// Whether the operator becomes the kernel of its name, and ExecuTorch has none of that name.
bool is_kernel_missing(const OpDef& op) {
  const portable::Row* row = portable::find_row(&op);
  return row != nullptr && !row->kernel.empty() &&
         std::ranges::find(kCompositions, &op, &CompositionRow::op) == std::end(kCompositions) &&
         !std::ranges::binary_search(kKernelsOfExecutorch, row->kernel);
}

// ExecuTorch has no kernel for softplus; it is composed.
constexpr Condition kLinearFromAfar{
    "executorch-threshold",
    "log(1 + exp(x)), of which ExecuTorch's softplus is composed, is the same function from a "
    "threshold of "
    "15 on",
    "use the default threshold of 20", [](const OpQuery& query) -> std::optional<std::string> {
      const double from = linear_from(query.graph.op(query.op));
      return from < kLeastThreshold ? std::optional(fmt::format("this one is {}", from))
                                    : std::nullopt;
    }};

class ExecutorchBackend final : public KernelBackend {
 public:
  explicit ExecutorchBackend(const TargetDescription& target)
      : portable_(make_portable_backend(target)) {}
  std::string_view name() const override { return "executorch"; }

  std::optional<OperatorRule> rule(const OpDef& op) const override {
    if (&op == &ops::kAdaptiveMaxPool2d || op.name.starts_with("tflite.") || is_kernel_missing(op))
      return std::nullopt;
    std::optional<OperatorRule> rule = portable_->rule(op);
    if (rule && &op == &ops::kSoftplus)
      rule->conditions.insert(rule->conditions.begin(), &kLinearFromAfar);
    return rule;
  }
  Refusal no_rule(const OpDef& op) const override {
    return {"executorch-no-kernel", fmt::format("ExecuTorch has no kernel for {}", op.name),
            "replace the operator"};
  }
  LayoutChoice layouts(const Graph& graph, OpId id) const override {
    return {.contiguous = true,
            .channels_last = false,
            .mixed = graph.op(id).def == &ops::kToDimOrderCopy};
  }
  uint64_t cost(const Graph& graph, OpId id) const override { return portable_->cost(graph, id); }
  Result<bool> legalize(Module& module, Graph& graph, OpId id) const override {
    if (const Composition compose = composition(graph, id)) {
      Composer composer(module, graph, id);
      DTR_ASSIGN(const ValueId result, compose(composer));
      composer.finish(result);
      return true;
    }
    return portable_->legalize(module, graph, id);
  }

  Result<KernelCall> kernel_call(Module& module, const Graph& graph, OpId id) const override {
    DTR_ASSIGN(KernelCall call, portable_->kernel_call(module, graph, id));
    const OpDef* def = graph.op(id).def;
    if (def == &ops::kUpsampleNearest2d || def == &ops::kUpsampleBilinear2d)
      use_overload_vec(call, graph.op(id));
    return call;
  }

 private:
  static Composition composition(const Graph& graph, OpId id) {
    const Op& op = graph.op(id);
    for (const CompositionRow& row : kCompositions)
      if (row.op == op.def) return row.compose;
    if (op.def == &ops::kConstantPadNd)
      return std::ranges::any_of(op.attributes.get<Ints>("pad"),
                                 [](int64_t side) { return side < 0; })
                 ? pad
                 : nullptr;
    const bool of_floats = is_float(graph.type(op.results[0]).dtype);
    if (op.def == &ops::kRemainderTensor) return of_floats ? nullptr : remainder;
    if (op.def == &ops::kDivTensorMode) {
      const bool floor = op.attributes.get<std::string>("rounding_mode") == "floor";
      return floor && of_floats && !is_rounded(graph, op.results[0]) ? floor_division : nullptr;
    }
    if (op.def == &ops::kIndexSelect) {
      const bool has_kernel =
          graph.type(op.operands[1]).rank() == 1 || portable::is_embedding(graph, op);
      return has_kernel ? nullptr : index_select;
    }
    if (op.def == &ops::kSoftmax) return op.operands.size() > 1 ? masked_softmax : nullptr;
    if (op.def != &ops::kMatmul) return nullptr;
    const Shape& left = graph.type(op.operands[0]).shape;
    const Shape& right = graph.type(op.operands[1]).shape;
    const bool has_kernel = left.size() == right.size() &&
                            (left.size() == 2 || (left.size() == 3 && left[0] == right[0]));
    return has_kernel ? nullptr : matmul;
  }

  // (…, output_size, …, scale_h, scale_w) becomes (…, output_size, …, scale_factors), of which one
  // is none.
  static void use_overload_vec(KernelCall& call, const Op& op) {
    const Floats factors = op.attributes.get_or("scales", Floats{0, 0});
    call.arguments.resize(call.arguments.size() - 2);
    const bool by_factors = factors[0] != 0 && factors[1] != 0;
    if (by_factors) call.arguments[1] = std::monostate{};
    call.arguments.push_back(by_factors ? KernelArgument{factors} : KernelArgument{});
    call.name = op.def == &ops::kUpsampleNearest2d ? "aten::upsample_nearest2d.vec_out"
                                                   : "aten::upsample_bilinear2d.vec_out";
  }

  std::unique_ptr<KernelBackend> portable_;
};

}  // namespace

std::unique_ptr<KernelBackend> make_executorch_backend(const TargetDescription& target) {
  return std::make_unique<ExecutorchBackend>(target);
}

}  // namespace dtr
