// Quantization parameters per channel, and loops over one channel of a tensor.
#pragma once

#include "device/runtime/kernels/portable/elements.h"

namespace dtr::runtime::portable {

// scales: float or double [C]; zero points: int8, int32 or int64 [C], or none for zero.
class Channels {
 public:
  Channels(const Tensor& scales, const Tensor* zero_points)
      : scales_(scales), zero_points_(zero_points) {}

  bool fit(const Tensor& tensor, int axis) const {
    const auto is_list = [&](const Tensor& list) {
      return list.rank == 1 && list.sizes[0] == tensor.sizes[axis];
    };
    return axis >= 0 && is_list(scales_) && (zero_points_ == nullptr || is_list(*zero_points_));
  }
  bool dtypes_known() const {
    const bool scale_known =
        scales_.dtype == ScalarType::kFloat || scales_.dtype == ScalarType::kDouble;
    return scale_known &&
           (zero_points_ == nullptr || zero_points_->dtype == ScalarType::kChar ||
            zero_points_->dtype == ScalarType::kInt || zero_points_->dtype == ScalarType::kLong);
  }
  double scale(int32_t channel) const {
    return scales_.dtype == ScalarType::kFloat
               ? static_cast<double>(scales_.values<float>()[channel])
               : scales_.values<double>()[channel];
  }
  int64_t zero_point(int32_t channel) const {
    if (zero_points_ == nullptr) return 0;
    if (zero_points_->dtype == ScalarType::kChar) return zero_points_->values<int8_t>()[channel];
    return zero_points_->dtype == ScalarType::kInt ? zero_points_->values<int32_t>()[channel]
                                                   : zero_points_->values<int64_t>()[channel];
  }

 private:
  const Tensor& scales_;
  const Tensor* zero_points_;
};

// out = f(in) for the elements whose index along `axis` is `channel`.
template <class In, class Out, class F>
void map_channel(const Tensor& in, const Tensor& out, int axis, int32_t channel, F f) {
  const Strides in_strides = strides_of(in);
  const Strides out_strides = strides_of(out);
  const In* x = in.values<In>() + channel * in_strides.of[axis];
  Out* y = out.values<Out>() + channel * out_strides.of[axis];
  int32_t sizes[kMaxRank];
  std::copy_n(in.sizes, in.rank, sizes);
  sizes[axis] = 1;
  for_each_offset(
      {sizes, in.rank}, [&](int32_t from, int32_t to) { y[to] = f(x[from]); }, in_strides,
      out_strides);
}

}  // namespace dtr::runtime::portable
