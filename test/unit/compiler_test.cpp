// The oneDNN executor against the reference executor.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/executors/onednn_executor.h"
#include "compiler/ir/samples.h"
#include "compiler/support/thread_pool.h"
#include "test/unit/parse.h"

namespace dtr {
namespace {

using test::parse;

// Every form of convolution and linear that the executor tells apart, with other ops between them.
constexpr std::string_view kForms = R"(graph @forward(%x: f32[2,3,11,9], %z: f32[2,5,11,9]) {
  %w1: f32[6,3,3,2] = constant seeded<1>
  %b1: f32[6] = constant seeded<2>
  %strided: f32[2,6,6,4] = aten.convolution(%x, %w1, %b1) {activation = "relu", dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 0], stride = [2, 2], transposed = false}
  %w2: f32[6,1,3,3] = constant seeded<3>
  %depthwise: f32[2,6,6,4] = aten.convolution(%strided, %w2, _) {activation = "relu6", dilation = [1, 1], groups = 6, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false}
  %w3: f32[4,3,2,2] = constant seeded<4>
  %b3: f32[4] = constant seeded<5>
  %grouped: f32[2,4,5,3] = aten.convolution(%depthwise, %w3, %b3) {dilation = [1, 1], groups = 2, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  %w4: f32[7,6,3,3] = constant seeded<6>
  %dilated: f32[2,7,6,4] = aten.convolution(%strided, %w4, _) {activation = "relu_n1_to_1", dilation = [2, 2], groups = 1, output_padding = [0, 0], padding = [2, 2], stride = [1, 1], transposed = false}
  %w5: f32[7,7,2,2] = constant seeded<7>
  %b5: f32[7] = constant seeded<8>
  %uneven: f32[2,7,6,4] = aten.convolution(%dilated, %w5, %b5) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 1], padding_end = [1, 0], stride = [1, 1], transposed = false}
  %sum: f32[2,7,6,4] = aten.add.Tensor(%uneven, %dilated) {activation = "relu_0_to_1"}
  %swish: f32[2,7,6,4] = aten.hardswish(%uneven)
  %channel: f32[1,7,1,1] = constant seeded<9>
  %shifted: f32[2,7,6,4] = aten.add.Tensor(%swish, %channel)
  %pooled: f32[2,7,3,2] = aten.max_pool2d(%shifted) {ceil_mode = false, dilation = [1, 1], kernel_size = [2, 2], padding = [0, 0], stride = [2, 2]}
  %w6: f32[7,3,2,2] = constant seeded<10>
  %transposed: f32[2,3,4,3] = aten.convolution(%pooled, %w6, _) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = true}
  %same: f32[2,7,3,2] = aten.convolution(%pooled, %w5, %b5) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 1], padding_end = [1, 0], stride = [1, 1], transposed = false}
  %turned: f32[2,6,4,7] = aten.permute(%sum) {dims = [0, 2, 3, 1]}
  %w7: f32[5,7] = constant seeded<11>
  %b7: f32[5] = constant seeded<12>
  %rank4: f32[2,6,4,5] = aten.linear(%turned, %w7, %b7) {activation = "relu"}
  %flat: f32[2,42] = aten.view(%pooled) {size = [2, 42]}
  %w8: f32[9,42] = constant seeded<13>
  %linear: f32[2,9] = aten.linear(%flat, %w8, _)
  %mixed: f32[2,5,11,9] = aten.add.Tensor(%z, %z)
  %gamma: f32[4] = constant seeded<14>
  %mean: f32[4] = constant seeded<15>
  %variance: f32[4] = constant seeded<16>
  %normal: f32[2,4,5,3] = aten.batch_norm(%grouped, %gamma, _, %mean, %variance) {eps = 4.0}
  %bounded: f32[2,4,5,3] = aten.relu(%normal)
  %gamma3: f32[3] = constant seeded<17>
  %logical: f32[2,3,11,9] = aten.batch_norm(%x, %gamma3, _, %gamma3, %gamma3) {eps = 4.0}
  return %linear, %bounded, %logical, %rank4, %grouped, %transposed, %same, %sum, %mixed, %x
}
)";

void expect_close(const TensorView& got, const TensorView& wanted, const std::string& name) {
  ASSERT_EQ(got.shape, wanted.shape) << name;
  const auto a = got.values<float>();
  const auto b = wanted.values<float>();
  float most = 0, difference = 0;
  size_t where = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    most = std::max(most, std::abs(b[i]));
    if (!(std::abs(a[i] - b[i]) <= difference)) {
      difference = std::abs(a[i] - b[i]);
      where = i;
    }
  }
  EXPECT_LE(difference, 1e-5F * most)
      << name << " at element " << where << ": " << a[where] << ", reference " << b[where];
}

void expect_agreement(const OneDnnOptions& options) {
  const Module module = parse(kForms);
  const Graph& graph = module.forward();
  const Samples samples = Samples::random(graph, 3);
  auto fast = make_onednn_executor(module, graph, options);
  ASSERT_TRUE(fast) << to_text(fast.error());
  const auto reference = make_reference_executor(module, graph);
  for (size_t sample = 0; sample < samples.size(); ++sample) {
    std::map<ValueId, Tensor> wanted;
    size_t observed = 0;
    const auto outputs =
        reference->run(samples.inputs(sample), [&](ValueId id, const TensorView& view) {
          wanted[id] = Tensor::copy_of(view.dtype, view.shape, {view.data, view.bytes()});
        });
    const auto got = (*fast)->run(samples.inputs(sample), [&](ValueId id, const TensorView& view) {
      ++observed;
      expect_close(view, wanted.at(id).view(), graph.value(id).name);
    });
    ASSERT_TRUE(outputs && got);
    EXPECT_EQ(observed, wanted.size());
    ASSERT_EQ(got->size(), outputs->size());
    for (size_t i = 0; i < got->size(); ++i)
      expect_close((*got)[i].view(), (*outputs)[i].view(), "output " + std::to_string(i));
  }
}

TEST(OneDnnExecutor, AgreesWithTheReferenceOnEveryValue) { expect_agreement({}); }

// A comparison of convolutions' results makes booleans in channels-last order, of one byte where
// the floats have four; `where` reads all three in the logical order.
TEST(OneDnnExecutor, TransposesElementsOfEverySize) {
  const Module module = parse(R"(graph @forward(%x: f32[2,3,6,5]) {
  %w: f32[7,3,1,1] = constant seeded<1>
  %a: f32[2,7,6,5] = aten.convolution(%x, %w, _) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  %w2: f32[7,3,1,1] = constant seeded<2>
  %b: f32[2,7,6,5] = aten.convolution(%x, %w2, _) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  %below: bool[2,7,6,5] = aten.lt.Tensor(%a, %b)
  %y: f32[2,7,6,5] = aten.where.self(%below, %a, %b)
  return %y, %below
}
)");
  const Graph& graph = module.forward();
  const Samples samples = Samples::random(graph, 1);
  auto fast = make_onednn_executor(module, graph);
  ASSERT_TRUE(fast) << to_text(fast.error());
  const auto wanted = make_reference_executor(module, graph)->run(samples.inputs(0));
  const auto got = (*fast)->run(samples.inputs(0));
  ASSERT_TRUE(wanted && got);
  expect_close((*got)[0].view(), (*wanted)[0].view(), "output 0");
  EXPECT_TRUE(std::ranges::equal((*got)[1].bytes(), (*wanted)[1].bytes()));
}

TEST(OneDnnExecutor, AgreesWhereWeightsAreReadAsTheyAre) {
  expect_agreement({.most_packed_bytes = 0});
}

TEST(OneDnnExecutor, RunsInSeveralThreadsWithTheSameBits) {
  const Module module = parse(kForms);
  const Graph& graph = module.forward();
  const Samples samples = Samples::random(graph, 32);
  auto executor = make_onednn_executor(module, graph, {.observe_any_layout = true});
  ASSERT_TRUE(executor);
  const auto run_all = [&](unsigned threads) {
    std::vector<std::vector<Tensor>> outputs(samples.size());
    parallel_for(samples.size(), threads,
                 [&](size_t i) { outputs[i] = std::move(*(*executor)->run(samples.inputs(i))); });
    return outputs;
  };
  const auto one = run_all(1);
  const auto four = run_all(4);
  for (size_t i = 0; i < one.size(); ++i)
    for (size_t k = 0; k < one[i].size(); ++k)
      EXPECT_TRUE(std::ranges::equal(one[i][k].bytes(), four[i][k].bytes()));
}

TEST(OneDnnExecutor, AnyLayoutHasTheSameElements) {
  const Module module = parse(kForms);
  const Graph& graph = module.forward();
  const Samples samples = Samples::random(graph, 1);
  const auto sorted_values = [&](bool any_layout) {
    std::map<ValueId, std::vector<float>> values;
    auto executor = make_onednn_executor(module, graph, {.observe_any_layout = any_layout});
    EXPECT_TRUE((*executor)->run(samples.inputs(0), [&](ValueId id, const TensorView& view) {
      const auto elements = view.values<float>();
      values[id].assign(elements.begin(), elements.end());
      std::ranges::sort(values[id]);
    }));
    return values;
  };
  EXPECT_EQ(sorted_values(true), sorted_values(false));
}

TEST(OneDnnExecutor, RefusesOpsThatMakeCodes) {
  const Module module = parse(R"(graph @forward(%x: i8[1,4] quant<0.5>) {
  %y: i8[1,4] quant<0.5> = aten.relu(%x)
  return %y
}
)");
  const auto executor = make_onednn_executor(module, module.forward());
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().id, DiagnosticId::kIrInvalid);
}

// A model may take codes: (code - 3) / 2.
TEST(OneDnnExecutor, DequantizesInputs) {
  const Module module = parse(R"(graph @forward(%x: i8[1,4] quant<0.5:3>) {
  %y: f32[1,4] = dequantize(%x)
  return %y
}
)");
  const auto executor = make_onednn_executor(module, module.forward());
  ASSERT_TRUE(executor) << to_text(executor.error());
  int8_t codes[] = {-128, 3, 4, 127};
  const TensorView input{
      .dtype = DType::kInt8, .shape = {1, 4}, .data = reinterpret_cast<std::byte*>(codes)};
  const auto outputs = (*executor)->run(std::span(&input, 1));
  ASSERT_TRUE(outputs) << to_text(outputs.error());
  const auto values = (*outputs)[0].values<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
            (std::vector{-65.5F, 0.0F, 0.5F, 62.0F}));
}

}  // namespace
}  // namespace dtr
