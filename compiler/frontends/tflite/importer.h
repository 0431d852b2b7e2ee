// Imports the graph of a .tflite file: converts tensors to values and provides what the conversions
// of single operators (operators.cpp) use.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/frontends/tflite/model_file.h"
#include "compiler/frontends/tflite/tflite.h"
#include "compiler/ir/builder.h"
#include "compiler/ops/ops.h"

namespace dtr::tflite {

class Importer {
 public:
  // Converts tensors of `file` in place. `kept`: constants refer to the bytes of the file, which
  // the module owns; else they are copied.
  // `sizes` must outlive the object.
  Importer(ModelFile& file, const std::string& name, bool kept, Arithmetic arithmetic,
           const DimensionSizes& sizes);
  // Imports the whole file. Errors: ids tflite-*, with the tensor or operator at fault.
  Result<Import> run() &&;

  // ---- for conversions of operators; `op` is the operator being converted ----
  const OperatorInfo& op() const { return *op_; }
  const TensorInfo& tensor(size_t operand) const {
    return file_->tensors[static_cast<size_t>(op_->inputs[operand])];
  }
  const TensorInfo& output(size_t index = 0) const {
    return file_->tensors[static_cast<size_t>(op_->outputs[index])];
  }
  bool has(size_t operand) const {
    return operand < op_->inputs.size() && op_->inputs[operand] >= 0;
  }
  // The options table of the operator. Error: kTfliteInvalid if it is missing or of another type.
  template <class Table, class Union>
  Result<const Table*> options(Union type) const {
    const Table* table = file_->options<Table>(*op_, type);
    if (table == nullptr) return invalid("its options are missing or of another operator");
    return table;
  }

  const Type& type(ValueId value) const { return rewriter_.graph().type(value); }
  // The value of an operand in logical order (rank 4: NCHW). Adds constants on first use. Errors:
  // kTfliteInvalid, kTfliteUnsupportedDtype.
  Result<ValueId> value(size_t operand);
  // A constant operand of rank 4, permuted: dimension i of the result is dimension `dims[i]` of the
  // file. `axis`: the quantized dimension of the result. Errors: as value.
  Result<ValueId> permuted_constant(size_t operand, const Ints& dims, int axis);
  // A constant of int8 codes with zero point 0, permuted as by permuted_constant; and several of
  // them joined along a dimension. Errors: those of Builder.
  Result<ValueId> add_codes(std::span<const std::byte> codes, const Shape& shape, const Ints& dims,
                            float scale);
  Result<ValueId> joined_codes(const std::vector<ValueId>& parts, int dim);
  // An operand in the file's order of dimensions. Errors: as value.
  Result<ValueId> file_value(size_t operand);
  // An operand as real numbers, in logical order: codes are dequantized. Errors: as value.
  Result<ValueId> real_value(size_t operand);
  // The same of a value.
  Result<ValueId> dequantized(ValueId value);
  // An operand of COMPLEX64, in the file's order of dimensions with one more, of two, behind.
  // Errors: kTfliteInvalid for one of another type, kTfliteUnsupportedOption for constants and
  // inputs.
  Result<ValueId> complex_value(size_t operand);
  // Operand 0, of COMPLEX64, in another shape of the file. Errors: those of complex_value.
  Result<ValueId> reshape_complex(Shape to);
  // A value of rank 4 from logical order to the file's, and back; others as they are.
  Result<ValueId> in_file_order(ValueId value);
  Result<ValueId> in_logical_order(ValueId value);
  // An operand of an elementwise operator with dimensions that broadcast in logical order as they
  // do in the file. `value` is that operand, or what was made of it, in logical order.
  Result<ValueId> aligned(ValueId value, const Shape& of_file);
  // Real numbers or integers as the output tensor `index` has them: quantized, or converted to its
  // dtype. Errors: those of Builder.
  Result<ValueId> as_output(ValueId value, size_t index = 0);

  // The content of an operand that is a variable, in real numbers, before the operator; and what
  // the operator leaves there, which later operators and the next run read. Errors: kTfliteInvalid
  // for another operand; those of Builder.
  Result<ValueId> kept(size_t operand);
  Result<void> keep(size_t operand, ValueId next);

  // The outputs of a subgraph of the file on these operands, built in place; `suffix` tells its
  // operators in reports from those of other calls. Errors: ids tflite-*, also for a subgraph that
  // calls itself, and for calls that make too many operators.
  Result<std::vector<ValueId>> run_subgraph(int32_t index, const std::vector<ValueId>& operands,
                                            const std::string& suffix);
  // What a subgraph of one operator does to its two arguments, in that order; nullopt: it returns
  // the second. Errors: ids tflite-*, for a subgraph that does anything else.
  Result<std::optional<fb::BuiltinOperator>> combination(int32_t index);
  // What depends on no input of the model as a constant; other values, long ones and codes as they
  // are.
  ValueId folded(ValueId value);
  // A result in the file's order of dimensions as the output tensor has it. Errors: those of
  // Builder.
  Result<ValueId> file_output(ValueId value, size_t index = 0);
  // Element 0 of a bool, if it depends on no input.
  std::optional<bool> known_bool(ValueId value);

  // The elements of an operand that depends on no input of the model. Error:
  // kTfliteUnsupportedOption if it does.
  Result<std::vector<double>> known(size_t operand);
  // The same of an int32 or int64 operand.
  Result<Ints> integers(size_t operand);
  // The real value of an operand of one element that depends on no input. Error:
  // kTfliteUnsupportedOption.
  Result<double> real(size_t operand);

  // Checks a shape that the model computes: at most eight dimensions and 2^31 − 1 elements. Error:
  // kTfliteInvalid.
  Result<void> check_shape(const Shape& shape) const;

  // Codes of a UINT8 tensor as those of another, whose scale or zero point differ. As LiteRT's
  // reference of CONCATENATION, round(byte * f + (-zero_point) * f) + zero_point of `to` with
  // f = scale * (1 / scale of `to`), in float. Errors: those of Rewriter::insert.
  Result<ValueId> rescaled_bytes(ValueId codes, const TensorInfo& from, const TensorInfo& to);

  // Appends an op, whose result has the quantization of the output tensor if it has one. Errors:
  // those of Rewriter::insert.
  Result<ValueId> append(const OpDef& def, std::vector<ValueId> operands,
                         Attributes attributes = {});
  // Appends an op of several results. Errors: those of Rewriter::insert.
  Result<std::vector<ValueId>> append_several(const OpDef& def, std::vector<ValueId> operands,
                                              Attributes attributes);
  // Builds ops with the origin of the operator that keep the quantization of their operand.
  class Builder final : public GraphBuilder {
   public:
    explicit Builder(Importer& importer);
    Result<ValueId> emit(std::string_view op, std::vector<ValueId> operands,
                         const Attributes& attributes = {},
                         const std::optional<Quantization>& quantization = {}) override;
    tl::unexpected<Diagnostic> unsupported(std::string reason, std::string fix = {}) const override;

   private:
    const Importer& importer_;
  };
  // Appends an op that keeps the quantization, even if it has no effect. Errors: those of Builder.
  Result<ValueId> append_moving(const OpDef& def, ValueId operand, const Attributes& attributes);
  // RESHAPE of a value in logical order; `from` and `to` are shapes in the file. Adds permutes for
  // a shape of rank 4 whose elements have different orders in NHWC and NCHW. Errors: those of
  // Builder.
  Result<ValueId> reshape(ValueId value, const Shape& from, const Shape& to);

  // The shape of the first output in the file, with its open extent, if it has one, such that it
  // has that many elements.
  Shape filled_output(int64_t elements) const;

  // Converts an axis of the file, which may count from the end, to a logical dimension of a tensor
  // of that rank. Error: kTfliteInvalid if it is out of range.
  Result<int64_t> logical_axis(int64_t axis, size_t rank) const;

  // The IR's name of the activation, "" for none. Error: kTfliteUnsupportedOption.
  Result<std::string> activation(fb::ActivationFunctionType type) const;

  tl::unexpected<Diagnostic> invalid(std::string reason) const;
  tl::unexpected<Diagnostic> unsupported(std::string reason, std::string fix = {}) const;

 private:
  Result<void> check_operators();
  void round_once(const OpDef& def, Attributes& attributes) const;
  bool is_small(ValueId value) const;
  Result<void> add_inputs();
  Result<void> bind_open_extents();
  // Bytes to the codes of int8 that the graph computes with, and back. A source operator of its
  // own stands for them.
  Result<ValueId> shifted_input(ValueId bytes, const TensorInfo& tensor);
  Result<ValueId> shifted_output(ValueId codes, const TensorInfo& tensor);
  void begin_uint8(const TensorInfo& tensor);
  ValueId number_of(const TensorInfo& tensor, std::string_view what, double value);
  Result<ValueId> emit_plain(const OpDef& def, std::vector<ValueId> operands,
                             Attributes attributes = {},
                             std::optional<Quantization> quantization = {});
  // What the model keeps from run to run, see variables.cpp.
  struct Variable {
    const TensorInfo* tensor = nullptr;  // that it is read or written as: its type
    std::vector<std::byte> initial;      // in the file's order of dimensions; empty: none
    bool is_read = false, is_written = false;
    bool is_state = false;  // else a constant, or nobody reads it
    ValueId current;        // after the operators that are converted
  };
  Result<void> find_variables();
  void find_variable_tensors();
  Result<void> read_initial_values(const OperatorInfo& op);
  Result<void> add_variable(const std::string& name, Variable& variable);
  // Returns false for an operator that is not about variables.
  Result<bool> convert_variable(const OperatorInfo& op);
  std::vector<ValueId> next_values() const;
  Result<void> convert(const OperatorInfo& op);
  Result<void> define(size_t index, ValueId result);
  Result<void> define_complex(size_t index, ValueId result);
  Result<void> finish();
  Result<Type> type_of(const TensorInfo& tensor, const Ints& dims, int axis) const;
  // The bytes of a constant tensor, in logical order, or permuted as permuted_constant.
  Result<ValueId> constant_of(const TensorInfo& tensor);
  Result<ValueId> add_stored(const TensorInfo& tensor, const Ints& dims, int axis);
  Place place(std::string node) const {
    return {.file = import_.module.file, .node = std::move(node)};
  }

  // A subgraph that operators call.
  struct Subgraph {
    ModelFile file;
    std::vector<ValueId> constants;  // by tensor
    bool open = false;               // a call of it is being built
  };
  // Subgraph `index` of the file, which is not the first. Error: kTfliteInvalid.
  Result<ModelFile> open_subgraph(int32_t index) const;
  Result<Subgraph*> find_subgraph(int32_t index);
  Result<void> bind_operand(TensorInfo& tensor, ValueId operand) const;

  ModelFile* file_;  // the subgraph being built: the model itself, or a called one
  bool kept_;
  Arithmetic arithmetic_;
  const DimensionSizes& sizes_;
  bool resized_ = false;  // an input has another extent than the file has beside its open one
  Import import_;
  Rewriter rewriter_;
  const OperatorInfo* op_ = nullptr;
  Origin origin_;
  std::map<std::string, Variable> variables_;  // by name
  std::map<int32_t, std::string> handles_;     // names by tensor: a handle, or the variable itself
  std::map<int32_t, Subgraph> subgraphs_;      // by number
  std::string suffix_;                         // of the call being built
  size_t called_operators_ = 0;
};

// Converts an operator: appends ops and returns the value of the only output tensor, or of all
// output tensors.
using Conversion = Result<ValueId> (*)(Importer&);
using ConversionOfSeveral = Result<std::vector<ValueId>> (*)(Importer&);
struct OperatorDef {
  fb::BuiltinOperator code;
  size_t min_inputs;
  size_t max_inputs;  // kAnyNumber: no limit
  Conversion convert;
  ConversionOfSeveral convert_several = nullptr;  // for several outputs; replaces `convert`
  bool gives_shapes = false;                      // to its outputs, whatever shapes the file says
};
// Rows of operators that compute element by element, of those that slice, repeat and join tensors,
// and of those that make constants or take elements by index.
std::span<const OperatorDef> elementwise_operators();
std::span<const OperatorDef> movement_operators();
std::span<const OperatorDef> index_operators();
// Those of recurrent layers, which keep their state in variables.
std::span<const OperatorDef> recurrent_operators();
// Those over three dimensions.
std::span<const OperatorDef> volume_operators();
// Those of complex numbers.
std::span<const OperatorDef> spectrum_operators();
// Those of StableHLO that move elements or combine those of windows.
std::span<const OperatorDef> stablehlo_operators();
// Those that choose among boxes, of which one is a custom operator. Errors: those of Importer.
std::span<const OperatorDef> detection_operators();
Result<std::vector<ValueId>> detection_postprocess(Importer& importer);
// A custom operator whose kernel a plug-in has: one op on real numbers, plain integers and bools in
// the file's order of dimensions. Errors: those of Importer.
std::string plugin_kernel_name(const OperatorInfo& op);
Result<std::vector<ValueId>> plugin_operator(Importer& importer);
// Branches, loops and calls of subgraphs.
std::span<const OperatorDef> control_operators();
// Those of variables, which Importer::convert_variable converts.
std::span<const OperatorDef> variable_operators();
// Bounds for what is unrolled.
inline constexpr int64_t kMaxParts = 4096;
inline constexpr size_t kAnyNumber = SIZE_MAX;
// One real or integer op of our own, its operands in logical order, as an operator of the file:
// codes are dequantized before and quantized behind. Errors: those of Builder.
Result<ValueId> on_reals(Importer& importer, std::string_view op, std::vector<ValueId> operands,
                         const Attributes& attributes = {});
// A fused activation of a value that no op of ours fuses.
Result<ValueId> activated(Importer& importer, ValueId value, const std::string& activation);

// IF, WHILE and others, whose options name subgraphs that are built in place.
bool calls_subgraph(fb::BuiltinOperator code);
// nullptr if the operator is not supported.
const OperatorDef* find_operator(fb::BuiltinOperator code);
// The same, custom operators by their name.
const OperatorDef* find_operator(const OperatorInfo& op);

// What an operator without a row needs that is not here (empty: nobody wrote a row), and what to
// do.
struct WhyRefused {
  std::string_view needs, fix;
};
WhyRefused why_refused(fb::BuiltinOperator code);

// nullopt for the types that no value of the IR has.
std::optional<DType> dtype_of(fb::TensorType type);

// The logical dimension of dimension `dim` of the file: NHWC to NCHW for rank 4.
size_t logical_dim(size_t dim, size_t rank);
// Converts a shape of the file to logical order.
Shape logical_shape(const Shape& shape);
// The inverse: in the file's order of dimensions.
Shape file_shape(const Shape& logical);
// Elements of `bytes`, a contiguous array of `shape` with elements of `size` bytes; dimension i of
// the result is dimension dims[i].
std::vector<std::byte> permuted(std::span<const std::byte> bytes, const Shape& shape,
                                const Ints& dims, size_t size);
// The permutation from the file to logical order: {0, 3, 1, 2} for rank 4, else {0, 1, …}.
Ints logical_dims(size_t rank);

}  // namespace dtr::tflite
