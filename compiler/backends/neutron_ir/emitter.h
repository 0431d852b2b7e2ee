// The interface for converting one operator to TensorFlow Lite. A tensor of the file has its
// value's dimensions in memory order; `order` lists the logical dimension at each position. A
// conversion requests its operands in the dimension order that the operator needs and states that
// of its result; the emitter adds transpositions where orders differ.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/backends/neutron_ir/model_builder.h"
#include "compiler/backends/neutron_ir/neutron_ir.h"
#include "compiler/ir/graph.h"
#include "compiler/partitioner/backend.h"

namespace dtr::neutron_ir {

using Order = Ints;  // {0, 2, 3, 1}: channels last

struct Tensor {
  TensorIndex index = kAbsent;
  Order order;
};

Order contiguous_order(size_t rank);
Order channels_last_order(size_t rank);
// The position of a logical dimension.
int64_t place_of_dim(const Order& order, int64_t dim);
Shape in_order(const Shape& shape, const Order& order);

class Emitter {
 public:
  Emitter(const Module& module, const Graph& graph);
  // The file of the whole graph, all of whose ops have a form.
  NeutronIr run();

  // ---- for conversions: the op being converted
  const OpView& view() const { return *view_; }
  const Op& op() const { return *op_; }
  const Type& type(size_t operand) const { return view_->operand(operand); }
  const Type& result_type() const { return view_->result(); }
  bool is_constant(size_t operand) const { return graph_.is_constant(op_->operands[operand]); }
  template <class T>
  std::span<const T> constant_values(size_t operand) const {
    return module_.constants.values<T>(graph_.value(op_->operands[operand]).constant);
  }

  // An operand in its current dimension order, and transposed to `order`. If it has fewer
  // dimensions than `order`, leading dimensions of extent 1 are added, as PyTorch broadcasts.
  Tensor operand(size_t index);
  TensorIndex operand(size_t index, const Order& order);
  Shape operand_shape(size_t index, const Order& order) const;
  // The order of the result's layout.
  Order result_order() const;
  // The tensor that the operator writes, with the result's dimensions in that order. Call it once
  // per op.
  TensorIndex result(const Order& order);
  // Makes the result another name of an operand with renumbered dimensions; emits no operator.
  void rename_result(const Tensor& tensor, const Order& order);

  // Further tensors and constants.
  TensorIndex temporary(const Shape& shape, const std::optional<Quantization>& quantization,
                        DType dtype = DType::kInt8);
  TensorIndex integers(const Ints& values);
  TensorIndex integers(const Ints& values, const Shape& shape);
  TensorIndex int8_constant(std::span<const int8_t> values, const Shape& shape,
                            const Quantization& quantization, int axis = 0);
  TensorIndex int32_constant(std::span<const int32_t> values, const Quantization& quantization);

  // RESHAPE, TRANSPOSE.
  TensorIndex reshaped(TensorIndex tensor, const Shape& shape,
                       const std::optional<Quantization>& quantization);
  void reshape(TensorIndex from, TensorIndex to, const Shape& shape);

  void add(fb::BuiltinOperator code, int version, const std::vector<TensorIndex>& inputs,
           TensorIndex output, Options options = {}) {
    ops_.push_back(id_);
    model_.add_operator(code, version, inputs, {output}, options);
  }
  template <class Table>
  static Options options(fb::OptionsType type, flatbuffers::Offset<Table> table) {
    return ModelBuilder::as_options(type, table);
  }
  flatbuffers::FlatBufferBuilder& tables() { return model_.tables(); }

 private:
  Tensor tensor_of(ValueId value);
  void convert(OpId op);
  void transpose(TensorIndex from, const Order& from_order, TensorIndex to, const Order& to_order,
                 const Shape& shape);

  const Module& module_;
  const Graph& graph_;
  ModelBuilder model_;
  std::vector<Tensor> tensors_;  // by value slot
  std::map<std::pair<uint32_t, Order>, TensorIndex> brought_;
  std::vector<OpId> ops_;  // by operator of the model
  OpId id_;
  const Op* op_ = nullptr;
  const OpView* view_ = nullptr;
  // the tensor that the conversion writes, and its dimension order
  TensorIndex computed_ = kAbsent;
  Order computed_order_;
};

// The conversion of one operator, and the conditions under which TensorFlow Lite can express it.
struct Form {
  const OpDef* def;
  LayoutChoice (*layouts)(const OpView& view);
  void (*emit)(Emitter& emitter);
  std::span<const Condition* const> conditions = {};  // in addition to those of the NPU's model
};
std::span<const Form> convolution_forms();
std::span<const Form> elementwise_forms();
std::span<const Form> movement_forms();
std::span<const Form> reduction_forms();
// nullptr: TensorFlow Lite has no such operator in int8.
const Form* find_form(const OpDef& def);

// The id and remedy of all conditions of this backend.
inline constexpr std::string_view kNoForm = "neutron-ir-form";
inline constexpr std::string_view kOtherForm =
    "the CPU runs it; Deuteron's own microcode does too: compile without --converter";
LayoutChoice any_layout(const OpView& view);
LayoutChoice channels_last(const OpView& view);
LayoutChoice contiguous(const OpView& view);
LayoutChoice any_to_any(const OpView& view);

}  // namespace dtr::neutron_ir
