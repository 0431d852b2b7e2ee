// The converter's log: which operators of the model its kernels compute. The texts have the form
// that ExecuTorch's NXP backend reads.
#include <gtest/gtest.h>

#include "compiler/backends/neutron_ir/converter_log.h"
#include "compiler/backends/neutron_ir/model_builder.h"
#include "compiler/support/encode.h"

namespace dtr::neutron_ir {
namespace {

// x → ABS a → NEG b → EXP c, and ABS d of b.
std::vector<std::byte> chain() {
  ModelBuilder model;
  const auto tensor = [&](const char* name) {
    return model.add_tensor(name, fb::TensorType::INT8, {1, 4});
  };
  const TensorIndex x = tensor("x"), a = tensor("a"), b = tensor("b"), c = tensor("c"),
                    d = tensor("d");
  model.add_operator(fb::BuiltinOperator::ABS, 1, {x}, {a});
  model.add_operator(fb::BuiltinOperator::NEG, 1, {a}, {b});
  model.add_operator(fb::BuiltinOperator::EXP, 1, {b}, {c});
  model.add_operator(fb::BuiltinOperator::ABS, 1, {b}, {d});
  return model.finish({x}, {c, d}, "chain");
}

std::string node(const std::string& type, const std::string& input, const std::string& output) {
  return "    Type: " + type + "\n      Inputs:\n        [0]: " + input +
         "\n      Outputs:\n        [0]: " + output + "\n      Location: 0\n";
}

std::string log_of(const std::string& parts, const std::string& listings) {
  return "Neutron converter\nGraphs:\n" + node("ABS", "x", "a") +
         "= Optimize Graph =\n= Extract Graphs =\n" + parts +
         "Generate code for NeutronGraph\nsome words\nGraphs:\n" + listings +
         "Number of operators imported: 4\n";
}

const std::string kParts =
    "  NeutronGraph \"subgraph_002\":\n"
    "    NeutronOperator \"subgraph_000\":\n      Operators:\n        Abs\n        Neg\n"
    "      Kernels:\n        Lut\n        Copy\n"
    "    NeutronOperator \"subgraph_001\":\n      Operators:\n        Exp\n"
    "      Kernels:\n        Lut2\n"
    "  ====\n";

std::optional<std::vector<LoggedKernel>> read(const std::string& log) {
  const std::vector<std::byte> bytes = chain();
  const auto model = tflite::ModelFile::open(bytes, "chain.tflite");
  EXPECT_TRUE(model) << to_text(model.error());
  return read_converter_log(log, *model);
}

std::vector<std::vector<size_t>> operators(const std::optional<std::vector<LoggedKernel>>& read) {
  std::vector<std::vector<size_t>> list;
  if (read)
    for (const LoggedKernel& kernel : *read) list.push_back(kernel.operators);
  return list;
}

using Lists = std::vector<std::vector<size_t>>;

TEST(ConverterLog, KernelsOfAPartComputeItsOperators) {
  const auto kernels = read(
      log_of(kParts,
             "  Name: subgraph_000\n  Inputs:\n    [0]: x\n  Outputs:\n    [0]: b\n  Tensors:\n"
             "  Nodes:\n" +
                 node("ABS", "x", "a") + node("NEG", "a", "b") +
                 "  Name: subgraph_001\n  Inputs:\n    [0]: b\n  Nodes:\n" + node("EXP", "b", "c") +
                 "  Name: subgraph_002\n  Nodes:\nStatistics for NeutronGraph \"subgraph_002\":\n" +
                 node("ABS", "b", "d")));
  ASSERT_EQ(operators(kernels), (Lists{{0, 1}, {0, 1}, {2}}));
  EXPECT_EQ((*kernels)[0].name, "Lut");
  EXPECT_EQ((*kernels)[1].name, "Copy");
  EXPECT_EQ((*kernels)[2].name, "Lut2");
}

// Optimizations append to names; all inputs, or the outputs and all inputs but one, are alike.
TEST(ConverterLog, NamesMayBeLonger) {
  EXPECT_EQ(operators(read(log_of(kParts, "Name: subgraph_000\n" + node("LUT", "x", "elsewhere") +
                                              "Name: subgraph_001\n" +
                                              node("LUT", "another", "c/permutation")))),
            (Lists{{0}, {0}, {2}}));
  EXPECT_EQ(operators(read(log_of(kParts, "Name: subgraph_000\n" + node("LUT", "xx", "aa") +
                                              "Name: subgraph_001\n" + node("EXP", "b", "c")))),
            (Lists{{}, {}, {2}}))
      << "`xx` is another name than `x`";
}

TEST(ConverterLog, OtherFormsTellNothing) {
  const std::string listings = "Name: subgraph_000\n" + node("ABS", "x", "a");
  const std::string good = log_of(kParts, listings);
  ASSERT_TRUE(read(good));
  EXPECT_FALSE(read(""));
  EXPECT_FALSE(read("converted 4 operators\n"));
  EXPECT_FALSE(read(good + "Graphs:\n"));
  EXPECT_FALSE(read(log_of("", listings))) << "no kernel";
  EXPECT_FALSE(read(log_of(kParts, ""))) << "no operator";
  for (const std::string title : {"= Extract Graphs =", "Generate code for NeutronGraph",
                                  "Graphs:", "NeutronOperator", "Kernels:", "Name:"}) {
    std::string other = good;
    for (size_t at = other.find(title); at != std::string::npos; at = other.find(title))
      other.erase(at, title.size());
    EXPECT_FALSE(read(other)) << title;
  }
}

// A log that is cut, or has lines of it twice or mixed up, is read without a crash.
TEST(ConverterLog, AnyTextIsRead) {
  const std::string good = log_of(kParts, "Name: subgraph_000\n" + node("ABS", "x", "a") +
                                              "Name: subgraph_001\n" + node("EXP", "b", "c"));
  for (size_t size = 0; size < good.size(); ++size) {
    (void)read(good.substr(0, size));
    (void)read(good.substr(size));
    (void)read(good.substr(size) + good.substr(0, size));
  }
  EXPECT_EQ(as_terminal("\x1b[31mred"), (*read([&] {
                                          std::string log = good;
                                          return log.replace(log.find("Lut\n"), 3, "\x1b[31mred");
                                        }()))[0]
                                            .name);
}

}  // namespace
}  // namespace dtr::neutron_ir
