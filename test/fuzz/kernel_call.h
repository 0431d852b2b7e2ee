// One call of a kernel as bytes: blocks of memory with their contents, and arguments that lie in
// them. The same bytes run on a host, where every block is a heap block of its own, and on a
// device, where patterns stand between the blocks. Freestanding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/runtime/kernel.h"

namespace dtr::fuzz {

// Layout, little-endian and packed: u8 length and name of the kernel; u8 number of blocks, of each:
// u8 bytes that it begins behind a 16-byte boundary, u32 size, the contents; u8 number of
// arguments, of each: u8 runtime::ValueKind and
//   kInt, kDouble                    8 bytes
//   kBool                            u8
//   kTensor                          u8 dtype, u8 rank, i32 extents, u8 dimension order, u8
//   writable, u8 block, u32 offset in it kString, kInts, kDoubles         u16 count, the items
//   kTensors                         u16 count, of each: u8 kTensor or kNone, and the tensor
inline constexpr size_t kMostBlocks = 24, kMostTensors = 48, kMostArguments = 24,
                        kMostNumbers = 512, kMostDims = kMostTensors * kMaxRank;
static_assert(static_cast<int>(runtime::ValueKind::kTensors) == 9);

class KernelCall {
 public:
  // Memory for a block of a size that begins `misalignment` bytes behind a 16-byte boundary; null
  // if there is none left.
  using Place = std::byte* (*)(void* context, size_t bytes, size_t misalignment);

  // False if the bytes are no call or there is no memory for it.
  bool read(std::span<const std::byte> bytes, Place place, void* context);

  std::string_view name() const { return name_; }
  std::span<runtime::Value* const> arguments() const { return {arguments_, argument_count_}; }

  // What the kernel made: the error and, if it is none, the contents of the results, as a number.
  // Every NaN counts as the same one. Results are the arguments that may be written; but for aten's
  // operators the last one alone, as scratch is written, too.
  uint32_t result(runtime::Error error) const;
  // Of calls in a file for a device: `result` is that of the error alone, as memory is shared or
  // the C library's functions take part; the device may refuse the arguments although the host
  // takes them.
  static constexpr uint32_t kErrorAlone = 1, kMayRefuse = 2;
  // The error alone.
  static uint32_t result_of_error(runtime::Error error);

 private:
  class Reader;
  bool read_value(Reader& reader, runtime::Value* value);
  bool read_tensor(Reader& reader, runtime::Tensor* tensor);

  struct Block {
    std::byte* data;
    uint32_t bytes;
  };

  std::string_view name_;
  Block blocks_[kMostBlocks];
  size_t block_count_ = 0;
  runtime::Value values_[kMostTensors + kMostArguments];
  runtime::Value* arguments_[kMostArguments];
  runtime::Value* listed_[kMostTensors];
  int64_t integers_[kMostNumbers];
  double numbers_[kMostNumbers];
  int32_t extents_[kMostDims];
  uint8_t orders_[kMostDims];
  size_t value_count_ = 0, argument_count_ = 0, listed_count_ = 0, integer_count_ = 0,
         number_count_ = 0, dim_count_ = 0;
};

}  // namespace dtr::fuzz
