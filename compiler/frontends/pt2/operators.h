// The operators of PyTorch that are read, as a table: one row each. A row names our op and says how
// its operands and attributes come from the node's arguments; operators that need more (other
// shapes, several ops, identities) bring a function. An elementwise operator whose arguments are
// those of its schema has no row of its own: `same_as` makes it.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/frontends/pt2/schema.h"
#include "compiler/ir/builder.h"

namespace dtr::pt2 {

class Importer;
using Values = std::vector<ValueId>;

// One node while it is imported: its arguments, and a builder of ops that stand for it.
class NodeImport : public GraphBuilder {
 public:
  NodeImport(Importer& importer, size_t index);

  const Node& node() const { return node_; }

  // Arguments by the name in PyTorch's schema. Without a fallback, an absent or None argument is an
  // error (kPt2Invalid), as is one of another kind.
  bool has(std::string_view name) const;  // present and not None
  Result<ValueId> tensor(std::string_view name);
  Result<ValueId> optional_tensor(std::string_view name);                 // invalid if absent
  Result<ValueId> tensor_or_scalar(std::string_view name, ValueId like);  // promoted
  // A constant of integers beside a tensor of floats as floats, as PyTorch promotes it; any other
  // value as it is.
  Result<ValueId> promoted(ValueId value, ValueId like);
  Result<std::vector<ValueId>> tensors(std::string_view name);
  Result<std::vector<ValueId>> optional_tensors(
      std::string_view name);  // invalid where an entry is None
  Result<int64_t> integer(std::string_view name, std::optional<int64_t> fallback = {});
  Result<double> number(std::string_view name, std::optional<double> fallback = {});
  Result<bool> boolean(std::string_view name, std::optional<bool> fallback = {});
  Result<std::string_view> string(std::string_view name,
                                  std::optional<std::string_view> fallback = {});
  Result<Ints> ints(std::string_view name, std::optional<Ints> fallback = {});
  Result<Floats> floats(std::string_view name);
  // A list with one entry a dimension; PyTorch allows a single entry for all, and an empty list for
  // the fallback.
  Result<Ints> spread(std::string_view name, size_t count, std::optional<int64_t> fallback = {});
  // A dimension index, wrapped to [0, rank).
  Result<int64_t> dim(std::string_view name, size_t rank, std::optional<int64_t> fallback = {});
  // Arguments `dim` and `index` that select one part of a tensor of that shape, both wrapped.
  struct Selection {
    int64_t dim, index;
  };
  Result<Selection> selection(const Shape& shape);
  // Dimension indices, wrapped and sorted; none means all.
  Result<Ints> dims(std::string_view name, size_t rank);
  // dtype argument: nullopt if absent or None.
  Result<std::optional<DType>> dtype(std::string_view name);

  // Appends an op with this node as origin, or its result where it is small and made of constants
  // alone.
  Result<ValueId> emit(std::string_view op, std::vector<ValueId> operands,
                       const Attributes& attributes = {},
                       const std::optional<Quantization>& quantization = {}) override;
  // The dtype that the file states for the node's first result.
  std::optional<DType> stated_dtype() const;
  // What is computed from constants alone, as a constant; any other value as it is.
  ValueId known(ValueId value);
  // The same numbers in another dtype.
  Result<ValueId> cast(ValueId value, DType dtype);
  // Both in the dtype in which PyTorch computes with them. `pair` reads them from arguments, of
  // which one may be a number.
  Result<std::pair<ValueId, ValueId>> promoted_pair(ValueId a, ValueId b);
  Result<std::pair<ValueId, ValueId>> pair(std::string_view a, std::string_view b);
  // Known indices of an extent with negative ones, which count from the end, made positive. Others
  // are as they are: a program refuses negative ones while it runs.
  Result<ValueId> wrap_negative_indices(ValueId indices, int64_t extent);
  // A constant with these elements. `uint8_constant_to_int8` gives a constant of uint8 as one of
  // int8, each element less 128.
  ValueId add_constant(const Tensor& tensor, const std::optional<Quantization>& quantization = {});
  Result<ValueId> uint8_constant_to_int8(ValueId value);
  // Gives an integer value its quantization. Errors: kPt2QuantizationConflict if it has another
  // one.
  Result<void> annotate(ValueId value, const Quantization& quantization);
  using GraphBuilder::constant_elements;
  // The elements of an argument that is a constant.
  Result<std::vector<double>> constant_elements(std::string_view name);
  // The matrix with its axes exchanged; constants are exchanged right away.
  Result<ValueId> transposed(ValueId matrix);

  // Refuses a node with an argument that nobody asked for: it may change what the operator means.
  Result<void> check_all_read() const;

  tl::unexpected<Diagnostic> unsupported(std::string reason, std::string fix = {}) const override;
  tl::unexpected<Diagnostic> refuse(DiagnosticId id, std::string reason, std::string fix) const;
  Place place() const;

 private:
  ValueId folded(ValueId result);
  const Argument* find(std::string_view name) const;
  tl::unexpected<Diagnostic> bad_argument(std::string_view name) const;

  Importer& importer_;
  size_t index_;
  const Node& node_;
  mutable std::vector<bool> read_;  // by argument
};

// How an argument of the node becomes an operand or attribute.
enum class ArgumentKind : uint8_t {
  kTensor,
  kOptionalTensor,
  kTensorOrScalar,
  kTensors,
  kInt,
  kInts,
  kNumber,
  kBool,
  kString,
  kDim,
  kDims
};

struct ArgumentRule {
  std::string_view argument;  // also the name of the attribute
  ArgumentKind kind = ArgumentKind::kTensor;
  std::optional<double> fallback =
      {};  // of kInt, kNumber, kBool, kDim; without it the argument must be there
  std::optional<std::string_view> text = {};  // the fallback of kString
};

struct Operator {
  std::string_view target;  // "aten.conv2d.default"; in-place forms ("aten.relu_.default") find the
                            // row of the plain form
  std::string_view op;      // our op; empty if the operator disappears
  std::vector<ArgumentRule> params = {};
  Result<Values> (*build)(NodeImport&) = nullptr;  // instead of `params`
  bool aliases = false;  // the result is a view of the first tensor's memory in PyTorch
};

// Rows of operators that bring a function: `moving` gives a view of its first tensor's memory in
// PyTorch, `making` a tensor of its own.
inline Operator view_row(std::string_view target, std::string_view op,
                         Result<Values> (*build)(NodeImport&)) {
  return {.target = target, .op = op, .build = build, .aliases = true};
}
inline Operator tensor_row(std::string_view target, std::string_view op,
                           Result<Values> (*build)(NodeImport&)) {
  return {.target = target, .op = op, .build = build};
}

// The row of an operator that takes what the schema of our op says.
Operator same_as(std::string_view target, std::string_view op);

struct OperatorMatch {
  const Operator* row = nullptr;
  bool in_place = false;  // writes to its first tensor
};
// `target` without "torch.ops.". A row whose op does not exist does not match.
OperatorMatch find_operator(std::string_view target);
// Whether an operator overwrites an operand, by the conventions of PyTorch's names, also one that
// has no row.
bool writes_to_operand(std::string_view target);

// Adds the ops of a node; one value for each output that is supported.
Result<Values> import_operator(NodeImport& node, const Operator& row);

// For a node that takes a part of its first tensor (slice, select): that tensor with `part` in
// place of what the node takes. nullopt for any other node.
Result<std::optional<ValueId>> scatter_into_view_source(NodeImport& node, ValueId part);

// The rows, by family.
std::vector<Operator> convolution_operators();
std::vector<Operator> pooling_operators();
std::vector<Operator> elementwise_operators();
std::vector<Operator> composed_operators();
std::vector<Operator> shape_operators();
std::vector<Operator> tiling_operators();
std::vector<Operator> resize_operators();
std::vector<Operator> matrix_operators();
std::vector<Operator> attention_operators();
std::vector<Operator> reduction_operators();
std::vector<Operator> identity_operators();
std::vector<Operator> index_operators();
std::vector<Operator> mask_operators();
std::vector<Operator> quantization_operators();
std::vector<Operator> recurrent_operators();

}  // namespace dtr::pt2
