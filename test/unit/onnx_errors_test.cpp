// What the .onnx reader refuses, and what it reads beside plain nodes: stored forms of tensors,
// functions, external data.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <tuple>

#include "compiler/executors/executor.h"
#include "compiler/frontends/onnx/onnx.h"
#include "compiler/frontends/onnx/tensors.h"
#include "compiler/support/temporary_folder.h"

namespace dtr {
namespace {

using onnx::pb::ModelProto;
using onnx::pb::NodeProto;
using onnx::pb::TensorProto;
using onnx::pb::ValueInfoProto;

ModelProto empty_model(int64_t version = 18) {
  ModelProto model;
  model.set_ir_version(9);
  model.add_opset_import()->set_version(version);
  model.mutable_graph()->set_name("g");
  return model;
}

void add_value(ValueInfoProto& value, const std::string& name, const Shape& shape,
               int32_t type = onnx::kFloat) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();
  for (const int64_t extent : shape) tensor.mutable_shape()->add_dim()->set_dim_value(extent);
}

NodeProto& add_node(ModelProto& model, const std::string& op,
                    const std::vector<std::string>& inputs, const std::string& output) {
  NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type(op);
  node.set_name("node_" + output);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

TensorProto& add_stored(ModelProto& model, const std::string& name, const Shape& shape,
                        int32_t type = onnx::kFloat) {
  TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const int64_t extent : shape) tensor.add_dims(extent);
  return tensor;
}

// x of shape 2x3 → op → y.
ModelProto one_node(const std::string& op) {
  ModelProto model = empty_model();
  add_value(*model.mutable_graph()->add_input(), "x", {2, 3});
  add_node(model, op, {"x"}, "y");
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

// x → x + stored tensor → y.
ModelProto sum_with_stored(TensorProto*& tensor, int32_t type = onnx::kFloat) {
  ModelProto model = empty_model();
  add_value(*model.mutable_graph()->add_input(), "x", {3}, type);
  tensor = &add_stored(model, "c", {3}, type);
  add_node(model, "Add", {"x", "c"}, "y");
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

Result<Module> import_model(const ModelProto& model, const std::string& path = "m.onnx") {
  const std::string bytes = model.SerializeAsString();
  return onnx::import_onnx(std::as_bytes(std::span(bytes)), path);
}

void expect_refused(const ModelProto& model, DiagnosticId id, const std::string& part) {
  const auto import = import_model(model);
  ASSERT_FALSE(import.has_value()) << part;
  EXPECT_EQ(import.error().id, id) << to_text(import.error());
  EXPECT_NE(to_text(import.error()).find(part), std::string::npos) << to_text(import.error());
  EXPECT_FALSE(import.error().fix.empty()) << to_text(import.error());
}

std::vector<float> run(const ModelProto& model, std::vector<float> x,
                       const std::string& path = "m.onnx") {
  const auto import = import_model(model, path);
  if (!import) {
    ADD_FAILURE() << to_text(import.error());
    return {};
  }
  const Graph& graph = import->forward();
  const auto executor = make_reference_executor(*import, graph);
  const TensorView view{DType::kFloat32, graph.type(graph.inputs()[0]).shape,
                        reinterpret_cast<std::byte*>(x.data())};
  const auto outputs = executor->run(std::span(&view, 1));
  if (!outputs) {
    ADD_FAILURE() << to_text(outputs.error());
    return {};
  }
  const auto y = (*outputs)[0].values<float>();
  return {y.begin(), y.end()};
}

TEST(OnnxErrors, DamagedFiles) {
  const std::string text = "no model";
  const auto import = onnx::import_onnx(std::as_bytes(std::span(text)), "m.onnx");
  ASSERT_FALSE(import.has_value());
  EXPECT_EQ(import.error().id, DiagnosticId::kOnnxInvalid);
  EXPECT_EQ(import.error().place.file, "m.onnx");
  std::string bytes = one_node("Relu").SerializeAsString();
  bytes.resize(bytes.size() - 3);
  EXPECT_FALSE(onnx::import_onnx(std::as_bytes(std::span(bytes)), "m.onnx").has_value());
}

TEST(OnnxErrors, GraphsThatContradictThemselves) {
  ModelProto model = one_node("Relu");
  model.mutable_graph()->mutable_node(0)->set_input(0, "nothing");
  expect_refused(model, DiagnosticId::kOnnxInvalid, "it reads `nothing`");
  model = one_node("Relu");
  model.mutable_graph()->mutable_output(0)->set_name("z");
  expect_refused(model, DiagnosticId::kOnnxInvalid, "`z`");
  model = one_node("Relu");
  add_node(model, "Neg", {"x"}, "y");
  expect_refused(model, DiagnosticId::kOnnxInvalid, "made by another node too");
  model = one_node("Relu");
  model.mutable_graph()->mutable_node(0)->add_input("x");
  expect_refused(model, DiagnosticId::kOnnxInvalid, "it has 2 inputs");
  model = one_node("Softmax");
  auto& axis = *model.mutable_graph()->mutable_node(0)->add_attribute();
  axis.set_name("axis");
  axis.set_type(2);
  axis.set_i(5);
  expect_refused(model, DiagnosticId::kOnnxInvalid, "axis 5 is out of range for rank 2");
}

// Operands, 2x3 and of other shapes or dtypes, that the format does not let meet.
TEST(OnnxErrors, OperandsThatContradictEachOther) {
  struct Case {
    std::string op;
    Shape shape;
    int32_t type;
    std::string part;
  };
  const Case cases[] = {
      {"Add", {4}, onnx::kFloat, "2x3 and 4 do not broadcast"},
      {"Mul", {3}, onnx::kInt64, "operand 0 is f32 and operand 1 is i64"},
      {"MatMul", {2, 4}, onnx::kFloat, "do not multiply"},
      {"Concat", {2, 4}, onnx::kFloat, "does not join"},
      {"Max", {2}, onnx::kFloat, "do not broadcast"},
  };
  for (const Case& each : cases) {
    ModelProto model = one_node(each.op);
    add_value(*model.mutable_graph()->add_input(), "other", each.shape, each.type);
    NodeProto& node = *model.mutable_graph()->mutable_node(0);
    node.add_input("other");
    if (each.op == "Concat") {
      auto& axis = *node.add_attribute();
      axis.set_name("axis");
      axis.set_type(2);
    }
    expect_refused(model, DiagnosticId::kOnnxInvalid, each.part);
  }
}

// Words that the format does not know, and numbers that it excludes.
TEST(OnnxErrors, AttributesThatTheFormatExcludes) {
  for (const auto& [op, name, word] :
       {std::tuple("Gelu", "approximate", "fast"), std::tuple("DepthToSpace", "mode", "ABC"),
        std::tuple("Resize", "mode", "bad"), std::tuple("Pad", "mode", "mirror")}) {
    ModelProto model = one_node(op);
    auto& attribute = *model.mutable_graph()->mutable_node(0)->add_attribute();
    attribute.set_name(name);
    attribute.set_type(3);
    attribute.set_s(word);
    if (std::string_view(op) == "DepthToSpace") {
      auto& block = *model.mutable_graph()->mutable_node(0)->add_attribute();
      block.set_name("blocksize");
      block.set_type(2);
      block.set_i(1);
    }
    expect_refused(model, DiagnosticId::kOnnxInvalid, fmt::format("{} is `{}`", name, word));
  }
  ModelProto model = one_node("Split");
  NodeProto& node = *model.mutable_graph()->mutable_node(0);
  TensorProto& sizes = add_stored(model, "sizes", {1}, onnx::kInt64);
  sizes.add_int64_data(1);
  node.add_input("sizes");
  expect_refused(model, DiagnosticId::kOnnxInvalid, "parts of sizes [1] of 2 elements");
}

// MaxPool of kernel, pads and stride over x of this length.
ModelProto pool_1d(int64_t length, int64_t kernel, const Shape& pads, int64_t stride,
                   bool ceil_mode) {
  ModelProto model = one_node("MaxPool");
  model.mutable_graph()->clear_input();
  add_value(*model.mutable_graph()->add_input(), "x", {1, 1, length});
  const auto add = [&](const std::string& name) -> onnx::pb::AttributeProto& {
    auto& attribute = *model.mutable_graph()->mutable_node(0)->add_attribute();
    attribute.set_name(name);
    attribute.set_type(7);
    return attribute;
  };
  add("kernel_shape").add_ints(kernel);
  add("strides").add_ints(stride);
  auto& around = add("pads");
  for (const int64_t pad : pads) around.add_ints(pad);
  auto& ceil = add("ceil_mode");
  ceil.set_type(2);
  ceil.set_i(ceil_mode ? 1 : 0);
  return model;
}

// A window of padding alone has no greatest element, and no mean.
TEST(OnnxErrors, PadsAreLessThanTheKernel) {
  expect_refused(pool_1d(3, 2, {0, -1}, 1, false), DiagnosticId::kOnnxInvalid, "pads of [-1]");
  expect_refused(pool_1d(3, 2, {0, 2}, 1, false), DiagnosticId::kOnnxUnsupportedOption,
                 "pads of 0 and 2 around dimension 2, where the kernel has 2");
  EXPECT_EQ(run(pool_1d(3, 2, {0, 1}, 1, false), {1, 3, 2}), (std::vector<float>{3, 3, 2}));
}

// The window that ceil_mode adds would start behind x, in padding of more than half of the kernel.
TEST(OnnxErrors, CeilModeStartsNoWindowInPadding) {
  EXPECT_EQ(run(pool_1d(6, 3, {0, 2}, 2, true), {1, 2, 3, 4, 5, 6}), (std::vector<float>{3, 5, 6}));
  EXPECT_EQ(run(pool_1d(5, 3, {0, 2}, 2, true), {1, 2, 3, 4, 5}), (std::vector<float>{3, 5, 5}));
}

// ONNX Runtime's: a root is rounded towards zero, and a square that no float is stays exact.
TEST(OnnxErrors, IntegersToThePowerOfFloats) {
  ModelProto model = empty_model();
  add_value(*model.mutable_graph()->add_input(), "x", {4});
  const auto cast = [&](const std::string& from, const std::string& to, int32_t type) {
    auto& attribute = *add_node(model, "Cast", {from}, to).add_attribute();
    attribute.set_name("to");
    attribute.set_type(2);
    attribute.set_i(type);
  };
  cast("x", "whole", onnx::kInt64);
  TensorProto& exponents = add_stored(model, "exponents", {4});
  for (const float each : {0.5F, 2.0F, 0.5F, -1.0F}) exponents.add_float_data(each);
  add_node(model, "Pow", {"whole", "exponents"}, "power");
  TensorProto& expected = add_stored(model, "expected", {4}, onnx::kInt64);
  for (const int64_t each : {2, 16801801, 5, 0}) expected.add_int64_data(each);
  add_node(model, "Sub", {"power", "expected"}, "apart");
  cast("apart", "y", onnx::kFloat);
  model.mutable_graph()->add_output()->set_name("y");
  EXPECT_EQ(run(model, {7, 4099, 26, 3}), (std::vector<float>{0, 0, 0, 0}));
}

TEST(OnnxErrors, OperatorsAreNamedTogether) {
  ModelProto model = one_node("NonMaxSuppression");
  add_node(model, "RandomNormalLike", {"y"}, "z");
  add_node(model, "Fancy", {"z"}, "w").set_domain("my.domain");
  expect_refused(model, DiagnosticId::kOnnxUnsupportedOperator,
                 "NonMaxSuppression (a shape that depends on the data) (1×), RandomNormalLike "
                 "(random numbers) (1×), my.domain.Fancy (a definition that the file does not "
                 "hold) (1×)");
}

TEST(OnnxErrors, OptionsAndVersions) {
  ModelProto model = one_node("Relu");
  auto& extra = *model.mutable_graph()->mutable_node(0)->add_attribute();
  extra.set_name("speed");
  expect_refused(model, DiagnosticId::kOnnxUnsupportedOption, "attribute `speed`");
  model = one_node("Relu");
  model.mutable_opset_import(0)->set_version(3);
  expect_refused(model, DiagnosticId::kOnnxUnsupportedOption, "version (opset) 3");
  model = one_node("Dropout");
  add_value(*model.mutable_graph()->add_input(), "to", {2}, onnx::kInt64);
  model.mutable_graph()->mutable_node(0)->set_op_type("Reshape");
  model.mutable_graph()->mutable_node(0)->add_input("to");
  expect_refused(model, DiagnosticId::kOnnxUnsupportedOption,
                 "`to` depends on an input of the model");
}

TEST(OnnxErrors, TypesThatDoNotFit) {
  ModelProto model = one_node("Relu");
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::kComplex64);
  expect_refused(model, DiagnosticId::kOnnxUnsupportedDtype, "COMPLEX64");
  model = one_node("Relu");
  model.mutable_graph()->mutable_input(0)->mutable_type()->clear_tensor_type();
  expect_refused(model, DiagnosticId::kOnnxUnsupportedDtype, "no tensor");
  TensorProto* tensor = nullptr;
  model = sum_with_stored(tensor);
  tensor->set_data_type(onnx::kString);
  expect_refused(model, DiagnosticId::kOnnxUnsupportedDtype, "STRING");
}

TEST(OnnxErrors, OpenDimensions) {
  ModelProto model = one_node("Relu");
  auto& shape = *model.mutable_graph()
                     ->mutable_input(0)
                     ->mutable_type()
                     ->mutable_tensor_type()
                     ->mutable_shape();
  shape.mutable_dim(0)->clear_dim_value();
  shape.mutable_dim(0)->set_dim_param("batch");
  const auto import = import_model(model);
  ASSERT_TRUE(import.has_value());
  EXPECT_EQ(import->forward().type(import->forward().inputs()[0]).shape, (Shape{1, 3}));
  ASSERT_EQ(import->notes.size(), 1u);
  EXPECT_EQ(import->notes[0].id, DiagnosticId::kOnnxUnsupportedShape);
  shape.mutable_dim(1)->clear_dim_value();
  shape.mutable_dim(1)->set_dim_param("length");
  expect_refused(model, DiagnosticId::kOnnxUnsupportedShape, "length (dimension 1)");
  const std::string bytes = model.SerializeAsString();
  const auto sized = [&](std::vector<std::pair<std::string, int64_t>> given) {
    return onnx::import_onnx(std::as_bytes(std::span(bytes)), "test.onnx",
                             {.given = std::move(given)});
  };
  const auto shape_of = [&](const Result<Module>& module) {
    return module.has_value() ? module->forward().type(module->forward().inputs()[0]).shape
                              : Shape{};
  };
  EXPECT_EQ(shape_of(sized({{"batch", 2}, {"length", 3}})), (Shape{2, 3}));
  EXPECT_EQ(shape_of(sized({{model.graph().input(0).name() + ".1", 3}})), (Shape{1, 3}));
  const auto unknown = sized({{"length", 3}, {"width", 5}});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().reason.find("`width` is no open dimension"), std::string::npos);
}

TEST(OnnxErrors, SizesThatNoTensorHas) {
  TensorProto* tensor = nullptr;
  ModelProto model = sum_with_stored(tensor);
  tensor->set_dims(0, int64_t{1} << 62);
  expect_refused(model, DiagnosticId::kOnnxInvalid, "a stored tensor has shape");
  tensor->set_dims(0, -3);
  expect_refused(model, DiagnosticId::kOnnxInvalid, "a stored tensor has shape");
  tensor->set_dims(0, 3);
  tensor->set_raw_data("abc");
  expect_refused(model, DiagnosticId::kOnnxInvalid, "3 bytes for 3 elements of FLOAT");
}

// Every form in which the format stores the numbers 1, 2, 3.
TEST(OnnxTensors, StoredForms) {
  TensorProto* tensor = nullptr;
  const std::vector<float> x{10, 20, 30}, y{11, 22, 33};
  ModelProto model = sum_with_stored(tensor);
  for (const float value : {1.0F, 2.0F, 3.0F}) tensor->add_float_data(value);
  EXPECT_EQ(run(model, x), y);
  tensor->clear_float_data();
  tensor->set_raw_data(std::string("\0\0\x80?\0\0\0@\0\0@@", 12));
  EXPECT_EQ(run(model, x), y);
  tensor->clear_raw_data();
  tensor->set_data_type(onnx::kDouble);
  for (const double value : {1.0, 2.0, 3.0}) tensor->add_double_data(value);
  EXPECT_EQ(run(model, x), y);
  tensor->clear_double_data();
  tensor->set_data_type(onnx::kFloat16);
  for (const int32_t bits : {0x3c00, 0x4000, 0x4200}) tensor->add_int32_data(bits);
  EXPECT_EQ(run(model, x), y);
  tensor->clear_int32_data();
  tensor->set_data_type(onnx::kBfloat16);
  for (const int32_t bits : {0x3f80, 0x4000, 0x4040}) tensor->add_int32_data(bits);
  EXPECT_EQ(run(model, x), y);
}

TEST(OnnxTensors, SparseTensorsAreMadeDense) {
  TensorProto* tensor = nullptr;
  ModelProto model = sum_with_stored(tensor);
  auto& sparse = *model.mutable_graph()->add_sparse_initializer();
  model.mutable_graph()->clear_initializer();
  sparse.add_dims(3);
  TensorProto& values = *sparse.mutable_values();
  values.set_name("c");
  values.set_data_type(onnx::kFloat);
  values.add_dims(1);
  values.add_float_data(7);
  TensorProto& indices = *sparse.mutable_indices();
  indices.set_data_type(onnx::kInt64);
  indices.add_dims(1);
  indices.add_int64_data(2);
  EXPECT_EQ(run(model, {1, 2, 3}), (std::vector<float>{1, 2, 10}));
  indices.set_int64_data(0, 3);
  expect_refused(model, DiagnosticId::kOnnxInvalid, "index 3 of 3 elements");
}

TEST(OnnxTensors, ExternalDataStaysInTheFolder) {
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder.has_value());
  const std::filesystem::path inner = std::filesystem::path(folder->path()) / "model";
  std::filesystem::create_directories(inner);
  const float numbers[] = {9, 1, 2, 3};
  for (const auto& place : {inner / "weights.bin", inner.parent_path() / "secret.bin"})
    std::ofstream(place, std::ios::binary)
        .write(reinterpret_cast<const char*>(numbers), sizeof numbers);
  TensorProto* tensor = nullptr;
  ModelProto model = sum_with_stored(tensor);
  tensor->set_data_location(1);
  const auto entry = [&](const std::string& key, const std::string& value) {
    auto& made = *tensor->add_external_data();
    made.set_key(key);
    made.set_value(value);
  };
  entry("location", "weights.bin");
  entry("offset", "4");
  entry("length", "12");
  const std::string path = (inner / "m.onnx").string();
  EXPECT_EQ(run(model, {10, 20, 30}, path), (std::vector<float>{11, 22, 33}));
  const auto refused = [&](size_t at, const std::string& value, const std::string& part) {
    const std::string before = tensor->external_data(static_cast<int>(at)).value();
    tensor->mutable_external_data(static_cast<int>(at))->set_value(value);
    const auto import = import_model(model, path);
    ASSERT_FALSE(import.has_value()) << value;
    EXPECT_EQ(import.error().id, DiagnosticId::kOnnxExternalData);
    EXPECT_NE(import.error().reason.find(part), std::string::npos) << to_text(import.error());
    tensor->mutable_external_data(static_cast<int>(at))->set_value(before);
  };
  refused(0, "../secret.bin", "outside of the model's folder");
  refused(0, "/etc/passwd", "outside of the model's folder");
  refused(0, "none.bin", "which is not there");
  refused(1, "8", "end behind the 16 bytes");
  refused(1, "18446744073709551615", "end behind the 16 bytes");
  refused(2, "many", "no number");
  std::filesystem::create_symlink("../secret.bin", inner / "link.bin");
  refused(0, "link.bin", "outside of the model's folder");
}

// y = Twice(x), which is defined as x + x, with an attribute that the body refers to.
ModelProto with_function() {
  ModelProto model = one_node("Twice");
  model.mutable_graph()->mutable_node(0)->set_domain("mine");
  auto& factor = *model.mutable_graph()->mutable_node(0)->add_attribute();
  factor.set_name("slope");
  factor.set_type(1);
  factor.set_f(0.5F);
  auto& function = *model.add_functions();
  function.set_name("Twice");
  function.set_domain("mine");
  function.add_input("a");
  function.add_output("c");
  function.add_attribute("slope");
  function.add_opset_import()->set_version(18);
  NodeProto& sum = *function.add_node();
  sum.set_op_type("Add");
  sum.add_input("a");
  sum.add_input("a");
  sum.add_output("b");
  NodeProto& leaky = *function.add_node();
  leaky.set_op_type("LeakyRelu");
  leaky.add_input("b");
  leaky.add_output("c");
  auto& alpha = *leaky.add_attribute();
  alpha.set_name("alpha");
  alpha.set_type(1);
  alpha.set_ref_attr_name("slope");
  return model;
}

TEST(OnnxFunctions, AreBuiltInPlace) {
  EXPECT_EQ(run(with_function(), {1, 2, 3, -1, -2, -3}), (std::vector<float>{2, 4, 6, -1, -2, -3}));
}

TEST(OnnxFunctions, CyclesAndRepetitionsEnd) {
  ModelProto model = with_function();
  NodeProto& node = *model.mutable_functions(0)->mutable_node(0);
  node.set_op_type("Twice");
  node.set_domain("mine");
  node.mutable_input()->RemoveLast();
  expect_refused(model, DiagnosticId::kOnnxInvalid, "too deeply, or themselves");

  // Each function calls the next one twice: 2^30 nodes.
  model = one_node("F0");
  model.mutable_graph()->mutable_node(0)->set_domain("mine");
  for (int i = 0; i < 30; ++i) {
    auto& function = *model.add_functions();
    function.set_name("F" + std::to_string(i));
    function.set_domain("mine");
    function.add_input("a");
    function.add_output("c");
    function.add_opset_import()->set_version(18);
    for (const auto& [from, to] : {std::pair("a", "b"), std::pair("b", "c")}) {
      NodeProto& call = *function.add_node();
      call.set_op_type(i == 29 ? "Identity" : "F" + std::to_string(i + 1));
      if (i != 29) call.set_domain("mine");
      call.add_input(from);
      call.add_output(to);
    }
  }
  expect_refused(model, DiagnosticId::kOnnxUnsupportedOption, "make more than");
}

// torch.onnx writes the open end of a slice as the greatest integer.
TEST(OnnxConstants, HoldAnyInteger) {
  ModelProto model = one_node("Relu");
  NodeProto& slice = *model.mutable_graph()->mutable_node(0);
  slice.set_op_type("Slice");
  for (const char* const name : {"start", "end", "axis"}) slice.add_input(name);
  const auto constant = [&](const std::string& name, int64_t value) {
    NodeProto& node = add_node(model, "Constant", {}, name);
    auto& values = *node.add_attribute();
    values.set_name("value_ints");
    values.set_type(7);
    values.add_ints(value);
  };
  constant("start", 1);
  constant("end", INT64_MAX);
  constant("axis", 1);
  // Nodes come in the order of their execution.
  auto& nodes = *model.mutable_graph()->mutable_node();
  nodes.SwapElements(0, 3);
  EXPECT_EQ(run(model, {1, 2, 3, 4, 5, 6}), (std::vector<float>{2, 3, 5, 6}));
}

TEST(OnnxOpset, SoftmaxOfOldVersionsJoinsDimensions) {
  ModelProto model = one_node("Softmax");
  model.mutable_opset_import(0)->set_version(12);
  auto& axis = *model.mutable_graph()->mutable_node(0)->add_attribute();
  axis.set_name("axis");
  axis.set_type(2);
  axis.set_i(0);
  const std::vector<float> y = run(model, {0, 0, 0, 0, 0, 0});
  ASSERT_EQ(y.size(), 6u);
  EXPECT_FLOAT_EQ(y[0], 1.0F / 6);
}

// The products of 1 2 3 and 10 1 at stride 1 are 10 21 32 3, one more than the output has: as the
// format says, SAME_UPPER cuts the odd one at the end, SAME_LOWER at the beginning.
TEST(OnnxPadding, TheOddOneOfATransposedConvolution) {
  const auto output = [](const std::string& padding) {
    ModelProto model = empty_model();
    add_value(*model.mutable_graph()->add_input(), "x", {1, 1, 1, 3});
    TensorProto& weight = add_stored(model, "w", {1, 1, 1, 2});
    weight.add_float_data(10);
    weight.add_float_data(1);
    auto& attribute = *add_node(model, "ConvTranspose", {"x", "w"}, "y").add_attribute();
    attribute.set_name("auto_pad");
    attribute.set_type(3);
    attribute.set_s(padding);
    model.mutable_graph()->add_output()->set_name("y");
    return run(model, {1, 2, 3});
  };
  EXPECT_EQ(output("SAME_UPPER"), (std::vector<float>{10, 21, 32}));
  EXPECT_EQ(output("SAME_LOWER"), (std::vector<float>{21, 32, 3}));
  EXPECT_EQ(output("VALID"), (std::vector<float>{10, 21, 32, 3}));
}

// A window of 8 over 3 elements: ⌈(3 − 8) / stride⌉ + 1 windows, one at a stride of 8.
TEST(OnnxPools, AWindowBeyondItsOperandTakesAllOfIt) {
  const auto model_of = [](const char* pool, int64_t stride) {
    ModelProto model = empty_model();
    add_value(*model.mutable_graph()->add_input(), "x", {1, 1, 1, 3});
    NodeProto& node = add_node(model, pool, {"x"}, "y");
    const auto add = [&](const char* name, std::initializer_list<int64_t> values) {
      auto& attribute = *node.add_attribute();
      attribute.set_name(name);
      attribute.set_type(7);
      for (const int64_t value : values) attribute.add_ints(value);
    };
    add("kernel_shape", {1, 8});
    add("strides", {1, stride});
    auto& ceil = *node.add_attribute();
    ceil.set_name("ceil_mode");
    ceil.set_type(2);
    ceil.set_i(1);
    model.mutable_graph()->add_output()->set_name("y");
    return model;
  };
  EXPECT_EQ(run(model_of("AveragePool", 8), {1, 2, 6}), std::vector<float>{3});
  EXPECT_EQ(run(model_of("MaxPool", 8), {1, 2, 6}), std::vector<float>{6});
  EXPECT_FALSE(import_model(model_of("AveragePool", 2)));
}

// Where x is below 0: the number on either side, and of two numbers the first.
TEST(OnnxWhere, FillsNumbersIn) {
  const auto model_of = [](const std::string& then, const std::string& otherwise) {
    ModelProto model = empty_model();
    add_value(*model.mutable_graph()->add_input(), "x", {3});
    add_stored(model, "zero", {}).add_float_data(0);
    add_stored(model, "number", {1}).add_float_data(-1e9F);
    TensorProto& numbers = add_stored(model, "numbers", {3});
    for (const float number : {7.F, 8.F, 9.F}) numbers.add_float_data(number);
    add_node(model, "Less", {"x", "zero"}, "below");
    add_node(model, "Where", {"below", then, otherwise}, "y");
    model.mutable_graph()->add_output()->set_name("y");
    return model;
  };
  const auto fills = [](const ModelProto& model) {
    const Result<Module> module = import_model(model);
    DTR_CHECK(module.has_value());
    const Graph& graph = module->forward();
    for (const OpId op : graph.ops())
      if (graph.op(op).def->name == "aten.masked_fill") return true;
    return false;
  };
  const auto expect = [&](const char* then, const char* otherwise, bool filled,
                          const std::vector<float>& y) {
    const ModelProto model = model_of(then, otherwise);
    EXPECT_EQ(fills(model), filled) << then << " " << otherwise;
    EXPECT_EQ(run(model, {-2, 0, 3}), y) << then << " " << otherwise;
  };
  expect("number", "x", true, {-1e9F, 0, 3});
  expect("x", "number", true, {-2, -1e9F, -1e9F});
  expect("number", "numbers", true, {-1e9F, 8, 9});
  expect("x", "numbers", false, {-2, 8, 9});
}

// Outputs of ONNX Runtime: means of integers are cut off towards zero; without axes, nothing is
// reduced where the model says so, but the function of one element is computed.
TEST(OnnxReduce, MeansOfIntegersAndNoAxes) {
  ModelProto means = empty_model();
  add_value(*means.mutable_graph()->add_input(), "x", {3, 2});
  const auto set = [](NodeProto& node, const char* name, int64_t value) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(2);
    attribute.set_i(value);
  };
  set(add_node(means, "Cast", {"x"}, "i"), "to", onnx::kInt32);
  add_stored(means, "axes", {1}, onnx::kInt64).add_int64_data(1);
  set(add_node(means, "ReduceMean", {"i", "axes"}, "mean"), "keepdims", 0);
  set(add_node(means, "Cast", {"mean"}, "y"), "to", onnx::kFloat);
  means.mutable_graph()->add_output()->set_name("y");
  EXPECT_EQ(run(means, {-3, -4, 3, 4, -7, 0}), (std::vector<float>{-3, 3, -3}));

  const auto of_nothing = [&](const char* op, const std::vector<float>& x) {
    ModelProto model = empty_model();
    add_value(*model.mutable_graph()->add_input(), "x", {1, 2});
    set(add_node(model, op, {"x"}, "y"), "noop_with_empty_axes", 1);
    model.mutable_graph()->add_output()->set_name("y");
    return run(model, x);
  };
  EXPECT_EQ(of_nothing("ReduceSum", {-3, 4}), (std::vector<float>{-3, 4}));
  EXPECT_EQ(of_nothing("ReduceL1", {-3, 4}), (std::vector<float>{3, 4}));
  EXPECT_EQ(of_nothing("ReduceL2", {-3, 4}), (std::vector<float>{3, 4}));
  EXPECT_EQ(of_nothing("ReduceSumSquare", {-3, 4}), (std::vector<float>{9, 16}));
  EXPECT_EQ(of_nothing("ReduceLogSumExp", {-3, 4}), (std::vector<float>{-3, 4}));
  EXPECT_EQ(of_nothing("ReduceLogSum", {2, 4}), (std::vector<float>{std::log(2.F), std::log(4.F)}));
}

// (5 7; 9 11) less (1; 2) a row, times (1 2; 3 4) less (1, 0) a column. ONNX Runtime refuses zero
// points of rows; ONNX's reference evaluator computes these of a column, and takes a vector, which
// the text of the operator gives to the rows too, for one of columns.
TEST(OnnxMatMulInteger, ZeroPointsOfRowsAndColumns) {
  for (const Shape& of_rows : {Shape{2}, Shape{2, 1}}) {
    ModelProto model = empty_model();
    add_value(*model.mutable_graph()->add_input(), "x", {2, 2});
    const auto stored = [&](const char* name, const Shape& shape, int32_t type,
                            std::initializer_list<int32_t> codes) {
      TensorProto& tensor = add_stored(model, name, shape, type);
      for (const int32_t code : codes) tensor.add_int32_data(code);
    };
    stored("b", {2, 2}, onnx::kInt8, {1, 2, 3, 4});
    stored("rows", of_rows, onnx::kUint8, {1, 2});
    stored("columns", {2}, onnx::kInt8, {1, 0});
    const auto cast = [&](const char* from, const char* to, int32_t type) {
      auto& attribute = *add_node(model, "Cast", {from}, to).add_attribute();
      attribute.set_name("to");
      attribute.set_type(2);
      attribute.set_i(type);
    };
    cast("x", "a", onnx::kUint8);
    add_node(model, "MatMulInteger", {"a", "b", "rows", "columns"}, "product");
    cast("product", "y", onnx::kFloat);
    model.mutable_graph()->add_output()->set_name("y");
    EXPECT_EQ(run(model, {5, 7, 9, 11}), (std::vector<float>{12, 32, 18, 50}));
  }
}

TEST(OnnxKind, IsSeenInTheFirstFields) {
  const std::string bytes = one_node("Relu").SerializeAsString();
  EXPECT_TRUE(onnx::looks_like_onnx(std::as_bytes(std::span(bytes))));
  for (const std::string& other : {std::string(), std::string("\x08"), std::string("\x08\x09\xff"),
                                   std::string("PK\3\4"), std::string("module {")})
    EXPECT_FALSE(onnx::looks_like_onnx(std::as_bytes(std::span(other))));
}

}  // namespace
}  // namespace dtr
