// Variables, which a model keeps from run to run: VAR_HANDLE names one, READ_VARIABLE and
// ASSIGN_VARIABLE read and write it, and the subgraph of CALL_ONCE says how it begins. A variable
// that is read and written is a state of the graph; one that is only read is a constant. Recurrent
// operators keep their state in variable tensors, without a handle; those begin as zeros.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontends/tflite/importer.h"

namespace dtr::tflite {
namespace {

using fb::BuiltinOperator;
using fb::OptionsType;

// The name of the variable that each tensor of a file stands for.
std::map<int32_t, std::string> handles_of(const ModelFile& file) {
  std::map<int32_t, std::string> handles;
  for (const OperatorInfo& op : file.operators) {
    if (op.code != BuiltinOperator::VAR_HANDLE || op.outputs.size() != 1) continue;
    const auto* options = file.options<fb::VarHandleOptions>(op, OptionsType::VarHandleOptions);
    if (options == nullptr) continue;
    const auto text = [](const flatbuffers::String* name) {
      return name == nullptr ? std::string() : name->str();
    };
    const std::string container = text(options->container());
    handles[op.outputs[0]] =
        (container.empty() ? std::string() : container + ".") + text(options->shared_name());
  }
  return handles;
}

bool is_variable_operator(BuiltinOperator code) {
  return code == BuiltinOperator::VAR_HANDLE || code == BuiltinOperator::READ_VARIABLE ||
         code == BuiltinOperator::ASSIGN_VARIABLE || code == BuiltinOperator::CALL_ONCE;
}

bool same_type(const TensorInfo& a, const TensorInfo& b) {
  return a.type == b.type && a.shape == b.shape && a.scales == b.scales &&
         a.zero_points == b.zero_points;
}

}  // namespace

// Rows for the list of operators; `convert_variable` takes them.
std::span<const OperatorDef> variable_operators() {
  static constexpr OperatorDef kOperators[] = {
      {BuiltinOperator::ASSIGN_VARIABLE, 2, 2, nullptr},
      {BuiltinOperator::CALL_ONCE, 0, 0, nullptr},
      {BuiltinOperator::READ_VARIABLE, 1, 1, nullptr},
      {BuiltinOperator::VAR_HANDLE, 0, 0, nullptr},
  };
  return kOperators;
}

Result<void> Importer::find_variables() {
  handles_ = handles_of(*file_);
  for (const OperatorInfo& op : file_->operators) {
    op_ = &op;
    const bool reads = op.code == BuiltinOperator::READ_VARIABLE;
    if (!reads && op.code != BuiltinOperator::ASSIGN_VARIABLE) continue;
    const bool complete = reads ? op.inputs.size() == 1 && op.outputs.size() == 1
                                : op.inputs.size() == 2 && op.inputs[1] >= 0;
    if (!complete) return invalid("its inputs or outputs are missing");
    const auto handle = handles_.find(op.inputs[0]);
    if (handle == handles_.end()) return invalid("its variable has no VAR_HANDLE");
    const auto at = static_cast<size_t>(reads ? op.outputs[0] : op.inputs[1]);
    Variable& variable = variables_[handle->second];
    if (variable.tensor == nullptr) variable.tensor = &file_->tensors[at];
    if (!same_type(*variable.tensor, file_->tensors[at]))
      return unsupported(
          fmt::format("the variable `{}` is read or written with different shapes, types or scales",
                      handle->second));
    (reads ? variable.is_read : variable.is_written) = true;
  }
  op_ = nullptr;
  find_variable_tensors();
  if (variables_.empty()) return {};
  for (const OperatorInfo& op : file_->operators)
    if (op.code == BuiltinOperator::CALL_ONCE) DTR_TRY(read_initial_values(op));
  for (auto& [name, variable] : variables_) DTR_TRY(add_variable(name, variable));
  return {};
}

// The tensors that operators read and write without a handle.
void Importer::find_variable_tensors() {
  for (const OperatorInfo& op : file_->operators)
    for (const int32_t input : op.inputs) {
      if (input < 0 || handles_.contains(input)) continue;
      const TensorInfo& tensor = file_->tensors[static_cast<size_t>(input)];
      if (!tensor.is_variable) continue;
      std::string name = tensor.name;
      if (variables_.contains(name)) name += fmt::format("_{}", input);
      handles_[input] = name;
      variables_[name] = {.tensor = &tensor, .initial = {}, .is_read = true, .is_written = true};
    }
}

// The subgraph that CALL_ONCE names assigns constants to variables.
Result<void> Importer::read_initial_values(const OperatorInfo& op) {
  op_ = &op;
  DTR_ASSIGN(const fb::CallOnceOptions* options,
             this->options<fb::CallOnceOptions>(OptionsType::CallOnceOptions));
  DTR_ASSIGN(const ModelFile once, open_subgraph(options->init_subgraph_index()));
  const std::map<int32_t, std::string> handles = handles_of(once);
  for (const OperatorInfo& each : once.operators) {
    if (each.code == BuiltinOperator::VAR_HANDLE) continue;
    if (each.code != BuiltinOperator::ASSIGN_VARIABLE || each.inputs.size() != 2 ||
        each.inputs[1] < 0)
      return unsupported(
          fmt::format("it runs {} at the start, only constants can be assigned", each.name));
    const auto handle = handles.find(each.inputs[0]);
    const TensorInfo& value = once.tensors[static_cast<size_t>(each.inputs[1])];
    if (handle == handles.end()) return invalid("a variable that it assigns has no VAR_HANDLE");
    const auto variable = variables_.find(handle->second);
    if (variable == variables_.end()) continue;  // nobody reads or writes it
    if (!value.constant() && element_count(value.shape) != 0)
      return unsupported(
          fmt::format("the initial value of the variable `{}` is computed", handle->second));
    if (value.type != variable->second.tensor->type ||
        value.shape != variable->second.tensor->shape)
      return unsupported(fmt::format(
          "the initial value of the variable `{}` has another shape or type", handle->second));
    variable->second.initial.assign(value.data.begin(), value.data.end());
  }
  op_ = nullptr;
  return {};
}

Result<void> Importer::add_variable(const std::string& name, Variable& variable) {
  if (!variable.is_read) return {};
  const TensorInfo& tensor = *variable.tensor;
  const Ints dims = logical_dims(tensor.shape.size());
  DTR_ASSIGN(Type type, type_of(tensor, dims, -1));
  if (type.quantized() && type.quantization->per_channel())
    return fail(DiagnosticId::kTfliteUnsupportedDtype,
                fmt::format("the variable `{}` is quantized per channel", name),
                "Quantize it per tensor.", place(tensor.name));
  const auto bytes = static_cast<size_t>(type.bytes());
  // Without an initial value it begins as zeros, as the interpreter clears variables.
  if (variable.initial.size() != bytes) {
    const int32_t zero_point = type.quantized() ? type.quantization->zero_point() : 0;
    variable.initial.assign(
        bytes, type.dtype == DType::kInt8 ? static_cast<std::byte>(zero_point) : std::byte{});
  }
  const ConstantId initial = import_.module.constants.add(
      type.dtype, permuted(variable.initial, tensor.shape, dims, byte_size(type.dtype)));
  if (!variable.is_written) {
    variable.current = rewriter_.add_constant(std::move(type), initial, name);
    return {};
  }
  if (type.rank() == 4) type.layout = Layout::kChannelsLast;
  variable.current = rewriter_.add_state(std::move(type), initial, name);
  variable.is_state = true;
  return {};
}

Result<bool> Importer::convert_variable(const OperatorInfo& op) {
  if (!is_variable_operator(op.code)) return false;
  op_ = &op;
  if (op.code == BuiltinOperator::READ_VARIABLE) {
    const Variable& variable = variables_.at(handles_.at(op.inputs[0]));
    ValueId& result = import_.values[static_cast<size_t>(op.outputs[0])];
    if (result.valid() || output().constant())
      return invalid(
          "its output is an input of the model, a constant, or made by another operator too");
    result = variable.current;
  }
  if (op.code == BuiltinOperator::ASSIGN_VARIABLE) {
    Variable& variable = variables_.at(handles_.at(op.inputs[0]));
    if (!variable.is_read) return true;
    DTR_ASSIGN(variable.current, value(1));
  }
  return true;
}

Result<ValueId> Importer::kept(size_t operand) {
  if (!has(operand) || !tensor(operand).is_variable)
    return invalid(fmt::format("input {}, its state, is not a variable", operand));
  return dequantized(variables_.at(handles_.at(op_->inputs[operand])).current);
}

Result<void> Importer::keep(size_t operand, ValueId next) {
  Variable& variable = variables_.at(handles_.at(op_->inputs[operand]));
  const Type of = type(variable.current);
  if (type(next).shape != of.shape)
    return invalid(fmt::format("its state is {}, the variable `{}` has {}",
                               to_string(type(next).shape), tensor(operand).name,
                               to_string(of.shape)));
  variable.current = next;
  if (!of.quantized()) return {};
  DTR_ASSIGN(variable.current,
             Builder(*this).emit(ops::kQuantize.name, {next}, {}, of.quantization));
  return {};
}

// The states' next values, in their order.
std::vector<ValueId> Importer::next_values() const {
  std::vector<ValueId> next;
  for (const auto& [name, variable] : variables_)
    if (variable.is_state) next.push_back(variable.current);
  return next;
}

}  // namespace dtr::tflite
