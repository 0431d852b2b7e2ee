// What an operator is, as data. Each is a constinit OpDef in a file of
// `compiler/ops/`, from which CMake makes the table of all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/attributes.h"
#include "compiler/ir/schema.h"
#include "compiler/ir/tensor.h"
#include "compiler/ir/type.h"
#include "compiler/support/result.h"

namespace dtr {

class Graph;
class ConstantPool;
struct OpDef;

// The operands and attributes of an op, which the functions of its OpDef take. Made by BoundOpView,
// or by hand before the op exists.
struct OpView {
  const OpDef* def = nullptr;
  std::span<const Type* const> operands;  // nullptr for an absent optional operand
  const Attributes* attributes = nullptr;
  std::span<const Type* const> results;  // empty while types are being inferred

  bool has(size_t index) const { return index < operands.size() && operands[index] != nullptr; }
  const Type& operand(size_t index) const { return *operands[index]; }
  const Type& result(size_t index = 0) const { return *results[index]; }
  template <class T>
  const T& attribute(std::string_view attribute_name) const {
    return attributes->get<T>(attribute_name);
  }
  template <class T>
  T attribute_or(std::string_view attribute_name, T fallback) const {
    return attributes->get_or<T>(attribute_name, std::move(fallback));
  }
  // The attribute, or its default in the schema; one of the two must exist.
  template <class T>
  T argument(std::string_view attribute_name) const;
};

// Properties of operators for passes and backends.
enum OpTrait : uint32_t {
  kNoTraits = 0,
  kElementwise =
      1u << 0,  // one output element depends on one element of each operand (after broadcast)
  kMovesData =
      1u << 1,  // output elements are input elements (or a constant): exact, keeps quantization
  kCommutative = 1u << 2,  // operands 0 and 1 may be swapped
  kKeepsQuantization =
      1u << 3,           // result takes the quantization of operand 0 (implied by kMovesData)
  kOnIntegers = 1u << 4  // takes plain integers and bools as well as floats, and computes them
                         // exactly: evaluate_float and evaluate_double do either
};

// The operator of TFLite's schema with the same operands and no options, and the first version of
// it that supports int8.
struct TfliteCode {
  std::string_view name = {};  // "LOGISTIC"; empty: none
  int int8_version = 1;        // the first with int8; 0: Neutron IR has none in int8
};

// Computes an op: reads the operands (null data for an absent one) and writes the results.
using Evaluation = void (*)(const OpView&, std::span<const TensorView> operands,
                            std::span<const TensorView> results);

struct OpDef {
  std::string_view name;     // "aten.convolution"
  std::string_view summary;  // one line for `deuteron ops` and docs/operators.md
  Schema schema = "(Tensor self)";
  uint32_t traits = kNoTraits;
  // The kernel of ExecuTorch's schema that computes it; empty if its name follows from the
  // operator's (see `kernel_name`).
  std::string_view kernel = {};
  TfliteCode tflite = {};

  // Checks shapes, dtypes and attribute values; presence and kind of attributes and the number of
  // operands are checked before. Errors: the reason names operator, value and limit; the caller
  // adds the place.
  Result<void> (*verify)(const OpView&) = nullptr;
  // Infers dtype and shape of the results from verified operands. The graph sets their layout and
  // quantization.
  std::vector<Type> (*infer)(const OpView&) = nullptr;
  // Reference evaluation on dense contiguous tensors in logical order, tested against PyTorch.
  // float and double are one template.
  Evaluation evaluate_float = nullptr;
  Evaluation evaluate_double = nullptr;
  // Reference evaluation on quantized integers, bit-exact with TFLite's reference kernels; nullptr:
  // the op cannot be quantized.
  Evaluation evaluate_integer = nullptr;
  // Multiply-accumulates of one evaluation; nullptr: it has none.
  int64_t (*macs)(const OpView&) = nullptr;

  bool has_trait(OpTrait trait) const { return (traits & trait) != 0; }
};

template <class T>
T OpView::argument(std::string_view attribute_name) const {
  if (const AttributeValue* value = attributes->find(attribute_name)) return std::get<T>(*value);
  return std::get<T>(*def->schema.attribute(attribute_name)->default_value());
}

// The table of all operators, sorted by name (defined by `compiler/ops/`, declared here so that
// parser and builder can look names up).
std::span<const OpDef* const> all_ops();
const OpDef* find_op(std::string_view name);

// The PyTorch operator overload that an op implements: "aten.relu.default", "aten.add.Tensor".
std::string torch_target(const OpDef& def);
// The name of the op's kernel in ExecuTorch's spelling: `kernel` if it is set, else
// "aten::relu.out" for "aten.relu" and "aten::add.out" for "aten.add.Tensor".
std::string kernel_name(const OpDef& def);

// Checks the number of operands, presence and kind of attributes, then the op's `verify`. Errors:
// kIrInvalid, or the id that `verify` returns.
Result<void> verify_op(const OpView& view);

}  // namespace dtr
