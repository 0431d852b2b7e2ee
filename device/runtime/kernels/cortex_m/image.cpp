#include "device/runtime/kernels/cortex_m/image.h"

namespace dtr::runtime::cortex_m {
namespace {

constexpr int32_t kMax = 1 << 15;

// Whether the dimensions are in memory in the order of `wanted`, dimensions of extent 1 not
// counted.
bool has_dim_order(const Tensor& tensor, std::span<const uint8_t> wanted) {
  size_t at = 0;
  for (const uint8_t dim : tensor.order()) {
    if (tensor.sizes[dim] == 1) continue;
    while (at < wanted.size() && tensor.sizes[wanted[at]] == 1) ++at;
    if (at == wanted.size() || wanted[at] != dim) return false;
    ++at;
  }
  return true;
}

bool is_list(const Tensor& tensor, int32_t count) {
  return tensor.dtype == ScalarType::kInt && tensor.rank == 1 && tensor.sizes[0] == count;
}

}  // namespace

bool read_image(const Tensor& tensor, Image* image) {
  constexpr uint8_t kOrder4[] = {0, 2, 3, 1}, kOrder3[] = {0, 2, 1};
  if (tensor.rank == 4 && has_dim_order(tensor, kOrder4)) {
    *image = {tensor.sizes[0], tensor.sizes[2], tensor.sizes[3], tensor.sizes[1]};
    return true;
  }
  if (tensor.rank == 3 && has_dim_order(tensor, kOrder3)) {
    *image = {tensor.sizes[0], 1, tensor.sizes[2], tensor.sizes[1]};
    return true;
  }
  return false;
}

bool read_pool_image(const Tensor& tensor, Image* image) {
  constexpr uint8_t kOrder[] = {0, 1, 2};
  if (tensor.rank != 3) return read_image(tensor, image);
  if (!has_dim_order(tensor, kOrder)) return false;
  *image = {tensor.sizes[0], tensor.sizes[1], tensor.sizes[2], 1};
  return true;
}

bool is_contiguous(const Tensor& tensor) {
  int last = -1;
  for (const uint8_t dim : tensor.order()) {
    if (tensor.sizes[dim] == 1) continue;
    if (dim < last) return false;
    last = dim;
  }
  return true;
}

bool Axis::good() const {
  if (kernel < 1 || stride < 1 || stride > kMax || padding < 0 || padding > kMax || dilation < 1 ||
      dilation > kMax)
    return false;
  return reach() < (1 << 30);
}

bool good_axes(const Image& in, const Axis& h, const Axis& w) {
  if (!h.good() || !w.good()) return false;
  const int64_t pixels = h.reach() * in.width + w.reach();  // below 2^62
  return pixels <= INT32_MAX && pixels * in.channels <= INT32_MAX;
}

int32_t entry(std::span<const int64_t> list, size_t index) {
  if (list.empty()) return -1;
  const int64_t value = list[std::min(index, list.size() - 1)];
  return value >= 0 && value <= kMax ? static_cast<int32_t>(value) : -1;
}

bool read_channels(const Tensor& multipliers, const Tensor& shifts, const Tensor* bias,
                   int32_t count, Channels* channels) {
  if (!is_list(multipliers, count) || !is_list(shifts, count) ||
      (bias != nullptr && !is_list(*bias, count)))
    return false;
  channels->multipliers = multipliers.values<int32_t>();
  channels->shifts = shifts.values<int32_t>();
  channels->biases = bias == nullptr ? nullptr : bias->values<int32_t>();
  bool good = true;
  for (int32_t c = 0; c < count; ++c) {
    good &= good_rescaling(channels->multipliers[c], channels->shifts[c]);
    channels->raises |= channels->shifts[c] > 0;
  }
  return good;
}

bool read_finish(int64_t zero_point, int64_t low, int64_t high, Finish* finish) {
  if (!is_code(zero_point) || low < -128 || high > 127 || low > high) return false;
  *finish = {static_cast<int32_t>(zero_point), static_cast<int32_t>(low),
             static_cast<int32_t>(high)};
  return true;
}

}  // namespace dtr::runtime::cortex_m
