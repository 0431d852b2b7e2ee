// Compile time grows linearly with operators: processor time of whole compilations of generated
// graphs.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "compiler/ir/parser.h"
#include "compiler/pipeline/compile.h"

namespace dtr {
namespace {

// Residual blocks: convolution, hardswish (tanh in float, so that values stay finite), convolution,
// sum with the block's input. Every `on_host`th operator is an average that the NPU refuses (0:
// none).
std::string network(int ops, int on_host, bool quantized) {
  const std::string type = quantized ? "i8[1,8,4,4] quant<0.05>" : "f32[1,8,4,4]";
  std::string text = fmt::format("graph @forward(%v0: {}) {{\n", type);
  for (int i = 1; i <= ops; ++i) {
    std::string op = i % 4 == 0
                         ? fmt::format("aten.add.Tensor(%v{}, %v{})", i - 1, i - 4)
                         : fmt::format("aten.{}(%v{})", quantized ? "hardswish" : "tanh", i - 1);
    if (on_host != 0 && i % on_host == 0) {
      op = fmt::format(
          "aten.avg_pool2d(%v{}) {{ceil_mode = false, count_include_pad = true, divisor_override = "
          "2, kernel_size = [1, 1], padding = [0, "
          "0], stride = [1, 1]}}",
          i - 1);
    } else if (i % 2 == 1) {
      text += quantized
                  ? fmt::format("  %w{0}: i8[8,8,1,1] quant<0.01> = constant seeded<{0}>\n", i)
                  : fmt::format("  %w{0}: f32[8,8,1,1] = constant seeded<{0}>\n", i);
      op = fmt::format(
          "aten.convolution(%v{}, %w{}) {{dilation = [1, 1], groups = 1, output_padding = [0, 0], "
          "padding = [0, 0], stride = [1, 1], "
          "transposed = false}}",
          i - 1, i);
    }
    text += fmt::format("  %v{}: {} = {}\n", i, type, op);
  }
  return text + fmt::format("  return %v{}\n}}\n", ops);
}

// Processor seconds of a compilation from text to program.
double seconds(int ops, int on_host, bool quantized) {
  const std::string text = network(ops, on_host, quantized);
  const std::clock_t start = std::clock();
  Result<Module> module = parse_module(text, "network.ir");
  if (!module) {
    ADD_FAILURE() << to_text(module.error());
    return 0;
  }
  const Result<Compilation> compiled =
      compile_model(std::move(*module),
                    {.target = find_target("imxrt700"), .samples = NoiseSamples{1}, .threads = 1});
  EXPECT_TRUE(compiled) << to_text(compiled.error());
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

struct Kind {
  const char* name;
  int on_host;
  bool quantized;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class CompileTime : public testing::TestWithParam<Kind> {};

constexpr double kMostGrowth = 32;

// The least of several runs: what else the machine does only adds to it.
double least_seconds(int runs, int ops, const Kind& kind) {
  double least = seconds(ops, kind.on_host, kind.quantized);
  for (int i = 1; i < runs; ++i)
    least = std::min(least, seconds(ops, kind.on_host, kind.quantized));
  return least;
}

// For 16 times the operators a linear compiler takes 16 times as long, one of n^1.5 64 times: the
// limit is the geometric mean of both. What a busy machine adds goes with more runs, what the
// compiler needs stays.
TEST_P(CompileTime, IsLinearAndShortFor2000Operators) {
  const Kind kind = GetParam();
  double fixed = least_seconds(3, 4, kind);  // the first of them is the first use of everything
  double small = least_seconds(5, 125, kind), large = least_seconds(1, 2000, kind);
  const auto growth = [&] { return (large - fixed) / (small - fixed); };
  for (int again = 0; again < 4 && growth() >= kMostGrowth; ++again) {
    fixed = std::min(fixed, least_seconds(3, 4, kind));
    small = std::min(small, least_seconds(3, 125, kind));
    large = std::min(large, least_seconds(2, 2000, kind));
  }
  RecordProperty("milliseconds", static_cast<int>(large * 1000));
  std::printf("%s: %.1f times as long for 16 times the operators\n", kind.name, growth());
  EXPECT_LT(large, 5) << "seconds for 2,000 operators";
  EXPECT_LT(growth(), kMostGrowth)
      << large << " seconds for 2,000 operators, " << small << " for 125, " << fixed << " for 4";
}

INSTANTIATE_TEST_SUITE_P(Kinds, CompileTime,
                         testing::Values(Kind{"quantized", 0, true}, Kind{"mixed", 5, true},
                                         Kind{"mostly_host", 2, true}, Kind{"floats", 0, false},
                                         Kind{"floats_mixed", 5, false}),
                         [](const testing::TestParamInfo<Kind>& kind) { return kind.param.name; });

}  // namespace
}  // namespace dtr
