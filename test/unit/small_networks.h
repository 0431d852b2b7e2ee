// Small int8 networks on which schedules are compared with the fastest ones: what they consist of
// follows from a number.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace dtr::test {

// Images through 2 to `most_layers` convolutions of 1 × 1 or 3 × 3, depthwise ones among them, with
// strides, an activation or an addition of an earlier result; one network in four: linear layers of
// one row. `skips_rows`: convolutions of 1 × 1 may have a stride. Of the rows before them, which
// they do not read, stripes compute fewer.
inline std::string small_network(uint32_t seed, uint32_t most_layers, bool skips_rows = true) {
  std::mt19937 random(seed + 1);
  const auto draw = [&](std::initializer_list<uint32_t> of) {
    return of.begin()[random() % of.size()];
  };
  const uint32_t layers = 2 + static_cast<uint32_t>(random() % (most_layers - 1));
  if (seed % 4 == 3) {
    uint32_t features = draw({64, 128, 256, 640});
    std::string text = fmt::format("graph @forward(%v0: i8[1,{}] quant<0.05>) {{\n", features);
    for (uint32_t i = 1; i <= layers; ++i) {
      const uint32_t out = draw({8, 32, 64, 128, 256, 512});
      text += fmt::format(
          "  %w{0}: i8[{1},{2}] quant<0.01> = constant seeded<{0}>\n"
          "  %v{0}: i8[1,{1}] quant<{4}> = aten.linear(%v{3}, %w{0}, _)\n",
          i, out, features, i - 1, 0.1 * i);
      features = out;
    }
    return text + fmt::format("  return %v{}\n}}\n", layers);
  }
  uint32_t size = draw({8, 12, 16, 24, 32}), channels = draw({3, 8, 16, 32});
  const auto type = [&](uint32_t of, uint32_t extent, uint32_t index) {
    return fmt::format("i8[1,{0},{1},{1}] channels_last quant<{2}>", of, extent,
                       0.05 + 0.1 * index);
  };
  struct Value {
    uint32_t index, channels, size;
  };
  std::vector<Value> values{{0, channels, size}};
  std::string text = fmt::format("graph @forward(%v0: {}) {{\n", type(channels, size, 0));
  for (uint32_t i = 1; i <= layers; ++i) {
    const uint32_t kind = static_cast<uint32_t>(random() % 8);
    const Value from = values.back();
    if (kind == 0 && i > 1) {
      text += fmt::format("  %v{}: {} = aten.tanh(%v{})\n", i, type(channels, size, i), from.index);
    } else if (const Value& other = values[random() % values.size()];
               kind == 1 && other.index != from.index && other.channels == channels &&
               other.size == size) {
      text += fmt::format("  %v{}: {} = aten.add.Tensor(%v{}, %v{}) {{alpha = 1.0}}\n", i,
                          type(channels, size, i), from.index, other.index);
    } else {
      const bool depthwise = kind == 2;
      uint32_t kernel = depthwise ? 3 : draw({1, 3, 3});
      const uint32_t stride = size > 7 ? draw({1, 1, 2}) : 1;
      if (stride > 1 && !skips_rows) kernel = 3;
      const uint32_t out = depthwise ? channels : draw({8, 16, 32, 64, 128});
      size = (size - 1) / stride + 1;
      text += fmt::format(
          "  %w{0}: i8[{1},{2},{3},{3}] quant<0.01> = constant seeded<{0}>\n"
          "  %v{0}: {4} = aten.convolution(%v{5}, %w{0}, _) {{dilation = [1, 1], padding = [{6}, "
          "{6}], stride = [{7}, {7}], groups = {8}, output_padding = [0, 0], transposed = "
          "false}}\n",
          i, out, depthwise ? 1 : channels, kernel, type(out, size, i), from.index, kernel / 2,
          stride, depthwise ? channels : 1);
      channels = out;
    }
    values.push_back({i, channels, size});
  }
  return text + fmt::format("  return %v{}\n}}\n", layers);
}

}  // namespace dtr::test
