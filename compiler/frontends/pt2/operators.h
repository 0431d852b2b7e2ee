// The supported PyTorch operators as a table with a row each. A row names our op and how its
// operands and attributes follow from the node's arguments; operators that need more (other shapes,
// several ops, identities) have a function. An elementwise operator whose arguments are those of
// its schema has a row made by `same_as`.
#pragma once

#include <complex>
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

// A node during its import: access to its arguments, and a builder of the ops that implement it.
class NodeImport : public GraphBuilder {
 public:
  NodeImport(Importer& importer, size_t index);

  const Node& node() const { return node_; }
  // Whether another node, or the result of the graph, reads an output of this one.
  bool is_read(size_t output) const;
  // Whether every later node that reads the memory of this node's first tensor is of that operator,
  // and no result of the graph does.
  bool is_read_only_by(std::string_view target) const;

  // Arguments by their name in PyTorch's schema. Errors: kPt2Invalid for an argument of another
  // kind, and for an absent or None argument without a fallback.
  bool has(std::string_view name) const;  // present and not None
  Result<ValueId> tensor(std::string_view name);
  Result<ValueId> optional_tensor(std::string_view name);                 // invalid if absent
  Result<ValueId> tensor_or_scalar(std::string_view name, ValueId like);  // promoted
  // Converts an integer constant to float if `like` is float, as PyTorch promotes it; returns other
  // values unchanged.
  Result<ValueId> promoted(ValueId value, ValueId like);
  bool has_tensor(std::string_view name) const;  // and no number
  // Whether an argument, or each tensor of a list, is of complex numbers: its value has one more
  // dimension (complex_operators.cpp).
  bool is_complex(std::string_view name) const;
  std::vector<bool> are_complex(std::string_view name) const;
  Result<std::vector<ValueId>> tensors(std::string_view name);
  Result<std::vector<ValueId>> optional_tensors(
      std::string_view name);  // invalid where an entry is None
  Result<int64_t> integer(std::string_view name, std::optional<int64_t> fallback = {});
  Result<double> number(std::string_view name, std::optional<double> fallback = {});
  // A real number too.
  Result<std::complex<double>> complex_number(std::string_view name);
  Result<bool> boolean(std::string_view name, std::optional<bool> fallback = {});
  Result<std::string_view> string(std::string_view name,
                                  std::optional<std::string_view> fallback = {});
  Result<Ints> ints(std::string_view name, std::optional<Ints> fallback = {});
  Result<Floats> floats(std::string_view name);
  // A list with one entry per dimension. As in PyTorch a single entry applies to all dimensions,
  // and an empty list means the fallback.
  Result<Ints> spread(std::string_view name, size_t count, std::optional<int64_t> fallback = {});
  // A dimension index, wrapped to [0, rank).
  Result<int64_t> dim(std::string_view name, size_t rank, std::optional<int64_t> fallback = {});
  // The arguments `dim` and `index` of a selection from a tensor of that shape, both wrapped.
  struct Selection {
    int64_t dim, index;
  };
  Result<Selection> selection(const Shape& shape);
  // Dimension indices, wrapped and sorted; an empty list means all.
  Result<Ints> dims(std::string_view name, size_t rank);
  // A dtype argument; std::nullopt if it is absent or None.
  Result<std::optional<DType>> dtype(std::string_view name);

  // Whether a result is of complex numbers.
  bool gives_complex(size_t output) const;
  // While it lives, a row reads these values in place of the node's tensors, a list of them for a
  // list; an invalid one is absent. Complex numbers, and the dtype of complex numbers, are their
  // real or imaginary part: so the rows of real numbers compute the parts of complex results.
  using Replacements = std::vector<std::pair<std::string_view, std::vector<ValueId>>>;
  class Replaced {
   public:
    Replaced(NodeImport& node, Replacements values, bool imaginary);
    ~Replaced();
    Replaced(const Replaced&) = delete;
    Replaced& operator=(const Replaced&) = delete;

   private:
    NodeImport& node_;
  };
  // Names of the arguments that are tensors or lists of tensors.
  std::vector<std::string_view> tensor_arguments() const;

  // Arguments of control flow operators, by number. Errors: those of Importer::value_of.
  size_t count() const { return node_.inputs.size(); }
  std::optional<size_t> subgraph_at(size_t position) const;  // its index
  std::optional<bool> boolean_at(size_t position) const;
  Result<Values> tensors_at(size_t position);  // a tensor, or all of a list; other kinds: none
  // The results of a subgraph on these operands. Errors: those of its nodes; kPt2ControlFlow.
  Result<Values> run_subgraph(size_t subgraph, const Values& operands);
  tl::unexpected<Diagnostic> refuse_control(std::string reason, std::string fix = {}) const;

  // Appends an op with this node as origin. If all operands are constants and the result is small,
  // returns the evaluated constant instead.
  Result<ValueId> emit(std::string_view op, std::vector<ValueId> operands,
                       const Attributes& attributes = {},
                       const std::optional<Quantization>& quantization = {}) override;
  // The dtype that the file states for the node's first result.
  std::optional<DType> stated_dtype() const;
  Shape stated_shape() const;  // the same; empty if it states none
  // The type that the file states for a result, float32 for every float; std::nullopt: none that a
  // value has.
  std::optional<Type> stated_type(size_t output) const;
  // What is computed from constants alone, as a constant; any other value as it is.
  ValueId known(ValueId value);
  // The same numbers in another dtype. Errors of this and the next three: those of emit.
  Result<ValueId> cast(ValueId value, DType dtype);
  // Both in the dtype in which PyTorch computes with them. `pair` reads them from arguments, of
  // which one may be a number.
  Result<std::pair<ValueId, ValueId>> promoted_pair(ValueId a, ValueId b);
  Result<std::pair<ValueId, ValueId>> pair(std::string_view a, std::string_view b);
  // Known indices of an extent with negative ones, which count from the end, made positive. Others
  // are as they are: a program refuses negative ones while it runs.
  Result<ValueId> wrap_negative_indices(ValueId indices, int64_t extent);
  // Refuses known indices outside of the extent, for operators whose indices count from the front.
  Result<void> check_indices(ValueId indices, int64_t extent);
  // Add a constant with these elements, and the int8 form of a uint8 constant: each element minus
  // 128. Error: `unsupported`, if the value is computed.
  ValueId add_constant(const Tensor& tensor, const std::optional<Quantization>& quantization = {});
  Result<ValueId> uint8_constant_to_int8(ValueId value);
  // Sets the quantization of an integer value. Error: kPt2QuantizationConflict if it has another
  // one.
  Result<void> annotate(ValueId value, const Quantization& quantization);
  using GraphBuilder::constant_elements;
  // The elements of a constant argument. Error: `unsupported`, if it is computed.
  Result<std::vector<double>> constant_elements(std::string_view name);
  // The transposed matrix; constants are transposed at compile time. Errors: those of GraphBuilder.
  Result<ValueId> transposed(ValueId matrix);

  // Error: an argument of the node was never read, so that it could change the operator's meaning
  // unnoticed.
  Result<void> check_all_read() const;

  tl::unexpected<Diagnostic> unsupported(std::string reason, std::string fix = {}) const override;
  tl::unexpected<Diagnostic> refuse(DiagnosticId id, std::string reason, std::string fix) const;
  Place place() const;

 private:
  ValueId folded(ValueId result);
  Result<void> narrow_constants(std::string_view op, Values& operands);
  const Argument* find(std::string_view name) const;
  tl::unexpected<Diagnostic> bad_argument(std::string_view name) const;

  // What replaces an argument; nullptr: nothing does.
  const Values* replacement(std::string_view name) const;

  Importer& importer_;
  size_t source_;  // in Module::sources
  const Node& node_;
  mutable std::vector<bool> read_;  // by argument
  Replacements replacements_;
  std::optional<bool> imaginary_;  // which part of complex numbers is read
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
  std::string_view op;      // our op; empty if the operator is removed
  std::vector<ArgumentRule> params = {};
  Result<Values> (*build)(NodeImport&) = nullptr;  // replaces `params`
  bool aliases = false;  // the result is a view of the first tensor's memory in PyTorch
};

// Rows of operators with a function. In PyTorch the result of `view_row` shares the memory of its
// first tensor; that of `tensor_row` has its own.
inline Operator view_row(std::string_view target, std::string_view op,
                         Result<Values> (*build)(NodeImport&)) {
  return {.target = target, .op = op, .build = build, .aliases = true};
}
inline Operator tensor_row(std::string_view target, std::string_view op,
                           Result<Values> (*build)(NodeImport&)) {
  return {.target = target, .op = op, .build = build};
}

// A row's function whose ops quantization leaves float.
template <Result<Values> (*build)(NodeImport&)>
Result<Values> exact(NodeImport& node) {
  const GraphBuilder::KeepsFloat kept(node);
  return build(node);
}

// A constant of one element in the dtype of `like`, and `op` with one as its second operand.
// Errors: those of GraphBuilder.
Result<ValueId> number_like(NodeImport& node, ValueId like, double number);
Result<ValueId> with_number(NodeImport& node, std::string_view op, ValueId x, double number);
// a · b: linear with b's axes exchanged where b is a matrix of parameters, else matmul. Vectors
// become matrices of one row or column.
Result<ValueId> matrix_product_of(NodeImport& node, ValueId a, ValueId b);
// The norm of x − y + eps along the last dimension.
Result<ValueId> distance_of(NodeImport& node, ValueId x, ValueId y, double p, double eps,
                            bool keepdim);

// A norm (…) of matrices (…, m, n) by their singular values. Errors: those of
// compositions::singular.
enum class SingularNorm { kGreatest, kLeast, kSum };
Result<ValueId> norm_of_singular_values(NodeImport& node, ValueId matrices, SingularNorm norm);

// One value as the only result.
inline Result<Values> one(Result<ValueId> value) {
  if (!value) return tl::unexpected(std::move(value).error());
  return Values{*value};
}

// The row of an operator whose arguments are those of our op's schema.
Operator same_as(std::string_view target, std::string_view op);

// An operator without a row whose kernel a plug-in has: the kernel's name, "mylib::op.out" for
// "mylib.op.default", and the conversion of a node.
std::string plugin_kernel_name(std::string_view target);
Result<Values> plugin_operator(NodeImport& node);

struct OperatorMatch {
  const Operator* row = nullptr;
  bool in_place = false;  // writes to its first tensor, or to `out`
};
// `target` is without "torch.ops.". `row` is nullptr if there is none.
OperatorMatch find_operator(std::string_view target);
// The plain form of an operator that writes to its tensor ("aten.relu.default" of
// "aten.relu_.default"); empty if it is none.
std::string plain_form(std::string_view target);
// The row of an operator that takes or gives complex numbers.
OperatorMatch find_complex_operator(std::string_view target);
// True if an operator overwrites an operand, by PyTorch's naming conventions; it needs no row.
bool writes_to_operand(std::string_view target);

// Adds the ops of a node and returns a value for each supported output. Errors: those of NodeImport
// and GraphBuilder.
Result<Values> import_operator(NodeImport& node, const Operator& row);

// The argument `self` with the part replaced that slice, select or diagonal take with the node's
// arguments. Errors: those of replace_slice; shapes that do not fit.
Result<ValueId> with_slice(NodeImport& node, ValueId part);
Result<ValueId> with_selection(NodeImport& node, ValueId part);
Result<ValueId> with_diagonal(NodeImport& node, ValueId part);

// For a node whose result is a view of its first tensor: the tensor with the elements of the view
// replaced by `part`. std::nullopt for other nodes. Errors: those of the functions above.
Result<std::optional<ValueId>> scatter_into_view_source(NodeImport& node, ValueId part);

// The rows of each family.
std::vector<Operator> control_operators();
std::vector<Operator> convolution_operators();
std::vector<Operator> pooling_operators();
std::vector<Operator> elementwise_operators();
std::vector<Operator> composed_operators();
std::vector<Operator> shape_operators();
std::vector<Operator> tiling_operators();
std::vector<Operator> resize_operators();
std::vector<Operator> loss_operators();
std::vector<Operator> matrix_operators();
std::vector<Operator> attention_operators();
std::vector<Operator> reduction_operators();
std::vector<Operator> identity_operators();
std::vector<Operator> index_operators();
std::vector<Operator> mask_operators();
std::vector<Operator> quantization_operators();
std::vector<Operator> recurrent_operators();
std::vector<Operator> statistics_operators();
std::vector<Operator> stacking_operators();
std::vector<Operator> defined_operators();
std::vector<Operator> scatter_operators();
std::vector<Operator> sampling_operators();
std::vector<Operator> search_operators();
std::vector<Operator> algebra_operators();
std::vector<Operator> factorization_operators();
std::vector<Operator> spectral_operators();
std::vector<Operator> function_operators();
std::vector<Operator> group_operators();
std::vector<Operator> special_operators();

// Those on complex numbers, a table of their own: the rows of others do not know them.
std::vector<Operator> complex_operators();

}  // namespace dtr::pt2
