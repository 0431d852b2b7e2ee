// The side of the test that sees our declarations (device/executorch/abi.h): a backend that answers
// with what it was given.
#include <cstring>

#include "device/executorch/abi.h"

namespace et = dtr::executorch;

namespace {

constexpr uint64_t kStart = 0x1122334455667788, kEnd = 0x2233445566778899;

class Echo final : public et::BackendInterface {
 public:
  bool is_available() const override { return true; }

  et::Result<et::DelegateHandle*> init(et::BackendInitContext& context,
                                       et::FreeableBuffer* processed,
                                       et::ArrayRef<et::CompileSpec> specs) const override {
    if (processed->size() != 5 || std::memcmp(processed->data(), "bytes", 5) != 0)
      return et::Error::DelegateInvalidCompatibility;
    if (specs.size() != 1 || std::strcmp(specs[0].key, "key") != 0 || specs[0].value.nbytes != 3)
      return et::Error::InvalidArgument;
    return context.get_runtime_allocator()->allocate(24, 64);
  }

  // Arguments: one tensor and one number.
  et::Error execute(et::BackendExecutionContext& context, et::DelegateHandle* handle,
                    et::Span<et::EValue*> arguments) const override {
    if (arguments.size() != 2 || !arguments[0]->isTensor() || arguments[1]->isTensor())
      return et::Error::InvalidType;
    const et::TensorImpl& tensor = *arguments[0]->payload.as_tensor.unsafeGetTensorImpl();
    et::EventTracer& tracer = *context.event_tracer();
    if (tracer.event_tracer_debug_level() != et::EventTracerDebugLogLevel::kIntermediateOutputs ||
        tracer.event_tracer_profiling_level() !=
            et::EventTracerProfilingLevel::kProfileMethodOnly ||
        tracer.current_chain_id() != 1234)
      return et::Error::InvalidState;
    tracer.log_profiling_delegate(nullptr, 77, kStart, kEnd, "meta", 4);
    // The tensor again, made of its parts.
    int32_t strides[8] = {};
    et::TensorImpl copy(tensor.scalar_type(), tensor.dim(),
                        const_cast<int32_t*>(tensor.sizes().data()), tensor.mutable_data(),
                        const_cast<uint8_t*>(tensor.dim_order().data()), strides);
    const et::Result<bool> logged =
        tracer.log_intermediate_output_delegate("name", 78, et::Tensor(&copy));
    if (!logged.ok() || !logged.get()) return et::Error::Internal;
    std::memset(handle, 7, 24);
    return et::Error::Ok;
  }

  void destroy(et::DelegateHandle* handle) const override { std::memset(handle, 9, 24); }
};

}  // namespace

extern "C" void* our_backend() {
  static Echo echo;
  return static_cast<et::BackendInterface*>(&echo);
}
extern "C" const char* our_name(const void* backend) {
  return static_cast<const et::Backend*>(backend)->name;
}
extern "C" int our_error(int which) {
  const et::Error errors[] = {et::Error::Ok,
                              et::Error::Internal,
                              et::Error::InvalidState,
                              et::Error::NotSupported,
                              et::Error::InvalidArgument,
                              et::Error::InvalidType,
                              et::Error::MemoryAllocationFailed,
                              et::Error::InvalidProgram,
                              et::Error::DelegateInvalidCompatibility};
  return static_cast<int>(errors[which]);
}
