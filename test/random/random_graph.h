// Seeded random quantized graphs of every operator of compiler/ops. What an operator needs
// is derived from its OpDef: number of operands, traits, names and kinds of attributes. Operators
// with operands of their own kind (weights, shapes to match) have a row in random_operands.cpp,
// attributes whose values do not follow from the schema one in random_attributes.cpp;
// `why_not_drawn` says what is missing, and a test asks it for every operator.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/rewriter.h"

namespace dtr::test {

// What most operators of a graph are. kOneDimension: convolutions and pools over a sequence or an
// image of one row. kTokens: what transformers and mixers have, on vectors.
enum class Family : uint8_t { kAny, kOneDimension, kTokens };

struct RandomOptions {
  // Whether a new op may stay in the graph; one that may not is taken out again.
  std::function<bool(const Module&, OpId)> accept = {};
  // Some operators work on floats, between dequantize and quantize. All scales are powers of two,
  // so that sums of floats are exact and do not depend on their order.
  bool floats = false;
  Family family = Family::kAny;
};

// Inputs of int64 hold 0, 1 and 2.
inline constexpr int64_t kIndexInputs = 3;

// Random choices, the same on every machine for a seed.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  uint64_t word() { return random_(); }
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }
  bool coin() { return below(2) == 0; }
  bool one_in(int64_t n) { return below(n) == 0; }
  double unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  // Odd before round.
  int64_t extent();

 private:
  std::mt19937_64 random_;
};

// An op that is being drawn.
struct Draft {
  const OpDef* def = nullptr;
  std::vector<ValueId> operands = {};
  Attributes attributes = {};
  double spread = 1;  // about how much wider the result's range is than operand 0's
};

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed, RandomOptions options = {});
  // Between one and `ops` ops, one or more outputs.
  Module make(int ops);

  // For the rows of operators.
  Dice& dice() { return dice_; }
  bool floats() const { return options_.floats; }
  const Type& type(ValueId value) const { return module_.forward().type(value); }
  // One of the last values; of that shape if one is given, x if there is no other.
  ValueId any_value();
  ValueId value_of_shape(const Shape& shape, ValueId otherwise);
  // An int8 constant of some range, or a float one where the draft works on floats.
  ValueId constant(const Shape& shape);
  ValueId constant(DType dtype, Shape shape, std::optional<Quantization> quantization);
  // Indices of that shape into an extent: a constant, an input (`kIndexInputs` different ones) or
  // what an op made; invalid if the extent is too small for what was drawn.
  ValueId indices(const Shape& shape, int64_t extent);
  // A constant or an input of bool.
  ValueId mask(const Shape& shape);
  // Integers, constant or an input.
  ValueId integers(const Shape& shape);
  // A float constant of sixteenths in [0.5, 1.5).
  ValueId positive_constant(Shape shape);
  // Weight of one scale, or of one a channel along `axis`, and perhaps a bias: what linear
  // operators ask for.
  void add_weights(Draft& draft, Shape shape, int axis, int64_t channels);
  Quantization any_quantization(double scale = 0);

 private:
  Shape input_shape();
  std::vector<const OpDef*> kinds() const;
  void add_op(const OpDef& def);
  bool insert(Draft draft);
  std::optional<ValueId> append(OpSpec spec);
  void insert_in_float(Draft draft);

  Dice dice_;
  RandomOptions options_;
  Module module_;
  Rewriter rewriter_;
  std::vector<ValueId> values_;   // quantized
  std::vector<ValueId> indices_;  // int64, made by ops
  std::vector<ValueId> others_;   // plain integers and bools, made by ops
};

// "" if the operator can be drawn, else what is missing: a row for its operands, or for an
// attribute.
std::string why_not_drawn(const OpDef& def);

// A row for an operator whose operands cannot be derived. Fills operands 1… (operand 0 is there)
// and the attributes that depend on them; false if operand 0 does not fit.
struct OperandRow {
  std::string_view op;
  bool (*draw)(RandomGraph& graph, Draft& draft);
  std::string_view sets = {};  // names of the attributes that it sets, with spaces between
};
const OperandRow* find_operand_row(std::string_view op);

// Draws a value of an attribute; the shape is that of operand 0.
using AttributeDraw = AttributeValue (*)(Dice& dice, const Shape& shape);
// By the row of the attribute's name and kind, else by its kind: a bool is either, a number with a
// default is between 0 and 2. nullptr for a parameter that is no attribute, and for a kind whose
// values follow from nothing.
AttributeDraw draw_of(const Param& attribute);

}  // namespace dtr::test
