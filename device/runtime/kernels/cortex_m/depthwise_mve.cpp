// Depthwise convolution with MVE: sixteen channels at once. Products of int8 fit int16, and so does
// the sum of two, except for −128 · −128 twice: taps are added by twos, even channels and odd ones,
// then widened to int32. The input's offset is folded into the biases, so padding is the zero
// point: windows at the border are copied, as are those with a multiplier, whose channels are
// repeated.
#include "device/runtime/kernels/cortex_m/depthwise.h"

#if defined(__ARM_FEATURE_MVE)
namespace dtr::runtime::cortex_m {
namespace {

constexpr int32_t kLanes = dtr::cortex_m::kDepthwiseLanes;

// Parameters of a channel for each lane of the four sums; channels 0, 4, 8, 12 are the first, then
// 2, 6, 10, 14, then 1, 5, 9, 13.
struct LaneParameters {
  int32_t biases[kLanes], multipliers[kLanes], raises[kLanes], shifts[kLanes];
};
// Stores those of four neighbouring channels; the first one is channel 4 · index.
void store_lanes(int32_t* lanes, int32_t index, Lanes values) {
  static constexpr uint32_t kOfChannel[] = {0, 8, 4, 12};
  vstrwq_scatter_shifted_offset_s32(lanes + index, vld1q_u32(kOfChannel), values);
}

class SixteenChannels {
 public:
  SixteenChannels(const Depthwise& conv, int32_t channel)
      : conv_(conv),
        channel_(channel),
        count_(std::min(kLanes, conv.from.out.channels - channel)),
        lanes_(reinterpret_cast<LaneParameters*>(conv.from.scratch.data)),
        in_offsets_(reinterpret_cast<int32_t*>(lanes_ + 1)),
        window_offsets_(in_offsets_ + 2 * conv.taps()),
        weights_(reinterpret_cast<int8_t*>(window_offsets_ + 2 * conv.taps())),
        window_(weights_ + 2 * kLanes * conv.taps()) {
    pack_parameters();
    pack_weights();
  }

  void inside(const int8_t* x, int8_t* y) const {
    if (conv_.multiplier == 1) {
      compute(x, in_offsets_, y);
    } else {
      copy_window(x, {0, conv_.from.h.kernel}, {0, conv_.from.w.kernel});
      compute(window_, window_offsets_, y);
    }
  }
  void at_border(const int8_t* x, int32_t oy, int32_t ox, int8_t* y) const {
    copy_window(x, {conv_.from.h.begin(oy), conv_.from.h.end(oy)},
                {conv_.from.w.begin(ox), conv_.from.w.end(ox)});
    compute(window_, window_offsets_, y);
  }

 private:
  struct Taps {
    int32_t begin, end;
  };

  const int8_t* weights_of(int32_t tap) const {
    return conv_.from.weights + tap * conv_.from.out.channels + channel_;
  }

  void pack_parameters() const {
    const Channels& from = conv_.from.channels;
    for (int32_t i = 0; i < 4; ++i) {
      const int32_t channel = channel_ + 4 * i;
      const mve_pred16_t mask =
          vctp32q(static_cast<uint32_t>(std::max(count_ - 4 * i, int32_t{0})));
      Lanes weights = vdupq_n_s32(0);
      for (int32_t tap = 0; tap < conv_.taps(); ++tap)
        weights = vaddq_s32(weights, vldrbq_z_s32(weights_of(tap) + 4 * i, mask));
      const Lanes biases =
          from.biases == nullptr ? vdupq_n_s32(0) : vldrwq_z_s32(from.biases + channel, mask);
      const Lanes shifts = vldrwq_z_s32(from.shifts + channel, mask);
      store_lanes(lanes_->biases, i, vmlaq_n_s32(biases, weights, conv_.from.offset));
      store_lanes(lanes_->multipliers, i, vldrwq_z_s32(from.multipliers + channel, mask));
      store_lanes(lanes_->raises, i, vmaxq_s32(shifts, vdupq_n_s32(0)));
      store_lanes(lanes_->shifts, i, vminq_s32(shifts, vdupq_n_s32(0)));
    }
  }

  // A tap goes with the next one unless a channel has −128 in both, or with zeros.
  void pack_weights() {
    const mve_pred16_t mask = vctp8q(static_cast<uint32_t>(count_));
    const int32_t taps = conv_.taps(), kernel = conv_.from.w.kernel;
    for (int32_t tap = 0; tap < taps; ++pairs_) {
      const int8x16_t first = vldrbq_z_s8(weights_of(tap), mask);
      int8x16_t second = vdupq_n_s8(0);
      int32_t partner = tap;
      if (tap + 1 < taps) {
        const int8x16_t next = vldrbq_z_s8(weights_of(tap + 1), mask);
        if (vminvq_s8(127, vmaxq_s8(first, next)) > -128) second = next, partner = tap + 1;
      }
      vstrbq_s8(weights_ + 2 * kLanes * pairs_, first);
      vstrbq_s8(weights_ + 2 * kLanes * pairs_ + kLanes, second);
      for (const int32_t i : {0, 1}) {
        const int32_t at = i == 0 ? tap : partner;
        in_offsets_[2 * pairs_ + i] = conv_.input_of(at / kernel, at % kernel, channel_);
        window_offsets_[2 * pairs_ + i] = kLanes * at;
      }
      tap = partner + 1;
    }
  }

  // Inputs of the taps in both ranges, and padding for the others.
  void copy_window(const int8_t* x, Taps rows, Taps columns) const {
    const auto padding = static_cast<int8_t>(-conv_.from.offset);
    const int32_t height = conv_.from.h.kernel, width = conv_.from.w.kernel,
                  pixel = conv_.from.in.channels;
    const int32_t step = conv_.from.w.dilation * pixel,
                  line = conv_.from.h.dilation * conv_.from.in.width * pixel;
    const int32_t left = columns.begin, taps = std::max(columns.end - left, int32_t{0});
    const int8_t* from = x + channel_ / conv_.multiplier + left * step + rows.begin * line;
    int8_t* to = window_;
    for (int32_t ky = 0; ky < height; ++ky, to += width * kLanes) {
      if (ky < rows.begin || ky >= rows.end) {
        MveLoops::fill(padding, width * kLanes, to);
        continue;
      }
      MveLoops::fill(padding, left * kLanes, to);
      copy_taps(from, step, taps, to + left * kLanes);
      MveLoops::fill(padding, (width - left - taps) * kLanes, to + (left + taps) * kLanes);
      from += line;
    }
  }

  void copy_taps(const int8_t* from, int32_t step, int32_t taps, int8_t* to) const {
    if (conv_.multiplier != 1) {
      for (; taps > 0; --taps, from += step, to += kLanes) {
        for (int32_t c = 0; c < count_; ++c)
          to[c] = from[(channel_ % conv_.multiplier + c) / conv_.multiplier];
      }
      return;
    }
    asm volatile(
        "   vctp.8 %[count]\n"
        "   wls lr, %[taps], 2f\n"
        "1: vpst\n"
        "   vldrbt.8 q0, [%[from]]\n"
        "   add %[from], %[step]\n"
        "   vstrb.8 q0, [%[to]], #16\n"
        "   le lr, 1b\n"
        "2:\n"
        : [from] "+r"(from), [to] "+r"(to)
        : [step] "r"(step), [taps] "r"(taps), [count] "r"(count_)
        : "q0", "lr", "memory");
  }

  void compute(const int8_t* x, const int32_t* offsets, int8_t* y) const {
    Lanes sums[4];
    unrolled<4>([&](auto i) { sums[i] = vld1q_s32(lanes_->biases + 4 * i); });
    const int8_t* weights = weights_;
    int32_t first, second;
    asm volatile(
        "   vctp.8 %[count]\n"
        "   dls lr, %[pairs]\n"
        "1: ldrd %[first], %[second], [%[offsets]], #8\n"
        "   add %[first], %[x]\n"
        "   add %[second], %[x]\n"
        "   vpst\n"
        "   vldrbt.8 q4, [%[first]]\n"
        "   vldrb.8 q5, [%[weights]], #16\n"
        "   vmullb.s8 q6, q4, q5\n"
        "   vmullt.s8 q7, q4, q5\n"
        "   vpst\n"
        "   vldrbt.8 q4, [%[second]]\n"
        "   vldrb.8 q5, [%[weights]]\n"
        "   vmullb.s8 q5, q4, q5\n"
        "   vadd.i16 q6, q6, q5\n"
        "   vldrb.8 q5, [%[weights]], #16\n"
        "   vmullt.s8 q4, q4, q5\n"
        "   vadd.i16 q7, q7, q4\n"
        "   vmovlb.s16 q4, q6\n"
        "   vmovlt.s16 q6, q6\n"
        "   vadd.i32 %q[sums0], %q[sums0], q4\n"
        "   vadd.i32 %q[sums1], %q[sums1], q6\n"
        "   vmovlb.s16 q5, q7\n"
        "   vmovlt.s16 q7, q7\n"
        "   vadd.i32 %q[sums2], %q[sums2], q5\n"
        "   vadd.i32 %q[sums3], %q[sums3], q7\n"
        "   le lr, 1b\n"
        : [sums0] "+w"(sums[0]), [sums1] "+w"(sums[1]), [sums2] "+w"(sums[2]),
          [sums3] "+w"(sums[3]), [first] "=&r"(first), [second] "=&r"(second),
          [offsets] "+r"(offsets), [weights] "+r"(weights)
        : [x] "r"(x), [count] "r"(count_), [pairs] "r"(pairs_)
        : "q4", "q5", "q6", "q7", "lr", "memory");
    finish(sums, y);
  }

  [[gnu::always_inline]] void finish(Lanes (&sums)[4], int8_t* y) const {
    if (conv_.from.channels.raises)
      unrolled<4>([&](auto i) { sums[i] = vshlq_s32(sums[i], vld1q_s32(lanes_->raises + 4 * i)); });
    unrolled<4>([&](auto i) {
      sums[i] = rescale_down(sums[i], vld1q_s32(lanes_->multipliers + 4 * i),
                             vld1q_s32(lanes_->shifts + 4 * i));
    });
    const Finish& by = conv_.from.channels.finish;
    const int16x8_t even = vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), sums[0]), sums[1]);
    const int16x8_t odd = vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), sums[2]), sums[3]);
    const auto zero_point = static_cast<int16_t>(by.zero_point);
    const int8x16_t low = vqmovnbq_s16(vdupq_n_s8(0), vqaddq_n_s16(even, zero_point));
    const int8x16_t both = vqmovntq_s16(low, vqaddq_n_s16(odd, zero_point));
    const int8x16_t limited = vminq_s8(vmaxq_s8(both, vdupq_n_s8(static_cast<int8_t>(by.low))),
                                       vdupq_n_s8(static_cast<int8_t>(by.high)));
    vstrbq_p_s8(y, limited, vctp8q(static_cast<uint32_t>(count_)));
  }

  const Depthwise& conv_;
  int32_t channel_, count_;
  LaneParameters* lanes_;
  int32_t* in_offsets_;      // two for every pair of taps
  int32_t* window_offsets_;  // the same in the copied window
  int8_t* weights_;
  int8_t* window_;
  int32_t pairs_ = 0;
};

}  // namespace

void convolve(const Depthwise& conv, const int8_t* x, int8_t* y) {
  for (int32_t channel = 0; channel < conv.from.out.channels; channel += kLanes) {
    for_each_pixel(conv, x, y + channel, SixteenChannels(conv, channel));
  }
}

}  // namespace dtr::runtime::cortex_m
#endif
