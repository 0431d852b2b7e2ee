// The part of ExecuTorch 1.4's binary interface that a backend sees, in our own words, so that the
// wheel builds where ExecuTorch is not installed. Names, order of virtual functions and layout of
// members are those of its headers under executorch/runtime/; test/executorch holds one against the
// other. Where these headers are installed, the backend is compiled with them (executorch.h).
// Members that nothing here reads keep their place under the name `unused`. Errors are those that
// ExecuTorch's comments name.
#pragma once

#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming): the names are ExecuTorch's.
namespace dtr::executorch {

enum class Error : uint32_t {
  Ok = 0x00,
  Internal = 0x01,
  InvalidState = 0x02,
  NotSupported = 0x10,
  InvalidArgument = 0x12,
  InvalidType = 0x13,
  MemoryAllocationFailed = 0x21,
  InvalidProgram = 0x23,
  DelegateInvalidCompatibility = 0x30,
};

// A value or an error. Not trivial to copy, so that it is returned in memory of the caller.
template <class T>
class Result final {
 public:
  Result(Error error) : error_(error), has_value_(false) {}
  Result(T value) : value_(value), has_value_(true) {}
  ~Result() {}
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  bool ok() const { return has_value_; }
  Error error() const { return has_value_ ? Error::Ok : error_; }
  T get() const { return value_; }

 private:
  union {
    T value_;
    Error error_;
  };
  const bool has_value_;
};

template <class T>
class Span final {
 public:
  constexpr Span() = default;
  constexpr Span(T* data, size_t size) : data_(data), size_(size) {}
  T* data() const { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t index) const { return data_[index]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

template <class T>
using ArrayRef = Span<const T>;

enum class ScalarType : int8_t {};
enum class TensorShapeDynamism : uint8_t { STATIC = 0 };

class TensorImpl {
 public:
  TensorImpl(ScalarType type, ptrdiff_t rank, int32_t* sizes, void* data, uint8_t* dim_order,
             int32_t* strides)
      : sizes_(sizes),
        dim_order_(dim_order),
        strides_(strides),
        data_(data),
        rank_(rank),
        type_(type) {
    for (ptrdiff_t i = 0; i < rank; ++i) elements_ *= sizes[i];
    most_elements_ = static_cast<size_t>(elements_);
  }
  ptrdiff_t dim() const { return rank_; }
  ScalarType scalar_type() const { return type_; }
  ArrayRef<int32_t> sizes() const { return {sizes_, static_cast<size_t>(rank_)}; }
  ArrayRef<uint8_t> dim_order() const { return {dim_order_, static_cast<size_t>(rank_)}; }
  void* mutable_data() const { return data_; }

 private:
  int32_t* sizes_;
  uint8_t* dim_order_;
  int32_t* strides_;
  void* data_;
  const ptrdiff_t rank_;
  ptrdiff_t elements_ = 1;
  size_t most_elements_ = 0;
  const ScalarType type_;
  const TensorShapeDynamism dynamism_ = TensorShapeDynamism::STATIC;
  int8_t device_[2] = {0, 0};  // CPU
};

class Tensor {
 public:
  explicit Tensor(TensorImpl* impl) : impl_(impl) {}
  TensorImpl* unsafeGetTensorImpl() const { return impl_; }

 private:
  TensorImpl* impl_;
};

enum class Tag : uint32_t { None = 0, Tensor = 1 };

struct EValue {
  union Payload {
    int64_t unused;
    Tensor as_tensor;
  };
  Payload payload;
  Tag tag;
  bool isTensor() const { return tag == Tag::Tensor; }
};

class MemoryAllocator {
 public:
  virtual ~MemoryAllocator() = default;
  virtual void* allocate(size_t bytes, size_t alignment) = 0;
};

struct EventTracerEntry {
  int64_t unused[4];
};
enum class EventTracerDebugLogLevel : int32_t { kNoLogging, kProgramOutputs, kIntermediateOutputs };
enum class EventTracerProfilingLevel : int32_t { kProfileMethodOnly, kProfileAllEvents };

inline constexpr int32_t kUnsetChainId = -1;

class EventTracer {
 public:
  virtual void create_event_block(const char* name) = 0;
  virtual EventTracerEntry start_profiling(const char* name, int32_t chain, uint32_t handle) = 0;
  virtual EventTracerEntry start_profiling_delegate(const char* name, int32_t id) = 0;
  virtual void end_profiling_delegate(EventTracerEntry entry, const void* metadata,
                                      size_t bytes) = 0;
  virtual void log_profiling_delegate(const char* name, int32_t id, uint64_t start, uint64_t end,
                                      const void* metadata, size_t bytes) = 0;
  virtual void end_profiling(EventTracerEntry entry) = 0;
  virtual void track_allocation(uint32_t id, size_t bytes) = 0;
  virtual uint32_t track_allocator(const char* name) = 0;
  virtual Result<bool> log_evalue(const EValue& value, int32_t type) = 0;
  virtual Result<bool> log_intermediate_output_delegate(const char* name, int32_t id,
                                                        const Tensor& output) = 0;

  int32_t current_chain_id() const { return chain_; }
  EventTracerDebugLogLevel event_tracer_debug_level() const { return debug_level_; }
  EventTracerProfilingLevel event_tracer_profiling_level() const { return profiling_level_; }

 protected:
  // Never made or destroyed here: further virtual functions and the destructor follow.
  EventTracer() = default;
  ~EventTracer() = default;

 private:
  int32_t chain_ = kUnsetChainId;
  uint32_t unused_handle_ = 0;
  bool unused_flags_[2] = {};
  int unused_input_ = -1;
  EventTracerDebugLogLevel debug_level_ = EventTracerDebugLogLevel::kNoLogging;
  EventTracerProfilingLevel profiling_level_ = EventTracerProfilingLevel::kProfileAllEvents;
};

class BackendInitContext final {
 public:
  MemoryAllocator* get_runtime_allocator() { return allocator_; }

 private:
  MemoryAllocator* allocator_;
  EventTracer* unused_tracer_;
  const char* unused_method_;
  const void* unused_data_;
  const void* unused_specs_;
  size_t unused_count_;
};

class BackendExecutionContext final {
 public:
  EventTracer* event_tracer() { return tracer_; }

 private:
  EventTracer* tracer_;
  MemoryAllocator* unused_allocator_;
  const char* unused_method_;
};

class FreeableBuffer final {
 public:
  FreeableBuffer(const FreeableBuffer&) = delete;
  FreeableBuffer& operator=(const FreeableBuffer&) = delete;
  size_t size() const { return size_; }
  // Null for memory of another core.
  const void* data() const { return alternative_ == 0 ? data_ : nullptr; }

 private:
  const void* data_;
  void (*unused_free_)(void* context, void* data, size_t size);
  uint8_t alternative_;
  void* unused_context_;
  size_t size_;
};

struct SizedBuffer {
  void* buffer;
  size_t nbytes;
};
struct CompileSpec {
  const char* key;
  SizedBuffer value;
};
class BackendOptionContext;
struct BackendOption;
using DelegateHandle = void;

class BackendInterface {
 public:
  virtual ~BackendInterface() = default;
  static void operator delete(void*) {}  // backends are never deleted, and there is no heap
  virtual bool is_available() const = 0;
  virtual Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                                       ArrayRef<CompileSpec> specs) const = 0;
  virtual Error execute(BackendExecutionContext& context, DelegateHandle* handle,
                        Span<EValue*> arguments) const = 0;
  virtual Error set_option(BackendOptionContext&, const Span<BackendOption>&) { return Error::Ok; }
  virtual Error get_option(BackendOptionContext&, Span<BackendOption>&) { return Error::Ok; }
  virtual void destroy(DelegateHandle*) const {}
};

struct Backend {
  const char* name;
  BackendInterface* backend;
};
using RegisterBackend = Error (*)(const Backend& backend);
// The name of the function of that type in a library of ExecuTorch.
inline constexpr const char* kRegisterBackend =
    "_ZN10executorch7runtime16register_backendERKNS0_7BackendE";

}  // namespace dtr::executorch
// NOLINTEND(readability-identifier-naming)
