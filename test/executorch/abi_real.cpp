// The side of the test that sees ExecuTorch's own headers: it calls the backend of abi_ours.cpp as
// the runtime would, with objects of these headers. Each line that it prints is a difference.
#include <executorch/runtime/backend/interface.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace et = ::executorch::runtime;
namespace aten = ::executorch::aten;

extern "C" void* our_backend();
extern "C" const char* our_name(const void* backend);
extern "C" int our_error(int which);

namespace {

int failures = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s\n", what);
  ++failures;
}

class Tracer final : public et::EventTracer {
 public:
  void create_event_block(const char*) override { other(); }
  et::EventTracerEntry start_profiling(const char*, et::ChainID, et::DebugHandle) override {
    return other(), et::EventTracerEntry();
  }
  et::EventTracerEntry start_profiling_delegate(const char*, et::DelegateDebugIntId) override {
    return other(), et::EventTracerEntry();
  }
  void end_profiling_delegate(et::EventTracerEntry, const void*, size_t) override { other(); }
  void log_profiling_delegate(const char* name, et::DelegateDebugIntId id, et_timestamp_t start,
                              et_timestamp_t end, const void* metadata, size_t bytes) override {
    profiled = name == nullptr && id == 77 && start == 0x1122334455667788 &&
               end == 0x2233445566778899 && bytes == 4 && std::memcmp(metadata, "meta", 4) == 0;
  }
  void end_profiling(et::EventTracerEntry) override { other(); }
  void track_allocation(et::AllocatorID, size_t) override { other(); }
  et::AllocatorID track_allocator(const char*) override { return other(), 0; }
  et::Result<bool> log_evalue(const et::EValue&, et::LoggedEValueType) override {
    return other(), false;
  }
  et::Result<bool> log_intermediate_output_delegate(const char* name, et::DelegateDebugIntId id,
                                                    const aten::Tensor& output) override {
    const aten::TensorImpl& impl = *output.unsafeGetTensorImpl();
    logged = std::strcmp(name, "name") == 0 && id == 78 && impl.dim() == 3 && impl.numel() == 24 &&
             impl.sizes()[0] == 2 && impl.sizes()[2] == 4 && impl.dim_order()[1] == 2 &&
             impl.scalar_type() == aten::ScalarType::Short && impl.mutable_data() == data &&
             impl.shape_dynamism() == et::TensorShapeDynamism::STATIC &&
             impl.device_type() == et::etensor::DeviceType::CPU && impl.device_index() == 0;
    return true;
  }
  et::Result<bool> log_intermediate_output_delegate(const char*, et::DelegateDebugIntId,
                                                    const et::ArrayRef<aten::Tensor>) override {
    return other(), false;
  }
  et::Result<bool> log_intermediate_output_delegate(const char*, et::DelegateDebugIntId,
                                                    const int&) override {
    return other(), false;
  }
  et::Result<bool> log_intermediate_output_delegate(const char*, et::DelegateDebugIntId,
                                                    const bool&) override {
    return other(), false;
  }
  et::Result<bool> log_intermediate_output_delegate(const char*, et::DelegateDebugIntId,
                                                    const double&) override {
    return other(), false;
  }
  void set_delegation_intermediate_output_filter(et::EventTracerFilterBase*) override { other(); }

  const void* data = nullptr;
  bool profiled = false, logged = false;

 private:
  static void other() { expect(false, "another function of the tracer was called"); }
};

}  // namespace

int main() {
  auto& backend = *static_cast<et::BackendInterface*>(our_backend());
  expect(backend.is_available(), "is_available");

  std::vector<uint8_t> memory(1024);
  et::MemoryAllocator allocator(1024, memory.data());
  et::BackendInitContext init(&allocator, nullptr, "forward", nullptr);
  et::FreeableBuffer payload("bytes", 5, nullptr);
  char three[3] = {};
  const et::CompileSpec spec{"key", {three, 3}};
  auto handle = backend.init(init, &payload, {&spec, 1});
  expect(handle.ok() && reinterpret_cast<uintptr_t>(handle.get()) % 64 == 0, "init");
  if (!handle.ok()) return 1;
  et::FreeableBuffer wrong("other", 5, nullptr);
  expect(backend.init(init, &wrong, {&spec, 1}).error() == et::Error::DelegateInvalidCompatibility,
         "an error of init");

  aten::SizesType sizes[] = {2, 3, 4};
  aten::DimOrderType order[] = {0, 2, 1};
  aten::StridesType strides[] = {12, 1, 3};
  int16_t data[24] = {};
  aten::TensorImpl impl(aten::ScalarType::Short, 3, sizes, data, order, strides);
  et::EValue tensor{aten::Tensor(&impl)}, number(int64_t{5});
  et::EValue* arguments[] = {&tensor, &number};
  Tracer tracer;
  tracer.data = data;
  expect(tracer.current_chain_id() == -1, "kUnsetChainId");
  tracer.set_chain_debug_handle(1234, 5);
  tracer.set_event_tracer_debug_level(et::EventTracerDebugLogLevel::kIntermediateOutputs);
  tracer.set_event_tracer_profiling_level(et::EventTracerProfilingLevel::kProfileMethodOnly);
  et::BackendExecutionContext context(&tracer, &allocator, "forward");
  expect(backend.execute(context, handle.get(), {arguments, 2}) == et::Error::Ok, "execute");
  expect(tracer.profiled, "log_profiling_delegate");
  expect(tracer.logged, "log_intermediate_output_delegate");
  expect(static_cast<uint8_t*>(handle.get())[23] == 7, "the handle of execute");
  expect(backend.execute(context, handle.get(), {arguments, 1}) == et::Error::InvalidType,
         "an error of execute");

  et::BackendOptionContext options;
  et::BackendOption none[1];
  const et::Span<et::BackendOption> given(none, 1);
  expect(backend.set_option(options, given) == et::Error::Ok, "set_option");
  et::Span<et::BackendOption> asked(none, 1);
  expect(backend.get_option(options, asked) == et::Error::Ok, "get_option");
  backend.destroy(handle.get());
  expect(static_cast<uint8_t*>(handle.get())[23] == 9, "destroy");

  const et::Backend entry{"DeuteronBackend", &backend};
  expect(std::strcmp(our_name(&entry), "DeuteronBackend") == 0, "Backend");
  const et::Error errors[] = {et::Error::Ok,
                              et::Error::Internal,
                              et::Error::InvalidState,
                              et::Error::NotSupported,
                              et::Error::InvalidArgument,
                              et::Error::InvalidType,
                              et::Error::MemoryAllocationFailed,
                              et::Error::InvalidProgram,
                              et::Error::DelegateInvalidCompatibility};
  for (int i = 0; i < 9; ++i)
    expect(our_error(i) == static_cast<int>(errors[i]), "the numbers of errors");
  return failures == 0 ? 0 : 1;
}
