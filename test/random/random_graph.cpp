#include "test/random/random_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/ir/parser.h"
#include "compiler/ir/verifier.h"
#include "compiler/ops/define.h"
#include "compiler/ops/ops.h"

namespace dtr::test {
namespace {

constexpr int64_t kMaxElements = 6000;

bool row_sets(const OperandRow& row, std::string_view attribute) {
  return (" " + std::string(row.sets) + " ").find(" " + std::string(attribute) + " ") !=
         std::string::npos;
}

// Operands follow from the definition: one, or several of broadcast shapes.
bool operands_follow(const OpDef& def) {
  return def.schema.min_operands() == 1 || def.has_trait(kElementwise);
}

}  // namespace

int64_t Dice::extent() {
  constexpr int64_t kExtents[] = {1, 3, 5, 7, 9, 11, 13, 1, 3, 5, 7, 2, 4, 6, 8, 16};
  return kExtents[below(16)];
}

std::string why_not_drawn(const OpDef& def) {
  const OperandRow* row = find_operand_row(def.name);
  if (row == nullptr && !operands_follow(def))
    return fmt::format(
        "operands of {} do not follow from its definition: give it a row in random_operands.cpp",
        def.name);
  for (const Param& attribute : def.schema.params())
    if (attribute.is_attribute() && draw_of(attribute) == nullptr &&
        (row == nullptr || !row_sets(*row, attribute.name)))
      return fmt::format("attribute `{}` of {} has no row in random_attributes.cpp", attribute.name,
                         def.name);
  return {};
}

RandomGraph::RandomGraph(uint64_t seed, RandomOptions options)
    : dice_(seed),
      options_(std::move(options)),
      rewriter_((module_.graphs.emplace_back(), module_.forward())) {}

Quantization RandomGraph::any_quantization(double scale) {
  if (scale == 0) scale = 0.02;
  scale = std::clamp(scale * std::exp2(3 * dice_.unit() - 1.5), 1e-5, 1e3);
  if (options_.floats) scale = std::exp2(std::round(std::log2(scale)));
  // Zero points of results of relu and softmax are at the end of the range.
  const int64_t zero_point = dice_.one_in(6) ? -128 : dice_.one_in(6) ? 0 : dice_.below(160) - 80;
  return Quantization::per_tensor(static_cast<float>(scale), static_cast<int32_t>(zero_point));
}

ValueId RandomGraph::any_value() {
  const auto recent = std::min<int64_t>(4, static_cast<int64_t>(values_.size()));
  return values_[values_.size() - 1 - static_cast<size_t>(dice_.below(recent))];
}

ValueId RandomGraph::value_of_shape(const Shape& shape, ValueId otherwise) {
  std::vector<ValueId> same;
  for (const ValueId value : values_)
    if (type(value).shape == shape) same.push_back(value);
  return same.empty() ? otherwise
                      : same[static_cast<size_t>(dice_.below(static_cast<int64_t>(same.size())))];
}

ValueId RandomGraph::constant(DType dtype, Shape shape, std::optional<Quantization> quantization) {
  const auto bytes = seeded_values(dtype, static_cast<size_t>(element_count(shape)), dice_.word());
  const ConstantId id = module_.constants.add(dtype, bytes);
  return rewriter_.add_constant(
      {.dtype = dtype, .shape = std::move(shape), .quantization = std::move(quantization)}, id,
      "c");
}

ValueId RandomGraph::constant(const Shape& shape) {
  return constant(DType::kInt8, shape, any_quantization());
}

ValueId RandomGraph::indices(const Shape& shape, int64_t extent) {
  if (!indices_.empty() && dice_.one_in(3)) {
    const ValueId index =
        indices_[static_cast<size_t>(dice_.below(static_cast<int64_t>(indices_.size())))];
    const Op& op = module_.forward().op(module_.forward().producer(index));
    const AttributeValue* dim = op.attributes.find("dim");
    const Shape& from = type(op.operands[0]).shape;
    const int64_t bound = dim == nullptr || from.empty()
                              ? element_count(from)
                              : from[*ops::normalize_dim(std::get<int64_t>(*dim), from.size())];
    return bound <= extent ? index : ValueId{};
  }
  if (extent >= kIndexInputs && dice_.one_in(3))
    return rewriter_.add_input({.dtype = DType::kInt64, .shape = shape}, "i");
  std::vector<int64_t> values(static_cast<size_t>(element_count(shape)));
  for (int64_t& value : values) value = dice_.below(extent);
  const ConstantId id = module_.constants.add_values<int64_t>(DType::kInt64, values);
  return rewriter_.add_constant({.dtype = DType::kInt64, .shape = shape}, id, "i");
}

ValueId RandomGraph::mask(const Shape& shape) {
  for (const ValueId other : others_)
    if (type(other).dtype == DType::kBool && type(other).shape == shape && dice_.coin())
      return other;
  if (dice_.coin()) return constant(DType::kBool, shape, std::nullopt);
  const ValueId input = rewriter_.add_input({.dtype = DType::kBool, .shape = shape}, "m");
  if (dice_.coin()) return input;
  return append({.def = &ops::kLogicalNot, .operands = {input}}).value_or(input);
}

ValueId RandomGraph::integers(const Shape& shape) {
  if (dice_.coin()) return constant(DType::kInt64, shape, std::nullopt);
  return rewriter_.add_input({.dtype = DType::kInt64, .shape = shape}, "i");
}

ValueId RandomGraph::positive_constant(Shape shape) {
  std::vector<float> values(static_cast<size_t>(element_count(shape)));
  for (float& value : values) value = 0.5F + static_cast<float>(dice_.below(16)) / 16;
  const ConstantId id = module_.constants.add_values<float>(DType::kFloat32, values);
  return rewriter_.add_constant({.dtype = DType::kFloat32, .shape = std::move(shape)}, id, "c");
}

void RandomGraph::add_weights(Draft& draft, Shape shape, int axis, int64_t channels) {
  const bool per_channel = dice_.coin();
  Quantization weight{{}, {}, per_channel ? axis : -1, -127, 127};
  const int64_t scales = per_channel ? shape[static_cast<size_t>(axis)] : 1;
  const double around = 0.01 * std::exp2(4 * dice_.unit() - 2);
  double widest = 0;
  for (int64_t c = 0; c < scales; ++c) {
    weight.scales.push_back(any_quantization(around).scale());
    weight.zero_points.push_back(0);
    widest = std::max<double>(widest, weight.scales.back());
  }
  const Quantization input = *type(draft.operands[0]).quantization;
  const Quantization bias = bias_quantization(input, weight, channels);
  draft.spread *= widest * 64;
  draft.operands.push_back(constant(DType::kInt8, std::move(shape), weight));
  if (dice_.coin()) draft.operands.push_back(constant(DType::kInt32, {channels}, bias));
}

std::optional<ValueId> RandomGraph::append(OpSpec spec) {
  const Result<OpId> op = rewriter_.insert(OpId{}, std::move(spec));
  if (!op) return std::nullopt;
  const ValueId value = module_.forward().op(*op).results.front();
  if (type(value).dtype != DType::kInt8 && type(value).quantized())
    rewriter_.set_quantization(value, std::nullopt);  // whatever was wanted
  const int64_t elements = type(value).elements();
  if (elements > 0 && elements <= kMaxElements && verify_op(module_, module_.forward(), *op) &&
      (!options_.accept || options_.accept(module_, *op)))
    return value;
  rewriter_.erase(*op);
  return std::nullopt;
}

// Not every operator takes every quantization of its result: the first that it takes is drawn.
bool RandomGraph::insert(Draft draft) {
  const Quantization from = *type(draft.operands[0]).quantization;
  std::vector<std::optional<Quantization>> choices;
  if (!draft.def->has_trait(kMovesData) && !draft.def->has_trait(kKeepsQuantization))
    choices = {any_quantization(from.scale() * draft.spread), from,
               Quantization::per_tensor(1.0F / 256, -128), Quantization::per_tensor(1.0F / 128, 0),
               Quantization::per_tensor(1.0F / 16, 127)};
  if (dice_.one_in(4) && !choices.empty()) std::swap(choices[0], choices[1]);
  choices.emplace_back(std::nullopt);
  for (const std::optional<Quantization>& quantization : choices) {
    OpSpec spec{.def = draft.def,
                .operands = draft.operands,
                .attributes = draft.attributes,
                .quantization = quantization};
    if (const std::optional<ValueId> value = append(std::move(spec))) {
      (type(*value).quantized() ? values_ : indices_).push_back(*value);
      return true;
    }
  }
  return false;
}

// dequantize → op → quantize. Constants become floats of the same values.
void RandomGraph::insert_in_float(Draft draft) {
  float scale = 1;
  for (const ValueId operand : draft.operands)
    if (operand.valid() && type(operand).quantized()) scale = type(operand).quantization->scale();
  for (ValueId& operand : draft.operands) {
    if (!operand.valid() || !type(operand).quantized()) continue;
    if (module_.forward().is_constant(operand)) {
      operand = constant(DType::kFloat32, type(operand).shape, std::nullopt);
    } else {
      const std::optional<ValueId> real = append({.def = &ops::kDequantize, .operands = {operand}});
      if (!real) return;
      operand = *real;
    }
  }
  const std::optional<ValueId> result =
      append({.def = draft.def, .operands = draft.operands, .attributes = draft.attributes});
  if (!result) return;
  if (draft.def == &ops::kArgmax || draft.def == &ops::kArgmin) {
    indices_.push_back(*result);
    return;
  }
  if (!is_float(type(*result).dtype)) {
    others_.push_back(*result);
    return;
  }
  const Quantization to = any_quantization(scale * std::min(draft.spread, 64.0));
  if (const std::optional<ValueId> value =
          append({.def = &ops::kQuantize, .operands = {*result}, .quantization = to}))
    values_.push_back(*value);
}

void RandomGraph::add_op(const OpDef& def) {
  Draft draft{.def = &def, .operands = {any_value()}};
  const Shape shape = type(draft.operands[0]).shape;
  for (const Param& attribute : def.schema.params())
    if (const AttributeDraw draw = draw_of(attribute);
        draw != nullptr && (!attribute.optional || dice_.coin()))
      draft.attributes.set(attribute.name, draw(dice_, shape));
  if (const OperandRow* row = find_operand_row(def.name)) {
    if (!row->draw(*this, draft)) return;
  } else {
    while (draft.operands.size() < def.schema.min_operands()) {
      Shape smaller = shape;
      for (int64_t& extent : smaller)
        if (dice_.one_in(3)) extent = 1;
      if (dice_.coin())
        smaller.erase(smaller.begin(),
                      smaller.begin() + dice_.below(static_cast<int64_t>(smaller.size()) + 1));
      draft.operands.push_back(
          dice_.one_in(3) ? constant(smaller)
                          : value_of_shape(dice_.coin() ? shape : smaller, draft.operands[0]));
    }
    if (draft.operands.size() == 2 && dice_.coin()) std::swap(draft.operands[0], draft.operands[1]);
    if (!type(draft.operands[0]).quantized()) return;
  }
  const bool in_float = def.evaluate_integer == nullptr || (options_.floats && dice_.one_in(8));
  if (!in_float) {
    insert(std::move(draft));
  } else if (options_.floats) {
    insert_in_float(std::move(draft));
  }
}

Shape RandomGraph::input_shape() {
  if (options_.family == Family::kOneDimension) {
    Shape shape{1, dice_.extent(), 16 + dice_.below(120)};
    if (dice_.coin()) shape.insert(shape.begin() + 2, 1);
    return shape;
  }
  if (options_.family == Family::kTokens) return {1, 8 + dice_.below(40), 4 + dice_.below(28)};
  constexpr int64_t kRanks[] = {4, 4, 4, 4, 4, 3, 3, 2, 1, 5};
  Shape shape(static_cast<size_t>(kRanks[dice_.below(10)]));
  for (int64_t& extent : shape) extent = dice_.extent();
  if (shape.size() > 3) shape[0] = 1 + dice_.below(2);
  return shape;
}

// All operators, those that the family is made of more often.
std::vector<const OpDef*> RandomGraph::kinds() const {
  std::vector<const OpDef*> kinds(all_ops().begin(), all_ops().end());
  const auto add = [&, each = kinds.size()](std::initializer_list<std::string_view> names,
                                            size_t share) {
    for (const std::string_view name : names)
      kinds.insert(kinds.end(), each / share + 1, find_op(name));
  };
  // Convolutions and linear layers are what most kernels, and most ways of fusing, are for.
  add({"aten.convolution", "aten.linear"}, 8);
  if (options_.family == Family::kOneDimension)
    add({"aten.convolution", "aten.avg_pool2d", "aten.max_pool2d", "aten.tanh", "aten.add.Tensor",
         "aten.cat"},
        2);
  if (options_.family == Family::kTokens)
    add({"aten.linear", "aten.layer_norm", "aten.matmul", "aten.softmax", "aten.permute",
         "aten.gelu", "aten.add.Tensor"},
        2);
  return kinds;
}

Module RandomGraph::make(int ops) {
  const std::vector<const OpDef*> kinds = this->kinds();
  const auto layout = [&] { return dice_.coin() ? Layout::kContiguous : Layout::kChannelsLast; };
  for (int64_t inputs = 1 + dice_.below(3); inputs > 0; --inputs) {
    Type input{.dtype = DType::kInt8, .shape = {}, .quantization = any_quantization()};
    input.shape = input_shape();
    while (input.elements() > kMaxElements / 2)
      input.shape[static_cast<size_t>(dice_.below(static_cast<int64_t>(input.rank())))] = 1;
    if (input.rank() >= 3) input.layout = layout();
    if (options_.floats && dice_.coin()) {
      const Quantization quantization = *std::exchange(input.quantization, std::nullopt);
      input.dtype = DType::kFloat32;
      const ValueId real = rewriter_.add_input(input, "x");
      if (const auto value =
              append({.def = &ops::kQuantize, .operands = {real}, .quantization = quantization}))
        values_.push_back(*value);
    } else {
      values_.push_back(rewriter_.add_input(input, "x"));
    }
  }
  for (int i = 0; i < ops; ++i)
    add_op(*kinds[static_cast<size_t>(dice_.below(static_cast<int64_t>(kinds.size())))]);
  const auto give = [&](ValueId value) {
    if (options_.floats && dice_.coin())
      if (const auto real = append({.def = &ops::kDequantize, .operands = {value}})) return *real;
    return value;
  };
  std::vector<ValueId> outputs;
  for (const ValueId index : indices_)
    if (module_.forward().value(index).unused() || dice_.one_in(6)) outputs.push_back(index);
  for (const ValueId other : others_)
    if (module_.forward().value(other).unused()) outputs.push_back(other);
  for (const ValueId value : std::vector<ValueId>(values_))
    if (module_.forward().value(value).kind == ValueKind::kResult &&
        (module_.forward().value(value).unused() || dice_.one_in(6)))
      outputs.push_back(give(value));
  // A graph whose every op was refused still has one.
  if (outputs.empty()) {
    if (!insert({.def = &ops::kRelu, .operands = {values_.front()}}))
      insert({.def = &ops::kRequantize, .operands = {values_.front()}});
    outputs.push_back(values_.back());
  }
  rewriter_.set_outputs(outputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (type(outputs[i]).rank() >= 3) rewriter_.set_output_layout(i, layout());
  return std::move(module_);
}

}  // namespace dtr::test
