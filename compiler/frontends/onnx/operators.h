// The operators of the format as tables with a row each. A row names our op and how its attributes
// follow from the node's, or has a function that builds several ops (GraphBuilder).
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/frontends/onnx/onnx.h"
#include "compiler/frontends/onnx/tensors.h"
#include "compiler/ir/builder.h"
#include "compiler/ops/custom.h"

namespace dtr::onnx {

class Importer;
struct Binding;
struct Scope;
struct Operator;
using Values = std::vector<ValueId>;

// A node during its import: access to its operands and attributes, and a builder of the ops that
// implement it.
class NodeImport : public GraphBuilder {
 public:
  NodeImport(Importer& importer, const pb::NodeProto& node, const Scope& scope, const Operator& row,
             uint32_t source);

  const pb::NodeProto& node() const { return node_; }
  size_t inputs() const { return static_cast<size_t>(node_.input_size()); }
  size_t outputs() const { return static_cast<size_t>(node_.output_size()); }
  // True if a result has a name, under which it may be read.
  bool wants(size_t output) const {
    return output < outputs() && !node_.output(static_cast<int>(output)).empty();
  }
  // The version of the operators of the node's domain.
  int64_t version() const;

  // ---- operands

  bool has(size_t input) const {
    return input < inputs() && !node_.input(static_cast<int>(input)).empty();
  }
  // An operand as numbers: codes are integers, unless the row keeps their quantization. Errors of
  // these: kOnnxInvalid if the operand is absent, or nothing makes it.
  Result<ValueId> value(size_t input);
  // An operand, or an invalid value if it is absent.
  Result<ValueId> optional_value(size_t input);
  // An operand as it is held: quantized if a quantize operator made it.
  Result<ValueId> held(size_t input);
  Result<Binding> binding(size_t input);
  Result<Values> values();  // all operands
  // The elements of an operand that depends on no input of the model. Error:
  // kOnnxUnsupportedOption if it does.
  Result<std::vector<double>> known(size_t input);
  Result<Ints> integers(size_t input);
  Result<int64_t> integer(size_t input);
  Result<double> number(size_t input);

  // ---- attributes. Errors: kOnnxInvalid for one of another type, or that is missing and has no
  // fallback.
  bool has_attribute(const std::string& name) const;
  Result<int64_t> integer(const std::string& name, std::optional<int64_t> fallback = {}) const;
  Result<bool> flag(const std::string& name, bool fallback = false) const;
  Result<double> number(const std::string& name, std::optional<double> fallback = {}) const;
  Result<std::string> string(const std::string& name,
                             std::optional<std::string> fallback = {}) const;
  // One of the words that the format knows for it; kOnnxInvalid for another.
  Result<std::string> word(const std::string& name, std::string fallback,
                           std::initializer_list<std::string_view> known) const;
  Result<Ints> ints(const std::string& name, std::optional<Ints> fallback = {}) const;
  Result<Floats> floats(const std::string& name, std::optional<Floats> fallback = {}) const;
  Result<std::vector<std::string>> strings(const std::string& name) const;
  Result<Tensor> tensor(const std::string& name) const;
  Result<const pb::GraphProto*> graph_attribute(const std::string& name) const;
  // The attribute `name` of older versions, or operand `input` of newer ones; `fallback` if there
  // is neither.
  Result<Ints> ints_or_input(const std::string& name, size_t input,
                             std::optional<Ints> fallback = {});
  // Error: kOnnxUnsupportedOption for an attribute that no function has read, which could change
  // the operator's meaning.
  Result<void> check_all_read() const;
  // Every attribute that is no tensor or graph, by its name. Error: kOnnxUnsupportedOption for
  // others.
  Result<std::vector<ops::CustomOption>> custom_options() const;
  // The type that the file states for a result outside of functions and branches, float32 for every
  // float. Error: kOnnxUnsupportedShape if it states none, or leaves it open.
  Result<Type> stated_type(size_t output) const;

  // ---- shapes

  const Shape& shape(ValueId value) const { return type(value).shape; }
  DType dtype(ValueId value) const { return type(value).dtype; }
  // A dimension that may count from the end. Error: kOnnxInvalid if it is out of range.
  Result<int64_t> axis(int64_t axis, size_t rank) const;
  // Several, sorted, each once.
  Result<Ints> axes(const Ints& axes, size_t rank) const;
  // Error: kOnnxInvalid for more than eight dimensions or 2^31 − 1 elements.
  Result<void> check_shape(const Shape& shape) const;

  // ---- building

  // Appends an op. If it reads constants alone, and its result is not much larger than they are,
  // returns the evaluated constant. Errors, also of the functions below: those of GraphBuilder, and
  // kOnnxUnsupportedOption where an operand would have to be known.
  Result<ValueId> emit(std::string_view op, std::vector<ValueId> operands,
                       const Attributes& attributes = {},
                       const std::optional<Quantization>& quantization = {}) override;
  // The same numbers in another dtype.
  Result<ValueId> cast(ValueId value, DType dtype);
  // A constant of one number, with the dtype of `like`.
  Result<ValueId> scalar(double value, ValueId like);
  Result<ValueId> add(ValueId a, ValueId b) { return emit("aten.add.Tensor", {a, b}); }
  Result<ValueId> sub(ValueId a, ValueId b) { return emit("aten.sub.Tensor", {a, b}); }
  Result<ValueId> mul(ValueId a, ValueId b) { return emit("aten.mul.Tensor", {a, b}); }
  Result<ValueId> div(ValueId a, ValueId b) { return emit("aten.div.Tensor", {a, b}); }
  Result<ValueId> times(ValueId a, double factor);
  Result<ValueId> plus(ValueId a, double summand);
  Result<ValueId> sum(ValueId x, const Ints& dims, bool keepdim = true);
  Result<ValueId> constant_of(const Tensor& tensor);
  // Known indices with those from the end counted from the front; computed ones by a selection.
  Result<ValueId> from_front(ValueId indices, int64_t extent);
  // The result of GraphBuilder::emit, evaluated if it reads constants alone.
  ValueId folded(ValueId result);

  // ---- quantization

  // Real numbers as codes, and back. `scale` and `zero_point` are operands, which must be known;
  // an absent zero point is 0. `axis`: the dimension along which there are several.
  struct Codes {
    size_t scale, zero_point;
    int64_t axis = 1;
  };
  Result<ValueId> quantized(ValueId real, const Codes& codes);
  Result<ValueId> dequantized(size_t input, const Codes& codes);
  // Known codes that are annotated with a quantization, as real numbers.
  Result<ValueId> dequantized_constant(std::span<const double> codes, DType dtype,
                                       const Quantization& quantization,
                                       const std::optional<Shape>& shape = {});
  // The numbers of codes as integers of the file's type.
  Result<ValueId> plain(ValueId value);
  bool is_unsigned(ValueId value) const;
  // Some integers of the model are unsigned and held in a wider type: their bits above are not
  // those of the file.
  bool has_wide_unsigned() const;

  // ---- subgraphs

  Result<std::vector<Binding>> run_subgraph(const pb::GraphProto& graph,
                                            const std::vector<Binding>& inputs,
                                            const std::string& suffix);
  void return_sequence(size_t output, Values values);
  const std::vector<std::pair<size_t, Values>>& sequences() const { return sequences_; }

  tl::unexpected<Diagnostic> invalid(std::string reason) const;
  tl::unexpected<Diagnostic> unsupported(std::string reason, std::string fix = {}) const override;

 private:
  Place place() const;
  const pb::AttributeProto* find(const std::string& name) const;
  Result<Quantization> quantization_of(const Codes& codes, bool is_unsigned, const Shape& shape);

  Importer& importer_;
  const pb::NodeProto& node_;
  const Scope& scope_;
  const Operator& row_;
  uint32_t source_;
  mutable std::vector<bool> read_;  // by attribute
  std::vector<std::pair<size_t, Values>> sequences_;
};

// How an attribute of the node becomes one of our op.
struct AttributeRule {
  std::string name;       // in the file
  std::string attribute;  // of the op
  AttributeKind kind = AttributeKind::kFloat;
  double fallback = 0;
};

inline constexpr size_t kAnyNumber = SIZE_MAX;
inline constexpr std::string_view kMicrosoft = "com.microsoft";
inline constexpr std::string_view kClassic = "ai.onnx.ml";

struct Operator {
  std::string_view domain;  // "" for ai.onnx
  std::string_view name;
  size_t min_inputs = 1;
  size_t max_inputs = 1;
  std::string_view op = {};  // our op with these operands, unless there is a function
  std::vector<AttributeRule> attributes = {};
  // Returns a value for each output that is supported.
  Result<Values> (*build)(NodeImport&) = nullptr;
  bool moves = false;  // what it returns are elements of its operand: codes stay codes
};

// nullptr if the operator is not supported.
const Operator* find_operator(std::string_view domain, std::string_view name);
// "" and "ai.onnx" are the same domain.
std::string_view plain_domain(std::string_view domain);

// An operator without a row whose kernel a plug-in has: the kernel's name, "DOMAIN::NAME", and the
// conversion of a node.
std::string plugin_kernel_name(std::string_view domain, std::string_view name);
Result<Values> plugin_operator(NodeImport& node);

// Why an operator without a row is not supported: the feature that Deuteron lacks (empty: only the
// row), and what to do.
struct WhyRefused {
  std::string_view needs, fix;
};
WhyRefused why_refused(std::string_view domain, std::string_view name);
// A domain of neither the format nor its runtime: of somebody's own operators.
bool is_foreign(std::string_view domain);

// Parts of these sizes along a dimension, at most 4096. Errors: kOnnxInvalid for sizes beyond the
// extent, kOnnxUnsupportedOption.
Result<Values> parts(NodeImport& node, ValueId x, int64_t dim, const Ints& sizes);

// What several operators of the format are made of. Errors: those of NodeImport and GraphBuilder.
// A convolution with the attributes of the node; `bias` may be invalid.
Result<ValueId> convolved(NodeImport& node, ValueId x, ValueId weight, ValueId bias);
// An average pool with the attributes of the node.
Result<ValueId> average_pooled(NodeImport& node, ValueId x);
// A reduction over all dimensions behind the channels, which stay with extent 1.
Result<ValueId> globally_reduced(NodeImport& node, ValueId x, std::string_view op);
// The product of NumPy's matmul; a linear layer if the second operand is a known matrix.
Result<ValueId> multiplied(NodeImport& node, ValueId a, ValueId b);
// alpha · a · b + beta · c with the attributes of the node; `c` may be invalid.
Result<ValueId> general_product(NodeImport& node, ValueId a, ValueId b, ValueId c);

// The rows of each family.
std::vector<Operator> composed_operators();
std::vector<Operator> control_operators();
std::vector<Operator> elementwise_operators();
std::vector<Operator> index_operators();
std::vector<Operator> quantized_operators();
std::vector<Operator> recurrent_operators();
std::vector<Operator> normalization_operators();
std::vector<Operator> reduction_operators();
std::vector<Operator> resize_operators();
std::vector<Operator> sampling_operators();
std::vector<Operator> shape_operators();
std::vector<Operator> signal_operators();
std::vector<Operator> window_operators();

// A row with a function.
inline Operator row(std::string_view name, size_t min_inputs, size_t max_inputs,
                    Result<Values> (*build)(NodeImport&), std::string_view domain = {}) {
  return {.domain = domain,
          .name = name,
          .min_inputs = min_inputs,
          .max_inputs = max_inputs,
          .build = build};
}
inline Operator moving_row(std::string_view name, size_t min_inputs, size_t max_inputs,
                           Result<Values> (*build)(NodeImport&)) {
  Operator made = row(name, min_inputs, max_inputs, build);
  made.moves = true;
  return made;
}

// One value as the only result.
inline Result<Values> only(Result<ValueId> value) {
  if (!value) return tl::unexpected(std::move(value).error());
  return Values{*value};
}

}  // namespace dtr::onnx
