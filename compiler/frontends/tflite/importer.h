// Imports the graph of a .tflite file: converts tensors to values and provides what the conversions
// of single operators (operators.cpp) use.
#pragma once

#include <string>
#include <vector>

#include "compiler/frontends/tflite/model_file.h"
#include "compiler/frontends/tflite/tflite.h"
#include "compiler/ir/builder.h"
#include "compiler/ops/ops.h"

namespace dtr::tflite {

class Importer {
 public:
  // `kept`: constants refer to the bytes of the file, which the module owns; else they are copied.
  Importer(const ModelFile& file, const std::string& name, bool kept);
  // Imports the whole file. Errors: ids tflite-*, with the tensor or operator at fault.
  Result<Import> run() &&;

  // ---- for conversions of operators; `op` is the operator being converted ----
  const OperatorInfo& op() const { return *op_; }
  const TensorInfo& tensor(size_t operand) const {
    return file_.tensors[static_cast<size_t>(op_->inputs[operand])];
  }
  const TensorInfo& output(size_t index = 0) const {
    return file_.tensors[static_cast<size_t>(op_->outputs[index])];
  }
  bool has(size_t operand) const {
    return operand < op_->inputs.size() && op_->inputs[operand] >= 0;
  }
  // The options table of the operator. Error: kTfliteInvalid if it is missing or of another type.
  template <class Table>
  Result<const Table*> options(fb::OptionsType type) const {
    const Table* table = file_.options<Table>(*op_, type);
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
  // The elements of a constant int32 or int64 operand. Error: kTfliteUnsupportedOption if it is
  // computed.
  Result<Ints> integers(size_t operand) const;
  // The real value of a constant operand of one element. Error: kTfliteUnsupportedOption if it is
  // computed.
  Result<double> real(size_t operand) const;

  // Appends an op, whose result has the quantization of the output tensor if it has one. Errors:
  // those of Rewriter::insert.
  Result<ValueId> append(const OpDef& def, std::vector<ValueId> operands,
                         Attributes attributes = {});
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

  // Converts an axis of the file, which may count from the end, to a logical dimension of a tensor
  // of that rank. Error: kTfliteInvalid if it is out of range.
  Result<int64_t> logical_axis(int64_t axis, size_t rank) const;

  // The IR's name of the activation, "" for none. Error: kTfliteUnsupportedOption.
  Result<std::string> activation(fb::ActivationFunctionType type) const;

  tl::unexpected<Diagnostic> invalid(std::string reason) const;
  tl::unexpected<Diagnostic> unsupported(std::string reason) const;

 private:
  Result<void> check_operators() const;
  Result<void> add_inputs();
  Result<void> convert(const OperatorInfo& op);
  Result<void> define(size_t index, ValueId result);
  Result<void> finish();
  Result<Type> type_of(const TensorInfo& tensor, const Ints& dims, int axis) const;
  Place place(std::string node) const {
    return {.file = import_.module.file, .node = std::move(node)};
  }

  const ModelFile& file_;
  bool kept_;
  Import import_;
  Rewriter rewriter_;
  const OperatorInfo* op_ = nullptr;
  Origin origin_;
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
};
// Rows of operators that slice, repeat and join tensors.
std::span<const OperatorDef> movement_operators();
inline constexpr size_t kAnyNumber = SIZE_MAX;
// nullptr if the operator is not supported.
const OperatorDef* find_operator(fb::BuiltinOperator code);

// The logical dimension of dimension `dim` of the file: NHWC to NCHW for rank 4.
size_t logical_dim(size_t dim, size_t rank);
// Converts a shape of the file to logical order.
Shape logical_shape(const Shape& shape);
// The permutation from the file to logical order: {0, 3, 1, 2} for rank 4, else {0, 1, …}.
Ints logical_dims(size_t rank);

}  // namespace dtr::tflite
