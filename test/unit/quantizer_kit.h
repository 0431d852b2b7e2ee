// What tests of the quantizer share: a small model, samples, calibration by the reference executor.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/npz.h"
#include "compiler/quantizer/calibration.h"
#include "compiler/quantizer/int8_patterns.h"
#include "test/unit/parse.h"

namespace dtr::test {

inline constexpr std::string_view kSmall = R"(sources {
  0: "conv2d" "aten.conv2d.default" "stem" "model.py:1"
  1: "max_pool2d" "aten.max_pool2d.default" "" "model.py:2"
  2: "add" "aten.add.Tensor" "" "model.py:3"
  3: "softmax" "aten.softmax.int" "" "model.py:4"
}
graph @forward(%x: f32[1,2,4,4]) {
  %w: f32[2,2,1,1] = constant dense<1, -0.5, 0.25, 0.125>
  %b: f32[2] = constant dense<0.5, -0.25>
  %c: f32[1,2,4,4] = aten.convolution(%x, %w, %b) {activation = "relu", dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false} loc(0)
  %p: f32[1,2,4,4] = aten.max_pool2d(%c) {ceil_mode = false, dilation = [1, 1], kernel_size = [1, 1], padding = [0, 0], stride = [1, 1]} loc(1)
  %s: f32[1,2,4,4] = aten.add.Tensor(%p, %x) loc(2)
  %y: f32[1,2,4,4] = aten.softmax(%s) {dim = 1} loc(3)
  return %y
}
)";

inline std::vector<std::unique_ptr<QuantizationPatterns>> neutron_patterns() {
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(make_int8_patterns({.backend = "neutron", .machine = "the NPU"}));
  return patterns;
}

inline std::vector<NamedTensor> ramp(const std::string& name, Shape shape, float low, float high) {
  std::vector<NamedTensor> arrays;
  arrays.push_back({name, Tensor(DType::kFloat32, std::move(shape))});
  const auto values = arrays[0].tensor.values<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = low + (high - low) * static_cast<float>(i) /
                          static_cast<float>(std::max<size_t>(values.size() - 1, 1));
  return arrays;
}

inline Result<CalibrationResult> calibrate_reference(const Module& module,
                                                     const Annotation& annotation,
                                                     const std::vector<NamedTensor>& arrays,
                                                     unsigned threads = 1) {
  const Graph& graph = module.forward();
  const auto samples = Samples::bind(graph, arrays, "cal.npz");
  if (!samples) return tl::unexpected(samples.error());
  return calibrate(module, graph, annotation, *make_reference_executor(module, graph), *samples,
                   {.threads = threads});
}

// A model that a change must leave the same function, with samples of its input %x.
struct ChangedModel {
  // Outputs of all samples in double, one behind the other.
  std::vector<double> run() const {
    const auto samples = Samples::bind(module.forward(), arrays, "x.npz");
    EXPECT_TRUE(samples);
    const auto executor = make_reference_executor(module, module.forward(), Precision::kDouble);
    std::vector<double> all;
    for (size_t i = 0; i < samples->size(); ++i) {
      const auto outputs = executor->run(samples->inputs(i));
      EXPECT_TRUE(outputs);
      const auto values = outputs->front().values<double>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  // `tolerance`: of an output, as a share of the largest.
  void expect_same_function(double tolerance) const {
    const std::vector<double> after = run();
    ASSERT_EQ(before.size(), after.size());
    double largest = 0;
    for (const double value : before) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < before.size(); ++i)
      ASSERT_NEAR(before[i], after[i], largest * tolerance) << i;
  }
  // The constant that an operand of the op that makes `result` is.
  std::vector<float> constant(std::string_view result, size_t operand = 1) const {
    const Graph& graph = module.forward();
    for (const OpId id : graph.ops())
      if (graph.value(graph.op(id).results[0]).name == result) {
        const auto values =
            module.constants.values<float>(graph.value(graph.op(id).operands[operand]).constant);
        return {values.begin(), values.end()};
      }
    return {};
  }

  Module module;
  std::vector<NamedTensor> arrays;
  std::vector<double> before = run();
};

}  // namespace dtr::test
