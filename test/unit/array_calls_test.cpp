// What `deuteron explain` advises of calls of the MAC array, on drawn shapes and every machine:
// each promise is the cycles of the shape that it names, and where there is none, the shape costs
// more.
#include "host/simulator/array_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string_view>

#include "compiler/targets/target.h"
#include "device/npu/cycles.h"

namespace dtr::simulator {
namespace {

using npu::Conv2d;
using npu::Depthwise;
using npu::Matmul;
using npu::Target;

constexpr int kDraws = 2000;

class Draw {
 public:
  uint32_t from(uint32_t least, uint32_t most) {
    return least + static_cast<uint32_t>(engine_() % (most - least + 1));
  }
  const Target& machine() {
    constexpr const char* kMachines[] = {"imxrt700", "mcxn947", "imx95", "test-4x4"};
    return find_target(kMachines[from(0, 3)])->npu;
  }
  npu::Window window() {
    return npu::dense({.batch = from(1, 2),
                       .in_height = 40,
                       .in_width = 40,
                       .in_channels = from(1, 40),
                       .out_height = from(1, 5),
                       .out_width = from(1, 5),
                       .out_channels = from(1, 40),
                       .kernel_height = from(1, 3),
                       .kernel_width = from(1, 3),
                       .stride_height = 1,
                       .stride_width = 1,
                       .dilation_height = 1,
                       .dilation_width = from(1, 2)});
  }
  // Operands in any order, as attention reads them.
  Matmul matmul() {
    Matmul command{};
    std::ranges::fill(command.batch, 1);
    command.batch[3] = from(1, 12);
    command.rows = from(1, 40), command.inner = from(1, 40), command.columns = from(1, 40);
    const auto strides = [&](uint32_t& one, uint32_t& other, uint32_t length) {
      one = 1, other = length;
      if (from(0, 1) == 1) std::swap(one, other);
      if (from(0, 5) == 0) one *= 3, other *= 3;
    };
    strides(command.left_inner_stride, command.left_row_stride, command.inner);
    strides(command.right_column_stride, command.right_inner_stride, command.columns);
    strides(command.output_column_stride, command.output_row_stride, command.columns);
    return command;
  }

 private:
  std::mt19937 engine_{7};
};

const UnfilledExtent* find(const ArrayCall& call, std::string_view what) {
  const auto found = std::ranges::find(call.unfilled, what, &UnfilledExtent::what);
  return found == call.unfilled.end() ? nullptr : &*found;
}

TEST(ArrayCalls, AFilledConvolutionTakesTheSameCycles) {
  Draw draw;
  int advised = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Target& target = draw.machine();
    const Conv2d command{
        .window = draw.window(),
        .packing = draw.from(0, 3) == 0 ? npu::Packing::kRows : npu::Packing::kChannels};
    const ArrayCall call = array_call(target, command);
    const uint64_t now = npu::cycles(target, command).total;
    EXPECT_EQ(call.cycles, now);
    Conv2d wider = command;
    if (const UnfilledExtent* out = find(call, "output channels")) {
      EXPECT_EQ(out->extent, command.window.out_channels);
      wider.window.out_channels = out->filled;
      EXPECT_EQ(npu::cycles(target, wider).total, now);
      wider.window.out_channels = out->filled + 1;
      EXPECT_GT(npu::cycles(target, wider).total, now);
      ++advised;
    } else {
      EXPECT_EQ(command.window.out_channels % target.pipelines, 0u);
    }
    wider = command;
    if (const UnfilledExtent* channels = find(call, "input channels")) {
      EXPECT_EQ(channels->extent, command.window.in_channels);
      wider.window.in_channels = channels->filled;
      EXPECT_EQ(npu::cycles(target, wider).total, now);
      ++advised;
    } else {
      EXPECT_TRUE(command.packing == npu::Packing::kRows ||
                  command.window.in_channels % target.macs == 0);
    }
    if (command.packing == npu::Packing::kChannels && command.window.dilation_width == 1) {
      wider = command;
      wider.packing = npu::Packing::kRows;
      EXPECT_EQ(call.packed_cycles, std::min(now, npu::cycles(target, wider).total));
    } else {
      EXPECT_EQ(call.packed_cycles, now);
    }
  }
  EXPECT_GT(advised, kDraws);
}

TEST(ArrayCalls, AFullConvolutionIsAdvisedWithItsOwnCycles) {
  Draw draw;
  int same = 0, more = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Target& target = draw.machine();
    const Depthwise command{.window = draw.window()};
    const ArrayCall call = array_call(target, command);
    Conv2d full{.window = command.window, .packing = npu::Packing::kChannels};
    full.window.in_channels = target.macs;
    const uint64_t cycles = npu::cycles(target, full).total;
    if (command.window.in_channels == 1) {
      EXPECT_EQ(call.full_cycles, 0u);
      EXPECT_EQ(find(call, "input channels") != nullptr, cycles == call.cycles);
    } else {
      EXPECT_EQ(call.full_cycles, cycles);
      (cycles == call.cycles ? same : more) += 1;
    }
  }
  EXPECT_GT(same, 50);
  EXPECT_GT(more, 50);
}

TEST(ArrayCalls, AFilledProductTakesTheSameCycles) {
  Draw draw;
  int advised = 0, refused = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Target& target = draw.machine();
    const Matmul command = draw.matmul();
    const ArrayCall call = array_call(target, command);
    const uint64_t now = npu::cycles(target, command).total;
    const auto judge = [&](std::string_view what, uint32_t extent, uint32_t unit,
                           const Matmul& filled) {
      const UnfilledExtent* found = find(call, what);
      const bool same = extent % unit != 0 && npu::cycles(target, filled).total == now;
      EXPECT_EQ(found != nullptr, same) << what << ' ' << extent;
      if (found == nullptr) {
        refused += extent % unit != 0 ? 1 : 0;
        return;
      }
      EXPECT_EQ(found->extent, extent);
      EXPECT_EQ(found->filled, npu::round_up(extent, unit));
      ++advised;
    };
    Matmul filled = command;
    filled.inner = npu::round_up(command.inner, target.macs);
    judge("summed elements", command.inner, target.macs, filled);
    filled = command;
    filled.columns = npu::round_up(command.columns, target.pipelines);
    judge("columns", command.columns, target.pipelines, filled);
  }
  EXPECT_GT(advised, kDraws);
  EXPECT_GT(refused, 0);  // one element has no stride, and several of another stride come singly
}

TEST(ArrayCalls, MoreOutputsForEachWeightTakeTheCyclesThatAreSaid) {
  Draw draw;
  int advised = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Target& target = draw.machine();
    Conv2d convolution{.window = draw.window()};
    ArrayCall call = array_call(target, convolution);
    if (call.shared.more > 0) {
      const npu::Window& window = convolution.window;
      EXPECT_EQ(call.shared.outputs, uint64_t{window.batch} * window.out_height * window.out_width);
      convolution.window.batch = 1, convolution.window.out_width = 1;
      convolution.window.out_height = static_cast<uint32_t>(call.shared.more);
      EXPECT_EQ(npu::cycles(target, convolution).total, call.shared.more_cycles);
      EXPECT_LT(call.shared.more_cycles * call.shared.outputs, call.cycles * call.shared.more);
      ++advised;
    }
    Matmul product = draw.matmul();
    call = array_call(target, product);
    if (call.shared.more == 0) continue;
    EXPECT_EQ(call.shared.outputs, product.rows);
    product.rows = static_cast<uint32_t>(call.shared.more);
    EXPECT_EQ(npu::cycles(target, product).total, call.shared.more_cycles);
    EXPECT_LT(call.shared.more_cycles * call.shared.outputs, call.cycles * call.shared.more);
    ++advised;
  }
  EXPECT_GT(advised, 100);
}

// Four heads of eight elements over 16 places: queries times keys fill the array; the number of
// heads is no channel.
TEST(ArrayCalls, HeadsOfAttentionAreNoChannels) {
  Matmul scores{};
  std::ranges::fill(scores.batch, 1);
  scores.batch[3] = 4;
  scores.rows = 16, scores.inner = 8, scores.columns = 16;
  scores.left_row_stride = 32, scores.left_inner_stride = 1;
  scores.right_inner_stride = 1, scores.right_column_stride = 32;
  scores.output_row_stride = 16, scores.output_column_stride = 1;
  const ArrayCall call = array_call(find_target("imxrt700")->npu, scores);
  EXPECT_TRUE(call.unfilled.empty());
  EXPECT_EQ(call.shared.more, 0u);
}

}  // namespace
}  // namespace dtr::simulator
