// Sums of two int8 tensors with AVX-512 VBMI: each operand has 256 values, so that its rescaled
// value is looked up, a byte of it at a time, 64 elements at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/npu/microcode.h"

namespace dtr::simulator {

bool vbmi_supported();

// The rescaled values of both operands and how their sum is requantized.
class VbmiAdd {
 public:
  // False if the command's output is not requantized in one of the shorter ways
  // (host/simulator/convolution.h). Only for sums and differences, and if vbmi_supported().
  bool prepare(npu::BinaryKind kind, const npu::BinaryArguments& arguments);
  // `count` neighbours; the output may be an operand.
  void run(const int8_t* a, const int8_t* b, size_t count, int8_t* output) const;

 private:
  static constexpr uint32_t kBytes = 4;  // of a rescaled value
  struct alignas(64) Table {
    uint8_t bytes[kBytes][256];  // by value as an unsigned byte
    int64_t largest;             // magnitude
  };
  void fill(Table& table, int32_t zero_point, npu::Rescale by, bool negate) const;

  Table tables_[2];
  bool floor_;
  int32_t multiplier_, right_;
  int64_t floor_added_;
  int32_t added_, negative_;
  int8_t clamp_low_, clamp_high_;
};

}  // namespace dtr::simulator
