// Layouts belong to the compiler: the models with contiguous and with channels-last inputs give
// equal results in equal time, and inside a convolution net nothing is transposed.
#include <gtest/gtest.h>

#include "compiler/pipeline/read_model.h"
#include "test/conformance/build.h"
#include "test/unit/test_files.h"

namespace dtr::test {
namespace {

struct LayoutModel {
  const char* name;
  bool convolution_net;
};

std::filesystem::path model_folder(const std::string& name) {
  const std::filesystem::path committed = source_path("models/" + name);
  return std::filesystem::exists(committed / "float.pt2") ? committed
                                                          : shared_path("models/" + name);
}

class Layouts : public testing::TestWithParam<LayoutModel> {};

TEST_P(Layouts, OfInputsDoNotMatter) {
  const std::filesystem::path folder = model_folder(GetParam().name);
  if (folder.empty()) GTEST_SKIP() << "model is not there (DEUTERON_SHARED)";
  const auto arrays = read_arrays(folder / "calibration.npz");
  const auto program = read_model(folder / "float.pt2");
  ASSERT_TRUE(program);
  const auto samples = Samples::bind(program->forward(), arrays, "calibration.npz");
  ASSERT_TRUE(samples) << to_text(samples.error());
  const auto proof = conformance::compare_layouts(folder / "float.pt2", *samples, 2);
  ASSERT_TRUE(proof) << to_text(proof.error());
  EXPECT_TRUE(proof->equal);
  EXPECT_TRUE(proof->same_cycles()) << proof->cycles[0] << " and " << proof->cycles[1];
  for (const OperatorRow& move : proof->moves) {
    EXPECT_FALSE(GetParam().convolution_net) << "transposition of " << move.name;
    EXPECT_GT(move.cycles, 0u);
  }
  std::printf(
      "%s: %llu and %llu cycles, %zu and %zu conversions on the CPU, %zu moves on the NPU\n",
      GetParam().name, static_cast<unsigned long long>(proof->cycles[0]),
      static_cast<unsigned long long>(proof->cycles[1]), proof->conversions[0],
      proof->conversions[1], proof->moves.size());
}
INSTANTIATE_TEST_SUITE_P(
    All, Layouts,
    testing::Values(LayoutModel{"ad_fcae", false}, LayoutModel{"digits_cnn", true},
                    LayoutModel{"digits_transformer", false}, LayoutModel{"ic_resnet8", true},
                    LayoutModel{"kws_dscnn", true}, LayoutModel{"mobilenet_v2", true},
                    LayoutModel{"vww_mobilenetv1", true}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(Layouts, AllInputsAreFlipped) {
  const auto folder = source_path("test/data/conformance/conv_097");
  auto program = read_model(folder / "float.pt2");
  ASSERT_TRUE(program);
  Graph& graph = program->forward();
  const Layout before = graph.type(graph.inputs()[0]).layout;
  conformance::flip_input_layouts(graph);
  EXPECT_NE(graph.type(graph.inputs()[0]).layout, before);
  conformance::flip_input_layouts(graph);
  EXPECT_EQ(graph.type(graph.inputs()[0]).layout, before);
}

}  // namespace
}  // namespace dtr::test
