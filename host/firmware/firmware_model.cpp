#include "host/firmware/firmware_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <set>

#include "compiler/ir/quantized_values.h"
#include "compiler/program/machine.h"
#include "compiler/program/scalar_types.h"
#include "compiler/support/encode.h"
#include "device/pte/manifest.h"
#include "device/pte/program_generated.h"
#include "device/runtime/delegate_deuteron.h"
#include "device/simulator/decoder.h"
#include "host/firmware/device_sources.h"
#include "host/profiler/trace.h"
#include "host/session/session.h"

namespace dtr {
namespace {

constexpr KernelRow kKernels[] = {
#define DTR_KERNEL(function, name, file) {name, #function, "portable"},
#include "device/runtime/kernels/portable/kernels.inc"
#undef DTR_KERNEL
#define DTR_KERNEL(function, name, file) {name, #function, "cortex_m"},
#include "device/runtime/kernels/cortex_m/kernels.inc"
#undef DTR_KERNEL
};

constexpr const char* kNpuStart =
    "  npu.driver = (new (npu_memory) dtr::simulator::Simulator(kNpu, slots, "
    "arrivals))->driver();\n"
    "  delegates[0] = dtr::runtime::deuteron_delegate(npu);\n";

constexpr const char* kProfileNpu =
    " npu.on_event = profiler != nullptr ? dtr::runtime::Profiler::on_npu_event : nullptr, "
    "npu.event_context = profiler; ";

}  // namespace

std::span<const KernelRow> kernel_rows() { return kKernels; }

Result<FirmwareModel> FirmwareModel::load(const FirmwareInput& program, std::string name,
                                          std::span<const pte::TensorFile> tensor_files) {
  FirmwareModel model(*program.pte_file);
  model.name_ = std::move(name);
  model.title_ = as_terminal(program.name);  // the firmware prints it
  DTR_TRY(model.read(tensor_files));
  model.choose_kernels();
  DTR_TRY(model.choose_plugins());
  return model;
}

Result<void> FirmwareModel::read(std::span<const pte::TensorFile> tensor_files) {
  static runtime::DeuteronContext nothing;  // never called: the program is not prepared
  const runtime::Delegate delegates[] = {runtime::deuteron_delegate(nothing)};
  DTR_TRY(load_program(*pte_file_, delegates, tensor_files, &program_));
  method_ = pte_file_->method();
  plan_ = program_.method(method_);
  if (const pte::Status status = runtime::Method::requirements(program_, method_, &need_);
      !status.ok())
    return tl::unexpected(to_diagnostic(status, pte_file_->path()));
  if (const auto* instructions = plan_->chains()->Get(0)->instructions())
    steps_ = instructions->size();
  DTR_ASSIGN(const TargetDescription* target, target_of(*pte_file_));
  target_ = npu_of(target);
  if (target != nullptr) core_ = target->cpu.core;
  if (plan_->delegates() == nullptr) return {};
  for (const pte::BackendDelegate* delegate : *plan_->delegates()) {
    simulator::Payload payload;
    const simulator::Fault fault =
        simulator::decode(target_, pte_file_->file().payload(*delegate), payload);
    if (fault.status != npu::Status::kOk)
      return fail(DiagnosticId::kFirmwareBoard,
                  fmt::format("{} (command {})", npu::text(fault.status), fault.command), {},
                  {.file = pte_file_->path()});
    payloads_.push_back(payload.most_copies_in_flight);
    commands_.push_back(payload.header.command_count - 1);  // without its end
  }
  return {};
}

// The run, its steps, and the commands of those that the NPU runs.
size_t FirmwareModel::events() const {
  size_t events = 1 + steps_;
  if (steps_ > 0)
    for (const pte::Instruction* step : *plan_->chains()->Get(0)->instructions())
      if (const auto* call = step->instr_args_as_DelegateCall())
        events += commands_[static_cast<size_t>(call->delegate_index())];
  return events;
}

void FirmwareModel::choose_kernels() {
  if (plan_->operators() == nullptr) return;
  for (uint32_t i = 0; i < plan_->operators()->size(); ++i)
    for (const KernelRow& row : kernel_rows())
      if (runtime::operator_name(*plan_, i) == row.name &&
          std::ranges::find(kernels_, row.name, &KernelRow::name) == kernels_.end())
        kernels_.push_back(row);
}

Result<void> FirmwareModel::choose_plugins() {
  for (uint32_t i = 0; plan_->operators() != nullptr && i < plan_->operators()->size(); ++i) {
    const runtime::OperatorName name = runtime::operator_name(*plan_, i);
    const std::string kernel = name.overload.empty()
                                   ? std::string(name.name)
                                   : fmt::format("{}.{}", name.name, name.overload);
    const PluginFile* const file =
        program_.find_kernel(name) == nullptr ? find_plugin_file(kernel) : nullptr;
    if (file == nullptr) continue;
    if (file->source.empty())
      return fail(DiagnosticId::kFirmwareBoard,
                  fmt::format("the kernel `{}` is in a library of this computer", kernel),
                  "give the plug-in's C source in the library's place: --plugin KERNEL.c",
                  {.file = file->file});
    if (std::ranges::find(plugins_, file) == plugins_.end()) plugins_.push_back(file);
  }
  return {};
}

bool FirmwareModel::constants_in_sram() const {
  const pte::Manifest* manifest = pte_file_->file().manifest();
  return manifest != nullptr && (manifest->flags & pte::kConstantsInSram) != 0;
}

std::optional<cortex_m::Core> FirmwareModel::core() const {
  return std::ranges::find(kernels_, "cortex_m", &KernelRow::family) == kernels_.end()
             ? std::nullopt
             : std::optional(core_);
}

std::vector<size_t> FirmwareModel::memories() const {
  std::vector<size_t> bytes;
  for (uint32_t i = 0; i < need_.memories; ++i) bytes.push_back(need_.memory_bytes(i));
  return bytes;
}

bool FirmwareModel::keeps_states_in(uint32_t memory) const {
  return std::ranges::any_of(state_values(*plan_), [&](uint32_t value) {
    return plan_->values()->Get(value)->val_as_Tensor()->allocation_info()->memory_id() ==
           memory + 1;
  });
}

std::string FirmwareModel::memory_name(uint32_t memory) const {
  return keeps_states_in(memory) ? fmt::format("states_{}_{}", name_, memory)
                                 : fmt::format("planned_{}", memory);
}

uint64_t FirmwareModel::device_state_bytes() const {
  constexpr uint64_t kValue = 24, kInteger = 8, kPointer = 4;  // of 32 bits
  const runtime::Method::Counts& counts = need_.counts;
  const uint64_t pointers =
      counts.list_values + counts.kernels + 2 * uint64_t{counts.delegates} + counts.arguments;
  const uint64_t copies = has_npu() ? *std::ranges::max_element(payloads_) : 0;
  return counts.values * kValue + counts.integers * kInteger + pointers * kPointer +
         counts.delegate_bytes + copies * sizeof(uint64_t);
}

std::string FirmwareModel::tensor_lines(std::string_view prefix) const {
  return tensor_lines(prefix, false) + tensor_lines(prefix, true);
}

std::string FirmwareModel::tensor_lines(std::string_view prefix, bool outputs) const {
  const std::vector<std::string> names = io_names(*plan_, outputs);
  const auto& indices = *(outputs ? plan_->outputs() : plan_->inputs());
  std::string text;
  for (uint32_t i = 0; i < indices.size(); ++i) {
    const pte::Tensor* tensor =
        plan_->values()->Get(static_cast<uint32_t>(indices.Get(i)))->val_as_Tensor();
    if (tensor == nullptr) continue;
    std::vector<int> sizes, order;
    if (tensor->sizes() != nullptr) sizes.assign(tensor->sizes()->begin(), tensor->sizes()->end());
    if (tensor->dim_order() != nullptr)
      order.assign(tensor->dim_order()->begin(), tensor->dim_order()->end());
    const auto dtype = dtype_of(static_cast<ScalarType>(tensor->scalar_type()));
    int64_t bytes = static_cast<int64_t>(byte_size(static_cast<ScalarType>(tensor->scalar_type())));
    for (const int size : sizes) bytes *= size;
    const std::optional<Quantization> codes =
        pte_file_->io_quantization(pte_file_->selected(), outputs, i);
    text +=
        fmt::format("{}  {} {}{}{}: {} {}, {} bytes{}{}\n", prefix, outputs ? "output" : "input", i,
                    names[i].empty() ? "" : " ", as_c_comment(names[i]),
                    dtype ? dtr::name(*dtype) : "value", fmt::join(sizes, "x"), bytes,
                    std::ranges::is_sorted(order)
                        ? ""
                        : fmt::format(", dimensions in memory {}", fmt::join(order, ", ")),
                    codes ? ", " + codes_text(*codes) : "");
  }
  return text;
}

std::vector<FirmwareFile> FirmwareModel::files(const FirmwareOptions& options) const {
  const std::vector<size_t> memory_bytes = memories();
  auto marks = section_marks(constants_in_sram());
  marks.emplace_back("MODEL", name_);
  const size_t planned_bytes = std::accumulate(memory_bytes.begin(), memory_bytes.end(), size_t{0});
  return {
      {name_ + "/program.pte",
       {reinterpret_cast<const char*>(pte_file_->bytes().data()), pte_file_->bytes().size()}},
      {name_ + "/program.S", fill_template("program.S.in", marks)},
      {name_ + "/model.h",
       fill_template("model.h.in",
                     {{"MODEL", name_},
                      {"NAME", as_c_comment(title_)},
                      {"TENSORS", tensor_lines("// ")},
                      {"STEPS", fmt::to_string(steps_)},
                      {"EVENTS", fmt::to_string(events())},
                      {"CHECKSUM", fmt::format("0x{:08x}", trace_source(*pte_file_).checksum)},
                      {"PLANNED", fmt::to_string(planned_bytes)}})},
      {name_ + "/model.cpp", code(options)},
  };
}

std::string FirmwareModel::code(const FirmwareOptions& options) const {
  std::string kernels, includes, spans, in_c;
  std::set<std::string_view> families;
  for (const KernelRow& row : kernels_) {
    families.insert(row.family);
    kernels += fmt::format("    {{{}, dtr::runtime::{}::{}}},\n", as_c_string(row.name), row.family,
                           row.function);
  }
  if (has_npu())
    includes +=
        "#include \"device/runtime/delegate_deuteron.h\"\n#include "
        "\"device/simulator/simulator.h\"\n";
  for (const std::string_view family : families)
    includes += fmt::format("#include \"device/runtime/kernels/{}/kernels.h\"\n", family);
  for (uint32_t i = 0; i < need_.memories; ++i) {
    const std::string array = memory_name(i);
    spans += fmt::format("{}memory::{}", i == 0 ? "" : ", ", array);
    in_c += fmt::format("{0}{{memory::{1}, sizeof memory::{1}}}", i == 0 ? "" : ", ", array);
  }
  std::string load_options = ".kernels = kKernels", declarations, start, objects;
  if (!plugins_.empty()) {
    includes += "#include \"device/runtime/plugin_kernel.h\"\n";
    load_options += ", .plugins = {plugins, dtr::runtime::run_plugin_kernel}";
    objects = fmt::format("const dtr_plugin* plugins[{}];\n", plugins_.size());
    for (size_t i = 0; i < plugins_.size(); ++i) {
      declarations += fmt::format("extern \"C\" const dtr_plugin* {}();  // plugins/{}.c\n",
                                  plugin_entry(*plugins_[i]), plugin_entry(*plugins_[i]));
      start += fmt::format("  plugins[{}] = {}();\n", i, plugin_entry(*plugins_[i]));
    }
  }
  if (has_npu()) load_options += ", .delegates = delegates";
  std::string tensor_files, open_tensor_files;
  if (!options.tensor_files.empty()) {
    tensor_files =
        fmt::format("dtr::pte::TensorFile tensor_files[{}];\n", options.tensor_files.size());
    // A file that is damaged stays empty: what it should hold is missing then.
    for (size_t i = 0; i < options.tensor_files.size(); ++i)
      open_tensor_files += fmt::format(
          "  static_cast<void>(dtr::pte::TensorFile::open({{memory::tensors_{0}, "
          "memory::tensors_{0}_end}}, {1}, &tensor_files[{0}]));\n",
          i, options.checksum);
    load_options += ", .tensor_files = std::span<const dtr::pte::TensorFile>(tensor_files)";
  }
  if (has_npu()) load_options += ", .target_hash = dtr::npu::format_hash(kNpu)";
  if (!options.checksum) load_options += ", .checksum = nullptr";
  if (state_values(*plan_).empty()) load_options += ", .states = nullptr";
  std::string choose;  // for C, which otherwise runs the first method
  if (program_.method_name(0) != method_)
    choose = fmt::format(
        "  if (const dtr_status chosen = dtr_choose_method(handle, {}); chosen.error != DTR_OK) "
        "return chosen;\n",
        as_c_string(method_));
  return fill_template(
      "model.cpp.in",
      {{"MODEL", name_},
       {"INCLUDES", includes + declarations},
       {"KERNEL_COUNT", fmt::to_string(kernels_.size())},
       {"KERNELS", kernels},
       {"OBJECTS", npu_objects() + objects + tensor_files},
       {"COUNTS", counts()},
       {"START", std::string(has_npu() ? kNpuStart : "") + start + open_tensor_files},
       {"OPTIONS", load_options},
       {"MEMORY_COUNT", fmt::to_string(need_.memories)},
       {"MEMORY_SPANS", spans},
       {"MEMORIES_IN_C", in_c},
       {"METHOD", as_c_string(method_)},
       {"CHOOSE", choose},
       {"NPU_CYCLES", has_npu() ? "std::exchange(npu.report, {}).total_cycles" : "0"},
       {"PROFILE_NPU", has_npu() ? kProfileNpu : ""},
       {"PROFILE_STEP", has_npu() ? "npu.report.total_cycles" : "0"},
       {"PEAK_SCRATCH", has_npu() ? "npu.report.peak_scratch_bytes" : "0"}});
}

std::string FirmwareModel::counts() const {
  const runtime::Method::Counts& counts = need_.counts;
  std::string text = fmt::format(
      ".values = {}, .integers = {}, .list_values = {}, .kernels = {}, .delegates = {}, .arguments "
      "= {}",
      counts.values, counts.integers, counts.list_values, counts.kernels, counts.delegates,
      counts.arguments);
  if (has_npu())
    text += fmt::format(
        ", .delegate_bytes = {} * dtr::runtime::padded(dtr::runtime::kDeuteronStateBytes)",
        payloads_.size());
  return text;
}

// The NPU: a model of it that runs on the core, in the place of a driver for silicon.
std::string FirmwareModel::npu_objects() const {
  if (!has_npu()) return {};
  const auto fields =
      std::bit_cast<std::array<uint32_t, sizeof(npu::Target) / sizeof(uint32_t)>>(target_);
  const uint32_t copies = *std::ranges::max_element(payloads_);
  return fmt::format(
      "// The NPU: a model of it that runs on this core, in the place of a driver for silicon.\n"
      "constexpr dtr::npu::Target kNpu{{{}}};\n"
      "dtr::simulator::Simulator::Slot slots[{}];\n"
      "uint64_t arrivals[{}];\n"
      "alignas(dtr::simulator::Simulator) std::byte "
      "npu_memory[sizeof(dtr::simulator::Simulator)];\n"
      "dtr::runtime::DeuteronContext npu;\n"
      "dtr::runtime::Delegate delegates[1];\n\n",
      fmt::join(fields, ", "), payloads_.size(), std::max(copies, 1U));
}

std::string plugin_entry(const PluginFile& plugin) {
  const auto all = plugins();
  return fmt::format("dtr_plugin_{}", std::ranges::find(all, plugin.plugin) - all.begin());
}

std::vector<std::pair<std::string_view, std::string>> section_marks(bool in_sram) {
  return {{"SECTION", in_sram ? ".program_sram" : ".program"},
          {"PLACE", in_sram ? "which the start copies to SRAM" : "a constant in flash"}};
}

std::string_view firmware_template(std::string_view name) {
  const std::string path = fmt::format("{}{}", kFirmwareTemplates, name);
  const auto found = std::ranges::find(device_sources(), path, &EmbeddedFile::path);
  DTR_CHECK(found != device_sources().end());
  return found->text;
}

std::string fill_template(std::string_view name,
                          const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string_view rest = firmware_template(name);
  std::string text;
  while (!rest.empty()) {
    const size_t begin = std::min(rest.find('@'), rest.size());
    text += rest.substr(0, begin);
    rest.remove_prefix(begin);
    const auto value = std::ranges::find_if(
        values, [&](const auto& one) { return rest.starts_with(fmt::format("@{}@", one.first)); });
    if (value != values.end()) {
      text += value->second;
      rest.remove_prefix(value->first.size() + 2);
    } else if (!rest.empty()) {
      text += '@';
      rest.remove_prefix(1);
    }
  }
  return text;
}

}  // namespace dtr
