// Replaces dequantize → op → quantize, the form that PT2E writes, by the op on quantized types;
// weights and biases become quantized constants. Each rule is exact on the grid of the result, but
// for the rounding of the op's own integer evaluation:
//
//   quantize(dequantize(x))        x, or requantize(x) if the quantizations differ
//   quantize(constant)             a quantized constant
//   dequantize(constant) · c       dequantize of the constant with c times its scale, c > 0
//   move(dequantize(x))            dequantize(move(x)), for ops that move data, relu and max_pool:
//                                  their results are on x's grid
//   argmax(dequantize(x))          argmax(x), and argmin: codes have the order of their numbers
//   quantize(move(x))              move(quantize(x)), for ops that move data and for clamps,
//                                  because quantizing is monotone. An activation that has no
//                                  quantization before it ends up behind the quantized op, where
//                                  fuse_activation finds it.
//   quantize(cat(dequantize(x), dequantize(y)))
//                                  cat(requantize(x), requantize(y)), if the quantizations differ
//   quantize(op(dequantize(x)…))   the op on quantized types, if it has an integer evaluation and
//                                  accepts these types. Its attribute `qdq` makes it round its
//                                  result once, as the float op between the two did.
//
// Weight and bias of a normalization are float constants in that form, too. A float constant of one
// number is quantized exactly, as code 1 or −1. Indices and masks stay as they are. An op stays
// float if another operand is not dequantized, or if its result has a float reader.
#include <algorithm>
#include <cmath>

#include "compiler/ir/tensor.h"
#include "compiler/ir/verifier.h"
#include "compiler/ops/constant_folding.h"
#include "compiler/transforms/edit.h"
#include "device/numerics/requantize.h"

namespace dtr::passes {
namespace {

class FoldQuantization : public EachOpPass<FoldQuantization> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    const OpDef* def = graph_.op(id).def;
    return def == &ops::kQuantize                         ? fold_quantize(id)
           : def == &ops::kMulTensor                      ? scale_constant(id)
           : def == &ops::kArgmax || def == &ops::kArgmin ? compare_codes(id)
                                                          : sink_dequantize(id);
  }

 private:
  OpId dequantize_before(ValueId value) const {
    return graph_.producer_if(value, ops::kDequantize);
  }
  ValueId quantized_source(ValueId value) const {
    const OpId dequantize = dequantize_before(value);
    return dequantize.valid() ? graph_.op(dequantize).operands[0] : ValueId{};
  }
  bool per_tensor_int8(ValueId value) const {
    const Type& type = graph_.type(value);
    return type.dtype == DType::kInt8 && type.quantized() && !type.quantization->per_channel();
  }

  // --- dequantize downwards ---

  // A quantized weight or bias times a number, as `addmm` with alpha or beta writes it.
  Result<void> scale_constant(OpId id) {
    const Op& op = graph_.op(id);
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const ValueId constant = quantized_source(op.operands[side]), factor = op.operands[1 - side];
      if (!constant.valid() || !graph_.is_constant(constant) || !is_float_constant(graph_, factor))
        continue;
      const Type result = graph_.type(op.results[0]);
      Type type = graph_.type(constant);
      if (graph_.type(factor).elements() != 1 || type.shape != result.shape ||
          result.dtype != DType::kFloat32)
        continue;
      const double by = constant_doubles(module_, graph_, factor)[0];
      bool possible = true;
      for (float& scale : type.quantization->scales) {
        scale = static_cast<float>(static_cast<double>(scale) * by);
        possible = possible && std::isnormal(scale) && scale > 0;
      }
      if (!possible) continue;
      const ValueId scaled = rewriter_.add_constant(type, graph_.value(constant).constant,
                                                    graph_.value(constant).name);
      DTR_ASSIGN(const ValueId real,
                 rewriter_.insert_value(
                     id, {.def = &ops::kDequantize, .operands = {scaled}, .origin = op.origin}));
      put_in_place(id, real, result.layout);
      return {};
    }
    return {};
  }

  // The index of an extreme.
  Result<void> compare_codes(OpId id) {
    const Op& op = graph_.op(id);
    const ValueId codes = quantized_source(op.operands[0]);
    if (!codes.valid() || !per_tensor_int8(codes)) return {};
    const Layout layout = graph_.type(op.results[0]).layout;
    const std::string name = graph_.value(op.results[0]).name;
    const ValueId index = insert_accepted(
        id, {.def = op.def, .operands = {codes}, .attributes = op.attributes, .origin = op.origin},
        layout);
    if (!index.valid()) return {};
    put_in_place(id, index, layout);
    rewriter_.rename(index, name);
    return {};
  }

  // Results are elements of the operand or its zero point, at another place.
  static bool stays_on_grid(const Op& op) {
    const bool moves = op.def->has_trait(kMovesData) && op.def != &ops::kConstantPadNd;
    return moves || op.def == &ops::kMaxPool2d || op.def == &ops::kRelu ||
           (op.def == &ops::kConstantPadNd && op.attributes.get<double>("value") == 0);
  }

  Result<void> sink_dequantize(OpId id) {
    const Op& op = graph_.op(id);
    if (op.operands.empty() || op.results.size() != 1 || !stays_on_grid(op)) return {};
    const OpId user = graph_.sole_user(op.results[0]);
    if (user.valid() && graph_.op(user).def == &ops::kQuantize)
      return {};  // becomes one op with that
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands) {
      operands.push_back(quantized_source(operand));
      if (!operands.back().valid() || !per_tensor_int8(operands.back())) return {};
      if (graph_.type(operands.back()).quantization != graph_.type(operands.front()).quantization)
        return {};
    }
    const ValueId old = op.results[0];
    const Type type = graph_.type(old);
    const std::string name = graph_.value(old).name;
    const Origin origin = op.origin;
    OpSpec spec{.def = op.def, .operands = operands, .attributes = op.attributes, .origin = origin};
    spec.quantization = graph_.type(operands.front()).quantization;
    const ValueId moved = insert_accepted(id, std::move(spec), type.layout);
    if (!moved.valid()) return {};
    DTR_ASSIGN(const ValueId real,
               rewriter_.insert_value(
                   id, {.def = &ops::kDequantize, .operands = {moved}, .origin = origin}));
    put_in_place(id, real, type.layout);
    rewriter_.rename(moved, name);
    return {};
  }

  // --- quantize upwards ---

  Result<void> fold_quantize(OpId id) {
    for (;;) {
      const ValueId x = graph_.op(id).operands[0];
      if (graph_.is_constant(x)) return fold_constant(id);
      const OpId producer = graph_.producer(x);
      if (!producer.valid()) return {};
      if (graph_.op(producer).def == &ops::kDequantize)
        return fold_pair(id, graph_.op(producer).operands[0]);
      if (graph_.sole_user(x) != id || convert(producer, id) ||
          !commutes_with_quantize(graph_.op(producer)))
        return {};
      DTR_ASSIGN(id, hoist_quantize(producer, id));
    }
  }

  // quantize(dequantize(source)).
  Result<void> fold_pair(OpId quantize, ValueId source) {
    const Type wanted = type_of_result(quantize);
    if (!per_tensor_int8(source)) return {};
    if (graph_.type(source).quantization == wanted.quantization) {
      put_in_place(quantize, source, wanted.layout);
      return {};
    }
    const std::string name = graph_.value(graph_.op(quantize).results[0]).name;
    DTR_ASSIGN(
        const ValueId rescaled,
        rewriter_.insert_value(quantize, rounded_once({.def = &ops::kRequantize,
                                                       .operands = {source},
                                                       .origin = graph_.op(quantize).origin,
                                                       .quantization = wanted.quantization})));
    put_in_place(quantize, rescaled, wanted.layout);
    rewriter_.rename(rescaled, name);
    return {};
  }

  Result<void> fold_constant(OpId quantize) {
    const Type wanted = type_of_result(quantize);
    const ValueId constant = graph_.op(quantize).operands[0];
    const Tensor real = Tensor::copy_of(graph_.type(constant).dtype, wanted.shape,
                                        module_.constants.bytes(graph_.value(constant).constant));
    Tensor integers(DType::kInt8, wanted.shape);
    ops::kQuantize.evaluate_integer(BoundOpView(graph_, quantize), {&real.view(), 1},
                                    {&integers.view(), 1});
    const ValueId folded = rewriter_.add_constant(
        wanted, module_.constants.add(DType::kInt8, integers.bytes()), graph_.value(constant).name);
    put_in_place(quantize, folded, wanted.layout);
    return {};
  }

  // Quantizing before such an op gives what quantizing after it gives.
  static bool commutes_with_quantize(const Op& op) {
    return op.operands.size() == 1 &&
           (op.def->has_trait(kMovesData) || clamp_bounds(op).has_value());
  }

  // quantize(op(x)) becomes op(quantize(x)); returns the new quantize.
  Result<OpId> hoist_quantize(OpId op, OpId quantize) {
    const Type wanted = type_of_result(quantize);
    const Origin origin = graph_.op(op).origin;
    const ValueId x = graph_.op(op).operands[0];
    DTR_ASSIGN(const OpId hoisted, rewriter_.insert(op, {.def = &ops::kQuantize,
                                                         .operands = {x},
                                                         .origin = graph_.op(quantize).origin,
                                                         .quantization = wanted.quantization}));
    OpSpec spec{.def = graph_.op(op).def,
                .operands = {graph_.op(hoisted).results[0]},
                .attributes = graph_.op(op).attributes,
                .origin = origin,
                .quantization = wanted.quantization};
    const std::string name = graph_.value(graph_.op(op).results[0]).name;
    DTR_ASSIGN(const ValueId moved, rewriter_.insert_value(op, std::move(spec)));
    put_in_place(quantize, moved, wanted.layout);
    rewriter_.erase(op);
    rewriter_.rename(moved, name);
    return hoisted;
  }

  // --- ops on quantized types ---

  // PyTorch computes the float op and quantizes its result once: so does the op on quantized types.
  static OpSpec rounded_once(OpSpec spec) {
    constexpr std::string_view kAttribute = "qdq";
    if (spec.def->schema.attribute(kAttribute) != nullptr) spec.attributes.set(kAttribute, true);
    return spec;
  }

  // Makes quantize(op(…)) the op on quantized types, if it has them.
  bool convert(OpId op, OpId quantize) {
    const ValueId result = graph_.op(op).results[0];
    if (graph_.op(op).def->evaluate_integer == nullptr || graph_.op(op).results.size() != 1)
      return false;
    const Type wanted = type_of_result(quantize);
    OpSpec spec{.def = graph_.op(op).def,
                .operands = quantized_operands(op),
                .attributes = graph_.op(op).attributes,
                .origin = merge(graph_.op(op).origin, graph_.op(quantize).origin),
                .quantization = wanted.quantization};
    const std::string name = graph_.value(result).name;
    if (spec.operands.empty()) return false;
    if (spec.def->has_trait(kMovesData)) bring_to(op, *wanted.quantization, spec.operands);
    spec = rounded_once(std::move(spec));
    ValueId converted = insert_accepted(op, spec, wanted.layout);
    ValueId replacement = converted;
    const auto moved = std::ranges::find_if(spec.operands, [&](ValueId operand) {
      return operand.valid() && per_tensor_int8(operand);
    });
    if (!converted.valid() && spec.def->has_trait(kKeepsQuantization) &&
        moved != spec.operands.end()) {
      // In the quantization of its operand, then to the wanted one.
      spec.quantization = graph_.type(*moved).quantization;
      const Origin origin = spec.origin;
      converted = insert_accepted(op, std::move(spec), wanted.layout);
      if (converted.valid())
        replacement = insert_accepted(op,
                                      rounded_once({.def = &ops::kRequantize,
                                                    .operands = {converted},
                                                    .origin = origin,
                                                    .quantization = wanted.quantization}),
                                      wanted.layout);
    }
    if (!replacement.valid()) return false;
    put_in_place(quantize, replacement, wanted.layout);
    rewriter_.erase(op);
    rewriter_.rename(converted, name);
    return true;
  }

  // Where operands that are moved together have several quantizations, each gets the wanted one:
  // quantizing what was moved does the same.
  void bring_to(OpId before, const Quantization& wanted, std::vector<ValueId>& operands) {
    const auto quantization = [&](ValueId value) -> const std::optional<Quantization>& {
      return graph_.type(value).quantization;
    };
    const bool one = std::ranges::all_of(operands, [&](ValueId operand) {
      return quantization(operand) == quantization(operands[0]);
    });
    if (one ||
        !std::ranges::all_of(operands, [&](ValueId operand) { return per_tensor_int8(operand); }))
      return;
    for (ValueId& operand : operands) {
      if (quantization(operand) == wanted) continue;
      const Layout layout = graph_.type(operand).layout;
      OpSpec spec{.def = &ops::kRequantize,
                  .operands = {operand},
                  .origin = graph_.op(before).origin,
                  .quantization = wanted};
      operand = insert_accepted(before, rounded_once(std::move(spec)), layout);
      DTR_CHECK(operand.valid());
    }
  }

  // The quantized values behind the operands, and indices and masks, which have no quantization;
  // none if an operand in float is not quantized, or if none is in float.
  std::vector<ValueId> quantized_operands(OpId id) {
    std::vector<ValueId> operands = graph_.op(id).operands;
    const auto is_float = [&](ValueId operand) {
      return operand.valid() && graph_.type(operand).dtype == DType::kFloat32;
    };
    if (std::ranges::none_of(operands, is_float)) return {};
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!is_float(operands[i])) continue;
      const bool bias = i == 2 && takes_activation(graph_.op(id));
      if (i > 0 && is_normalization(graph_.op(id))) {
        operands[i] = float_constant(operands[i]);
        if (!operands[i].valid()) return {};
        continue;
      }
      if (const ValueId number = exact_number(id, operands[i]); number.valid()) {
        operands[i] = number;
        continue;
      }
      const ValueId source = bias ? quantized_bias(operands) : quantized_source(operands[i]);
      if (!source.valid()) return {};
      operands[i] = source;
    }
    return operands;
  }

  // Their weight and bias are float in the integer form, too, so that an exporter need not have
  // quantized them.
  static bool is_normalization(const Op& op) {
    return op.def == &ops::kLayerNorm || op.def == &ops::kRmsNorm || op.def == &ops::kGroupNorm;
  }
  ValueId float_constant(ValueId value) {
    if (is_float_constant(graph_, value)) return value;
    const ValueId source = quantized_source(value);
    if (!source.valid() || !graph_.is_constant(source)) return {};
    const Tensor real =
        std::move(ops::evaluate_on_constants(module_, graph_, graph_.producer(value))[0]);
    return rewriter_.add_constant(graph_.type(value),
                                  module_.constants.add(real.dtype(), real.bytes()),
                                  graph_.value(value).name);
  }

  // A float constant of one number, beside a tensor, as int8: code 1 or −1 in steps of its
  // magnitude. Nothing is rounded.
  ValueId exact_number(OpId op, ValueId constant) {
    const auto value =
        graph_.op(op).def->has_trait(kElementwise) && graph_.op(op).operands.size() == 2
            ? uniform_value(module_, graph_, constant)
            : std::nullopt;
    if (!value) return {};
    const auto number = static_cast<float>(*value);
    const Type& type = graph_.type(constant);
    const Type& result = type_of_result(op);
    const ValueId other = graph_.op(op).operands[graph_.op(op).operands[0] == constant ? 1 : 0];
    if ((number != 0 && !std::isnormal(number)) || graph_.type(other).shape != result.shape)
      return {};
    const auto code = static_cast<int8_t>(number > 0 ? 1 : number < 0 ? -1 : 0);
    return rewriter_.add_constant(
        {.dtype = DType::kInt8,
         .shape = Shape(type.rank(), 1),
         .quantization = Quantization::per_tensor(number == 0 ? 1.0F : std::abs(number), 0)},
        module_.constants.add_values<int8_t>(DType::kInt8, {&code, 1}),
        graph_.value(constant).name);
  }

  // Operand 2 as int32 constant of scale s_in·s_w: it is that already, has a scale that rounds to
  // another, or is float.
  ValueId quantized_bias(const std::vector<ValueId>& operands) {
    ValueId given = operands[2];  // perhaps a row of a matrix
    for (OpId view = graph_.producer(given); view.valid() && graph_.op(view).def == &ops::kView;
         view = graph_.producer(given))
      given = graph_.op(view).operands[0];
    const ValueId source = quantized_source(given);
    const ValueId constant = source.valid() ? source : given;
    if (!graph_.is_constant(constant) || !graph_.type(operands[0]).quantized() ||
        !graph_.type(operands[1]).quantized())
      return {};
    Type type = graph_.type(constant);
    type.shape = graph_.type(operands[2]).shape;
    if (type.rank() != 1 || (type.dtype != DType::kInt32 && type.dtype != DType::kFloat32))
      return {};
    const Quantization wanted =
        bias_quantization(*graph_.type(operands[0]).quantization,
                          *graph_.type(operands[1]).quantization, type.shape[0]);
    const auto scale_of = [](const Quantization& q, size_t c) {
      return static_cast<double>(q.scales[q.per_channel() ? c : 0]);
    };
    std::vector<int32_t> codes;
    for (size_t c = 0; c < static_cast<size_t>(type.shape[0]); ++c) {
      const double scale = scale_of(wanted, c);
      double code = 0;
      if (type.dtype == DType::kFloat32) {
        code = static_cast<double>(
                   module_.constants.values<float>(graph_.value(constant).constant)[c]) /
               scale;
      } else {
        if (!type.quantized() ||
            type.quantization->zero_points[type.quantization->per_channel() ? c : 0] != 0)
          return {};
        const double ratio = scale_of(*type.quantization, c) / scale;
        const double stored = module_.constants.values<int32_t>(graph_.value(constant).constant)[c];
        code = std::abs(ratio - 1) <= 1e-6 ? stored : stored * ratio;
      }
      if (!(std::abs(code) <= double{INT32_MAX})) return {};
      codes.push_back(numerics::nearest_code(code, 1, 0, {INT32_MIN, INT32_MAX}));
    }
    const ConstantId id = module_.constants.add_values<int32_t>(DType::kInt32, codes);
    const bool is_that = constant == operands[2] || constant == quantized_source(operands[2]);
    if (is_that && id == graph_.value(constant).constant && type.quantization == wanted)
      return constant;
    const std::string name = graph_.value(constant).name;
    return rewriter_.add_constant(
        {.dtype = DType::kInt32, .shape = type.shape, .quantization = wanted}, id, name);
  }

  // --- edits ---

  Type type_of_result(OpId op) const { return graph_.type(graph_.op(op).results[0]); }

  // The result of a new op of one result, or invalid if the op does not accept these types.
  ValueId insert_accepted(OpId before, OpSpec spec, Layout layout) {
    const Result<OpId> made = rewriter_.insert(before, std::move(spec));
    if (!made) return {};
    const ValueId result = graph_.op(*made).results[0];
    if (!verify_op(module_, graph_, *made)) {
      rewriter_.erase(*made);
      return {};
    }
    rewriter_.set_layout(result, layout);
    return result;
  }

  void put_in_place(OpId op, ValueId value, Layout layout) {
    if (graph_.value(value).unused()) rewriter_.set_layout(value, layout);
    rewriter_.replace(op, value);
    ++changes_;
  }
};

}  // namespace

constinit const PassDef kFoldQuantization{
    .name = "fold_quantization",
    .summary = "turn dequantize → op → quantize into the op on quantized types",
    .exactness = Exactness::kQuantization,
    .run = run_pass<FoldQuantization>};

}  // namespace dtr::passes
