// Writes the seeds of fuzz_onnx, models of the format's parts:  onnx_seeds FOLDER
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "compiler/frontends/onnx/onnx.h"
#include "compiler/frontends/onnx/tensors.h"

namespace {

using namespace dtr::onnx;
using Names = std::vector<std::string>;

// Numbers of attribute types in the format.
enum AttributeType : int32_t { kNumber = 1, kInteger = 2, kGraph = 5, kIntegers = 7 };

// A model with input x, output y.
class Seed {
 public:
  explicit Seed(const std::vector<int64_t>& shape) {
    model_.set_ir_version(9);
    model_.add_opset_import()->set_version(18);
    model_.mutable_graph()->set_name("seed");
    auto& input = *model_.mutable_graph()->add_input();
    input.set_name("x");
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(kFloat);
    for (const int64_t extent : shape) type.mutable_shape()->add_dim()->set_dim_value(extent);
    model_.mutable_graph()->add_output()->set_name("y");
  }

  pb::ModelProto& model() { return model_; }

  pb::NodeProto& node(const std::string& op, const Names& inputs, const Names& outputs) {
    return add(*model_.mutable_graph()->add_node(), op, inputs, outputs);
  }
  static pb::NodeProto& add(pb::NodeProto& node, const std::string& op, const Names& inputs,
                            const Names& outputs) {
    node.set_op_type(op);
    for (const std::string& name : inputs) node.add_input(name);
    for (const std::string& name : outputs) node.add_output(name);
    return node;
  }

  void floats(const std::string& name, const std::vector<int64_t>& shape) {
    pb::TensorProto& tensor = stored(name, shape, kFloat);
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    for (int64_t i = 0; i < count; ++i)
      tensor.add_float_data(0.25F * static_cast<float>(i % 7) - 0.5F);
  }
  void scale(const std::string& name) { stored(name, {}, kFloat).add_float_data(0.05F); }
  void codes(const std::string& name, const std::vector<int64_t>& shape, int32_t type) {
    pb::TensorProto& tensor = stored(name, shape, type);
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    std::string raw;
    for (int64_t i = 0; i < count; ++i) raw += static_cast<char>(i % 100);
    tensor.set_raw_data(raw);
  }
  void integers(const std::string& name, const std::vector<int64_t>& values) {
    pb::TensorProto& tensor = stored(name, {static_cast<int64_t>(values.size())}, kInt64);
    for (const int64_t value : values) tensor.add_int64_data(value);
  }
  void flag(const std::string& name) { stored(name, {}, kBool).add_int32_data(1); }

 private:
  pb::TensorProto& stored(const std::string& name, const std::vector<int64_t>& shape,
                          int32_t type) {
    pb::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (const int64_t extent : shape) tensor.add_dims(extent);
    return tensor;
  }

  pb::ModelProto model_;
};

void set_ints(pb::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(kIntegers);
  for (const int64_t value : values) attribute.add_ints(value);
}
void set_int(pb::NodeProto& node, const std::string& name, int64_t value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(kInteger);
  attribute.set_i(value);
}

Seed network() {
  Seed seed({1, 2, 6, 5});
  seed.floats("w", {4, 2, 3, 3});
  seed.floats("b", {4});
  seed.floats("m", {3, 4});
  set_ints(seed.node("Conv", {"x", "w", "b"}, {"c"}), "pads", {1, 1, 1, 1});
  seed.node("Relu", {"c"}, {"r"});
  set_ints(seed.node("MaxPool", {"r"}, {"p"}), "kernel_shape", {2, 2});
  seed.node("GlobalAveragePool", {"p"}, {"g"});
  set_int(seed.node("Flatten", {"g"}, {"f"}), "axis", 1);
  set_int(seed.node("Gemm", {"f", "m"}, {"l"}), "transB", 1);
  seed.node("Softmax", {"l"}, {"y"});
  return seed;
}

Seed quantized() {
  Seed seed({1, 2, 4, 4});
  seed.scale("s");
  seed.codes("z", {}, kUint8);
  seed.codes("w", {3, 2, 1, 1}, kInt8);
  seed.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  seed.node("DequantizeLinear", {"q", "s", "z"}, {"d"});
  seed.node("DequantizeLinear", {"w", "s"}, {"v"});
  seed.node("Conv", {"d", "v"}, {"c"});
  seed.node("QuantizeLinear", {"c", "s", "z"}, {"e"});
  seed.node("DequantizeLinear", {"e", "s", "z"}, {"y"});
  return seed;
}

// A reshape by computed numbers, slices, indices.
Seed shapes() {
  Seed seed({2, 3, 4});
  seed.integers("zero", {0});
  seed.integers("open", {-1});
  seed.integers("start", {1});
  seed.integers("end", {3});
  seed.node("Shape", {"x"}, {"s"});
  seed.node("Gather", {"s", "zero"}, {"n"});
  set_int(seed.node("Concat", {"n", "open"}, {"t"}), "axis", 0);
  seed.node("Reshape", {"x", "t"}, {"r"});
  seed.node("Slice", {"r", "start", "end", "zero"}, {"p"});
  set_ints(seed.node("Transpose", {"p"}, {"u"}), "perm", {1, 0});
  seed.node("ReduceSum", {"u", "zero"}, {"y"});
  return seed;
}

// A function, and a branch inside of it.
Seed calls() {
  Seed seed({2, 3});
  seed.flag("c");
  pb::NodeProto& call = seed.node("Twice", {"x", "c"}, {"y"});
  call.set_domain("mine");
  pb::FunctionProto& function = *seed.model().add_functions();
  function.set_name("Twice");
  function.set_domain("mine");
  function.add_input("a");
  function.add_input("c");
  function.add_output("e");
  function.add_opset_import()->set_version(18);
  Seed::add(*function.add_node(), "Add", {"a", "a"}, {"b"});
  pb::NodeProto& branch = Seed::add(*function.add_node(), "If", {"c"}, {"e"});
  for (const char* const name : {"then_branch", "else_branch"}) {
    auto& attribute = *branch.add_attribute();
    attribute.set_name(name);
    attribute.set_type(kGraph);
    pb::GraphProto& graph = *attribute.mutable_g();
    graph.set_name(name);
    Seed::add(*graph.add_node(), name[0] == 't' ? "Relu" : "Neg", {"b"}, {"d"});
    graph.add_output()->set_name("d");
  }
  return seed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::filesystem::create_directories(argv[1]);
  struct Named {
    const char* name;
    Seed seed;
  };
  std::vector<Named> seeds{
      {"network", network()}, {"quantized", quantized()}, {"shapes", shapes()}, {"calls", calls()}};
  for (Named& each : seeds) {
    const std::string bytes = each.seed.model().SerializeAsString();
    const auto import = import_onnx(std::as_bytes(std::span(bytes)), each.name);
    if (!import) {
      std::fprintf(stderr, "%s: %s\n", each.name, dtr::to_text(import.error()).c_str());
      return 1;
    }
    std::ofstream(std::filesystem::path(argv[1]) / (std::string(each.name) + ".onnx"),
                  std::ios::binary)
        << bytes;
  }
  return 0;
}
