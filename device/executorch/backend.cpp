#include "device/executorch/backend.h"

#include <atomic>
#include <cstring>
#include <new>

#include "device/npu/microcode.h"
#include "device/runtime/delegate_deuteron.h"
#include "device/runtime/program.h"

namespace dtr::executorch {
namespace {

constexpr uint32_t kMaxRank = 16, kMaxMemories = 8;

// A delegate that is ready to run, in memory of the method's allocator.
struct Opened {
  explicit Opened(const Platform& on) : platform(on) {}
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    method.release();
    if (machine_open) platform.close(platform.context, machine);
  }

  const Platform& platform;
  Machine machine;
  bool machine_open = false;
  runtime::DeuteronContext deuteron;
  runtime::Delegate delegates[1];
  runtime::Program program;
  runtime::Method method;
  std::span<const std::byte> arena;  // the first planned memory
  std::atomic_flag running = {};

  // Of the run at hand.
  EventTracer* tracer = nullptr;
  bool profiles = false, captures = false;
  uint32_t instruction = 0;
  uint64_t clock = 0;      // nanoseconds, or cycles
  uint64_t npu_clock = 0;  // of the call at hand, after its last event
};

void tell(const Platform& platform, const char* sentence) {
  if (platform.log != nullptr) platform.log(platform.context, sentence);
}

// What a failed driver says is more exact than what the runtime makes of it.
const char* sentence(const pte::Status& status) {
  const bool of_driver =
      status.error == pte::Error::kDelegateRefused || status.error == pte::Error::kDelegateFailed;
  return of_driver ? npu::text(static_cast<npu::Status>(status.detail)) : pte::text(status.error);
}

runtime::Tensor seen(const Tensor& tensor) {
  const TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return {.data = static_cast<std::byte*>(impl.mutable_data()),
          .sizes = impl.sizes().data(),
          .dim_order = impl.dim_order().data(),
          .dtype = static_cast<dtr::ScalarType>(impl.scalar_type()),
          .rank = static_cast<uint8_t>(impl.dim()),
          .writable = true};
}

bool is_order(const runtime::Tensor& tensor) {
  uint32_t found = 0;
  for (const uint8_t dim : tensor.order())
    if (dim < tensor.rank) found |= 1u << dim;
  return found == (1u << tensor.rank) - 1;
}

// Copies elements from one physical order to another; the shapes are the same.
void copy(const runtime::Tensor& from, const runtime::Tensor& to) {
  if (same_order(from, to)) {
    if (to.bytes() > 0) std::memcpy(to.data, from.data, to.bytes());
    return;
  }
  int32_t from_strides[kMaxRank], to_strides[kMaxRank], index[kMaxRank] = {};
  fill_strides(from, from_strides);
  fill_strides(to, to_strides);
  const size_t bytes = byte_size(from.dtype), count = to.elements();
  for (size_t done = 0; done < count; ++done) {
    size_t source = 0, target = 0;
    for (uint32_t dim = 0; dim < from.rank; ++dim) {
      source += static_cast<size_t>(index[dim]) * static_cast<size_t>(from_strides[dim]);
      target += static_cast<size_t>(index[dim]) * static_cast<size_t>(to_strides[dim]);
    }
    std::memcpy(to.data + target * bytes, from.data + source * bytes, bytes);
    for (uint32_t dim = from.rank; dim-- > 0;) {
      if (++index[dim] < from.sizes[dim]) break;
      index[dim] = 0;
    }
  }
}

// Whether an argument is a tensor of the type that the program states.
bool fits(const EValue* value, const runtime::Tensor* stated) {
  if (value == nullptr || !value->isTensor() || stated == nullptr || stated->data == nullptr)
    return false;
  const TensorImpl* impl = value->payload.as_tensor.unsafeGetTensorImpl();
  if (impl == nullptr || impl->dim() < 0 || impl->dim() > static_cast<ptrdiff_t>(kMaxRank))
    return false;
  const runtime::Tensor given = seen(value->payload.as_tensor);
  return given.dtype == stated->dtype && same_shape(given, *stated) && is_order(given) &&
         (given.data != nullptr || given.bytes() == 0);
}

// ---- events

uint64_t nanoseconds(const Opened& opened, uint64_t cycles) {
  const uint64_t clock = opened.machine.npu_hz;
  // In two parts, as the product of long runs exceeds 64 bits.
  return clock == 0 ? cycles
                    : cycles / clock * 1'000'000'000 + cycles % clock * 1'000'000'000 / clock;
}

void log_event(Opened& opened, int32_t command, uint64_t start, uint64_t end, const char* what) {
  if (opened.instruction >= kMaxInstructions || command >= static_cast<int32_t>(kMaxCommands))
    return;
  opened.tracer->log_profiling_delegate(nullptr, event_id(opened.instruction, command), start, end,
                                        what, std::strlen(what));
}

// A wait is part of the call that waits: in the map of the program's operators it has no entry.
void on_event(void* context, const npu::Event& event) {
  auto& opened = *static_cast<Opened*>(context);
  if (opened.profiles && event.kind != npu::EventKind::kWait) {
    const bool copies = event.kind == npu::EventKind::kCopy;
    const uint64_t start = copies ? event.start : opened.npu_clock;
    const char* kernel = npu::name(static_cast<npu::Opcode>(event.opcode));
    log_event(opened, static_cast<int32_t>(event.command),
              opened.clock + nanoseconds(opened, start),
              opened.clock + nanoseconds(opened, event.end), kernel == nullptr ? "" : kernel);
    if (!copies) opened.npu_clock = event.end;
  }
  const Machine& machine = opened.machine;
  if (opened.captures && machine.capture_event != nullptr)
    machine.capture_event(machine.context, opened.instruction, event, opened.arena);
}

bool before(void* context, const runtime::Method&, uint32_t instruction) {
  auto& opened = *static_cast<Opened*>(context);
  opened.instruction = instruction;
  opened.npu_clock = 0;
  return true;
}

void after(void* context, const runtime::Method& method, uint32_t instruction) {
  auto& opened = *static_cast<Opened*>(context);
  const Machine& machine = opened.machine;
  if (opened.profiles) {
    uint64_t taken = 0;
    if (method.is_delegate(instruction)) {
      taken = nanoseconds(opened, opened.deuteron.report.total_cycles);
    } else {
      if (machine.kernel_time != nullptr) taken = machine.kernel_time(machine.context, instruction);
      log_event(opened, -1, opened.clock, opened.clock + taken, method.name(instruction).data());
    }
    opened.clock += taken;
  }
  if (opened.captures && machine.capture_instruction != nullptr)
    machine.capture_instruction(machine.context, instruction, method);
}

Error run(Opened& opened, EventTracer* tracer) {
  const Machine& machine = opened.machine;
  opened.tracer = tracer;
  opened.profiles = tracer != nullptr && tracer->event_tracer_profiling_level() ==
                                             EventTracerProfilingLevel::kProfileAllEvents;
  opened.captures =
      tracer != nullptr && machine.log_captured != nullptr &&
      tracer->event_tracer_debug_level() == EventTracerDebugLogLevel::kIntermediateOutputs;
  opened.clock = 0;
  const bool watches = opened.profiles || opened.captures;
  // A runtime that was built without event tracing, as that of ExecuTorch's wheel, passes its
  // tracer but begins no block, and the tracer ends the process at an event outside of blocks.
  if (watches && tracer->current_chain_id() == kUnsetChainId) tracer->create_event_block("Execute");
  opened.deuteron.on_event = watches ? on_event : nullptr;
  if (opened.captures && machine.start_capture != nullptr) machine.start_capture(machine.context);
  const runtime::Observer observer{&opened, before, after};
  const pte::Status status = opened.method.run(watches ? &observer : nullptr);
  if (!status.ok()) {
    tell(opened.platform, sentence(status));
    return Error::Internal;
  }
  if (opened.captures) machine.log_captured(machine.context, *tracer);
  return Error::Ok;
}

// ---- preparation

std::span<std::byte> allocate(MemoryAllocator& allocator, size_t bytes) {
  void* data = allocator.allocate(bytes > 0 ? bytes : 1, runtime::kArenaAlignment);
  return data == nullptr ? std::span<std::byte>()
                         : std::span<std::byte>(static_cast<std::byte*>(data), bytes);
}

Error refuse(const Platform& platform, const pte::Status& status) {
  tell(platform, sentence(status));
  return Error::DelegateInvalidCompatibility;
}

Error open(Opened& opened, MemoryAllocator& allocator, std::span<const std::byte> payload) {
  const Platform& platform = opened.platform;
  if (!platform.open(platform.context, payload, &opened.machine))
    return Error::DelegateInvalidCompatibility;
  opened.machine_open = true;
  // Where the file does not store it on a boundary of 16 bytes, as inside of its flatbuffer.
  if (reinterpret_cast<uintptr_t>(payload.data()) % runtime::kArenaAlignment != 0) {
    const std::span<std::byte> aligned = allocate(allocator, payload.size());
    if (aligned.data() == nullptr) return Error::MemoryAllocationFailed;
    std::memcpy(aligned.data(), payload.data(), payload.size());
    payload = aligned;
  }
  opened.deuteron.driver = opened.machine.driver;
  opened.deuteron.event_context = &opened;
  opened.delegates[0] = runtime::deuteron_delegate(opened.deuteron);
  const runtime::LoadOptions options{.kernels = platform.kernels,
                                     .delegates = opened.delegates,
                                     .target_hash = opened.machine.target_hash};
  pte::Status status = runtime::Program::load(payload, options, &opened.program);
  if (!status.ok()) return refuse(platform, status);
  if (opened.program.method_count() == 0)
    return refuse(platform, {.error = pte::Error::kMissingMethod});
  const std::string_view name = opened.program.method_name(0);
  runtime::Method::Requirements need;
  status = runtime::Method::requirements(opened.program, name, &need);
  if (!status.ok()) return refuse(platform, status);
  if (need.memories > kMaxMemories) return refuse(platform, {.error = pte::Error::kUnsupported});
  uint64_t planned = 0;
  for (uint32_t i = 0; i < need.memories; ++i) planned += need.memory_bytes(i);
  if (planned > opened.machine.most_planned_bytes) {
    tell(platform, "the program plans more memory than its machine has");
    return Error::DelegateInvalidCompatibility;
  }
  std::span<std::byte> memories[kMaxMemories];
  for (uint32_t i = 0; i < need.memories; ++i) {
    memories[i] = allocate(allocator, need.memory_bytes(i));
    if (memories[i].data() == nullptr) return Error::MemoryAllocationFailed;
  }
  const std::span<std::byte> state = allocate(allocator, need.state_bytes);
  if (state.data() == nullptr) return Error::MemoryAllocationFailed;
  if (need.memories > 0) opened.arena = memories[0];
  status = opened.method.prepare(opened.program, name, state, {memories, need.memories});
  return status.ok() ? Error::Ok : refuse(platform, status);
}

}  // namespace

Result<DelegateHandle*> DeuteronBackend::init(BackendInitContext& context,
                                              FreeableBuffer* processed,
                                              ArrayRef<CompileSpec>) const {
  MemoryAllocator* allocator = context.get_runtime_allocator();
  if (allocator == nullptr) return Error::InvalidArgument;
  if (processed == nullptr || processed->data() == nullptr) {
    tell(platform_, "the delegate has no payload");
    return Error::DelegateInvalidCompatibility;
  }
  const std::span payload(static_cast<const std::byte*>(processed->data()), processed->size());
  void* memory = allocator->allocate(sizeof(Opened), alignof(Opened));
  if (memory == nullptr) return Error::MemoryAllocationFailed;
  auto* opened = new (memory) Opened(platform_);
  const Error error = open(*opened, *allocator, payload);
  if (error != Error::Ok) {
    opened->~Opened();
    return error;
  }
  return static_cast<DelegateHandle*>(opened);
}

Error DeuteronBackend::execute(BackendExecutionContext& context, DelegateHandle* handle,
                               Span<EValue*> arguments) const {
  if (handle == nullptr) return Error::InvalidArgument;
  auto& opened = *static_cast<Opened*>(handle);
  runtime::Method& method = opened.method;
  const size_t inputs = method.input_count(), outputs = method.output_count();
  if (arguments.size() != inputs + outputs) {
    tell(platform_, "the delegate has another number of inputs and outputs than its program");
    return Error::InvalidArgument;
  }
  if (opened.running.test_and_set(std::memory_order_acquire)) {
    tell(platform_, "another thread runs the same method");
    return Error::InvalidState;
  }
  struct Done {
    std::atomic_flag& flag;
    ~Done() { flag.clear(std::memory_order_release); }
  } const done{opened.running};
  for (size_t i = 0; i < inputs + outputs; ++i) {
    const bool input = i < inputs;
    if (fits(arguments[i], input ? method.input_tensor(i) : method.output_tensor(i - inputs)))
      continue;
    tell(platform_, input ? "an input has not the type or shape that the program takes"
                          : "an output has not the type or shape that the program returns");
    return Error::InvalidArgument;
  }
  for (size_t i = 0; i < inputs; ++i) {
    const runtime::Tensor& place = *method.input_tensor(i);
    copy(seen(arguments[i]->payload.as_tensor), place);
    const pte::Status status = method.set_input(i, {.data = place.data,
                                                    .bytes = place.bytes(),
                                                    .dtype = place.dtype,
                                                    .sizes = place.shape(),
                                                    .dim_order = place.order()});
    if (!status.ok()) {
      tell(platform_, sentence(status));
      return Error::InvalidArgument;
    }
  }
  const Error error = run(opened, context.event_tracer());
  if (error != Error::Ok) return error;
  for (size_t i = 0; i < outputs; ++i)
    copy(*method.output_tensor(i), seen(arguments[inputs + i]->payload.as_tensor));
  return Error::Ok;
}

void DeuteronBackend::destroy(DelegateHandle* handle) const {
  if (handle != nullptr) static_cast<Opened*>(handle)->~Opened();
}

}  // namespace dtr::executorch
