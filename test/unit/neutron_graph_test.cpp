// Chains and whole partitions on the NPU: which ops share a call, where values lie, when constants
// are copied; and seeded random graphs. Everything equal to the integer reference byte for byte.
#include <fmt/format.h>

#include "compiler/ir/printer.h"
#include "test/random/random_graph.h"
#include "test/unit/machine.h"
#include "test/unit/neutron_fixture.h"

namespace dtr::test {
namespace {

using Kernels = std::vector<std::string>;

constexpr std::string_view kConv =
    "{dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], "
    "transposed = false}";

std::string with_conv(std::string_view text) {
  std::string result(text);
  for (size_t at; (at = result.find("CONV")) != std::string::npos;) result.replace(at, 4, kConv);
  return result;
}

TEST(NeutronFusion, TablesAndResidualAddition) {
  // conv → hardswish → tanh → add → relu that only limits: one call. The residual is overwritten by
  // the sum.
  const Compiled compiled =
      expect_bit_exact(with_conv(R"(graph @forward(%x: i8[2,5,7,9] channels_last quant<0.05:5>) {
    %w: i8[5,5,3,3] quant<0.011> = constant seeded<3>
    %r: i8[2,5,7,9] channels_last quant<0.0078125> = aten.tanh(%x)
    %a: i8[2,5,7,9] channels_last quant<0.09:11> = aten.convolution(%r, %w, _) CONV
    %b: i8[2,5,7,9] channels_last quant<0.07:-90> = aten.hardswish(%a)
    %c: i8[2,5,7,9] channels_last quant<0.0078125> = aten.tanh(%b)
    %d: i8[2,5,7,9] channels_last quant<0.02:-3> = aten.add.Tensor(%c, %x)
    %e: i8[2,5,7,9] channels_last quant<0.02:-3> = aten.relu(%d)
    return %e
  })"));
  EXPECT_EQ(compiled.kernels(), (Kernels{"Lookup", "Conv2d"}));
  const auto& conv = std::get<npu::Conv2d>(compiled.details().calls()[1].kernel);
  EXPECT_EQ(conv.epilogue.flags, uint32_t{npu::kWithTable | npu::kWithAdd});
  EXPECT_EQ(conv.epilogue.add.clamp_low, -3);
}

TEST(NeutronFusion, SumLiesOverItsAddend) {
  const Compiled compiled =
      expect_bit_exact(with_conv(R"(graph @forward(%x: i8[1,5,7,9] channels_last quant<0.05:5>) {
    %w: i8[5,5,3,3] quant<0.011> = constant seeded<3>
    %v: i8[5,5,3,3] quant<0.012> = constant seeded<4>
    %a: i8[1,5,7,9] channels_last quant<0.09:11> = aten.convolution(%x, %w, _) CONV
    %b: i8[1,5,7,9] channels_last quant<0.08:-11> = aten.convolution(%x, %v, _) CONV
    %c: i8[1,5,7,9] channels_last quant<0.02:-3> = aten.add.Tensor(%b, %a)
    %d: i8[1,5,7,9] channels_last quant<0.0078125> = aten.convolution(%c, %v, _) CONV
    return %d
  })"));
  EXPECT_EQ(compiled.kernels(), (Kernels{"Conv2d", "Conv2d", "Conv2d"}));
  size_t activations = 0;
  for (const InteriorBuffer& buffer : compiled.partition->buffers)
    activations += buffer.role == BufferRole::kActivation ? 1 : 0;
  EXPECT_EQ(activations, 1u);
}

// x + conv(x) as conv(x) + x, though the two operands differ in scale and zero point.
TEST(NeutronFusion, AddendIsEitherOperand) {
  for (const char* sum : {"%a, %r", "%r, %a"}) {
    const Compiled compiled = expect_bit_exact(with_conv(fmt::format(
        R"(graph @forward(%x: i8[1,5,7,9] channels_last quant<0.05:5>, %r: i8[1,5,7,9] channels_last quant<0.2:-40>) {{
    %w: i8[5,5,3,3] quant<0.011> = constant seeded<3>
    %a: i8[1,5,7,9] channels_last quant<0.09:11> = aten.convolution(%x, %w, _) CONV
    %c: i8[1,5,7,9] channels_last quant<0.1:-3> = aten.add.Tensor({})
    return %c
  }})",
        sum)));
    EXPECT_EQ(compiled.kernels(), (Kernels{"Conv2d"})) << sum;
  }
}

// Weights that come in parts: each part adds its own channels of the addend.
TEST(NeutronFusion, PartsOfACallAddTheirChannels) {
  npu::Target target = dtr::test::machine();
  target.sram_bytes = 16000;
  const Compiled compiled = expect_bit_exact(
      with_conv(
          R"(graph @forward(%x: i8[1,32,9,5] channels_last quant<0.05:5>, %r: i8[1,48,9,5] channels_last quant<0.2:-40>) {
    %w: i8[48,32,3,3] quant<0.011> = constant seeded<3>
    %a: i8[1,48,9,5] channels_last quant<0.4:11> = aten.convolution(%x, %w, _) CONV
    %t: i8[1,48,9,5] channels_last quant<0.3:-90> = aten.hardswish(%a)
    %c: i8[1,48,9,5] channels_last quant<0.3:-3> = aten.add.Tensor(%t, %r)
    return %c
  })"),
      target);
  ASSERT_GT(compiled.kernels().size(), 1u);
  for (const auto& call : compiled.details().calls())
    EXPECT_EQ(std::get<npu::Conv2d>(call.kernel).epilogue.flags,
              uint32_t{npu::kWithTable | npu::kWithAdd});
}

// conv(x) + x: the addend is also the input of the convolution, which must not be overwritten while
// it is read.
TEST(NeutronFusion, AddendThatIsAlsoTheInputStays) {
  expect_bit_exact(with_conv(R"(graph @forward(%i: i8[1,5,7,9] channels_last quant<0.05:5>) {
    %w: i8[5,5,3,3] quant<0.011> = constant seeded<3>
    %x: i8[1,5,7,9] channels_last quant<0.0078125> = aten.tanh(%i)
    %a: i8[1,5,7,9] channels_last quant<0.09:11> = aten.convolution(%x, %w, _) CONV
    %c: i8[1,5,7,9] channels_last quant<0.02:-3> = aten.add.Tensor(%a, %x)
    %d: i8[1,5,7,9] channels_last quant<0.0078125> = aten.tanh(%c)
    return %d
  })"));
}

// Values with a second reader, or that leave the partition, must exist.
TEST(NeutronFusion, NotOverValuesThatAreReadTwice) {
  const Compiled compiled =
      expect_bit_exact(with_conv(R"(graph @forward(%x: i8[1,5,7,9] channels_last quant<0.05:5>) {
    %w: i8[5,5,3,3] quant<0.011> = constant seeded<3>
    %a: i8[1,5,7,9] channels_last quant<0.09:11> = aten.convolution(%x, %w, _) CONV
    %b: i8[1,5,7,9] channels_last quant<0.0078125> = aten.tanh(%a)
    %c: i8[1,5,7,9] channels_last quant<0.05:5> = aten.add.Tensor(%a, %b)
    %d: i8[1,5,7,9] channels_last quant<0.05:5> = aten.relu(%c)
    return %c, %d
  })"));
  EXPECT_EQ(compiled.kernels(), (Kernels{"Conv2d", "Lookup", "Binary", "Lookup"}));
}

TEST(NeutronFusion, OffLeavesOneCallAnOp) {
  const Compiled compiled =
      expect_bit_exact(with_conv(R"(graph @forward(%x: i8[1,5,7,9] channels_last quant<0.05:5>) {
    %w: i8[5,5,3,3] quant<0.011> = constant seeded<3>
    %a: i8[1,5,7,9] channels_last quant<0.09:11> = aten.convolution(%x, %w, _) CONV
    %b: i8[1,5,7,9] channels_last quant<0.0078125> = aten.tanh(%a)
    %c: i8[1,5,7,9] channels_last quant<0.05:5> = aten.add.Tensor(%b, %x)
    return %c
  })"),
                       test::machine(), {.fuse = false});
  EXPECT_EQ(compiled.kernels(), (Kernels{"Conv2d", "Lookup", "Binary"}));
}

TEST(NeutronFusion, ClampsOfPoolsAndSums) {
  const Compiled compiled = expect_bit_exact(
      R"(graph @forward(%x: i8[1,5,8,6] channels_last quant<0.05:5>, %z: i8[5,1,1] quant<0.02:-1>) {
    %a: i8[1,5,4,3] channels_last quant<0.05:5> = aten.max_pool2d(%x) {ceil_mode = false, dilation = [1, 1], kernel_size = [2, 2], padding = [0, 0], stride = [2, 2]}
    %b: i8[1,5,4,3] channels_last quant<0.05:5> = aten.relu(%a)
    %c: i8[1,5,4,3] channels_last quant<0.06:-5> = aten.add.Tensor(%b, %z)
    %d: i8[1,5,4,3] channels_last quant<0.06:-5> = aten.clamp(%c) {max = 3.0, min = -2.0}
    return %d
  })");
  EXPECT_EQ(compiled.kernels(), (Kernels{"Pool", "Binary"}));
}

// The ways of lowering that a program does not choose. That programs are right is the business of
// deuteron-random.
TEST(NeutronRandom, GraphsEqualTheReferenceWithEveryOption) {
  const auto backend = make_neutron_backend(test::machine());
  const auto accept = [&](const Module& module, OpId op) {
    return !backend->refuse(module.forward(), op);
  };
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Module module = RandomGraph(seed, {.accept = accept}).make(static_cast<int>(2 + seed % 12));
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, print(module, {.elide_constants = true})));
    expect_bit_exact(module, test::machine(),
                     {.row_packing = seed % 3 == 0,
                      .fuse = seed % 5 != 0,
                      .prefetch_calls = static_cast<uint32_t>(seed % 7),
                      .schedule = seed % 4 == 1 ? NeutronSchedule::kNxpLike : NeutronSchedule::kOwn,
                      .constants_in_sram = seed % 3 == 0});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace dtr::test
