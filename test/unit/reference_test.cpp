// The float reference against PyTorch: every model and every conformance case that imports, and the
// MACs of the models.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "compiler/executors/executor.h"
#include "compiler/frontends/pt2/pt2.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

// Float arithmetic in another order than PyTorch's: differences relative to the largest magnitude
// of an output.
constexpr double kBound = 1e-5;

TensorView sample_of(const Tensor& array, int64_t index, const Shape& shape) {
  const size_t size = static_cast<size_t>(element_count(shape)) * byte_size(array.dtype());
  return {array.dtype(), shape, array.view().data + static_cast<size_t>(index) * size};
}

// max |a − b| / max |b|; infinite if shapes or special values differ.
double relative_difference(const TensorView& a, const TensorView& b) {
  if (a.elements() != b.elements() || a.dtype != DType::kFloat32 || b.dtype != DType::kFloat32)
    return INFINITY;
  double difference = 0;
  double largest = 0;
  for (size_t i = 0; i < static_cast<size_t>(a.elements()); ++i) {
    const double x = a.values<float>()[i];
    const double y = b.values<float>()[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
      continue;
    }
    if (!std::isfinite(x) || !std::isfinite(y)) return INFINITY;
    difference = std::max(difference, std::abs(x - y));
    largest = std::max(largest, std::abs(y));
  }
  return difference == 0 ? 0 : difference / largest;
}

// Runs a program on the first `count` samples of `inputs` (array names as in the data: input or
// input_I) and compares with `outputs` (float_output or float_output_I). The largest relative
// difference; infinite if something cannot be compared.
double compare(const Module& module, const std::vector<NamedTensor>& inputs,
               const std::vector<NamedTensor>& outputs, int64_t count) {
  const Graph& graph = module.forward();
  const auto executor = make_reference_executor(module, graph);
  const auto array = [](const std::vector<NamedTensor>& from, const std::string& name, size_t i) {
    const Tensor* numbered = test::find_array(from, name + "_" + std::to_string(i));
    return numbered != nullptr ? numbered : test::find_array(from, name);
  };
  double worst = 0;
  for (int64_t sample = 0; sample < count; ++sample) {
    std::vector<TensorView> views;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const Tensor* from = array(inputs, "input", i);
      if (from == nullptr || sample >= from->shape()[0]) return sample == 0 ? INFINITY : worst;
      views.push_back(sample_of(*from, sample, graph.type(graph.inputs()[i]).shape));
    }
    const auto results = executor->run(views);
    if (!results) {
      ADD_FAILURE() << module.file << ": " << to_text(results.error());
      return INFINITY;
    }
    for (size_t i = 0; i < results->size(); ++i) {
      const Tensor* wanted = array(outputs, "float_output", i);
      if (wanted == nullptr) return INFINITY;
      worst =
          std::max(worst, relative_difference((*results)[i].view(),
                                              sample_of(*wanted, sample, (*results)[i].shape())));
    }
  }
  return worst;
}

int64_t total_macs(const Graph& graph) {
  int64_t total = 0;
  for (const OpId id : graph.ops()) {
    const BoundOpView view(graph, id);
    if (view->def->macs != nullptr) total += view->def->macs(view);
  }
  return total;
}

struct Model {
  const char* name;
  int64_t samples;  // compared; the big models take their time in debug builds
  int64_t macs;     // hardware.md B.4 where it lists the model; 0: not listed
};
class FloatModels : public testing::TestWithParam<Model> {};

TEST_P(FloatModels, EqualPyTorchWithinRounding) {
  const auto& [name, samples, macs] = GetParam();
  const std::string folder = std::string("models/") + name;
  const auto at = [&](const std::string& file) {
    const auto committed = test::source_path(folder + file);
    return std::filesystem::exists(committed) ? committed : test::shared_path(folder + file);
  };
  if (at("/float.pt2").empty() || at("/test.npz").empty())
    GTEST_SKIP() << name << " is not there (DEUTERON_SHARED)";
  const auto module = pt2::read_pt2(at("/float.pt2").string());
  ASSERT_TRUE(module) << to_text(module.error());
  const auto data = test::read_arrays(at("/test.npz"));
  const double difference = compare(*module, data, data, samples);
  EXPECT_LE(difference, kBound);
  if (macs != 0) {
    EXPECT_EQ(total_macs(module->forward()), macs);
  }
  std::printf("%s: %.1e of the maximum, %lld MACs\n", name, difference,
              static_cast<long long>(total_macs(module->forward())));
}
INSTANTIATE_TEST_SUITE_P(All, FloatModels,
                         testing::Values(Model{"ad_fcae", 128, 264192}, Model{"digits_cnn", 540, 0},
                                         Model{"ic_resnet8", 16, 12501632},
                                         Model{"kws_dscnn", 64, 2656768},
                                         Model{"mobilenet_v2", 1, 300774272},
                                         Model{"vww_mobilenetv1", 8, 7489664}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(FloatReference, EveryConformanceCaseEqualsPyTorch) {
  const std::filesystem::path cases = test::shared_path("conformance");
  if (cases.empty()) GTEST_SKIP() << "no full set of cases (DEUTERON_SHARED)";
  int files = 0;
  int compared = 0;
  double worst = 0;
  std::map<std::string, int> refused;
  for (const auto& entry : std::filesystem::directory_iterator(cases)) {
    const std::filesystem::path path = entry.path() / "float.pt2";
    if (!std::filesystem::exists(path)) continue;
    ++files;
    // tanh_ writes to its input: the stored output is tanh(tanh(x)), of a sample that an earlier
    // run had changed.
    if (entry.path().filename() == "tanh_002") continue;
    const auto module = pt2::read_pt2(path.string());
    if (!module) {
      ++refused[std::string(info(module.error().id).name) + ": " +
                module.error().reason.substr(0, 100)];
      continue;
    }
    const double difference = compare(*module, test::read_arrays(entry.path() / "calibration.npz"),
                                      test::read_arrays(entry.path() / "expected.npz"), 2);
    EXPECT_LE(difference, kBound) << entry.path();
    worst = std::max(worst, difference);
    ++compared;
  }
  std::printf("%d of %d cases, largest difference %.1e of the maximum\n", compared, files, worst);
  for (const auto& [reason, count] : refused) std::printf("  %3d %s\n", count, reason.c_str());
  EXPECT_GT(compared, 200);
}

}  // namespace
}  // namespace dtr
