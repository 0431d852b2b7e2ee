#include "compiler/ops/integer.h"

#include <algorithm>

#include "device/numerics/mean.h"

namespace dtr::ops {

numerics::Requantization multiplier_of(const OpView& view, double factor) {
  return is_rounded_once(view) ? numerics::unshifted_multiplier(factor)
                               : numerics::quantize_multiplier(factor);
}

numerics::Requantization sum_multiplier(const OpView& view) {
  const float in = view.operand(0).quantization->scale(), out = view.result().quantization->scale();
  return is_rounded_once(view) ? numerics::sum_rounded_once(in, out)
                               : numerics::sum_requantization(in, out);
}

numerics::Requantization mean_multiplier(const OpView& view, int64_t count) {
  return numerics::mean_requantization(sum_multiplier(view), count);
}

numerics::Range activation_range(const RealBounds& bounds, const Quantization& q) {
  return numerics::activation_range(static_cast<float>(bounds.low), static_cast<float>(bounds.high),
                                    q.scale(), q.zero_point(), range_of(q));
}

std::vector<int16_t> centered_values(const Type& type, const TensorView& tensor) {
  const auto values = tensor.values<int8_t>();
  const int32_t zero_point = type.quantization->zero_point();
  std::vector<int16_t> centered(values.size());
  std::ranges::transform(values, centered.begin(),
                         [&](int8_t q) { return static_cast<int16_t>(q - zero_point); });
  return centered;
}

std::vector<numerics::OutputStage> output_stages(const OpView& view, int64_t channels) {
  const Quantization& x = *view.operand(0).quantization;
  const Quantization& weight = *view.operand(1).quantization;
  const Quantization& out = *view.result().quantization;
  const numerics::Range range = activation_range(activation_bounds(view), out);
  std::vector<numerics::OutputStage> stages;
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    const double weight_scale =
        weight.scales[c % weight.scales.size()];  // groups of a transposed convolution share them
    const double factor =
        static_cast<double>(x.scale()) * weight_scale / static_cast<double>(out.scale());
    stages.push_back({multiplier_of(view, factor), out.zero_point(), range});
  }
  return stages;
}

void rescale(const OpView& view, const RealBounds& bounds, const TensorView& operand,
             const TensorView& result) {
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  const double factor = static_cast<double>(in.scale()) / static_cast<double>(out.scale());
  const numerics::OutputStage stage{multiplier_of(view, factor), out.zero_point(),
                                    activation_range(bounds, out)};
  std::ranges::transform(operand.values<int8_t>(), result.values<int8_t>().begin(),
                         [&](int8_t q) { return stage(q - in.zero_point()); });
}

}  // namespace dtr::ops
