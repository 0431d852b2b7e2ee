// Convolutions for each of Highway's targets, over padded bands of 16-bit values. Compiled once a
// target.
#if defined(DTR_SIMULATOR_HOST_CONVOLUTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DTR_SIMULATOR_HOST_CONVOLUTION_INL_H
#undef DTR_SIMULATOR_HOST_CONVOLUTION_INL_H
#else
#define DTR_SIMULATOR_HOST_CONVOLUTION_INL_H
#endif

#include <algorithm>
#include <cstring>
#include <numeric>

#include <hwy/highway.h>
#include "device/simulator/functional.h"
#include "host/simulator/convolution.h"
#include "host/simulator/kernel_set.h"
#include "host/simulator/rescale-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dtr::simulator {
namespace HWY_NAMESPACE {

#if !HWY_HAVE_SCALABLE && HWY_TARGET != HWY_SCALAR

const KernelSet* kernel_set();

constexpr size_t kLanes = hn::MaxLanes(D32());

inline void widen(const int8_t* from, void* to, size_t count) {
  auto* out = static_cast<int16_t*>(to);
  const D16 d;
  const hn::Rebind<int8_t, D16> d8;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d))
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(d8, from + i)), d, out + i);
  for (; i < count; ++i) out[i] = from[i];
}

HWY_INLINE Rescale rescale_at(const PackedConvolution& packed, size_t at) {
  const D32 d;
  return {hn::LoadU(d, &packed.multiplier[at]), hn::LoadU(d, &packed.left_shift[at]),
          hn::LoadU(d, &packed.right_shift[at])};
}

HWY_INLINE OneRounding one_rounding_at(const PackedConvolution& packed, size_t at) {
  const D32 d;
  const V32 net =
      hn::Sub(hn::LoadU(d, &packed.right_shift[at]), hn::LoadU(d, &packed.left_shift[at]));
  return {hn::LoadU(d, &packed.multiplier[at]), hn::Add(net, hn::Set(d, 31))};
}

HWY_INLINE RescaleWithoutOverflow rescale_without_overflow_at(const PackedConvolution& packed,
                                                              size_t at) {
  const D32 d;
  return {hn::LoadU(d, &packed.multiplier[at]),
          hn::Add(hn::LoadU(d, &packed.left_shift[at]), hn::Set(d, 1)),
          hn::LoadU(d, &packed.right_shift[at]), hn::LoadU(d, &packed.rounding[at]),
          hn::LoadU(d, &packed.sign_mask[at])};
}

// ---- Convolution: a tile of positions × two vectors of output channels; one step takes a pair of
// input values.

#if HWY_TARGET <= HWY_AVX3
constexpr uint32_t kTileRows = 8;
#else
constexpr uint32_t kTileRows = 4;
#endif
constexpr uint32_t kTileVectors = 2;
constexpr uint32_t kBlockChannels = kTileVectors * static_cast<uint32_t>(kLanes);

// Runs of consecutive values that a window reads: whole kernel rows, or pixels where they are
// apart.
struct Runs {
  bool rows;
  uint32_t values, count, pairs;
  explicit Runs(const npu::Window& w)
      : rows(w.dilation_width == 1),
        values(rows ? w.kernel_width * w.in_channels : w.in_channels),
        count(rows ? w.kernel_height : w.kernel_height * w.kernel_width),
        pairs((values + 1) / 2) {}
  size_t offset(const ConvolutionPlan& plan, uint32_t run) const {
    return rows ? plan.tap_offset(run, 0)
                : plan.tap_offset(run / plan.window.kernel_width, run % plan.window.kernel_width);
  }
};

// Conv2d, or a Depthwise that is_dense.
template <class Command>
void pack_dense(const npu::Target& target, const Command& command, const int8_t* weights,
                const std::byte* parameters, PackedConvolution& packed) {
  packed.usable = !npu::with_sums(command.epilogue) &&
                  make_plan(command.window, command.pad_value, 2, false, packed.plan);
  if (!packed.usable) return;
  const npu::Window& w = command.window;
  const Runs runs(w);
  const uint32_t blocks = npu::div_up(w.out_channels, kBlockChannels);
  packed.weights.assign(
      size_t{blocks} * runs.count * runs.pairs * kBlockChannels * 2 * sizeof(int16_t),
      std::byte{0});
  auto* to = reinterpret_cast<int16_t*>(packed.weights.data());
  std::vector<int8_t> row(size_t{w.kernel_width} * w.in_channels);
  std::vector<uint32_t> magnitudes(w.out_channels);
  for (uint32_t channel = 0; channel < w.out_channels; ++channel)
    for (uint32_t y = 0; y < w.kernel_height; ++y) {
      read_kernel_row(target, command, weights, channel, y, row.data());
      for (size_t i = 0; i < row.size(); ++i) {
        const size_t run = runs.rows ? y : y * w.kernel_width + i / runs.values;
        const size_t value = runs.rows ? i : i % runs.values;
        const size_t step = (channel / kBlockChannels * runs.count + run) * runs.pairs + value / 2;
        to[(step * kBlockChannels + channel % kBlockChannels) * 2 + value % 2] = row[i];
        magnitudes[channel] += static_cast<uint32_t>(std::abs(row[i]));
      }
    }
  pack_parameters(target, w, command.epilogue, parameters, magnitudes,
                  size_t{blocks} * kBlockChannels, packed);
}

struct Tile {
  const ConvolutionPlan& plan;
  const Runs& runs;
  const PackedConvolution& packed;
  const Limit& limit;
  const int16_t* band;
  uint32_t positions;
  int8_t* output;
  size_t output_stride;

  uint32_t existing(uint32_t position) const { return std::min(position, positions - 1); }
  const int16_t* window(uint32_t position) const { return band + plan.offsets[existing(position)]; }
};

// Vectors of sums as a chain of members instead of an array: the compiler keeps members in
// registers, but stores an array that a loop indexes in every step, even if it unrolls the loop.
template <uint32_t kRows>
struct Sums {
  V32 first, second;  // kTileVectors
  const int16_t* window;
  Sums<kRows - 1> rest;

  HWY_INLINE void start(const Tile& tile, size_t channel, uint32_t position) {
    window = tile.window(position);
    first = hn::LoadU(D32(), &tile.packed.bias[channel]);
    second = hn::LoadU(D32(), &tile.packed.bias[channel + kLanes]);
    rest.start(tile, channel, position + 1);
  }
  HWY_INLINE void step(size_t at, V16 weights_0, V16 weights_1) {
    int32_t two = 0;
    std::memcpy(&two, window + at, sizeof two);
    const V16 x = hn::BitCast(D16(), hn::Set(D32(), two));
    first = multiply_pairs(x, weights_0, first);
    second = multiply_pairs(x, weights_1, second);
    rest.step(at, weights_0, weights_1);
  }
  HWY_INLINE void store(int32_t* to) const {
    hn::Store(first, D32(), to);
    hn::Store(second, D32(), to + kLanes);
    rest.store(to + kBlockChannels);
  }
};
template <>
struct Sums<0> {
  HWY_INLINE void start(const Tile&, size_t, uint32_t) {}
  HWY_INLINE void step(size_t, V16, V16) {}
  HWY_INLINE void store(int32_t*) const {}
};

// Positions [first, first + kRows), those beyond the last repeat it, by one block of channels. The
// sums leave the registers before they are rescaled, which needs many itself.
template <uint32_t kRows>
HWY_INLINE void convolve_tile(const Tile& tile, uint32_t block, uint32_t first) {
  const D16 d16;
  const size_t channel = size_t{block} * kBlockChannels;
  HWY_ALIGN int32_t buffer[kRows * kBlockChannels];
  {
    const auto* weights = reinterpret_cast<const int16_t*>(tile.packed.weights.data()) +
                          channel * tile.runs.count * tile.runs.pairs * 2;
    Sums<kRows> sums;
    sums.start(tile, channel, first);
    for (uint32_t run = 0; run < tile.runs.count; ++run) {
      const size_t offset = tile.runs.offset(tile.plan, run);
      for (size_t pair = 0; pair < tile.runs.pairs; ++pair, weights += kBlockChannels * 2)
        sums.step(offset + 2 * pair, hn::Load(d16, weights), hn::Load(d16, weights + 2 * kLanes));
    }
    sums.store(buffer);
  }
  const uint32_t out_channels = tile.plan.window.out_channels;
  for (uint32_t n = 0; n < kTileVectors; ++n) {
    const size_t at = channel + n * kLanes;
    if (at >= out_channels) return;
    const auto finish = [&](auto rescaled) HWY_ATTR {
      for (uint32_t m = 0; m < kRows; ++m)
        store_int8(rescaled(hn::Load(D32(), &buffer[m * kBlockChannels + n * kLanes])),
                   out_channels - at,
                   tile.output + tile.existing(first + m) * tile.output_stride + at);
    };
    if (tile.packed.cannot_overflow) {
      const RescaleWithoutOverflow rescale = rescale_without_overflow_at(tile.packed, at);
      finish([&](V32 sum) HWY_ATTR { return tile.limit.clamp(rescale(sum)); });
    } else if (tile.packed.one_rounding) {
      const OneRounding rescale = one_rounding_at(tile.packed, at);
      finish([&](V32 sum) HWY_ATTR { return rescale(sum, tile.limit); });
    } else {
      const Rescale rescale = rescale_at(tile.packed, at);
      finish([&](V32 sum) HWY_ATTR { return tile.limit(rescale(sum)); });
    }
  }
}

// Rows [begin, end) of the output, counted through all images.
template <class Command>
void convolve_rows(const Call& call, const Command& command, const ConvolutionMemory& memory,
                   const PackedConvolution* packed, uint32_t begin, uint32_t end) {
  auto& context = *static_cast<KernelSetContext*>(call.context);
  const ConvolutionPlan& plan = packed->plan;
  const npu::Window& w = plan.window;
  const Runs runs(w);
  const Limit limit{command.epilogue.clamp_low, command.epilogue.clamp_high,
                    command.epilogue.zero_point_out};
  const BandOutput outputs(kernel_set()->kernels, call, command.window, command.epilogue, memory,
                           plan, false);
  std::byte* band = context.band_of(plan.band_bytes());
  for (uint32_t count = 0; begin < end; begin += count) {
    const uint32_t image = begin / w.out_height, row = begin % w.out_height;
    count = std::min({plan.band_rows, w.out_height - row, end - begin});
    plan.load_band(memory.input, image, row, count, widen, band);
    const size_t first = (size_t{image} * w.out_height + row) * w.out_width;
    const Tile tile{plan,
                    runs,
                    *packed,
                    limit,
                    reinterpret_cast<const int16_t*>(band),
                    count * w.out_width,
                    outputs.begin(first),
                    outputs.pixel_stride()};
    for (uint32_t block = 0; block * kBlockChannels < w.out_channels; ++block) {
      uint32_t position = 0;
      for (; position + 1 < tile.positions; position += kTileRows)
        convolve_tile<kTileRows>(tile, block, position);
      if (position < tile.positions) convolve_tile<1>(tile, block, position);
    }
    outputs.finish(first, tile.positions);
  }
}

template <class Command>
void convolve(const Call& call, const Command& command, const ConvolutionMemory& memory) {
  auto& context = *static_cast<KernelSetContext*>(call.context);
  const PackedConvolution* packed = context.packed[call.command];
  if (packed == nullptr) {
    pack_dense(call.target, command, memory.weights, memory.parameters, context.packed_now);
    packed = &context.packed_now;
  }
  if (!packed->usable) return run_plain(call, command, memory);
  const npu::Window& w = packed->plan.window;
  in_parts(call, w.batch * w.out_height, products_of(w, w.in_channels),
           [&](const Call& part, uint32_t begin, uint32_t end) {
             convolve_rows(part, command, memory, packed, begin, end);
           });
}

// ---- Depthwise: lanes are channels. Two taps make a pair: interleaving their values in blocks of
// 128 bits gives two vectors, whose channels lie in an order of their own; weights and parameters
// are packed in that order and packing the results undoes it.
//
// A row of outputs is taken as one run of values, positions and channels together, if channels
// repeat after few vectors; else each position is a run of its own.

constexpr size_t kRunLanes = 2 * kLanes;  // channels of one block

// Place in a run of the value in lane `lane` of half `half` after interleaving.
constexpr size_t interleaved(size_t half, size_t lane) {
  return lane / 4 * 8 + half * 4 + lane % 4;
}

struct RunLength {
  bool whole_rows;
  size_t blocks;  // after which weights and parameters repeat
  explicit RunLength(const npu::Window& w) {
    const size_t channels = w.out_channels;
    const size_t period = channels / std::gcd(channels, kRunLanes);
    const size_t alone = (channels + kRunLanes - 1) / kRunLanes;
    whole_rows = period <= 4 * alone;
    blocks = whole_rows ? period : alone;
  }
};

inline void pack_depthwise(const npu::Target& target, const npu::Depthwise& command,
                           const int8_t* weights, const std::byte* parameters,
                           PackedConvolution& packed) {
  if (is_dense(command)) return pack_dense(target, command, weights, parameters, packed);
  packed.usable = !npu::with_sums(command.epilogue) &&
                  make_plan(command.window, command.pad_value, 2, true, packed.plan);
  if (!packed.usable) return;
  const npu::Window& w = command.window;
  const RunLength run(w);
  const uint32_t taps = w.kernel_height * w.kernel_width, pairs = (taps + 1) / 2;
  std::vector<uint32_t> magnitudes(w.out_channels);
  for (uint32_t channel = 0; channel < w.out_channels; ++channel)
    for (uint32_t tap = 0; tap < taps; ++tap)
      magnitudes[channel] +=
          static_cast<uint32_t>(std::abs(weights[depthwise_weight_index(target, w, channel, tap)]));
  PackedConvolution plain;
  pack_parameters(target, w, command.epilogue, parameters, magnitudes, w.out_channels, plain);
  packed.cannot_overflow = plain.cannot_overflow;
  packed.one_rounding = plain.one_rounding;
  constexpr AlignedVector<int32_t> PackedConvolution::*kLists[] = {
      &PackedConvolution::bias,       &PackedConvolution::multiplier,
      &PackedConvolution::left_shift, &PackedConvolution::right_shift,
      &PackedConvolution::rounding,   &PackedConvolution::sign_mask};
  for (const auto list : kLists) (packed.*list).assign(run.blocks * kRunLanes, 0);
  packed.weights.assign(run.blocks * pairs * kRunLanes * 2 * sizeof(int16_t), std::byte{0});
  auto* to = reinterpret_cast<int16_t*>(packed.weights.data());
  for (size_t block = 0; block < run.blocks; ++block)
    for (size_t half = 0; half < 2; ++half)
      for (size_t lane = 0; lane < kLanes; ++lane) {
        size_t value = block * kRunLanes + interleaved(half, lane);
        if (run.whole_rows) value %= w.out_channels;
        if (value >= w.out_channels) continue;
        const auto channel = static_cast<uint32_t>(value);
        const size_t at = block * kRunLanes + half * kLanes + lane;
        for (const auto list : kLists) (packed.*list)[at] = (plain.*list)[channel];
        for (uint32_t tap = 0; tap < taps; ++tap)
          to[(((block * pairs + tap / 2) * 2 + half) * kLanes + lane) * 2 + tap % 2] =
              weights[depthwise_weight_index(target, w, channel, tap)];
      }
}

enum class Rounding : uint8_t { kCannotOverflow, kTwice, kOnce };

// `length` values from `input`, whose channels start at the first block.
template <Rounding kRounding>
void depthwise_run(const PackedConvolution& packed, const std::vector<uint32_t>& taps,
                   size_t blocks, const Limit& limit, const int16_t* input, size_t length,
                   int8_t* output) {
  const D32 d;
  const D16 d16;
  const hn::Rebind<int8_t, D16> d8;
  const auto* first_weights = reinterpret_cast<const int16_t*>(packed.weights.data());
  size_t block = 0;
  for (size_t at = 0; at < length; at += kRunLanes) {
    const int16_t* weights = first_weights + block * taps.size() * kRunLanes;
    const size_t parameter = block * kRunLanes;
    V32 low = hn::LoadU(d, &packed.bias[parameter]);
    V32 high = hn::LoadU(d, &packed.bias[parameter + kLanes]);
    for (size_t tap = 0; tap < taps.size(); tap += 2, weights += 2 * kRunLanes) {
      const V16 a = hn::LoadU(d16, input + taps[tap] + at);
      const V16 b = hn::LoadU(d16, input + taps[tap + 1] + at);
      low = multiply_pairs(hn::InterleaveLower(d16, a, b), hn::Load(d16, weights), low);
      high =
          multiply_pairs(hn::InterleaveUpper(d16, a, b), hn::Load(d16, weights + kRunLanes), high);
    }
    if constexpr (kRounding == Rounding::kCannotOverflow) {
      low = rescale_without_overflow_at(packed, parameter)(low);
      high = rescale_without_overflow_at(packed, parameter + kLanes)(high);
    } else if constexpr (kRounding == Rounding::kOnce) {
      low = one_rounding_at(packed, parameter)(low, limit);
      high = one_rounding_at(packed, parameter + kLanes)(high, limit);
    } else {
      low = limit(rescale_at(packed, parameter)(low));
      high = limit(rescale_at(packed, parameter + kLanes)(high));
    }
    auto bytes = hn::DemoteTo(d8, hn::ReorderDemote2To(d16, low, high));
    if constexpr (kRounding == Rounding::kCannotOverflow)
      bytes = hn::Min(hn::Max(bytes, hn::Set(d8, static_cast<int8_t>(limit.clamp_low))),
                      hn::Set(d8, static_cast<int8_t>(limit.clamp_high)));
    if (at + kRunLanes <= length) {
      hn::StoreU(bytes, d8, output + at);
    } else {
      HWY_ALIGN int8_t buffer[kRunLanes];
      hn::Store(bytes, d8, buffer);
      std::memcpy(output + at, buffer, length - at);
    }
    if (++block == blocks) block = 0;
  }
}

inline void depthwise_rows(const Call& call, const npu::Depthwise& command,
                           const ConvolutionMemory& memory, const PackedConvolution* packed,
                           uint32_t begin, uint32_t end) {
  auto& context = *static_cast<KernelSetContext*>(call.context);
  const ConvolutionPlan& plan = packed->plan;
  const npu::Window& w = plan.window;
  const RunLength run(w);
  std::vector<uint32_t> taps;  // an even number; the weights of the last one may be 0
  for (uint32_t y = 0; y < w.kernel_height; ++y)
    for (uint32_t x = 0; x < w.kernel_width; ++x)
      taps.push_back(static_cast<uint32_t>(plan.tap_offset(y, x)));
  if (taps.size() % 2 != 0) taps.push_back(taps.back());

  const Limit limit{command.epilogue.clamp_low, command.epilogue.clamp_high,
                    command.epilogue.zero_point_out};
  const size_t row_elements = size_t{w.out_width} * w.out_channels;
  const BandOutput outputs(kernel_set()->kernels, call, command.window, command.epilogue, memory,
                           plan, true);
  const auto run_values = packed->cannot_overflow ? depthwise_run<Rounding::kCannotOverflow>
                          : packed->one_rounding  ? depthwise_run<Rounding::kOnce>
                                                  : depthwise_run<Rounding::kTwice>;
  std::byte* band = context.band_of(plan.band_bytes());
  for (uint32_t count = 0; begin < end; begin += count) {
    const uint32_t image = begin / w.out_height, row = begin % w.out_height;
    count = std::min({plan.band_rows, w.out_height - row, end - begin});
    plan.load_band(memory.input, image, row, count, widen, band);
    const auto* values = reinterpret_cast<const int16_t*>(band);
    const size_t first = (size_t{image} * w.out_height + row) * w.out_width;
    int8_t* output = outputs.begin(first);
    for (uint32_t y = 0; y < count; ++y, output += row_elements) {
      const uint32_t* offsets = &plan.offsets[size_t{y} * w.out_width];
      if (run.whole_rows) {
        run_values(*packed, taps, run.blocks, limit, values + offsets[0], row_elements, output);
        continue;
      }
      for (uint32_t x = 0; x < w.out_width; ++x)
        run_values(*packed, taps, run.blocks, limit, values + offsets[x], w.out_channels,
                   output + size_t{x} * w.out_channels);
    }
    outputs.finish(first, size_t{count} * w.out_width);
  }
}

inline void depthwise(const Call& call, const npu::Depthwise& command,
                      const ConvolutionMemory& memory) {
  if (is_dense(command)) return convolve(call, command, memory);
  auto& context = *static_cast<KernelSetContext*>(call.context);
  const PackedConvolution* packed = context.packed[call.command];
  if (packed == nullptr) {
    pack_depthwise(call.target, command, memory.weights, memory.parameters, context.packed_now);
    packed = &context.packed_now;
  }
  if (!packed->usable) return run_plain(call, command, memory);
  const npu::Window& w = packed->plan.window;
  in_parts(call, w.batch * w.out_height, products_of(w, kDepthwiseCost),
           [&](const Call& part, uint32_t begin, uint32_t end) {
             depthwise_rows(part, command, memory, packed, begin, end);
           });
}

#endif  // fixed-size vectors

}  // namespace HWY_NAMESPACE
}  // namespace dtr::simulator
HWY_AFTER_NAMESPACE();

#endif
