// Which differences from PyTorch the conformance run excuses: those at ties of the real result,
// computed by hand here.
#include "test/conformance/ties.h"

#include <gtest/gtest.h>

#include "test/unit/parse.h"

namespace dtr::conformance {
namespace {

using Values = std::vector<float>;

Tensor floats(const Values& values) {
  Tensor tensor(DType::kFloat32, {static_cast<int64_t>(values.size())});
  std::ranges::copy(values, tensor.values<float>().begin());
  return tensor;
}

// Ours, after PyTorch's elements took the place of those at ties; steps of 0.5.
Values excused(const Values& expected, const Values& actual, const RealSteps& real,
               uint64_t* ties = nullptr) {
  uint64_t count = 0;
  const Tensor wanted = floats(expected), own = floats(actual);
  const Tensor result = without_ties(wanted.view(), own.view(), real, 0.5, count);
  if (ties != nullptr) *ties = count;
  const auto values = result.values<float>();
  return {values.begin(), values.end()};
}

TEST(Ties, AreRoundedEitherWay) {
  uint64_t ties = 0;
  // 2.5 and -3.5 steps: to even 2 and -4, away from zero 3 and -4.
  EXPECT_EQ(excused({1, -2, 1}, {1.5, -1.5, 1}, {.steps = {2.5, -3.5, 2.5}}, &ties),
            (Values{1, -2, 1}));
  EXPECT_EQ(ties, 2u);
  EXPECT_EQ(excused({1}, {1.5}, {.steps = {2.4375}}), Values{1.5}) << "no tie: 2 is nearer";
  EXPECT_EQ(excused({1.5}, {1}, {.steps = {2.5625}}), Values{1});
  EXPECT_EQ(excused({1}, {2}, {.steps = {2.5}}), Values{2}) << "4 steps are not beside 2.5";
  EXPECT_EQ(excused({2}, {1.5}, {.steps = {2.5}}), Values{1.5}) << "PyTorch's are not either";
}

TEST(Ties, OfWeightsThatAreRounded) {
  EXPECT_EQ(excused({1}, {1.5}, {.steps = {2.4375}, .error = {0.125}}), Values{1});
  EXPECT_EQ(excused({1}, {1.5}, {.steps = {2.25}, .error = {0.125}}), Values{1.5});
  EXPECT_EQ(excused({1.5}, {1}, {.steps = {2.4375}, .error = {0.125}}), Values{1})
      << "only ours has rounded weights";
}

std::vector<RealSteps> real_of(const std::string& text, const Shape& shape, const Values& x) {
  const Module module = test::parse(text);
  std::vector<NamedTensor> arrays;
  Shape with_samples = shape;
  with_samples.insert(with_samples.begin(), 1);
  arrays.push_back({"x", Tensor(DType::kFloat32, with_samples)});
  std::ranges::copy(x, arrays[0].tensor.values<float>().begin());
  const auto samples = Samples::bind(module.forward(), arrays, "data");
  EXPECT_TRUE(samples) << to_text(samples.error());
  const auto found = real_steps(module, module.forward(), 0, *samples);
  EXPECT_TRUE(found) << to_text(found.error());
  return *found;
}

// The mean of 1, 2, 4 and 3 steps of 0.5 is 2.5; picking an element between does not round it.
TEST(Ties, AreThoseOfTheRealResult) {
  const std::string head = R"(graph @forward(%x: f32[1,1,2,2]) {
  %q: i8[1,1,2,2] quant<0.5:3> = quantize(%x)
  %d: f32[1,1,2,2] = dequantize(%q)
  %m: f32[1,1,1,1] = aten.mean.dim(%d) {dim = [2, 3], keepdim = true}
)";
  const std::string tail = R"(  %r: i8[1,1,1,1] quant<0.5:3> = quantize(%m)
  %y: f32[1,1,1,1] = dequantize(%r)
)";
  const Values x{0.5, 1.1f, 1.9f, 1.5};
  const auto plain = real_of(head + tail + "  return %y\n}\n", {1, 1, 2, 2}, x);
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_EQ(plain[0].steps, std::vector<double>{2.5});
  EXPECT_TRUE(plain[0].error.empty());

  const std::string relu = "  %z: f32[1,1,1,1] = aten.relu(%y)\n";
  const auto last = [&](const char* quantization) {
    return head + tail + relu + "  %s: i8[1,1,1,1] quant<" + quantization +
           "> = quantize(%z)\n  %u: f32[1,1,1,1] = dequantize(%s)\n  return %u\n}\n";
  };
  EXPECT_EQ(real_of(last("0.5:3"), {1, 1, 2, 2}, x)[0].steps, std::vector<double>{2.5});
  // Another rounding is one of its own: 2.5 steps become 2 or 3.
  const double rounded = real_of(last("0.25:3"), {1, 1, 2, 2}, x)[0].steps[0];
  EXPECT_TRUE(rounded == 4 || rounded == 6) << rounded;
  EXPECT_TRUE(
      real_of("graph @forward(%x: f32[1]) { %y: f32[1] = aten.relu(%x) return %y }", {1}, {1})
          .empty());
}

// Between 0 and 40 steps at a third and two thirds, whose weights are not multiples of 1/1024: each
// may be off by 40 / 1024. The outer ones have one neighbour at both ends of the row.
TEST(Ties, OfInterpolationsKnowTheirWeights) {
  const auto real = real_of(R"(graph @forward(%x: f32[1,1,1,2]) {
  %q: i8[1,1,1,2] quant<0.5> = quantize(%x)
  %d: f32[1,1,1,2] = dequantize(%q)
  %m: f32[1,1,1,4] = aten.upsample_bilinear2d(%d) {align_corners = true, output_size = [1, 4]}
  %r: i8[1,1,1,4] quant<0.5> = quantize(%m)
  %y: f32[1,1,1,4] = dequantize(%r)
  return %y
}
)",
                            {1, 1, 1, 2}, {0, 20});
  ASSERT_EQ(real.size(), 1u);
  ASSERT_EQ(real[0].steps.size(), 4u);
  EXPECT_NEAR(real[0].steps[1], 40.0 / 3, 1e-12);
  ASSERT_EQ(real[0].error.size(), 4u);
  EXPECT_EQ(real[0].error[1], 40.0 / 1024);
  EXPECT_EQ(real[0].error[3], 0) << "the last one is an input's";
}

}  // namespace
}  // namespace dtr::conformance
