// Schemas of operators: what they say of each operator, held against PyTorch's own schemas and
// against the attributes that the sources of the operators read.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "compiler/ops/ops.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Schema, SaysOperandsAttributesAndDefaults) {
  constexpr Schema kSchema(
      "(Tensor self, Tensor? bias, int dim, *, Scalar slope=-0.01, str mode='none', bool flag=True "
      "| float[]? own)");
  EXPECT_EQ(kSchema.min_operands(), 1);
  EXPECT_EQ(kSchema.max_operands(), 2);
  EXPECT_EQ(kSchema.params().size(), 7u);
  EXPECT_FALSE(kSchema.attribute("dim")->optional);
  EXPECT_EQ(kSchema.attribute("dim")->default_value(), std::nullopt);
  EXPECT_EQ(kSchema.attribute("slope")->default_value(), AttributeValue(-0.01));
  EXPECT_EQ(kSchema.attribute("mode")->default_value(), AttributeValue(std::string("none")));
  EXPECT_EQ(kSchema.attribute("flag")->default_value(), AttributeValue(true));
  EXPECT_TRUE(kSchema.attribute("own")->own);
  EXPECT_TRUE(kSchema.attribute("own")->optional);
  EXPECT_EQ(kSchema.attribute("own")->kind, AttributeKind::kFloats);
  EXPECT_FALSE(kSchema.attribute("flag")->own);
  EXPECT_EQ(kSchema.attribute("self"), nullptr);  // an operand
}

TEST(Schema, OptionalOperandsMayStandBeforeOthers) {
  constexpr Schema kSchema("(Tensor input, Tensor? weight, Tensor running_mean)");
  EXPECT_EQ(kSchema.min_operands(),
            1);  // what is behind the first that may be absent is checked by the op's `verify`
  EXPECT_EQ(kSchema.max_operands(), 3);
}

TEST(Schema, ListOfOperands) {
  constexpr Schema kSchema("(Tensor[] tensors, int dim)");
  EXPECT_EQ(kSchema.min_operands(), 1);
  EXPECT_EQ(kSchema.max_operands(), Schema::kAnyNumber);
}

TEST(Schema, NumbersAreTheNearestDoubles) {
  EXPECT_EQ(Schema("(Tensor self, Scalar a=0.01)").params()[1].number, 0.01);
  EXPECT_EQ(Schema("(Tensor self, Scalar a=1.7)").params()[1].number, 1.7);
  EXPECT_EQ(Schema("(Tensor self, Scalar a=0.3333333)").params()[1].number, 0.3333333);
  EXPECT_EQ(Schema("(Tensor self, int a=-20)").params()[1].default_value(),
            AttributeValue(int64_t{-20}));
}

// One argument as PyTorch writes it: "Scalar negative_slope=0.01".
struct Argument {
  std::string type, name;
  std::optional<std::string> fallback;
};
std::vector<Argument> arguments_of(const std::string& schema) {
  std::vector<Argument> arguments;
  const std::string inner =
      schema.substr(schema.find('(') + 1, schema.find(") ->") - schema.find('(') - 1);
  std::stringstream list(inner);
  for (std::string part; std::getline(list, part, ',');) {
    part.erase(0, part.find_first_not_of(' '));
    if (part == "*") continue;
    Argument argument;
    if (const size_t equals = part.find('='); equals != std::string::npos) {
      argument.fallback = part.substr(equals + 1);
      part.resize(equals);
    }
    argument.type = part.substr(0, part.rfind(' '));
    argument.name = part.substr(part.rfind(' ') + 1);
    arguments.push_back(argument);
  }
  return arguments;
}

// PyTorch's type without what our schemas do not tell apart: SymInt is int, int[2] a list, a pair
// of brackets a list.
std::string plain_type(std::string type) {
  type = std::regex_replace(type, std::regex("SymInt"), "int");
  type = std::regex_replace(type, std::regex("\\[\\d+\\]"), "[]");
  return std::regex_replace(type, std::regex("\\(\\w\\)|\\?"), "");
}
std::string type_of(const Param& param) {
  if (param.is_operand()) return param.variadic ? "Tensor[]" : "Tensor";
  if (!param.is_attribute()) return "ScalarType";
  constexpr const char* kNames[] = {"bool", "int", "number", "str", "int[]", "float[]"};
  return kNames[static_cast<size_t>(param.kind)];
}

// In front of the bar stand PyTorch's arguments, in its order, with its types and defaults; some
// that mean nothing here are left out.
TEST(Schema, IsThatOfPyTorch) {
  std::map<std::string, std::string> schemas;
  std::ifstream file(test::source_path("test/data/ops/schemas.txt"));
  for (std::string line; std::getline(file, line);)
    schemas[line.substr(0, line.find(": "))] = line.substr(line.find(": ") + 2);
  for (const OpDef* op : all_ops()) {
    if (!op->name.starts_with("aten.") || op->name == "aten.softsign") continue;
    SCOPED_TRACE(op->name);
    ASSERT_TRUE(schemas.contains(std::string(op->name))) << "run test/data/ops/make_schemas.py";
    const std::vector<Argument> theirs = arguments_of(schemas[std::string(op->name)]);
    size_t at = 0;
    for (const Param& ours : op->schema.params()) {
      if (ours.own) continue;
      while (at < theirs.size() && theirs[at].name != ours.name) ++at;
      ASSERT_LT(at, theirs.size()) << ours.name;
      const Argument& argument = theirs[at++];
      std::string type = plain_type(argument.type);
      if (type == "Scalar" || type == "float") type = "number";
      EXPECT_EQ(type, type_of(ours)) << ours.name;
      if (ours.has_default) {
        ASSERT_TRUE(argument.fallback.has_value()) << ours.name;
        if (ours.kind == AttributeKind::kString) {
          EXPECT_EQ(*argument.fallback, "\"" + std::string(ours.text) + "\"");
        } else if (ours.kind == AttributeKind::kBool) {
          EXPECT_EQ(*argument.fallback, ours.number != 0 ? "True" : "False") << ours.name;
        } else {
          EXPECT_EQ(std::stod(*argument.fallback), ours.number) << ours.name;
        }
      }
    }
  }
}

// Names of attributes that the text reads: attribute<T>("name"), argument, attribute_or, find.
std::set<std::string> names_read(const std::string& text) {
  static const std::regex kRead(
      R"re((?:attribute|argument|attribute_or)(?:<[^>]*>)?\("(\w+)"|attributes->find\("(\w+)")re");
  std::set<std::string> names;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kRead);
       at != std::sregex_iterator(); ++at)
    names.insert((*at)[1].matched ? (*at)[1].str() : (*at)[2].str());
  return names;
}

// A file reads attributes of its own operators only, and what a schema declares is read somewhere.
TEST(Schema, DeclaresWhatOperatorsRead) {
  const std::map<std::string, std::vector<const OpDef*>> by_file = [] {
    std::map<std::string, std::vector<const OpDef*>> made;
#define DTR_OP(symbol, file) made[#file].push_back(&ops::symbol);
#include "compiler/ops/ops.inc"
#undef DTR_OP
    return made;
  }();
  for (const auto& [file, ops] : by_file)
    for (const std::string& name :
         names_read(text_of(test::source_path("compiler/ops/" + file + ".cpp"))))
      EXPECT_TRUE(std::ranges::any_of(
          ops, [&](const OpDef* op) { return op->schema.attribute(name) != nullptr; }))
          << file << " " << name;

  std::set<std::string> read;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("compiler/ops")))
    if (entry.path().extension() == ".cpp" || entry.path().extension() == ".h")
      read.merge(names_read(text_of(entry.path())));
  // Read through helpers that take the name: check_ints, window axes, bounds of activations,
  // numbers of detections.
  for (const char* name :
       {"activation", "detections_per_class", "dims", "end", "kernel_size", "layout",
        "max_classes_per_detection", "max_detections", "num_classes", "pad", "start"})
    read.insert(name);
  std::set<std::string> declared;
  for (const OpDef* op : all_ops())
    for (const Param& param : op->schema.params())
      if (param.is_attribute()) declared.insert(std::string(param.name));
  EXPECT_EQ(read, declared);
}

TEST(Schema, NamesOfOverloadsAndKernels) {
  EXPECT_EQ(torch_target(ops::kRelu), "aten.relu.default");
  EXPECT_EQ(torch_target(ops::kAddTensor), "aten.add.Tensor");
  EXPECT_EQ(torch_target(ops::kPowTensorScalar), "aten.pow.Tensor_Scalar");
  EXPECT_EQ(kernel_name(ops::kRelu), "aten::relu.out");
  EXPECT_EQ(kernel_name(ops::kAddTensor), "aten::add.out");
  EXPECT_EQ(kernel_name(ops::kPowTensorScalar), "aten::pow.Tensor_Scalar_out");
  EXPECT_EQ(kernel_name(ops::kSoftsign), "deuteron::softsign.out");
}

}  // namespace
}  // namespace dtr
