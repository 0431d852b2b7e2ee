// Plans how the fast kernels traverse a convolution: in bands of output rows. The input of a band
// is copied to a padded buffer, so that inner loops need no border tests, and converted to the type
// of the multiplier (unsigned bytes, 16 bits).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "device/npu/microcode.h"

namespace dtr::simulator {

constexpr size_t kCacheLine = 64;
constexpr size_t kSlack = 256;  // bytes after a buffer, which vector loads may read

// An allocator for vectors that start at a cache line.
template <class T>
struct CacheAligned {
  using value_type = T;
  CacheAligned() = default;
  template <class U>
  explicit CacheAligned(const CacheAligned<U>&) {}
  T* allocate(size_t count) {
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{kCacheLine}));
  }
  void deallocate(T* data, size_t) { ::operator delete (data, std::align_val_t{kCacheLine}); }
  bool operator==(const CacheAligned&) const { return true; }
};
template <class T>
using AlignedVector = std::vector<T, CacheAligned<T>>;

// Copies `count` int8 values to the band's element type.
using Convert = void (*)(const int8_t* from, void* to, size_t count);

struct ConvolutionPlan {
  npu::Window
      window{};  // a pointwise convolution of evenly spaced pixels is flattened to one column
  uint32_t element_bytes = 1;  // of the band's values
  // copies of each input channel in the band (depthwise with a channel multiplier)
  uint32_t repeat = 1;
  uint32_t phases = 1;          // groups columns x by x % phases, so that the stride becomes 1
  uint32_t phase_columns = 0;   // columns of one phase
  uint32_t band_rows = 0;       // output rows at a time
  std::vector<int8_t> pad_row;  // one input row of padding
  std::vector<uint32_t>
      offsets;  // of each output position of a full band, in elements from the start of the band

  uint32_t channels() const { return window.in_channels * repeat; }
  size_t row_elements() const { return size_t{phases} * phase_columns * channels(); }
  size_t input_rows(uint32_t output_rows) const {
    return size_t{output_rows - 1} * window.stride_height +
           size_t{window.kernel_height - 1} * window.dilation_height + 1;
  }
  size_t band_bytes() const {
    return input_rows(band_rows) * row_elements() * element_bytes + kSlack;
  }
  // Elements from a position's offset to a tap of its window.
  size_t tap_offset(uint32_t kernel_y, uint32_t kernel_x) const {
    const size_t column = size_t{kernel_x} * window.dilation_width;
    return size_t{kernel_y} * window.dilation_height * row_elements() +
           ((column % phases) * phase_columns + column / phases) * channels();
  }
  // Fills `band` for `rows` output rows from `first_row` of one image.
  void load_band(const int8_t* input, uint32_t image, uint32_t first_row, uint32_t rows,
                 Convert convert, std::byte* band) const;
};

// Returns false if the padded input would be too large: then only the plain loops bound their
// memory.
bool make_plan(const npu::Window& window, int32_t pad_value, uint32_t element_bytes, bool depthwise,
               ConvolutionPlan& plan);

}  // namespace dtr::simulator
