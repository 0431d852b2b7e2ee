#include "compiler/firmware.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <filesystem>
#include <set>

#include "abi/manifest.h"
#include "abi/program_generated.h"
#include "compiler/device_sources.h"
#include "compiler/session.h"
#include "program/scalar_types.h"
#include "runtime/delegate_deuteron.h"
#include "runtime/method.h"
#include "simulator/core/decoder.h"
#include "support/output_file.h"
#include "targets/target.h"

namespace dtr {
namespace {

constexpr std::string_view kM33 = "-mcpu=cortex-m33 -mfloat-abi=hard", kM55 = "-mcpu=cortex-m55 -mfloat-abi=hard";

constexpr std::array kBoards{
    Board{.name = "qemu-an505",
          .summary = "Arm MPS2+ AN505 in QEMU: Cortex-M33 with FPU and DSP extension, 4 MB for code, 4 MB of RAM",
          .folder = "runtime/ports/qemu_mps2_an505",
          .cpu = kM33,
          .machine = "mps2-an505"},
    Board{.name = "qemu-an547",
          .summary = "Arm MPS3 AN547 in QEMU: Cortex-M55 with FPU and MVE, 512 KB for code, 4 MB of RAM",
          .folder = "runtime/ports/qemu_mps3_an547",
          .cpu = kM55,
          .machine = "mps3-an547"},
};

// Where a kernel comes from.
struct KernelRow {
  std::string_view name, function, family;
};
constexpr KernelRow kKernels[] = {
#define DTR_KERNEL(function, name) {name, #function, "portable"},
#include "runtime/kernels/portable/kernels.inc"
#undef DTR_KERNEL
#define DTR_KERNEL(function, name) {name, #function, "cortex_m"},
#include "runtime/kernels/cortex_m/kernels.inc"
#undef DTR_KERNEL
};

constexpr std::string_view kTemplates = "runtime/ports/project/";

// A word of C++ stands in the text.
bool has_word(std::string_view text, std::string_view word) {
  const auto part_of_word = [&](size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    if ((at == 0 || !part_of_word(at - 1)) && !part_of_word(at + word.size())) return true;
  return false;
}

std::string lines(const std::vector<std::string>& items, std::string_view prefix = "") {
  std::string text;
  for (const std::string& item : items) text += fmt::format("{}{}\n", prefix, item);
  return text;
}

// A program of the image, loaded for its sizes: nothing runs.
class Project {
 public:
  Project(const ProgramImage& image, const Board& board, std::string_view name) : image_(image), board_(board), name_(name) {}

  Result<std::vector<FirmwareFile>> make() {
    DTR_TRY(load());
    choose_kernels();
    add_sources();
    add_model();
    add_users_files();
    std::ranges::sort(files_, {}, &FirmwareFile::path);
    return std::move(files_);
  }

 private:
  bool has_npu() const { return !payloads_.empty(); }

  Status load() {
    static runtime::DeuteronContext nothing;  // never called: the program is not prepared
    const runtime::Delegate delegates[] = {runtime::deuteron_delegate(nothing)};
    DTR_TRY(load_program(image_, delegates, {}, &program_));
    method_ = program_.method_name(0);
    plan_ = program_.method(method_);
    if (const pte::Status status = runtime::Method::requirements(program_, method_, &need_); !status.ok())
      return tl::unexpected(to_diagnostic(status, image_.path()));
    if (const auto* instructions = plan_->chains()->Get(0)->instructions()) steps_ = instructions->size();
    const pte::Manifest* manifest = image_.file().manifest();
    const TargetDescription* target = manifest == nullptr ? nullptr : find_target(manifest->target);
    target_ = target == nullptr ? npu::Target{} : target->npu;
    if (plan_->delegates() == nullptr) return {};
    for (const pte::BackendDelegate* delegate : *plan_->delegates()) {
      simulator::Payload payload;
      const simulator::Fault fault = simulator::decode(target_, image_.file().payload(*delegate), payload);
      if (fault.status != npu::Status::kOk)
        return fail(DiagnosticId::kFirmwareBoard, fmt::format("{} (command {})", npu::text(fault.status), fault.command), {},
                    {.file = image_.path()});
      payloads_.push_back(payload.most_copies_in_flight);
    }
    return {};
  }

  void choose_kernels() {
    if (plan_->operators() == nullptr) return;
    for (uint32_t i = 0; i < plan_->operators()->size(); ++i)
      for (const KernelRow& row : kKernels)
        if (runtime::operator_name(*plan_, i) == row.name && std::ranges::find(kernels_, row.name, &KernelRow::name) == kernels_.end())
          kernels_.push_back(row);
  }

  void add(std::string path, std::string_view text, bool users = false) { files_.push_back({std::move(path), std::string(text), users}); }

  // Whether a source of kernels has one that is used, or none at all: what several of them share.
  bool is_needed(const DeviceSource& source) const {
    bool has_kernels = false;
    for (const KernelRow& row : kKernels) {
      if (!source.path.starts_with(fmt::format("runtime/kernels/{}/", row.family)) || !has_word(source.text, row.function)) continue;
      if (std::ranges::find(kernels_, row.name, &KernelRow::name) != kernels_.end()) return true;
      has_kernels = true;
    }
    const bool other_family = std::ranges::none_of(
        kernels_, [&](const KernelRow& row) { return source.path.starts_with(fmt::format("runtime/kernels/{}/", row.family)); });
    return !has_kernels && !other_family && !source.path.ends_with("/kernels.cpp");
  }

  void add_sources() {
    std::vector<std::string> core, kernels, board;
    for (const DeviceSource& source : device_sources()) {
      const bool is_code = source.path.ends_with(".cpp");
      const bool is_npu = source.path.starts_with("abi/npu/") || source.path.ends_with("delegate_deuteron.cpp");
      std::vector<std::string>* list = &core;
      if (source.path.starts_with(kTemplates)) continue;
      if (source.path.starts_with("runtime/ports/")) {
        if (!source.path.starts_with(board_.folder) && !source.path.starts_with("runtime/ports/cortex_m/")) continue;
        list = &board;
      } else if (source.path.starts_with("simulator/")) {
        if (!has_npu()) continue;
        list = &kernels;
      } else if (source.path.starts_with("runtime/kernels/")) {
        if (is_code && !is_needed(source)) continue;
        list = &kernels;
      } else if (is_npu && is_code && !has_npu()) {
        continue;
      }
      const std::string path = fmt::format("deuteron/{}", source.path);
      if (is_code) list->push_back(path);
      add(path, source.text);
    }
    add("deuteron/sources.cmake",
        fmt::format("set(DEUTERON_CORE\n{})\nset(DEUTERON_KERNELS\n{})\nset(DEUTERON_BOARD\n{})\nset(DEUTERON_BOARD_FOLDER {})\n",
                    lines(core, "  "), lines(kernels.empty() ? std::vector<std::string>{"deuteron/abi/status.cpp"} : kernels, "  "),
                    lines(board, "  "), board_.folder));
    add("deuteron/cpu.cmake", fmt::format("set(DEUTERON_CPU \"{}\")\n", board_.cpu));
  }

  void add_model() {
    add("model/program.pte", {reinterpret_cast<const char*>(image_.bytes().data()), image_.bytes().size()});
    add("model/program.S", template_text("program.S"));
    add("model/model.h",
        fill("model.h.in", {{"NAME", std::string(name_)}, {"TENSORS", tensor_lines("// ")}, {"STEPS", fmt::to_string(steps_)}}));
    add("model/model.cpp", model_code());
  }

  // The inputs and outputs, a line each.
  std::string tensor_lines(std::string_view prefix) const { return tensor_lines(prefix, false) + tensor_lines(prefix, true); }
  std::string tensor_lines(std::string_view prefix, bool outputs) const {
    const std::vector<std::string> names = io_names(*plan_, outputs);
    const auto& indices = *(outputs ? plan_->outputs() : plan_->inputs());
    std::string text;
    for (uint32_t i = 0; i < indices.size(); ++i) {
      const pte::Tensor* tensor = plan_->values()->Get(static_cast<uint32_t>(indices.Get(i)))->val_as_Tensor();
      if (tensor == nullptr) continue;
      std::vector<int> sizes, order;
      if (tensor->sizes() != nullptr) sizes.assign(tensor->sizes()->begin(), tensor->sizes()->end());
      if (tensor->dim_order() != nullptr) order.assign(tensor->dim_order()->begin(), tensor->dim_order()->end());
      const auto dtype = dtype_of(static_cast<ScalarType>(tensor->scalar_type()));
      int64_t bytes = static_cast<int64_t>(byte_size(static_cast<ScalarType>(tensor->scalar_type())));
      for (const int size : sizes) bytes *= size;
      text += fmt::format("{}  {} {}{}{}: {} {}, {} bytes{}\n", prefix, outputs ? "output" : "input", i, names[i].empty() ? "" : " ",
                          names[i], dtype ? dtr::name(*dtype) : "value", fmt::join(sizes, "x"), bytes,
                          std::ranges::is_sorted(order) ? "" : fmt::format(", dimensions in memory {}", fmt::join(order, ", ")));
    }
    return text;
  }

  std::string model_code() const {
    std::string kernels, includes, memories, spans;
    std::set<std::string_view> families;
    for (const KernelRow& row : kernels_) {
      families.insert(row.family);
      kernels += fmt::format("    {{\"{}\", dtr::runtime::{}::{}}},\n", row.name, row.family, row.function);
    }
    if (has_npu()) includes += "#include \"runtime/delegate_deuteron.h\"\n#include \"simulator/core/simulator.h\"\n";
    for (const std::string_view family : families) includes += fmt::format("#include \"runtime/kernels/{}/kernels.h\"\n", family);
    for (uint32_t i = 0; i < need_.memories; ++i) {
      memories +=
          fmt::format("alignas(16) [[gnu::section(\".arena\")]] std::byte memory_{}[{}];\n", i, std::max<size_t>(need_.memory_bytes(i), 1));
      spans += fmt::format("{}memory_{}", i == 0 ? "" : ", ", i);
    }
    return fill("model.cpp.in", {{"INCLUDES", includes},
                                 {"KERNEL_COUNT", fmt::to_string(kernels_.size())},
                                 {"KERNELS", kernels},
                                 {"NPU_OBJECTS", npu_objects()},
                                 {"COUNTS", counts()},
                                 {"MEMORIES", memories},
                                 {"NPU_START", has_npu() ? kNpuStart : ""},
                                 {"OPTIONS", has_npu() ? ".kernels = kKernels, .delegates = delegates, .target_hash = dtr::npu::hash(kNpu)"
                                                       : ".kernels = kKernels"},
                                 {"MEMORY_COUNT", fmt::to_string(need_.memories)},
                                 {"MEMORY_SPANS", spans},
                                 {"METHOD", std::string(method_)},
                                 {"NPU_CYCLES", has_npu() ? "std::exchange(npu.report, {}).total_cycles" : "0"}});
  }

  std::string counts() const {
    const runtime::Method::Counts& counts = need_.counts;
    std::string text = fmt::format(".values = {}, .integers = {}, .list_values = {}, .kernels = {}, .delegates = {}, .arguments = {}",
                                   counts.values, counts.integers, counts.list_values, counts.kernels, counts.delegates, counts.arguments);
    if (has_npu())
      text += fmt::format(", .delegate_bytes = {} * dtr::runtime::padded(dtr::runtime::kDeuteronStateBytes)", payloads_.size());
    return text;
  }

  // The NPU: a model of it that runs on the core, in the place of a driver for silicon.
  std::string npu_objects() const {
    if (!has_npu()) return {};
    const auto fields = std::bit_cast<std::array<uint32_t, sizeof(npu::Target) / sizeof(uint32_t)>>(target_);
    const uint32_t copies = *std::ranges::max_element(payloads_);
    return fmt::format(
        "// The NPU: a model of it that runs on this core, in the place of a driver for silicon.\n"
        "constexpr dtr::npu::Target kNpu{{{}}};\n"
        "dtr::simulator::Simulator::Slot slots[{}];\n"
        "uint64_t arrivals[{}];\n"
        "alignas(dtr::simulator::Simulator) std::byte npu_memory[sizeof(dtr::simulator::Simulator)];\n"
        "dtr::runtime::DeuteronContext npu;\n"
        "dtr::runtime::Delegate delegates[1];\n\n",
        fmt::join(fields, ", "), payloads_.size(), std::max(copies, 1U));
  }
  static constexpr const char* kNpuStart =
      "  npu.driver = (new (npu_memory) dtr::simulator::Simulator(kNpu, slots, arrivals))->driver();\n"
      "  delegates[0] = dtr::runtime::deuteron_delegate(npu);\n";

  void add_users_files() {
    for (const std::string_view name : {"main.cpp", "CMakeLists.txt"})
      add(std::string(name), template_text(fmt::format("{}.in", name)), true);
    for (const std::string_view name : {"deuteron.cmake", "sizes.py", "stack.py", "toolchain.cmake"})
      add(fmt::format("deuteron/{}", name), template_text(name));
    add("README.md", fill("README.md.in", {{"NAME", std::string(name_)},
                                           {"BOARD", std::string(board_.summary)},
                                           {"MACHINE", std::string(board_.machine)},
                                           {"TENSORS", tensor_lines("  ")}}));
  }

  static std::string_view template_text(std::string_view name) {
    const std::string path = fmt::format("{}{}", kTemplates, name);
    const auto found = std::ranges::find(device_sources(), path, &DeviceSource::path);
    DTR_CHECK(found != device_sources().end());
    return found->text;
  }

  // The template with each @KEY@ replaced.
  static std::string fill(std::string_view name, const std::vector<std::pair<std::string_view, std::string>>& values) {
    std::string text(template_text(name));
    for (const auto& [key, value] : values) {
      const std::string mark = fmt::format("@{}@", key);
      for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size()))
        text.replace(at, mark.size(), value);
    }
    return text;
  }

  const ProgramImage& image_;
  const Board& board_;
  std::string_view name_;
  runtime::Program program_;
  std::string_view method_;
  const pte::ExecutionPlan* plan_ = nullptr;
  runtime::Method::Requirements need_;
  size_t steps_ = 0;  // kernel and delegate calls of a run
  npu::Target target_;
  std::vector<uint32_t> payloads_;  // copies that each has in flight at most
  std::vector<KernelRow> kernels_;
  std::vector<FirmwareFile> files_;
};

}  // namespace

std::span<const Board> all_boards() { return kBoards; }

Result<const Board*> resolve_board(std::string_view name) {
  std::string names;
  for (const Board& board : kBoards) {
    if (board.name == name) return &board;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", board.name);
  }
  return fail(DiagnosticId::kFirmwareBoard, fmt::format("there is no board `{}`", name), "use one of " + names);
}

Result<std::vector<FirmwareFile>> make_firmware(const ProgramImage& image, const Board& board, std::string_view name) {
  return Project(image, board, name).make();
}

Result<std::vector<std::string>> write_firmware(std::span<const FirmwareFile> files, const std::string& folder) {
  std::vector<std::string> kept;
  for (const FirmwareFile& file : files) {
    const std::filesystem::path path = std::filesystem::path(folder) / file.path;
    std::error_code error;
    if (file.users && std::filesystem::exists(path, error)) {
      kept.push_back(path.string());
      continue;
    }
    std::filesystem::create_directories(path.parent_path(), error);
    if (error)
      return fail(DiagnosticId::kFileNotWritable, "cannot make the folder: " + error.message(), "choose a folder where you may write",
                  {.file = path.parent_path().string()});
    DTR_TRY(write_file(path.string(), file.text));
  }
  return kept;
}

}  // namespace dtr
