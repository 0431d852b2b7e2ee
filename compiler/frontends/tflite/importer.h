// Builds the graph of a .tflite file: tensors to values, with what the conversions of single
// operators (operators.cpp) need.
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
  // With `kept` constants refer to the bytes of the file, which the program keeps.
  Importer(const ModelFile& file, const std::string& name, bool kept);
  Result<Import> run() &&;

  // ---- what conversions of operators use; `op` is the operator that is being converted ----
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
  // Options table of the operator. Errors: kTfliteInvalid if the file has another or none.
  template <class Table>
  Result<const Table*> options(fb::OptionsType type) const {
    const Table* table = file_.options<Table>(*op_, type);
    if (table == nullptr) return invalid("its options are missing or of another operator");
    return table;
  }

  const Type& type(ValueId value) const { return rewriter_.graph().type(value); }
  // The value of an operand in logical order (rank 4: NCHW). Constants become values here.
  Result<ValueId> value(size_t operand);
  // A constant operand of rank 4 with its dimensions in the order `dims` of the file's; `axis`:
  // where its quantized dimension goes.
  Result<ValueId> permuted_constant(size_t operand, const Ints& dims, int axis);
  // The integers of a constant int32 or int64 operand. Errors: kTfliteUnsupportedOption if it is no
  // constant.
  Result<Ints> integers(size_t operand) const;
  // The real value of a constant operand of one element.
  Result<double> real(size_t operand) const;

  // Appends an op; the quantization of the result is that of the output tensor if it has one.
  Result<ValueId> append(const OpDef& def, std::vector<ValueId> operands,
                         Attributes attributes = {});
  // Appends ops that stand for the operator and keep the quantization of their operand.
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
  // Appends an op by such a builder, even if it has no effect.
  Result<ValueId> append_moving(const OpDef& def, ValueId operand, const Attributes& attributes);
  // RESHAPE of a value in logical order; `from` and `to` are shapes of the file. Permutes where one
  // of them has rank 4 and its elements are not in the same order as NHWC and as NCHW.
  Result<ValueId> reshape(ValueId value, const Shape& from, const Shape& to);

  // `axis` of the file, negative from the end, as a logical dimension of a tensor of that rank.
  Result<int64_t> logical_axis(int64_t axis, size_t rank) const;

  // The activation name of the IR, "" for none. Errors: kTfliteUnsupportedOption.
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

// The conversion of an operator: appends ops and returns the value of the (only) output tensor, or
// of all of them.
using Conversion = Result<ValueId> (*)(Importer&);
using ConversionOfSeveral = Result<std::vector<ValueId>> (*)(Importer&);
struct OperatorDef {
  fb::BuiltinOperator code;
  size_t min_inputs;
  size_t max_inputs;  // kAnyNumber: no limit
  Conversion convert;
  ConversionOfSeveral convert_several = nullptr;  // instead
};
// Rows of operators that take tensors apart, repeat and join them.
std::span<const OperatorDef> movement_operators();
inline constexpr size_t kAnyNumber = SIZE_MAX;
// nullptr: not imported.
const OperatorDef* find_operator(fb::BuiltinOperator code);

// Where dimension d of a tensor of that rank goes: NHWC to NCHW for rank 4.
size_t logical_dim(size_t dim, size_t rank);
// The file's shape in logical order.
Shape logical_shape(const Shape& shape);
// Logical order of dimensions: {0, 3, 1, 2} for rank 4, else {0, 1, …}.
Ints logical_dims(size_t rank);

}  // namespace dtr::tflite
