// int8 against float on real models: load, float passes, calibration, conversion, integer reference
// executor over the test set. The limits are the figures of docs/performance.md
// (bench/performance.json) less 1 dB and half a point. Then models that come quantized, against
// PyTorch's evaluation of them, less 1 dB of what they have today.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "compiler/executors/onednn_executor.h"
#include "compiler/frontends/pt2/pt2.h"
#include "compiler/ir/npz.h"
#include "compiler/ir/verifier.h"
#include "compiler/quantizer/convert.h"
#include "compiler/quantizer/int8_patterns.h"
#include "compiler/support/thread_pool.h"
#include "compiler/transforms/pass_manager.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

struct Limits {
  const char* model;
  double sqnr;
  double accuracy;  // 0: the test set has no labels
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
void PrintTo(const Limits& limits, std::ostream* out) { *out << limits.model; }

// Folder of the model, with this file of it, among the committed ones or in DEUTERON_SHARED; empty
// if it is in neither.
std::filesystem::path folder_of(const std::string& model, const char* file) {
  for (const char* variable : {"DEUTERON_SOURCE", "DEUTERON_SHARED"}) {
    const char* root = std::getenv(variable);
    if (root == nullptr) continue;
    std::filesystem::path folder = std::filesystem::path(root) / "models" / model;
    if (std::filesystem::exists(folder / file) && std::filesystem::exists(folder / "test.npz"))
      return folder;
  }
  return {};
}

const Tensor* find(const std::vector<NamedTensor>& arrays, std::string_view name) {
  for (const NamedTensor& array : arrays)
    if (array.name == name) return &array.tensor;
  return nullptr;
}

struct Figures {
  double sqnr = 0, same_class = 0, accuracy = 0;  // accuracy: 0 without labels
};

// Of a graph of one output, run as it is, against `wanted`.
Figures figures_of(const Module& module, const Samples& samples, const Tensor& wanted,
                   const Tensor* labels) {
  const auto executor = make_reference_executor(module, module.forward());
  const auto reference = wanted.values<float>();
  const size_t width = reference.size() / samples.size();
  std::vector<float> outputs(reference.size());
  parallel_for(samples.size(), 0, [&](size_t i) {
    const auto output = executor->run(samples.inputs(i));
    ASSERT_TRUE(output) << to_text(output.error());
    std::ranges::copy(output->front().values<float>(),
                      outputs.begin() + static_cast<int64_t>(i * width));
  });
  double signal = 0, noise = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    signal += std::pow(static_cast<double>(reference[i]), 2);
    noise += std::pow(static_cast<double>(reference[i]) - static_cast<double>(outputs[i]), 2);
  }
  size_t same = 0, correct = 0;
  const auto class_of = [&](std::span<const float> values, size_t i) {
    const auto row = values.subspan(i * width, width);
    return std::max_element(row.begin(), row.end()) - row.begin();
  };
  for (size_t i = 0; i < samples.size(); ++i) {
    same += class_of(outputs, i) == class_of(reference, i) ? 1 : 0;
    correct += labels != nullptr && class_of(outputs, i) == labels->values<int64_t>()[i] ? 1 : 0;
  }
  const auto count = static_cast<double>(samples.size());
  return {.sqnr = 10 * std::log10(signal / noise),
          .same_class = static_cast<double>(same) / count,
          .accuracy = static_cast<double>(correct) / count};
}

// What docs/performance.md says of the model, less what may be lost.
Limits limits_of(const char* model) {
  std::ifstream file(test::source_path("bench/performance.json"));
  const nlohmann::json recorded = nlohmann::json::parse(file).at("models").at(model).at("eval");
  const double accuracy = recorded.value("accuracy", 0.0);
  return {.model = model,
          .sqnr = recorded.at("sqnr_db").get<double>() - 1,
          .accuracy = accuracy > 0 ? accuracy - 0.005 : 0};
}

class Accuracy : public testing::TestWithParam<const char*> {};

TEST_P(Accuracy, IsThatOfThePage) {
  const Limits limits = limits_of(GetParam());
  const std::filesystem::path folder = folder_of(limits.model, "float.pt2");
  if (folder.empty()) GTEST_SKIP() << "needs DEUTERON_SHARED";

  auto module = pt2::read_pt2(folder / "float.pt2");
  ASSERT_TRUE(module) << to_text(module.error());
  Graph& graph = module->forward();
  const auto passes = run_pipeline(*module, graph, float_pipeline());
  ASSERT_TRUE(passes) << to_text(passes.error());

  const auto calibration_arrays = read_npz(folder / "calibration.npz");
  ASSERT_TRUE(calibration_arrays);
  const auto begin = std::chrono::steady_clock::now();
  const auto calibration_samples = Samples::bind(graph, *calibration_arrays, "calibration.npz");
  ASSERT_TRUE(calibration_samples) << to_text(calibration_samples.error());
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(make_int8_patterns({.backend = "neutron", .machine = "the NPU"}));
  const Annotation annotation = annotate(graph, patterns);
  const auto executor = make_onednn_executor(*module, graph, {.observe_any_layout = true});
  ASSERT_TRUE(executor) << to_text(executor.error());
  const auto calibration = calibrate(*module, graph, annotation, **executor, *calibration_samples);
  ASSERT_TRUE(calibration) << to_text(calibration.error());
  const auto report = convert(*module, graph, annotation, *calibration);
  ASSERT_TRUE(report) << to_text(report.error());
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  EXPECT_TRUE(report->float_ops.empty())
      << report->float_ops.front().op << ": " << report->float_ops.front().why.reason;
  const Result<void> verified = verify(*module);
  ASSERT_TRUE(verified) << to_text(verified.error());

  const auto arrays = read_npz(folder / "test.npz");
  ASSERT_TRUE(arrays);
  const auto samples = Samples::bind(graph, *arrays, "test.npz");
  ASSERT_TRUE(samples) << to_text(samples.error());
  const auto [sqnr, same_class, accuracy] =
      figures_of(*module, *samples, *find(*arrays, "float_output"), find(*arrays, "label"));
  printf(
      "%-16s SQNR %.2f dB (limit %.1f), accuracy %.4f (limit %.4f), quantization of %zu samples "
      "%.0f ms\n",
      limits.model, sqnr, limits.sqnr, accuracy, limits.accuracy, calibration->samples,
      elapsed.count());
  EXPECT_GE(sqnr, limits.sqnr);
  EXPECT_GE(accuracy, limits.accuracy);
}

INSTANTIATE_TEST_SUITE_P(Models, Accuracy,
                         testing::Values("digits_cnn", "digits_transformer", "kws_dscnn",
                                         "ic_resnet8", "vww_mobilenetv1", "ad_fcae",
                                         "mobilenet_v2"),
                         [](const auto& instance) { return std::string(instance.param); });

// What PyTorch computes for the quantized models is stored with them. Of ic_resnet8
// docs/quantization.md says why 35 dB are out of reach.
class QuantizedExport : public testing::TestWithParam<Limits> {};

TEST_P(QuantizedExport, ComputesWhatPyTorchComputes) {
  const Limits limits = GetParam();
  const std::filesystem::path folder = folder_of(limits.model, "quantized.pt2");
  if (folder.empty()) GTEST_SKIP() << "needs DEUTERON_SHARED";
  auto module = pt2::read_pt2(folder / "quantized.pt2");
  ASSERT_TRUE(module) << to_text(module.error());
  const auto passes = run_pipeline(*module, module->forward(), quantized_pipeline());
  ASSERT_TRUE(passes) << to_text(passes.error());
  const auto arrays = read_npz(folder / "test.npz");
  ASSERT_TRUE(arrays);
  const auto samples = Samples::bind(module->forward(), *arrays, "test.npz");
  ASSERT_TRUE(samples) << to_text(samples.error());
  const auto [sqnr, same_class, accuracy] =
      figures_of(*module, *samples, *find(*arrays, "quantized_output"), find(*arrays, "label"));
  printf("%-16s SQNR %.1f dB (limit %.1f), same class %.4f, accuracy %.4f\n", limits.model, sqnr,
         limits.sqnr, same_class, accuracy);
  EXPECT_GE(sqnr, limits.sqnr);
  EXPECT_GE(same_class, 0.99);
  EXPECT_GE(accuracy, limits.accuracy);
}

INSTANTIATE_TEST_SUITE_P(
    Models, QuantizedExport,
    testing::Values(Limits{"digits_cnn", 62.3, 0.9944}, Limits{"kws_dscnn", 69.7, 0.8925},
                    Limits{"ic_resnet8", 32.4, 0}, Limits{"vww_mobilenetv1", 53.0, 0},
                    Limits{"ad_fcae", 60.9, 0}, Limits{"mobilenet_v2", 41.7, 0}),
    [](const auto& instance) { return std::string(instance.param.model); });

}  // namespace
}  // namespace dtr
