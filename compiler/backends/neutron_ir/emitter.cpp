#include "compiler/backends/neutron_ir/emitter.h"

#include <algorithm>
#include <numeric>

#include "compiler/ir/reorder.h"

namespace dtr::neutron_ir {
namespace {

fb::TensorType tensor_type(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return fb::TensorType::INT8;
    case DType::kInt32:
      return fb::TensorType::INT32;
    case DType::kInt64:
      return fb::TensorType::INT64;
    case DType::kBool:
      return fb::TensorType::BOOL;
    default:
      return fb::TensorType::FLOAT32;
  }
}

Order order_of(const Type& type) {
  const std::vector<int> dims = dim_order(type.layout, type.rank());
  return {dims.begin(), dims.end()};
}

int axis_in(const std::optional<Quantization>& quantization, const Order& order) {
  return quantization && quantization->per_channel()
             ? static_cast<int>(place_of_dim(order, quantization->axis))
             : 0;
}

constexpr const char* kDescription = "Neutron IR of a partition, written by Deuteron";

}  // namespace

Order contiguous_order(size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Order channels_last_order(size_t rank) {
  return order_of({.shape = Shape(rank), .layout = Layout::kChannelsLast});
}

int64_t place_of_dim(const Order& order, int64_t dim) {
  return std::ranges::find(order, dim) - order.begin();
}

Shape in_order(const Shape& shape, const Order& order) {
  Shape result;
  for (const int64_t dim : order) result.push_back(shape[static_cast<size_t>(dim)]);
  return result;
}

Emitter::Emitter(const Module& module, const Graph& graph)
    : module_(module), graph_(graph), tensors_(graph.value_slots()) {}

NeutronIr Emitter::run() {
  std::vector<TensorIndex> inputs, outputs;
  for (const ValueId input : graph_.inputs()) {
    const Type& type = graph_.type(input);
    const Order order = order_of(type);
    tensors_[input.index] = {model_.add_tensor(graph_.value(input).name, tensor_type(type.dtype),
                                               in_order(type.shape, order), type.quantization),
                             order};
    inputs.push_back(tensors_[input.index].index);
  }
  for (const OpId op : graph_.ops()) convert(op);
  for (const ValueId output : graph_.outputs()) outputs.push_back(tensors_[output.index].index);
  return {.model = model_.finish(inputs, outputs, kDescription), .ops = std::move(ops_)};
}

void Emitter::convert(OpId id) {
  const BoundOpView view(graph_, id);
  id_ = id;
  op_ = &graph_.op(id);
  view_ = &*view;
  computed_ = kAbsent;
  find_form(*op_->def)->emit(*this);
  const ValueId value = op_->results[0];
  const Type& type = graph_.type(value);
  // What leaves the partition has the layout that was promised, and a tensor of its own.
  const bool leaves = std::ranges::find(graph_.outputs(), value) != graph_.outputs().end();
  const bool renamed = computed_ == kAbsent;
  if (renamed) computed_ = tensors_[value.index].index;
  if (renamed ? leaves : computed_order_ != order_of(type)) {
    const Order order = order_of(type);
    const TensorIndex result = model_.add_tensor(graph_.value(value).name, tensor_type(type.dtype),
                                                 in_order(type.shape, order), type.quantization);
    transpose(computed_, computed_order_, result, order, type.shape);
    tensors_[value.index] = {result, order};
  } else {
    tensors_[value.index] = {computed_, computed_order_};
  }
}

Tensor Emitter::tensor_of(ValueId id) {
  Tensor& known = tensors_[id.index];
  if (known.index != kAbsent) return known;
  const Value& value = graph_.value(id);
  const Order order = contiguous_order(value.type.rank());
  known = {model_.add_constant(value.name, tensor_type(value.type.dtype), value.type.shape,
                               module_.constants.bytes(value.constant), value.type.quantization,
                               axis_in(value.type.quantization, order)),
           order};
  return known;
}

Tensor Emitter::operand(size_t index) { return tensor_of(op_->operands[index]); }

Shape Emitter::operand_shape(size_t index, const Order& order) const {
  Shape shape = type(index).shape;
  shape.insert(shape.begin(), order.size() - shape.size(), 1);
  return in_order(shape, order);
}

Order Emitter::result_order() const { return order_of(result_type()); }

TensorIndex Emitter::operand(size_t index, const Order& order) {
  const ValueId id = op_->operands[index];
  const Type& of = type(index);
  const Tensor tensor =
      is_constant(index) ? Tensor{kAbsent, contiguous_order(of.rank())} : operand(index);
  if (tensor.index != kAbsent && tensor.order == order) return tensor.index;
  const auto [known, is_new] = brought_.emplace(std::pair(id.index, order), kAbsent);
  if (!is_new) return known->second;
  Shape shape = of.shape;
  shape.insert(shape.begin(), order.size() - shape.size(), 1);
  Order from;
  for (size_t i = 0; i < order.size(); ++i)
    from.push_back(i < order.size() - of.rank()
                       ? static_cast<int64_t>(i)
                       : tensor.order[i - (order.size() - of.rank())] +
                             static_cast<int64_t>(order.size() - of.rank()));
  if (is_constant(index)) {
    const std::span<const std::byte> data = module_.constants.bytes(graph_.value(id).constant);
    std::vector<std::byte> bytes(data.size());
    const std::vector<int64_t> own = strides(shape, Layout::kContiguous);
    std::vector<int64_t> steps;
    for (const int64_t dim : order) steps.push_back(own[static_cast<size_t>(dim)]);
    const Shape to = in_order(shape, order);
    reorder(to, byte_size(of.dtype), data.data(), steps, bytes.data(),
            strides(to, Layout::kContiguous));
    known->second = model_.add_constant(graph_.value(id).name, tensor_type(of.dtype), to, bytes,
                                        of.quantization);
    return known->second;
  }
  // Fewer dimensions are made more before they move.
  TensorIndex at = tensor.index;
  if (of.rank() < order.size()) at = reshaped(at, in_order(shape, from), of.quantization);
  if (from != order) {
    const TensorIndex to = temporary(in_order(shape, order), of.quantization, of.dtype);
    transpose(at, from, to, order, shape);
    at = to;
  }
  return known->second = at;
}

TensorIndex Emitter::result(const Order& order) {
  const Type& type = result_type();
  computed_order_ = order;
  const bool final = order == order_of(type);
  const std::string& name = graph_.value(op_->results[0]).name;
  computed_ = model_.add_tensor(final ? name : name + "/computed", tensor_type(type.dtype),
                                in_order(type.shape, order), type.quantization);
  return computed_;
}

void Emitter::rename_result(const Tensor& tensor, const Order& order) {
  tensors_[op_->results[0].index] = {tensor.index, order};
  computed_order_ = order;
}

TensorIndex Emitter::temporary(const Shape& shape, const std::optional<Quantization>& quantization,
                               DType dtype) {
  return model_.add_tensor(graph_.value(op_->results[0]).name + "/part", tensor_type(dtype), shape,
                           quantization);
}

TensorIndex Emitter::integers(const Ints& values) {
  return integers(values, {static_cast<int64_t>(values.size())});
}

TensorIndex Emitter::integers(const Ints& values, const Shape& shape) {
  const std::vector<int32_t> narrow(values.begin(), values.end());
  return model_.add_constant(graph_.value(op_->results[0]).name + "/integers",
                             fb::TensorType::INT32, shape, std::as_bytes(std::span(narrow)));
}

TensorIndex Emitter::int8_constant(std::span<const int8_t> values, const Shape& shape,
                                   const Quantization& quantization, int axis) {
  return model_.add_constant(graph_.value(op_->results[0]).name + "/constant", fb::TensorType::INT8,
                             shape, std::as_bytes(values), quantization, axis);
}

TensorIndex Emitter::int32_constant(std::span<const int32_t> values,
                                    const Quantization& quantization) {
  return model_.add_constant(graph_.value(op_->results[0]).name + "/bias", fb::TensorType::INT32,
                             {static_cast<int64_t>(values.size())}, std::as_bytes(values),
                             quantization);
}

TensorIndex Emitter::reshaped(TensorIndex tensor, const Shape& shape,
                              const std::optional<Quantization>& quantization) {
  const TensorIndex to = temporary(shape, quantization);
  reshape(tensor, to, shape);
  return to;
}

void Emitter::reshape(TensorIndex from, TensorIndex to, const Shape& shape) {
  const std::vector<int32_t> extents(shape.begin(), shape.end());
  const auto table = fb::CreateReshapeOptions(tables(), tables().CreateVector(extents));
  add(fb::BuiltinOperator::RESHAPE, 1, {from, integers(shape)}, to,
      options(fb::OptionsType::ReshapeOptions, table));
}

// Where only dimensions of one element move, the bytes stay: a RESHAPE.
void Emitter::transpose(TensorIndex from, const Order& from_order, TensorIndex to,
                        const Order& to_order, const Shape& shape) {
  const auto moving = [&](const Order& order) {
    Order dims;
    std::ranges::copy_if(order, std::back_inserter(dims),
                         [&](int64_t dim) { return shape[static_cast<size_t>(dim)] != 1; });
    return dims;
  };
  if (moving(from_order) == moving(to_order)) return reshape(from, to, in_order(shape, to_order));
  Ints permutation;
  for (const int64_t dim : to_order) permutation.push_back(place_of_dim(from_order, dim));
  add(fb::BuiltinOperator::TRANSPOSE, 2, {from, integers(permutation)}, to);
}

const Form* find_form(const OpDef& def) {
  for (const std::span<const Form> forms :
       {convolution_forms(), elementwise_forms(), movement_forms(), reduction_forms()})
    for (const Form& form : forms)
      if (form.def == &def) return &form;
  return nullptr;
}

// NXP's runtime knows channels-last tensors of four dimensions alone.
bool is_image(const OpView& view) {
  return view.operand(0).rank() == 4 && view.result().rank() == 4;
}
LayoutChoice any_layout(const OpView& view) {
  return is_image(view) ? LayoutChoice{} : contiguous(view);
}
LayoutChoice channels_last(const OpView& view) {
  return is_image(view) ? LayoutChoice{.contiguous = false, .channels_last = true}
                        : contiguous(view);
}
LayoutChoice contiguous(const OpView&) { return {.contiguous = true, .channels_last = false}; }
LayoutChoice any_to_any(const OpView& view) {
  LayoutChoice choice = any_layout(view);
  choice.mixed = true;
  return choice;
}

}  // namespace dtr::neutron_ir
