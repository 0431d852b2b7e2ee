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

// What an op's functions may look at: its own operands and attributes. Made by `view(graph, op)`,
// or by hand before the op exists.
struct OpView {
  const OpDef* def = nullptr;
  std::span<const Type* const> operands;  // nullptr where an optional operand is absent
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
  // The attribute, or its default in the schema: one of both must be there.
  template <class T>
  T argument(std::string_view attribute_name) const;
};

// Facts that passes and backends ask for.
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

// The operator of TFLite's schema that has the same operands and no options of its own, and its
// version that knows int8.
struct TfliteCode {
  std::string_view name = {};  // "LOGISTIC"; empty: none
  int int8_version = 1;        // the first with int8; 0: Neutron IR has none in int8
};

using Evaluation = void (*)(const OpView&, std::span<const TensorView> operands,
                            std::span<const TensorView> results);

struct OpDef {
  std::string_view name;     // "aten.convolution"
  std::string_view summary;  // one line for `deuteron ops` and docs/operators.md
  Schema schema = "(Tensor self)";
  uint32_t traits = kNoTraits;
  // The kernel of ExecuTorch's schema that computes it: empty if its name follows from the
  // operator's (see `kernel_name`).
  std::string_view kernel = {};
  TfliteCode tflite = {};

  // Checks shapes, dtypes, attribute values (presence and kind of attributes and number of operands
  // are checked before). The reason names operator, value and limit; the caller adds the place.
  Result<void> (*verify)(const OpView&) = nullptr;
  // Dtype and shape of the results from verified operands. Layout and quantization of the results
  // are the graph's business.
  std::vector<Type> (*infer)(const OpView&) = nullptr;
  // Reference evaluation on dense contiguous tensors in logical order. float and double are one
  // template; the judge against PyTorch.
  Evaluation evaluate_float = nullptr;
  Evaluation evaluate_double = nullptr;
  // Reference evaluation of the quantized form, bit-exact to TFLite's reference kernels; nullptr:
  // the op has no quantized form.
  Evaluation evaluate_integer = nullptr;
  // Multiply-accumulates of one evaluation; nullptr: none.
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

// The overload of PyTorch's operator that an op stands for: "aten.relu.default", "aten.add.Tensor".
std::string torch_target(const OpDef& def);
// The kernel of an op in ExecuTorch's spelling: `kernel` where the op has one, else
// "aten::relu.out" of "aten.relu" and "aten::add.out" of "aten.add.Tensor".
std::string kernel_name(const OpDef& def);

// Everything `verify` promises: number of operands, presence and kind of attributes, then the op's
// own rules.
Result<void> verify_op(const OpView& view);

}  // namespace dtr
