// Describes an .onnx file for `deuteron inspect`.
#include <fmt/format.h>

#include "compiler/frontends/onnx/tensors.h"
#include "compiler/support/encode.h"
#include "compiler/support/file_contents.h"

namespace dtr::onnx {
namespace {

std::string describe(const pb::ValueInfoProto& value) {
  if (!value.type().has_tensor_type()) return terminal_format("{}: no tensor", value.name());
  const pb::TypeProto::Tensor& type = value.type().tensor_type();
  std::string shape;
  for (const pb::TensorShapeProto::Dimension& dim : type.shape().dim())
    shape += terminal_format("{}{}", shape.empty() ? "" : ",",
                             dim.has_dim_value()       ? std::to_string(dim.dim_value())
                             : dim.dim_param().empty() ? "?"
                                                       : dim.dim_param());
  return terminal_format("{}: {}[{}]", value.name(), name_of_type(type.elem_type()),
                         type.has_shape() ? shape : "...");
}

void describe(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes, std::string& text) {
  for (const pb::NodeProto& node : nodes) {
    text += terminal_format("node {} {}{}{}\n", node.name(), node.domain(),
                            node.domain().empty() ? "" : ".", node.op_type());
    for (const std::string& name : node.input())
      text += terminal_format("  reads {}\n", name.empty() ? "nothing" : name);
    for (const std::string& name : node.output())
      text += terminal_format("  makes {}\n", name.empty() ? "nothing" : name);
  }
}

}  // namespace

Result<std::string> describe_onnx(const std::string& path) {
  DTR_ASSIGN(const FileContents contents, FileContents::read(path));
  DTR_ASSIGN(const pb::ModelProto model, parse(contents.bytes(), path));
  const pb::GraphProto& graph = model.graph();
  std::string text = terminal_format(
      "ONNX model, version {} of the format, {} bytes, {} nodes, {} stored tensors, {} functions\n",
      model.ir_version(), contents.bytes().size(), graph.node_size(), graph.initializer_size(),
      model.functions_size());
  if (!model.producer_name().empty())
    text += terminal_format("made by {} {}\n", model.producer_name(), model.producer_version());
  for (const pb::OperatorSetIdProto& import : model.opset_import())
    text +=
        terminal_format("operators of {} {}\n",
                        import.domain().empty() ? "ai.onnx" : import.domain(), import.version());
  text += "inputs\n";
  for (const pb::ValueInfoProto& input : graph.input())
    text += terminal_format("  {}\n", describe(input));
  text += "outputs\n";
  for (const pb::ValueInfoProto& output : graph.output())
    text += terminal_format("  {}\n", describe(output));
  for (const pb::TensorProto& tensor : graph.initializer())
    text += terminal_format("stored {}: {}[{}]\n", tensor.name(), name_of_type(tensor.data_type()),
                            fmt::join(tensor.dims(), ","));
  describe(graph.node(), text);
  for (const pb::FunctionProto& function : model.functions()) {
    text += terminal_format("function {}.{}\n", function.domain(), function.name());
    describe(function.node(), text);
  }
  return text;
}

}  // namespace dtr::onnx
