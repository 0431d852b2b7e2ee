#include "device/executorch/backend.h"

#include <atomic>
#include <cstring>
#include <new>

#include "device/executorch/neutron_payload.h"
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
  bool is_neutron = false;
  NeutronProgram neutron;  // of a NeutronBackend

  // Of the run at hand.
  EventTracer* tracer = nullptr;
  bool profiles = false, captures = false;
  uint32_t instruction = 0;
  uint64_t clock = 0;      // nanoseconds, or cycles
  uint64_t npu_clock = 0;  // of the call at hand, after its last event
  int32_t kernels = 0;     // that the NPU has run
};

void log(const Platform& platform, const char* sentence) {
  if (platform.log != nullptr) platform.log(platform.context, sentence);
}

// The driver's own error is more exact than the runtime's.
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
  int32_t from_strides[kMaxRank] = {}, to_strides[kMaxRank] = {}, index[kMaxRank] = {};
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

// As NXP's flow reads them: kernels are counted, the metadata is one byte, 0 for the profile's own
// dump.
void log_kernel(Opened& opened, uint64_t start, uint64_t end, uint8_t function) {
  opened.tracer->log_profiling_delegate(nullptr, opened.kernels++, start, end, &function,
                                        sizeof function);
}

// A wait is part of the call that waits: in the map of the program's operators it has no entry.
void on_event(void* context, const npu::Event& event) {
  auto& opened = *static_cast<Opened*>(context);
  if (opened.is_neutron && opened.profiles && event.kind == npu::EventKind::kCall) {
    log_kernel(opened, opened.clock + nanoseconds(opened, opened.npu_clock),
               opened.clock + nanoseconds(opened, event.end), event.opcode);
    opened.npu_clock = event.end;
  } else if (!opened.is_neutron && opened.profiles && event.kind != npu::EventKind::kWait) {
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
      if (!opened.is_neutron)
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
  if (opened.is_neutron && !opened.neutron.records_profile) opened.profiles = false;
  opened.captures =
      tracer != nullptr && machine.log_captured != nullptr && !opened.is_neutron &&
      tracer->event_tracer_debug_level() == EventTracerDebugLogLevel::kIntermediateOutputs;
  opened.clock = 0;
  opened.kernels = 0;
  const bool watches = opened.profiles || opened.captures;
  // A runtime that was built without event tracing, as that of ExecuTorch's wheel, passes its
  // tracer but begins no block, and the tracer ends the process at an event outside of blocks.
  if (watches && tracer->current_chain_id() == kUnsetChainId) tracer->create_event_block("Execute");
  opened.deuteron.on_event = watches ? on_event : nullptr;
  if (opened.captures && machine.start_capture != nullptr) machine.start_capture(machine.context);
  const runtime::Observer observer{&opened, before, after};
  const pte::Status status = opened.method.run(watches ? &observer : nullptr);
  if (!status.ok()) {
    log(opened.platform, sentence(status));
    return Error::Internal;
  }
  if (opened.captures) machine.log_captured(machine.context, *tracer);
  if (opened.is_neutron && opened.profiles) log_kernel(opened, opened.clock, opened.clock, 0);
  return Error::Ok;
}

// ---- preparation

std::span<std::byte> allocate(MemoryAllocator& allocator, size_t bytes) {
  void* data = allocator.allocate(bytes > 0 ? bytes : 1, runtime::kArenaAlignment);
  return data == nullptr ? std::span<std::byte>()
                         : std::span<std::byte>(static_cast<std::byte*>(data), bytes);
}

Error refuse(const Platform& platform, const pte::Status& status) {
  log(platform, sentence(status));
  return Error::DelegateInvalidCompatibility;
}

// Takes the program out of a payload of NXP's flow. Formats and maps are copied: the payload may be
// gone when the method runs.
Error unwrap(Opened& opened, MemoryAllocator& allocator, std::span<const std::byte>& payload) {
  NeutronProgram& neutron = opened.neutron;
  if (const NeutronPayloadError error = read_neutron_payload(payload, &neutron);
      error != NeutronPayloadError::kNone) {
    log(opened.platform, text(error));
    return Error::DelegateInvalidCompatibility;
  }
  opened.is_neutron = true;
  payload = neutron.program;
  const size_t operands = neutron.formats.size();
  const std::span<std::byte> kept = allocate(allocator, 2 * operands);
  if (kept.data() == nullptr) return Error::MemoryAllocationFailed;
  auto* bytes = reinterpret_cast<uint8_t*>(kept.data());
  if (operands > 0) {
    std::memcpy(bytes, neutron.formats.data(), operands);
    std::memcpy(bytes + operands, neutron.map.data(), operands);
  }
  neutron.formats = {bytes, operands};
  neutron.map = {bytes + operands, operands};
  return Error::Ok;
}

Error open(Opened& opened, MemoryAllocator& allocator, Payloads payloads,
           std::span<const std::byte> payload) {
  const Platform& platform = opened.platform;
  if (payloads == Payloads::kNeutron)
    if (const Error error = unwrap(opened, allocator, payload); error != Error::Ok) return error;
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
    log(platform, "the program plans more memory than its machine has");
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
  if (!status.ok()) return refuse(platform, status);
  if (opened.is_neutron && (opened.method.input_count() != opened.neutron.inputs ||
                            opened.method.output_count() != opened.neutron.outputs)) {
    log(platform, text(NeutronPayloadError::kDamaged));
    return Error::DelegateInvalidCompatibility;
  }
  return Error::Ok;
}

// ---- arguments

Error set_input(Opened& opened, size_t index, const runtime::Tensor& place) {
  const pte::Status status = opened.method.set_input(index, {.data = place.data,
                                                             .bytes = place.bytes(),
                                                             .dtype = place.dtype,
                                                             .sizes = place.shape(),
                                                             .dim_order = place.order()});
  if (status.ok()) return Error::Ok;
  log(opened.platform, sentence(status));
  return Error::InvalidArgument;
}

// The argument of an operand of a NeutronBackend, with as many bytes as the program's own tensor;
// false if there is none.
bool find_argument(const Opened& opened, uint32_t operand, Span<EValue*> arguments,
                   const runtime::Tensor* stated, runtime::Tensor* found) {
  const size_t at = opened.neutron.argument(operand);
  if (at >= arguments.size() || arguments[at] == nullptr || !arguments[at]->isTensor() ||
      stated == nullptr || (stated->data == nullptr && stated->bytes() > 0))
    return false;
  const TensorImpl* impl = arguments[at]->payload.as_tensor.unsafeGetTensorImpl();
  if (impl == nullptr || impl->dim() < 0 || impl->dim() > static_cast<ptrdiff_t>(kMaxRank))
    return false;
  *found = seen(arguments[at]->payload.as_tensor);
  return found->dtype == stated->dtype && found->bytes() == stated->bytes() && is_order(*found) &&
         (found->data != nullptr || found->bytes() == 0);
}

Error execute_neutron(Opened& opened, EventTracer* tracer, Span<EValue*> arguments) {
  constexpr const char* kOtherTensor =
      "an argument of NeutronBackend has not the size, type or dimension order that its payload "
      "states";
  runtime::Method& method = opened.method;
  const NeutronProgram& neutron = opened.neutron;
  runtime::Tensor given;
  for (uint32_t i = 0; i < neutron.inputs; ++i) {
    const runtime::Tensor* place = method.input_tensor(i);
    if (!find_argument(opened, i, arguments, place, &given) ||
        !gather(given, neutron.channels_last(i), place->data)) {
      log(opened.platform, kOtherTensor);
      return Error::InvalidArgument;
    }
    if (const Error error = set_input(opened, i, *place); error != Error::Ok) return error;
  }
  if (const Error error = run(opened, tracer); error != Error::Ok) return error;
  for (uint32_t i = 0; i < neutron.outputs; ++i) {
    const uint32_t operand = neutron.inputs + i;
    const runtime::Tensor* place = method.output_tensor(i);
    if (!find_argument(opened, operand, arguments, place, &given) ||
        !scatter(place->data, neutron.channels_last(operand), given)) {
      log(opened.platform, kOtherTensor);
      return Error::InvalidArgument;
    }
  }
  return Error::Ok;
}

}  // namespace

Result<DelegateHandle*> DeuteronBackend::init(BackendInitContext& context,
                                              FreeableBuffer* processed,
                                              ArrayRef<CompileSpec>) const {
  MemoryAllocator* allocator = context.get_runtime_allocator();
  if (allocator == nullptr) return Error::InvalidArgument;
  if (processed == nullptr || processed->data() == nullptr) {
    log(platform_, "the delegate has no payload");
    return Error::DelegateInvalidCompatibility;
  }
  const std::span payload(static_cast<const std::byte*>(processed->data()), processed->size());
  void* memory = allocator->allocate(sizeof(Opened), alignof(Opened));
  if (memory == nullptr) return Error::MemoryAllocationFailed;
  auto* opened = new (memory) Opened(platform_);
  const Error error = open(*opened, *allocator, payloads_, payload);
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
  if (!opened.is_neutron && arguments.size() != inputs + outputs) {
    log(platform_, "the delegate has another number of inputs and outputs than its program");
    return Error::InvalidArgument;
  }
  if (opened.running.test_and_set(std::memory_order_acquire)) {
    log(platform_, "another thread runs the same method");
    return Error::InvalidState;
  }
  struct Done {
    std::atomic_flag& flag;
    ~Done() { flag.clear(std::memory_order_release); }
  } const done{opened.running};
  if (opened.is_neutron) return execute_neutron(opened, context.event_tracer(), arguments);
  for (size_t i = 0; i < inputs + outputs; ++i) {
    const bool input = i < inputs;
    if (fits(arguments[i], input ? method.input_tensor(i) : method.output_tensor(i - inputs)))
      continue;
    log(platform_, input ? "an input has not the type or shape that the program takes"
                         : "an output has not the type or shape that the program returns");
    return Error::InvalidArgument;
  }
  for (size_t i = 0; i < inputs; ++i) {
    const runtime::Tensor& place = *method.input_tensor(i);
    copy(seen(arguments[i]->payload.as_tensor), place);
    if (const Error error = set_input(opened, i, place); error != Error::Ok) return error;
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
