// Elementwise functions of two tensors for each of Highway's targets. Compiled once a target.
#if defined(DTR_SIMULATOR_HOST_BINARY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DTR_SIMULATOR_HOST_BINARY_INL_H
#undef DTR_SIMULATOR_HOST_BINARY_INL_H
#else
#define DTR_SIMULATOR_HOST_BINARY_INL_H
#endif

#include <cstring>

#include <hwy/highway.h>
#include "device/simulator/functional.h"
#include "device/simulator/loops.h"
#include "host/simulator/rescale-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dtr::simulator {
namespace HWY_NAMESPACE {

#if !HWY_HAVE_SCALABLE && HWY_TARGET != HWY_SCALAR

HWY_INLINE Rescale same_rescale(const npu::Rescale& rescale) {
  const D32 d;
  return {hn::Set(d, rescale.multiplier), hn::Set(d, rescale.shift > 0 ? rescale.shift : 0),
          hn::Set(d, rescale.shift > 0 ? 0 : -rescale.shift)};
}

// numerics::BinaryParameters of one kind, a vector at a time; values are q − zero_point,
// left-shifted by the caller where sums want that.
template <npu::BinaryKind kKind>
struct BinaryLanes {
  Rescale rescale_0, rescale_1, rescale;
  Limit limit;
  V32 zero_0, zero_1;

  explicit BinaryLanes(const npu::BinaryArguments& a)
      : rescale_0(same_rescale(a.input_0)),
        rescale_1(same_rescale(a.input_1)),
        rescale(same_rescale(a.output)),
        limit{a.clamp_low, a.clamp_high, a.zero_point_out},
        zero_0(hn::Set(D32(), a.zero_point_0)),
        zero_1(hn::Set(D32(), a.zero_point_1)) {}

  // Called once for an operand that does not change in the innermost loop.
  HWY_INLINE V32 prepare_0(V32 q) const {
    const V32 x = hn::Sub(q, zero_0);
    if constexpr (kKind <= npu::BinaryKind::kSubtract) return rescale_0(hn::ShiftLeft<20>(x));
    if constexpr (kKind == npu::BinaryKind::kMaximum || kKind == npu::BinaryKind::kMinimum)
      return rescale_0(x);
    return x;
  }
  HWY_INLINE V32 prepare_1(V32 q) const {
    const V32 y = hn::Sub(q, zero_1);
    if constexpr (kKind <= npu::BinaryKind::kSubtract) return rescale_1(hn::ShiftLeft<20>(y));
    if constexpr (kKind == npu::BinaryKind::kMaximum || kKind == npu::BinaryKind::kMinimum)
      return rescale_1(y);
    return y;
  }
  HWY_INLINE V32 operator()(V32 x, V32 y) const {
    if constexpr (kKind == npu::BinaryKind::kAdd) return limit(rescale(hn::Add(x, y)));
    if constexpr (kKind == npu::BinaryKind::kSubtract) return limit(rescale(hn::Sub(x, y)));
    if constexpr (kKind == npu::BinaryKind::kMultiply) return limit(rescale(hn::Mul(x, y)));
    if constexpr (kKind == npu::BinaryKind::kMaximum) return limit(hn::Max(x, y));
    if constexpr (kKind == npu::BinaryKind::kMinimum) return limit(hn::Min(x, y));
    return limit(hn::IfThenElse(hn::Lt(x, hn::Zero(D32())), rescale(hn::Mul(x, y)), rescale_0(x)));
  }
};

template <npu::BinaryKind kKind>
void binary_of(const npu::Binary& command, const int8_t* input_0, const int8_t* input_1,
               int8_t* output) {
  const D32 d;
  const hn::Rebind<int8_t, D32> d8;
  constexpr size_t kStep = hn::MaxLanes(D32());
  constexpr uint32_t kInner = npu::kMoveRank - 1;
  const BinaryLanes<kKind> lanes(command.arguments);
  const size_t count = command.extent[kInner];
  const bool moves_0 = command.stride_0[kInner] != 0, moves_1 = command.stride_1[kInner] != 0;
  const auto load = [&](const int8_t* from)
                        HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(d8, from)); };
  const auto load_rest = [&](const int8_t* from, size_t rest) HWY_ATTR {
    int8_t bytes[kStep] = {};
    std::memcpy(bytes, from, rest);
    return load(bytes);
  };
  uint32_t index[npu::kMoveRank] = {};
  Stream stream_0{command.stride_0}, stream_1{command.stride_1}, stream{command.output_stride};
  do {
    int8_t* to = output + stream.at;
    const int8_t* from_0 = input_0 + stream_0.at;
    const int8_t* from_1 = input_1 + stream_1.at;
    V32 x = lanes.prepare_0(hn::Set(d, *from_0)), y = lanes.prepare_1(hn::Set(d, *from_1));
    size_t i = 0;
    for (; i + kStep <= count; i += kStep) {
      if (moves_0) x = lanes.prepare_0(load(from_0 + i));
      if (moves_1) y = lanes.prepare_1(load(from_1 + i));
      store_int8(lanes(x, y), kStep, to + i);
    }
    if (i < count) {
      if (moves_0) x = lanes.prepare_0(load_rest(from_0 + i, count - i));
      if (moves_1) y = lanes.prepare_1(load_rest(from_1 + i, count - i));
      store_int8(lanes(x, y), count - i, to + i);
    }
  } while (advance(command.extent, kInner, index, stream_0, stream_1, stream));
}

inline void binary(const Call& call, const npu::Binary& command, const int8_t* input_0,
                   const int8_t* input_1, int8_t* output) {
  constexpr uint32_t kInner = npu::kMoveRank - 1;
  const auto in_step = [](int32_t stride) { return stride == 0 || stride == 1; };
  const bool dense = command.output_stride[kInner] == 1 || command.extent[kInner] == 1;
  if (!in_step(command.stride_0[kInner]) || !in_step(command.stride_1[kInner]) || !dense)
    return kPlainKernels.binary(call, command, input_0, input_1, output);
  switch (command.kind) {
    case npu::BinaryKind::kAdd:
      return binary_of<npu::BinaryKind::kAdd>(command, input_0, input_1, output);
    case npu::BinaryKind::kSubtract:
      return binary_of<npu::BinaryKind::kSubtract>(command, input_0, input_1, output);
    case npu::BinaryKind::kMultiply:
      return binary_of<npu::BinaryKind::kMultiply>(command, input_0, input_1, output);
    case npu::BinaryKind::kMaximum:
      return binary_of<npu::BinaryKind::kMaximum>(command, input_0, input_1, output);
    case npu::BinaryKind::kMinimum:
      return binary_of<npu::BinaryKind::kMinimum>(command, input_0, input_1, output);
    case npu::BinaryKind::kPrelu:
      return binary_of<npu::BinaryKind::kPrelu>(command, input_0, input_1, output);
  }
}

#endif  // fixed-size vectors

}  // namespace HWY_NAMESPACE
}  // namespace dtr::simulator
HWY_AFTER_NAMESPACE();

#endif
