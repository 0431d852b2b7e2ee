// What the compiler and the Cortex-M kernels agree on beside the arguments: the exact size of every
// scratch operand. Freestanding.
#pragma once

#include <cstdint>

namespace dtr::cortex_m {

// What the kernels of a core are made of: the DSP extension (Cortex-M4, M7, M33) or Helium, the
// M-profile vector extension (M55, M85). Scratch depends on it, so a program is for one of them.
enum class Core : uint8_t { kDsp, kMve };

// `depth` = kernel height · width · channels of a group each.
struct ConvolutionForm {
  int64_t depth, group_channels, output_channels, output_pixels;
  bool point;       // every output reads one input: kernels of 1x1 without padding
  bool has_offset;  // the input's zero point is not 0
};

// DSP: the inputs of up to two outputs as columns of int16; where taps are not whole words
// (channels of a group not a multiple of 4), a column is put together in int8 before. MVE: those of
// up to four outputs as columns of int8 unless they are contiguous in the input, and with an
// offset a bias for every output channel.
constexpr int64_t kWideColumns = 2, kByteColumns = 4;
constexpr int64_t convolution_scratch_bytes(Core core, const ConvolutionForm& form) {
  const auto columns = [&](int64_t most) {
    return form.output_pixels < most ? form.output_pixels : most;
  };
  if (core == Core::kMve)
    return (form.has_offset ? 4 * form.output_channels : 0) +
           (form.point ? 0 : columns(kByteColumns) * form.depth);
  return columns(kWideColumns) * 2 * form.depth + (form.group_channels % 4 == 0 ? 0 : form.depth);
}

// DSP: without a multiplier, the weights of four channels, taps by twos, as int16, and the offsets
// of taps in the input. MVE: four parameters and the weights of 16 channels, offsets of taps, and a
// window of inputs; every tap may need a second one of zeros.
constexpr int64_t kDepthwiseLanes = 16;
constexpr int64_t depthwise_scratch_bytes(Core core, int64_t taps, int64_t channels,
                                          int64_t multiplier) {
  if (core == Core::kMve) return 4 * 4 * kDepthwiseLanes + taps * (2 * 2 * 4 + 3 * kDepthwiseLanes);
  return multiplier == 1 && channels >= 4 ? (taps + 1) / 2 * (4 * 2 * 2 + 2 * 4) : 0;
}

// Transposed convolution adds up the channels of an output pixel in int32.
constexpr int64_t transposed_scratch_bytes(int64_t output_channels) { return 4 * output_channels; }

// An average pool adds up the channels of an output pixel in int32, unless there is only one.
constexpr int64_t average_pool_scratch_bytes(int64_t channels) {
  return channels == 1 ? 0 : 4 * channels;
}

// A product of matrices keeps the right one [inner, columns] transposed. MVE: and with an offset of
// the left one, the sum of every column.
constexpr int64_t matmul_scratch_bytes(Core core, int64_t inner, int64_t columns, bool transposed,
                                       bool has_offset) {
  return (transposed ? 0 : inner * columns) + (core == Core::kMve && has_offset ? 4 * columns : 0);
}

}  // namespace dtr::cortex_m
