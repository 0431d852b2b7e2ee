// What ExecuTorch's headers declare and its libraries define, as far as a backend needs it.
#include <executorch/runtime/backend/interface.h>

#include <cstdlib>

namespace executorch::runtime {

BackendInterface::~BackendInterface() = default;
[[noreturn]] void runtime_abort() { std::abort(); }

namespace internal {
et_timestamp_t get_log_timestamp() { return 0; }
void vlogf(LogLevel, et_timestamp_t, const char*, const char*, size_t, const char*, va_list) {}
}  // namespace internal

namespace etensor {
TensorImpl::TensorImpl(ScalarType type, ssize_t dim, SizesType* sizes, void* data,
                       DimOrderType* order, StridesType* strides, TensorShapeDynamism dynamism,
                       DeviceType device, DeviceIndex index)
    : sizes_(sizes),
      dim_order_(order),
      strides_(strides),
      data_(data),
      dim_(dim),
      numel_(1),
      numel_bound_(1),
      type_(type),
      shape_dynamism_(dynamism),
      device_(device, index) {
  for (ssize_t i = 0; i < dim; ++i) numel_ *= sizes[i];
  numel_bound_ = static_cast<size_t>(numel_);
}
}  // namespace etensor

}  // namespace executorch::runtime
