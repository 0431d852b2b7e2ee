// Matrix products for each of Highway's targets. Compiled once a target.
//
// Both operands become 16-bit differences to their zero points: of the left one rows, of the right
// one pairs of neighbours along the inner dimension, column by column, so that a pair of the left
// one, repeated in all lanes, multiplies a vector of columns.
#if defined(DTR_SIMULATOR_HOST_MATMUL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DTR_SIMULATOR_HOST_MATMUL_INL_H
#undef DTR_SIMULATOR_HOST_MATMUL_INL_H
#else
#define DTR_SIMULATOR_HOST_MATMUL_INL_H
#endif

#include <algorithm>
#include <array>
#include <cstring>

#include <hwy/highway.h>
#include "device/simulator/functional.h"
#include "host/simulator/kernel_set.h"
#include "host/simulator/rescale-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dtr::simulator {
namespace HWY_NAMESPACE {

#if !HWY_HAVE_SCALABLE && HWY_TARGET != HWY_SCALAR

class MatmulLoops {
 public:
  MatmulLoops(const Call& call, const npu::Matmul& command, const MatmulMemory& memory)
      : command_(command),
        memory_(memory),
        context_(*static_cast<KernelSetContext*>(call.context)),
        pairs_((command.inner + 1) / 2),
        padded_columns_((command.columns + kLanes - 1) / kLanes * kLanes),
        rescale_{hn::Set(D32(), command.rescale.multiplier),
                 hn::Set(D32(), std::max(command.rescale.shift, 0)),
                 hn::Set(D32(), std::max(-command.rescale.shift, 0))},
        limit_{command.clamp_low, command.clamp_high, command.zero_point_out} {
    const size_t right_bytes = size_t{pairs_} * padded_columns_ * 2 * sizeof(int16_t);
    const size_t left_bytes = size_t{command.rows} * pairs_ * 2 * sizeof(int16_t);
    std::byte* memory_of_both = context_.band_of(right_bytes + left_bytes);
    right_ = reinterpret_cast<int16_t*>(memory_of_both);
    left_ = reinterpret_cast<int16_t*>(memory_of_both + right_bytes);
  }

  HWY_INLINE void run() {
    std::array<uint32_t, npu::kMatmulBatchRank> index{};
    const int8_t* packed_right = nullptr;
    for (;;) {
      size_t left = 0, right = 0, output = 0;
      for (uint32_t d = 0; d < npu::kMatmulBatchRank; ++d) {
        left += size_t{index[d]} * command_.left_batch_stride[d];
        right += size_t{index[d]} * command_.right_batch_stride[d];
        output += size_t{index[d]} * command_.output_batch_stride[d];
      }
      if (packed_right != memory_.right + right) pack_right(packed_right = memory_.right + right);
      pack_left(memory_.left + left);
      multiply(memory_.output + output);
      uint32_t d = npu::kMatmulBatchRank;
      while (d > 0 && ++index[d - 1] == command_.batch[d - 1]) index[--d] = 0;
      if (d == 0) return;
    }
  }

 private:
  static constexpr uint32_t kLanes = hn::MaxLanes(D32());
  static constexpr uint32_t kRows = 4;

  void pack_right(const int8_t* from) {
    std::memset(right_, 0, size_t{pairs_} * padded_columns_ * 2 * sizeof(int16_t));
    for (uint32_t k = 0; k < command_.inner; ++k) {
      const int8_t* row = from + size_t{k} * command_.right_inner_stride;
      int16_t* to = right_ + size_t{k / 2} * padded_columns_ * 2 + k % 2;
      for (uint32_t column = 0; column < command_.columns; ++column)
        to[size_t{column} * 2] = static_cast<int16_t>(
            row[size_t{column} * command_.right_column_stride] - command_.zero_point_right);
    }
  }
  void pack_left(const int8_t* from) {
    for (uint32_t row = 0; row < command_.rows; ++row) {
      const int8_t* values = from + size_t{row} * command_.left_row_stride;
      int16_t* to = left_ + size_t{row} * pairs_ * 2;
      for (uint32_t k = 0; k < command_.inner; ++k)
        to[k] = static_cast<int16_t>(values[size_t{k} * command_.left_inner_stride] -
                                     command_.zero_point_left);
      if (command_.inner % 2 != 0) to[command_.inner] = 0;
    }
  }

  HWY_INLINE void multiply(int8_t* output) {
    const D32 d;
    const D16 d16;
    for (uint32_t column = 0; column < command_.columns; column += kLanes)
      for (uint32_t row = 0; row < command_.rows; row += kRows) {
        const uint32_t rows = std::min(kRows, command_.rows - row);
        std::array<const int16_t*, kRows> values{};  // rows that do not exist repeat the last one
        for (uint32_t r = 0; r < kRows; ++r)
          values[r] = left_ + size_t{row + std::min(r, rows - 1)} * pairs_ * 2;
        V32 sum_0 = hn::Zero(d), sum_1 = sum_0, sum_2 = sum_0, sum_3 = sum_0;
        const int16_t* right = right_ + size_t{column} * 2;
        for (uint32_t k = 0; k < pairs_; ++k, right += size_t{padded_columns_} * 2) {
          const V16 columns = hn::Load(d16, right);
          const auto pair = [&](uint32_t r) HWY_ATTR {
            int32_t both = 0;
            std::memcpy(&both, values[r] + size_t{k} * 2, sizeof both);
            return hn::BitCast(d16, hn::Set(d, both));
          };
          sum_0 = multiply_pairs(pair(0), columns, sum_0);
          sum_1 = multiply_pairs(pair(1), columns, sum_1);
          sum_2 = multiply_pairs(pair(2), columns, sum_2);
          sum_3 = multiply_pairs(pair(3), columns, sum_3);
        }
        const uint32_t columns = std::min(kLanes, command_.columns - column);
        const V32 sums[kRows] = {sum_0, sum_1, sum_2, sum_3};
        for (uint32_t r = 0; r < rows; ++r)
          store(sums[r], columns,
                output + size_t{row + r} * command_.output_row_stride +
                    size_t{column} * command_.output_column_stride);
      }
  }

  HWY_INLINE void store(V32 sums, uint32_t columns, int8_t* output) const {
    std::array<int8_t, kLanes> values{};
    store_int8(limit_(rescale_(sums)), kLanes, values.data());
    for (uint32_t i = 0; i < columns; ++i) {
      const int8_t value = memory_.table != nullptr ? memory_.table[values[i] + 128] : values[i];
      output[size_t{i} * command_.output_column_stride] = value;
    }
  }

  const npu::Matmul& command_;
  const MatmulMemory& memory_;
  KernelSetContext& context_;
  uint32_t pairs_, padded_columns_;
  Rescale rescale_;
  Limit limit_;
  int16_t* right_ = nullptr;
  int16_t* left_ = nullptr;
};

inline void matmul(const Call& call, const npu::Matmul& command, const MatmulMemory& memory) {
  constexpr uint32_t kFewestRows = 16;  // of a part, which packs the right operand itself
  uint64_t products = uint64_t{command.rows} * command.inner * command.columns;
  for (const uint32_t extent : command.batch) products *= extent;
  in_parts(call, command.rows / kFewestRows, products,
           [&](const Call& part, uint32_t begin, uint32_t end) HWY_ATTR {
             const bool last = end == command.rows / kFewestRows;
             npu::Matmul rows = command;
             rows.rows = (last ? command.rows : end * kFewestRows) - begin * kFewestRows;
             MatmulMemory at = memory;
             at.left += size_t{begin} * kFewestRows * command.left_row_stride;
             at.output += size_t{begin} * kFewestRows * command.output_row_stride;
             MatmulLoops(part, rows, at).run();
           });
}

#endif  // fixed-size vectors

}  // namespace HWY_NAMESPACE
}  // namespace dtr::simulator
HWY_AFTER_NAMESPACE();

#endif
