#include "host/executorch/platform.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "compiler/program/machine.h"
#include "compiler/program/reader.h"
#include "compiler/program/scalar_types.h"
#include "device/pte/debug_map_generated.h"
#include "device/runtime/environment.h"
#include "host/profiler/operator_map.h"
#include "host/session/capture.h"
#include "host/simulator/host_simulator.h"

namespace dtr {
namespace {

namespace et = executorch;

// Writes to ExecuTorch's log; null until a library of it is known.
using EmitLog = void (*)(uint64_t timestamp, int level, const char* file, const char* function,
                         size_t line, const char* message, size_t length);
std::atomic<EmitLog> emit_log = nullptr;

void log_error(void*, const char* sentence) {
  const std::string text = fmt::format("DeuteronBackend: {}", sentence);
  if (const EmitLog emit = emit_log.load())
    emit(0, 'E', "deuteron", "DeuteronBackend", 0, text.data(), text.size());
}

bool refuse(const std::string& reason) {
  log_error(nullptr, reason.c_str());
  return false;
}

class SimulatedMachine {
 public:
  SimulatedMachine(PteFile pte_file, const TargetDescription* target)
      : pte_file_(std::move(pte_file)), target_(target), simulator_(npu_of(target)) {
    if (const pte::DebugMap* map = pte_file_.debug_map()) {
      operators_ = OperatorMap(*map);
      capture_.emplace(*map);
    }
  }

  std::span<const std::byte> program() const { return pte_file_.bytes(); }

  et::Machine machine() {
    et::Machine made{
        .context = this,
        .driver = simulator_.driver(),
        .most_planned_bytes = target_ == nullptr ? uint64_t{INT32_MAX} : target_->memory.sram_bytes,
        .npu_hz = target_ == nullptr ? 0 : target_->npu.clock_hz,
        .kernel_time = [](void* self, uint32_t instruction) {
          return of(self).kernel_time(instruction);
        }};
    if (!capture_) return made;
    made.start_capture = [](void* self) { of(self).capture_->watch(of(self).hooks_); };
    made.capture_event = [](void* self, uint32_t instruction, const npu::Event& event,
                            std::span<const std::byte> arena) {
      of(self).hooks_.after_event(instruction, event, arena);
    };
    made.capture_instruction = [](void* self, uint32_t instruction, const runtime::Method& method) {
      of(self).hooks_.after_instruction(instruction, method);
    };
    made.log_captured = [](void* self, et::EventTracer& tracer) { of(self).log_captured(tracer); };
    return made;
  }

 private:
  static SimulatedMachine& of(void* self) { return *static_cast<SimulatedMachine*>(self); }

  uint64_t kernel_time(uint32_t instruction) const {
    const pte::DebugMap* map = pte_file_.debug_map();
    if (map == nullptr || target_ == nullptr || target_->cpu.clock_hz == 0) return 0;
    return map->calls()->Get(instruction)->cycles() * 1'000'000'000 / target_->cpu.clock_hz;
  }

  // The result of each source operator, with the last event that computes of it: real values, but
  // the codes of a quantize.
  void log_captured(et::EventTracer& tracer) {
    std::map<uint32_t, std::pair<uint32_t, int32_t>> events;  // by source
    for (const auto& [place, step] : operators_.steps())
      if (!step.origin.sources.empty())
        events[std::ranges::max(step.origin.sources)] = {static_cast<uint32_t>(place.first),
                                                         place.second};
    for (const auto& [source, place] : events) {
      const Tensor* codes = capture_->stored(source);
      if (codes == nullptr || place.first >= et::kMaxInstructions) continue;
      const bool quantizes =
          operators_.sources()[source].target.starts_with("quantized_decomposed.quantize_");
      const std::optional<Tensor> real = quantizes ? std::nullopt : capture_->real(source);
      log(tracer, et::event_id(place.first, place.second), real ? *real : *codes);
    }
  }

  static void log(et::EventTracer& tracer, int32_t id, const Tensor& tensor) {
    std::vector<int32_t> sizes, steps;
    std::vector<uint8_t> order;
    for (const int64_t stride : strides(tensor.shape(), Layout::kContiguous))
      steps.push_back(static_cast<int32_t>(stride));
    for (const int64_t size : tensor.shape()) {
      order.push_back(static_cast<uint8_t>(sizes.size()));
      sizes.push_back(static_cast<int32_t>(size));
    }
    et::TensorImpl impl(static_cast<et::ScalarType>(scalar_type(tensor.dtype())),
                        static_cast<ptrdiff_t>(sizes.size()), sizes.data(),
                        const_cast<std::byte*>(tensor.bytes().data()), order.data(), steps.data());
    // What it answers is whether the tensor passed the user's filter; a buffer that is full is an
    // error of the tracer's own, which the run does not end for.
    (void)tracer.log_intermediate_output_delegate(nullptr, id, et::Tensor(&impl));
  }

  PteFile pte_file_;
  const TargetDescription* target_;
  simulator::HostSimulator simulator_;
  OperatorMap operators_;
  std::optional<Capture> capture_;
  RunHooks hooks_;  // the capture's
};

bool open(void*, std::span<const std::byte>& program, et::Machine* machine) {
  auto pte_file = PteFile::parse(program, "the delegate's payload");
  if (!pte_file) return refuse(pte_file.error().reason);
  const auto target = target_of(*pte_file);
  if (!target) return refuse(target.error().reason);
  auto made = std::make_unique<SimulatedMachine>(*std::move(pte_file), *target);
  program = made->program();
  *machine = made->machine();
  made.release();  // NOLINT(bugprone-unused-return-value): `close` deletes it
  return true;
}

void close(void*, et::Machine& machine) { delete static_cast<SimulatedMachine*>(machine.context); }

// The functions of one library of ExecuTorch.
struct Library {
  et::RegisterBackend register_backend = nullptr;
  EmitLog emit = nullptr;
};

// What a library defines itself: dlsym looks into those that it needs, too.
void* own_symbol(void* library, const char* file, const char* name) {
  void* symbol = dlsym(library, name);
  Dl_info found;
  if (symbol == nullptr || dladdr(symbol, &found) == 0 || found.dli_fname == nullptr ||
      std::string_view(found.dli_fname) != file)
    return nullptr;
  return symbol;
}

}  // namespace

const et::Platform& simulated_platform() {
  static const et::Platform platform{.kernels = dtr_host_environment()->options.kernels,
                                     .open = open,
                                     .close = close,
                                     .log = log_error};
  return platform;
}

size_t register_with_executorch(const std::string& folder, const char* name,
                                et::BackendInterface& backend) {
  // The loader may name a library by its real path where Python's path has a symbolic link.
  const auto real = [](const std::string& path) {
    std::error_code error;
    const std::filesystem::path found = std::filesystem::canonical(path, error);
    return error ? path : found.string();
  };
  const std::string inside = real(folder) + "/";
  static std::map<std::string, std::set<et::RegisterBackend>> all;
  std::set<et::RegisterBackend>& done = all[name];
  std::vector<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* list) {
        if (info->dlpi_name != nullptr)
          static_cast<std::vector<std::string>*>(list)->emplace_back(info->dlpi_name);
        return 0;
      },
      &files);
  for (const std::string& file : files) {
    if (!real(file).starts_with(inside)) continue;
    void* library = dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    if (void* emit = own_symbol(library, file.c_str(), "et_pal_emit_log_message"))
      emit_log = reinterpret_cast<EmitLog>(emit);
    if (void* symbol = own_symbol(library, file.c_str(), et::kRegisterBackend)) {
      const auto enter = reinterpret_cast<et::RegisterBackend>(symbol);
      if (!done.contains(enter) && enter({name, &backend}) == et::Error::Ok) done.insert(enter);
    }
    dlclose(library);
  }
  return done.size();
}

}  // namespace dtr
