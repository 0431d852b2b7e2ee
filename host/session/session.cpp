#include "host/session/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "compiler/ir/quantized_values.h"
#include "compiler/ir/reorder.h"
#include "compiler/ir/rewriter.h"
#include "compiler/plugins/plugins.h"
#include "compiler/program/machine.h"
#include "compiler/program/scalar_types.h"
#include "compiler/support/cancellation.h"
#include "compiler/support/encode.h"
#include "device/pte/debug_map_generated.h"
#include "device/pte/program_generated.h"
#include "device/runtime/delegate_deuteron.h"
#include "device/runtime/environment.h"
#include "device/runtime/method.h"
#include "device/runtime/plugin_kernel.h"
#include "device/runtime/profiler.h"
#include "host/session/failed_index.h"
#include "host/session/neutron_delegate.h"
#include "host/simulator/host_simulator.h"

namespace dtr {
namespace {

Type type_of(const runtime::Tensor& tensor) {
  return type_of(tensor.dtype, tensor.shape(), tensor.order());
}

// 16-byte aligned memory, zeros. What is not touched costs nothing.
class Arena {
 public:
  // False if there is not as much.
  [[nodiscard]] bool resize(uint64_t bytes) {
    bytes_ = 0;
    data_ = nullptr;
    if (bytes > PTRDIFF_MAX - 2 * runtime::kArenaAlignment) return false;
    const auto size = static_cast<size_t>(bytes);
    // calloc may align less than an arena is.
    data_.reset(static_cast<std::byte*>(std::calloc(size + runtime::kArenaAlignment, 1)));
    if (data_ == nullptr) return false;
    bytes_ = size;
    return true;
  }
  std::span<std::byte> span() {
    const auto address = reinterpret_cast<uintptr_t>(data_.get());
    return {data_.get() + (runtime::padded(address) - address), bytes_};
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t bytes_ = 0;
};

std::string_view missing_kind(pte::Error what) {
  if (what == pte::Error::kMissingData) return "tensor";
  return what == pte::Error::kMissingDelegate ? "delegate" : "kernel";
}

// What the sessions of one program share.
struct ProgramFiles {
  PteFile pte_file;
  std::vector<PtdFile> tensor_files;
  const TargetDescription* target;  // null: nothing in the program depends on a machine
  const simulator::KernelSet& kernel_set;
  // The program is that of a payload of NeutronBackend, and may have none itself.
  bool in_payload;
};

class HostSession final : public Session {
 public:
  explicit HostSession(std::unique_ptr<const ProgramFiles> files) : HostSession(*files) {
    owned_ = std::move(files);
  }
  // The files must outlive the session.
  explicit HostSession(const ProgramFiles& files)
      : files_(files),
        pte_file_(files.pte_file),
        target_(files.target),
        tensor_files_(files.tensor_files),
        simulator_(npu_of(files.target), files.kernel_set),
        neutron_(pte_file_.path(), context_.report, &HostSession::on_event, this) {
    for (const PtdFile& file : tensor_files_) opened_.push_back(file.file());
  }

  Result<void> start() {
    context_.driver = simulator_.driver();
    context_.event_context = this;
    delegates_[0] = runtime::deuteron_delegate(context_);
    if (!files_.in_payload) delegates_[0] = neutron_.programs_or(delegates_[0]);
    delegates_[1] = neutron_.entry();
    runtime::Profiler starts(starts_, {[](void*) { return nanoseconds(); }});
    const size_t load = starts.start(npu::ProfileEvent::kLoad);
    DTR_TRY(load_program(pte_file_, std::span(delegates_).first(files_.in_payload ? 1 : 2), opened_,
                         &program_));
    starts.stop(load);
    const std::string_view method = pte_file_.method();
    runtime::Method::Requirements need;
    DTR_TRY(check(runtime::Method::requirements(program_, method, &need)));
    for (uint32_t i = 0; i < need.memories; ++i) planned_bytes_ += need.memory_bytes(i);
    DTR_TRY(check_planned());
    if (!state_.resize(need.state_bytes)) return no_memory(need.state_bytes);
    arenas_.resize(need.memories);
    for (uint32_t i = 0; i < need.memories; ++i) {
      if (!arenas_[i].resize(need.memory_bytes(i))) return no_memory(planned_bytes_);
      memories_.push_back(arenas_[i].span());
    }
    const size_t init = starts.start(npu::ProfileEvent::kInit);
    DTR_TRY(check(method_.prepare(program_, method, state_.span(), memories_)));
    starts.stop(init);
    return describe();
  }

  Result<std::unique_ptr<Session>> open_another() const override {
    auto session = std::make_unique<HostSession>(files_);
    DTR_TRY(session->start());
    return session;
  }

  const Graph& signature() const override { return signature_; }
  Type output_type(size_t index) const override {
    return with_quantization(type_of(*method_.output_tensor(index)), true, index);
  }
  const PteFile& pte_file() const override { return pte_file_; }
  std::span<const PtdFile> tensor_files() const override { return tensor_files_; }

  void use_threads(unsigned threads) override { simulator_.use_threads(threads); }
  bool has_states() const override { return method_.has_states(); }
  void reset() override { DTR_CHECK(method_.reset().ok()); }

  Result<std::vector<Tensor>> run(std::span<const TensorView> inputs, RunStats* stats,
                                  const RunHooks& hooks) override {
    check_cancelled();
    for (size_t i = 0; i < inputs.size(); ++i) DTR_TRY(set_input(i, inputs[i]));
    hooks_ = &hooks;
    watch_touches_ = stats != nullptr || hooks.recording != nullptr;
    report_ = {};
    touched_ = 0;
    const runtime::Observer observer{this, &HostSession::before, &HostSession::after};
    // The simulator is faster where nobody looks.
    context_.on_event =
        hooks.recording != nullptr || hooks.after_event ? &HostSession::on_event : nullptr;
    if (hooks.recording != nullptr) start_recording(*hooks.recording);
    const auto start = std::chrono::steady_clock::now();
    const pte::Status status = method_.run(&observer);
    if (hooks.recording != nullptr) finish_recording(*hooks.recording, status);
    check_cancelled();  // `before` ends the run then
    DTR_TRY(check(status));
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    if (stats != nullptr) {
      ++stats->runs;
      stats->milliseconds.push_back(taken.count());
      stats->total_cycles = report_.total_cycles;
      stats->busy_cycles = report_.busy_cycles;
      stats->host_cycles = report_.host_cycles;
      stats->stall_cycles = report_.stall_cycles;
      stats->npu_calls = report_.calls;
      stats->copied_bytes = report_.copied_bytes;
      stats->sram_touched_bytes = std::max(stats->sram_touched_bytes, touched_);
    }
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < method_.output_count(); ++i) {
      const runtime::Tensor& from = *method_.output_tensor(i);
      const Type type = type_of(from);
      Tensor output(type.dtype, type.shape);
      to_logical(type, from.data, output.view().data);
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

 private:
  // Converts a status of the runtime to a diagnostic.
  Result<void> check(const pte::Status& status) {
    if (status.ok()) return {};
    if (std::optional<Diagnostic> of_delegate = neutron_.take_error())
      return tl::unexpected(*std::move(of_delegate));
    Diagnostic diagnostic = to_diagnostic(status, pte_file_.path());
    const npu::Report npu = std::exchange(context_.report, {});
    std::optional<uint32_t> command;
    if (npu.status != npu::Status::kOk) command = npu.command;
    if (status.error == pte::Error::kKernelIndex)
      diagnostic.reason += refused_index(status, command);
    if (fails_in_instruction(status.error)) add_source(status.index, command, diagnostic.place);
    if (command) diagnostic.reason += fmt::format(" (command {})", *command);
    return tl::unexpected(std::move(diagnostic));
  }

  // `command`: of the NPU's program, if that refused the index.
  std::string refused_index(const pte::Status& status, std::optional<uint32_t> command) const {
    const std::span<runtime::Value* const> arguments = method_.arguments(status.index);
    if (!command) return failed_index(status.name, arguments);
    const pte::ExecutionPlan& plan = pte_file_.plan();
    const int32_t delegate = plan.chains()
                                 ->Get(0)
                                 ->instructions()
                                 ->Get(status.index)
                                 ->instr_args_as_DelegateCall()
                                 ->delegate_index();
    return failed_index(
        npu_of(target_),
        pte_file_.file().payload(*plan.delegates()->Get(static_cast<uint32_t>(delegate))), *command,
        arguments);
  }

  static bool fails_in_instruction(pte::Error error) {
    constexpr std::array kErrors{pte::Error::kKernelArguments, pte::Error::kKernelDtype,
                                 pte::Error::kKernelFailed, pte::Error::kKernelIndex};
    return std::ranges::find(kErrors, error) != kErrors.end();
  }
  // The operator of the model that the instruction, or the command of its delegate, computes, or a
  // part of; the first of several.
  void add_source(uint32_t instruction, std::optional<uint32_t> command, Place& place) const {
    const pte::DebugMap* map = pte_file_.debug_map();
    if (map == nullptr) return;
    const pte::DebugCall& call = *map->calls()->Get(instruction);
    const pte::DebugOrigin* origin = call.origin();
    if (command && call.steps() != nullptr)
      for (const pte::DebugStep* step : *call.steps())
        if (step->command() == *command) origin = step->origin();
    const auto* const sources = origin->sources();
    if (sources == nullptr || sources->size() == 0) return;
    const pte::SourceOperator& source = *map->sources()->Get(sources->Get(0));
    place.node = source.name()->str();
    place.module_path = source.module_path()->str();
    place.source_line = source.source_line()->str();
  }

  // A program that no machine can hold is refused before this one tries.
  Result<void> check_planned() const {
    const uint64_t most = target_ == nullptr ? INT32_MAX : target_->memory.sram_bytes;
    if (planned_bytes_ <= most) return {};
    return fail(
        DiagnosticId::kRunMemory,
        fmt::format("the program plans {} bytes of memory, {} has {}", planned_bytes_,
                    target_ == nullptr ? "no machine that it can be for" : target_->name, most),
        "compile a smaller model, or for a target with more memory", {.file = pte_file_.path()});
  }
  Result<void> no_memory(uint64_t bytes) const {
    return fail(DiagnosticId::kRunMemory, fmt::format("this machine does not give {} bytes", bytes),
                "run it where there is more memory", {.file = pte_file_.path()});
  }

  Result<void> describe() {
    Rewriter rewriter(signature_);
    const std::vector<std::string> names = io_names(pte_file_.plan());
    inputs_.resize(method_.input_count());
    for (size_t i = 0; i < method_.input_count(); ++i) {
      const runtime::Tensor* tensor = method_.input_tensor(i);
      if (tensor == nullptr)
        return fail(DiagnosticId::kPteUnsupported,
                    fmt::format("input {} of the program is not a tensor", i), {},
                    {.file = pte_file_.path()});
      DTR_TRY(check_order(*tensor, "input", i));
      rewriter.add_input(with_quantization(type_of(*tensor), false, i),
                         names[i].empty() ? fmt::format("input_{}", i) : names[i]);
      if (!inputs_[i].resize(tensor->bytes())) return no_memory(tensor->bytes());
    }
    for (size_t i = 0; i < method_.output_count(); ++i) {
      const runtime::Tensor* tensor = method_.output_tensor(i);
      if (tensor == nullptr)
        return fail(DiagnosticId::kPteUnsupported,
                    fmt::format("output {} of the program is not a tensor", i), {},
                    {.file = pte_file_.path()});
      DTR_TRY(check_order(*tensor, "output", i));
    }
    return {};
  }

  // What a file tells may be of another dtype.
  Type with_quantization(Type type, bool output, size_t index) const {
    if (type.dtype != DType::kInt8) return type;
    type.quantization =
        pte_file_.io_quantization(pte_file_.selected(), output, static_cast<uint32_t>(index));
    const IntegerRange codes = integer_range(DType::kInt8);
    if (type.quantized() &&
        (type.quantization->qmin < codes.min || type.quantization->qmax > codes.max))
      type.quantization.reset();
    return type;
  }

  // Types know two layouts; a file may have others.
  Result<void> check_order(const runtime::Tensor& tensor, std::string_view what,
                           size_t index) const {
    const Type type = type_of(tensor);
    const std::vector<int> order = dim_order(type.layout, type.rank());
    if (std::equal(order.begin(), order.end(), tensor.order().begin(), tensor.order().end()))
      return {};
    return fail(DiagnosticId::kPteUnsupported,
                fmt::format("{} {} is neither contiguous nor channels-last", what, index), {},
                {.file = pte_file_.path()});
  }

  Result<void> set_input(size_t index, const TensorView& input) {
    const runtime::Tensor& planned = *method_.input_tensor(index);
    const Type& type = signature_.type(signature_.inputs()[index]);
    Tensor codes;
    DTR_ASSIGN(const TensorView given, planned_input(*this, index, input, codes));
    const std::span<std::byte> data = inputs_[index].span();
    to_physical(type, given.data, data.data());
    return check(method_.set_input(index, {.data = data.data(),
                                           .bytes = data.size(),
                                           .dtype = planned.dtype,
                                           .sizes = planned.shape(),
                                           .dim_order = planned.order()}));
  }

  // The clock is that of the simulated machine: the NPU's cycles, and for a kernel of the CPU what
  // the compiler expects of it.
  void start_recording(Recording& recording) {
    profiler_.emplace(
        recording.buffer,
        runtime::ProfilerClock{[](void* self) { return static_cast<HostSession*>(self)->clock_; },
                               this});
    clock_ = 0;
    profiler_->start(npu::ProfileEvent::kRun);
  }
  void finish_recording(Recording& recording, const pte::Status& status) {
    if (status.ok() && !profiler_->records().empty()) profiler_->stop(0);
    recording.used = profiler_->records().size();
    recording.lost = profiler_->lost();
    recording.header = profiler_->header();
    recording.header.unit = npu::ProfileUnit::kEstimate;
    recording.header.error = static_cast<uint8_t>(status.error);
    recording.header.planned_bytes = static_cast<uint32_t>(planned_bytes_);
    recording.header.used_bytes = static_cast<uint32_t>(touched_);
    recording.start.assign(std::begin(starts_), std::end(starts_));
    profiler_.reset();
  }
  static uint64_t nanoseconds() {
    return static_cast<uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  }
  uint64_t kernel_cycles(uint32_t instruction) const {
    const pte::DebugMap* map = pte_file_.debug_map();
    return map == nullptr ? 0 : map->calls()->Get(instruction)->cycles();
  }

  // Which instruction runs, so that NPU events can name it.
  static bool before(void* context, const runtime::Method& method, uint32_t instruction) {
    auto* self = static_cast<HostSession*>(context);
    self->instruction_ = instruction;
    if (self->profiler_) self->profiler_->observer().before(&*self->profiler_, method, instruction);
    const Cancellation* const cancellation = Cancellation::current();
    return cancellation == nullptr || !cancellation->cancelled();
  }

  static void after(void* context, const runtime::Method& method, uint32_t instruction) {
    auto* self = static_cast<HostSession*>(context);
    if (self->hooks_->after_instruction) self->hooks_->after_instruction(instruction, method);
    const npu::Report npu = std::exchange(self->context_.report, {});
    if (self->profiler_) {
      self->clock_ +=
          method.is_delegate(instruction) ? npu.total_cycles : self->kernel_cycles(instruction);
      self->profiler_->observer().after(&*self->profiler_, method, instruction);
    }
    npu::Report& sum = self->report_;
    sum.total_cycles += npu.total_cycles;
    sum.busy_cycles += npu.busy_cycles;
    sum.host_cycles += npu.host_cycles;
    sum.stall_cycles += npu.stall_cycles;
    sum.copied_bytes += npu.copied_bytes;
    sum.calls += npu.calls;
    if (self->watch_touches_)
      self->touched_ = std::max<uint64_t>(
          self->touched_, runtime::touched_end(method.arguments(instruction), self->memories_,
                                               npu.calls > 0 ? npu.peak_scratch_bytes : 0));
  }

  static void on_event(void* context, const npu::Event& event) {
    auto* self = static_cast<HostSession*>(context);
    if (self->profiler_) runtime::Profiler::on_npu_event(&*self->profiler_, event);
    if (self->hooks_->after_event && !self->arenas_.empty())
      self->hooks_->after_event(self->instruction_, event, self->arenas_.front().span());
  }

  std::unique_ptr<const ProgramFiles> owned_;  // null: another session owns the files
  const ProgramFiles& files_;
  const PteFile& pte_file_;
  const TargetDescription* target_;
  const std::vector<PtdFile>& tensor_files_;
  std::vector<pte::TensorFile> opened_;
  simulator::HostSimulator simulator_;
  runtime::DeuteronContext context_;
  NeutronDelegate neutron_;
  runtime::Delegate delegates_[2];
  Arena state_;
  std::vector<Arena> arenas_;
  std::vector<std::span<std::byte>> memories_;  // the arenas
  uint64_t planned_bytes_ = 0;                  // of all of them
  npu::ProfileRecord starts_[2];                // load and init, in nanoseconds
  runtime::Program program_;
  runtime::Method method_;
  Graph signature_;
  std::vector<Arena> inputs_;  // in the program's physical order
  const RunHooks* hooks_ = nullptr;
  bool watch_touches_ = false;
  uint32_t instruction_ = 0;
  std::optional<runtime::Profiler> profiler_;  // while a run is recorded
  uint64_t clock_ = 0;
  npu::Report report_;
  uint64_t touched_ = 0;
};

}  // namespace

namespace {

Result<std::unique_ptr<Session>> start(PteFile pte_file, std::string_view method,
                                       const simulator::KernelSet& kernel_set,
                                       std::vector<PtdFile> tensor_files = {},
                                       bool in_payload = false) {
  DTR_TRY(pte_file.select(method));
  DTR_ASSIGN(const TargetDescription* target, target_of(pte_file));
  auto session = std::make_unique<HostSession>(std::make_unique<const ProgramFiles>(
      ProgramFiles{std::move(pte_file), std::move(tensor_files), target, kernel_set, in_payload}));
  DTR_TRY(session->start());
  return session;
}

}  // namespace

Result<SharedProgram::Lease> SharedProgram::open() {
  Lease lease;
  if (!taken_.exchange(true)) {
    lease.session_ = &first_;
  } else {
    DTR_ASSIGN(lease.owned_, first_.open_another());
    lease.session_ = lease.owned_.get();
  }
  lease.session_->use_threads(threads_);
  return lease;
}

Result<TensorView> planned_input(const Session& session, size_t index, const TensorView& input,
                                 Tensor& codes) {
  const Type& type = session.signature().type(session.signature().inputs()[index]);
  if (input.dtype == type.dtype && input.shape == type.shape) return input;
  if (input.dtype == DType::kFloat32 && input.shape == type.shape && has_real_values(type)) {
    codes = quantized(input, type);
    return codes.view();
  }
  return fail(DiagnosticId::kRunInput,
              fmt::format("input {} is {} {}, the program takes {} {}", index, name(input.dtype),
                          to_string(input.shape), name(type.dtype), to_string(type.shape)),
              "give data of the program's shape and dtype", {.file = session.pte_file().path()});
}

Result<void> load_program(const PteFile& pte_file, runtime::DelegateTable delegates,
                          std::span<const pte::TensorFile> tensor_files,
                          runtime::Program* program) {
  struct Missing {
    std::string list;
    std::string kernel;  // the first
  } missing;
  const runtime::LoadOptions options{
      .kernels = dtr_host_environment()->options.kernels,
      .plugins = {plugins(), runtime::run_plugin_kernel},
      .delegates = delegates,
      .tensor_files = tensor_files,
      .checksum = nullptr,
      .on_missing =
          [](void* context, pte::Error what, std::string_view name, std::string_view overload) {
            auto& [list, kernel] = *static_cast<Missing*>(context);
            const std::string full =
                terminal_format("{}{}{}", name, overload.empty() ? "" : ".", overload);
            list += fmt::format("\n  {} {}", missing_kind(what), full);
            // ExecuTorch's own operators have arguments of their own.
            if (what == pte::Error::kMissingKernel && kernel.empty() && !full.starts_with("aten::"))
              kernel = full;
          },
      .context = &missing};
  if (const pte::Status status = runtime::Program::load(pte_file.bytes(), options, program);
      !status.ok()) {
    Diagnostic diagnostic = to_diagnostic(status, pte_file.path());
    if (!missing.list.empty()) diagnostic.reason += ":" + missing.list;
    if (!missing.kernel.empty()) diagnostic.fix = plugin_remedy(missing.kernel);
    return tl::unexpected(std::move(diagnostic));
  }
  return {};
}

Result<std::unique_ptr<Session>> Session::open(const std::string& path,
                                               const std::vector<std::string>& tensor_files,
                                               std::string_view method) {
  DTR_ASSIGN(PteFile pte_file, PteFile::open(path));
  DTR_ASSIGN(std::vector<PtdFile> opened, open_tensor_files(tensor_files));
  return start(std::move(pte_file), method, simulator::best_kernel_set(), std::move(opened));
}

namespace {

Result<std::unique_ptr<Session>> start(PteFile pte_file, std::string_view method,
                                       const simulator::KernelSet& kernel_set,
                                       std::span<const std::byte> tensor_file) {
  std::vector<PtdFile> opened;
  if (!tensor_file.empty()) {
    DTR_ASSIGN(PtdFile held, PtdFile::parse(tensor_file, pte_file.path()));
    opened.push_back(std::move(held));
  }
  return start(std::move(pte_file), method, kernel_set, std::move(opened));
}

}  // namespace

Result<std::unique_ptr<Session>> Session::load(std::span<const std::byte> bytes,
                                               const std::string& file,
                                               const simulator::KernelSet& kernel_set,
                                               std::span<const std::byte> tensor_file,
                                               std::string_view method) {
  DTR_ASSIGN(PteFile pte_file, PteFile::parse(bytes, file));
  return start(std::move(pte_file), method, kernel_set, tensor_file);
}

Result<std::unique_ptr<Session>> Session::borrow(std::span<const std::byte> bytes,
                                                 const std::string& file,
                                                 const simulator::KernelSet& kernel_set,
                                                 std::span<const std::byte> tensor_file) {
  DTR_ASSIGN(PteFile pte_file, PteFile::borrow(bytes, file));
  return start(std::move(pte_file), {}, kernel_set, tensor_file);
}

Result<std::unique_ptr<Session>> load_payload(std::span<const std::byte> program,
                                              const std::string& file) {
  DTR_ASSIGN(PteFile pte_file, PteFile::parse(program, file));
  return start(std::move(pte_file), {}, simulator::best_kernel_set(), {}, true);
}

}  // namespace dtr
