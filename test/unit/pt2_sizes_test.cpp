// Exports with open dimensions (dynamic_shapes): sizes by name, by place and from samples, against
// PyTorch's outputs at a size that is not the export's; sizes that the export refuses.
#include <fmt/format.h>

#include "compiler/executors/executor.h"
#include "compiler/frontends/pt2/expression.h"
#include "compiler/frontends/pt2/pt2.h"
#include "compiler/ir/npz.h"
#include "compiler/ir/samples.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using test::error_id;
using test::error_text;

Result<Module> read_sizes(const std::string& name,
                          std::vector<std::pair<std::string, int64_t>> given) {
  return pt2::read_pt2(test::export_path(name), {.given = std::move(given)});
}

void expect_outputs(const Module& program, const std::vector<NamedTensor>& data) {
  std::vector<TensorView> inputs;
  for (size_t i = 0; i < program.forward().inputs().size(); ++i)
    inputs.push_back(test::find_array(data, fmt::format("input_{}", i))->view());
  const auto outputs = make_reference_executor(program, program.forward())->run(inputs);
  ASSERT_TRUE(outputs.has_value()) << error_text(outputs);
  ASSERT_EQ(outputs->size(), 4U);
  for (size_t i = 0; i < outputs->size(); ++i) {
    const Tensor& expected = *test::find_array(data, fmt::format("output_{}", i));
    ASSERT_EQ((*outputs)[i].shape(), expected.shape()) << i;
    for (int64_t k = 0; k < element_count(expected.shape()); ++k)
      EXPECT_NEAR((*outputs)[i].values<float>()[static_cast<size_t>(k)],
                  expected.values<float>()[static_cast<size_t>(k)], 2e-6)
          << i << " " << k;
  }
}

TEST(Pt2Sizes, ComputesWhatPyTorchComputesAtAnotherSize) {
  const auto data = read_npz(test::export_path("open_sizes.npz"));
  ASSERT_TRUE(data.has_value());
  const std::vector<std::pair<std::string, int64_t>> ways[] = {
      {{"x.0", 3}, {"x.2", 8}, {"x.3", 7}},
      {{"batch", 3}, {"x[2]", 8}, {"x[3]", 7}},
  };
  for (const auto& given : ways) {
    const auto program = read_sizes("open_sizes.pt2", given);
    ASSERT_TRUE(program.has_value()) << error_text(program);
    expect_outputs(*program, *data);
  }
}

// The first dimension of an array of the input's rank counts samples, so that the batch is 1.
TEST(Pt2Sizes, TakesTheSizesOfSamples) {
  std::vector<NamedTensor> rows, sets;
  rows.push_back({"x", Tensor(DType::kFloat32, {5, 3, 8, 7})});
  rows.push_back({"y", Tensor(DType::kFloat32, {5, 6})});
  const auto program = pt2::read_pt2(test::export_path("open_sizes.pt2"),
                                     {.sampled = Samples::shapes_of(rows, "rows.npz")});
  ASSERT_TRUE(program.has_value()) << error_text(program);
  EXPECT_EQ(program->forward().type(program->forward().inputs()[0]).shape, (Shape{1, 3, 8, 7}));
  ASSERT_FALSE(program->notes.empty());
  EXPECT_NE(program->notes[1].reason.find("is 8, as in the samples"), std::string::npos)
      << program->notes[1].reason;

  sets.push_back({"x", Tensor(DType::kFloat32, {5, 2, 3, 8, 7})});
  sets.push_back({"y", Tensor(DType::kFloat32, {5, 2, 6})});
  const auto batches = pt2::read_pt2(test::export_path("open_sizes.pt2"),
                                     {.sampled = Samples::shapes_of(sets, "sets.npz")});
  ASSERT_TRUE(batches.has_value()) << error_text(batches);
  EXPECT_EQ(batches->forward().type(batches->forward().inputs()[1]).shape, (Shape{2, 6}));

  sets[1].tensor = Tensor(DType::kFloat32, {5, 4, 6});
  const auto unlike = pt2::read_pt2(test::export_path("open_sizes.pt2"),
                                    {.sampled = Samples::shapes_of(sets, "sets.npz")});
  ASSERT_FALSE(unlike.has_value());
  EXPECT_NE(unlike.error().reason.find(" is 2 (the samples of `x`), and the export was made for"),
            std::string::npos)
      << error_text(unlike);
}

TEST(Pt2Sizes, RefusesWithTheSizesThatWork) {
  struct Case {
    std::vector<std::pair<std::string, int64_t>> given;
    std::string_view reason, fix;
  };
  const Case cases[] = {
      {{{"x.0", 12}, {"x.2", 8}, {"x.3", 7}}, "the export takes 1 to 9", "N 1 to 9;"},
      {{{"x.0", 2}, {"x.2", 8}, {"x.3", 2}}, "was made for", "N from 3 on;"},
      {{{"x.0", 2}, {"x.2", 7}, {"x.3", 7}}, "x.2 = 2*s", "give the size of s"},
      {{{"x.0", 2}, {"x.2", 44}, {"x.3", 7}}, "the export takes 3 to 20", "N 3 to 20;"},
      {{{"x.0", 2}, {"y.0", 3}, {"x.2", 8}, {"x.3", 7}}, "was made for", "=N with N 3;"},
      {{{"x.0", 2}, {"x[0]", 3}}, "is 2 by --dim x.0 and 3 by --dim x[0]", "agree"},
      {{{"time", 2}}, "`time` is no open dimension of the model, which has s", "--dim x.0=1"},
      {{{"x.0", 2}}, "leaves dimensions open", "--dim s44=6"},
  };
  for (const Case& bad : cases) {
    const auto program = read_sizes("open_sizes.pt2", bad.given);
    ASSERT_FALSE(program.has_value()) << bad.reason;
    EXPECT_EQ(error_id(program), "pt2-symbolic-shape");
    EXPECT_NE(program.error().reason.find(bad.reason), std::string::npos) << program.error().reason;
    EXPECT_NE(program.error().fix.find(bad.fix), std::string::npos) << program.error().fix;
  }
  const auto unequal = read_sizes("related_sizes.pt2", {{"x.0", 2}, {"y.0", 3}});
  ASSERT_FALSE(unequal.has_value());
  EXPECT_NE(unequal.error().reason.find("was made for"), std::string::npos) << error_text(unequal);
  EXPECT_NE(unequal.error().fix.find("=N with N "), std::string::npos) << error_text(unequal);
  const auto equal = read_sizes("related_sizes.pt2", {{"batch", 5}});
  EXPECT_TRUE(equal.has_value()) << error_text(equal);
  const auto fixed = read_sizes("numbers.pt2", {{"batch", 1}});
  ASSERT_FALSE(fixed.has_value());
  EXPECT_EQ(error_id(fixed), "model-unknown");
}

TEST(Pt2Sizes, EvaluatesExpressions) {
  const pt2::Lookup lookup = [](std::string_view name) -> std::optional<pt2::Number> {
    if (name == "s0") return pt2::Number(int64_t{7});
    if (name == "L['x'].size()[1]") return pt2::Number(int64_t{10});
    return std::nullopt;
  };
  const std::pair<std::string_view, double> good[] = {
      {"Add(Mul(Integer(-2), Symbol('s0', positive=True, integer=True)), Integer(1))", -13},
      {"FloorDiv(Add(Symbol('s0', positive=True), Integer(-10)), Integer(2))", -2},
      {"Mod(Integer(-3), Integer(5))", 2},
      {"FloatPow(ToFloat(Symbol('s0')), Float('-1.0', precision=53))", 1.0 / 7},
      {"Max(Integer(3), Symbol('s0'), Integer(5))", 7},
      {"2*s0 + 1 - -3", 18},
      {"(1 + (((-3) + L['x'].size()[1]) // 2)) != 1", 1},
      {"L['x'].size()[1] >= 3 and not s0 == 7", 0},
      {"0 < s0 <= 6 or s0 % 4 == 3", 1},
      {"2 ** 3 ** 2", 512},
  };
  for (const auto& [text, value] : good) {
    const auto number = pt2::evaluate(text, lookup);
    ASSERT_TRUE(number.has_value()) << text;
    EXPECT_DOUBLE_EQ(pt2::as_double(*number), value) << text;
  }
  for (const std::string_view text :
       {"s1", "s0 +", "Add(", "Symbol('s0", "L['y'].size()[0]", "1 // 0", "f(1)", "", "1 2",
        "Float('", "9223372036854775807 + 1", "Mul(Integer(9223372036854775807), Integer(2))"})
    EXPECT_FALSE(pt2::evaluate(text, lookup).has_value()) << text;
  EXPECT_FALSE(pt2::evaluate(std::string(100'000, '('), lookup).has_value());
  EXPECT_FALSE(pt2::evaluate(std::string(100'000, '-'), lookup).has_value());
}

}  // namespace
}  // namespace dtr
