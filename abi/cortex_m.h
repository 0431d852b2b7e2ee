// What the compiler and the Cortex-M kernels agree on beside the arguments: the exact size of every scratch operand. Freestanding.
#pragma once

#include <cstdint>

namespace dtr::cortex_m {

// Convolution gathers the inputs of up to two outputs as columns of int16, `depth` = kernel height · width · channels of a group each.
// Where taps are not whole words (channels of a group not a multiple of 4), a column is put together in int8 before.
constexpr int64_t convolution_scratch_bytes(int64_t depth, int64_t group_channels, int64_t output_pixels) {
  const int64_t columns = output_pixels < 2 ? output_pixels : 2;
  return columns * 2 * depth + (group_channels % 4 == 0 ? 0 : depth);
}

// Depthwise convolution without a multiplier keeps the weights of four channels, taps by twos, as int16, and where taps lie in the input.
constexpr int64_t depthwise_scratch_bytes(int64_t taps, int64_t channels, int64_t multiplier) {
  return multiplier == 1 && channels >= 4 ? (taps + 1) / 2 * (4 * 2 * 2 + 2 * 4) : 0;
}

// Transposed convolution adds up the channels of an output pixel in int32.
constexpr int64_t transposed_scratch_bytes(int64_t output_channels) { return 4 * output_channels; }

// An average pool adds up the channels of an output pixel in int32, unless there is only one.
constexpr int64_t average_pool_scratch_bytes(int64_t channels) { return channels == 1 ? 0 : 4 * channels; }

// A product of matrices keeps the right one [inner, columns] transposed.
constexpr int64_t matmul_scratch_bytes(int64_t inner, int64_t columns) { return inner * columns; }

}  // namespace dtr::cortex_m
