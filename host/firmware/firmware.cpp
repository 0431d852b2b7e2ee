#include "host/firmware/firmware.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <numeric>

#include "compiler/support/encode.h"
#include "host/firmware/device_sources.h"
#include "host/firmware/firmware_model.h"

namespace dtr {
namespace {

constexpr std::string_view kM33 = "-mcpu=cortex-m33 -mfloat-abi=hard",
                           kM55 = "-mcpu=cortex-m55 -mfloat-abi=hard";

constexpr std::array kBoards{
    Board{.name = "qemu-an505",
          .summary = "Arm MPS2+ AN505 in QEMU: Cortex-M33 with FPU and DSP extension, 4 MB for "
                     "code, 4 MB of RAM",
          .folder = "device/runtime/ports/qemu_mps2_an505",
          .cpu = kM33,
          .machine = "mps2-an505",
          .core = cortex_m::Core::kDsp,
          .inputs_end = 0x81000000},
    Board{.name = "qemu-an547",
          .summary =
              "Arm MPS3 AN547 in QEMU: Cortex-M55 with FPU and MVE, 512 KB for code, 4 MB of RAM",
          .folder = "device/runtime/ports/qemu_mps3_an547",
          .cpu = kM55,
          .machine = "mps3-an547",
          .core = cortex_m::Core::kMve,
          .inputs_end = 0x61000000},
};

std::string_view core_text(cortex_m::Core core) {
  return core == cortex_m::Core::kMve ? "a core with MVE" : "a core with the DSP extension alone";
}

// True if the text has the word as a whole identifier.
bool has_word(std::string_view text, std::string_view word) {
  const auto part_of_word = [&](size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
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

// The files of an image: those of each program, and what they share.
class Project {
 public:
  Project(std::vector<FirmwareModel> models, const FirmwareOptions& options)
      : models_(std::move(models)), options_(options) {
    for (const FirmwareModel& model : models_) {
      has_npu_ = has_npu_ || model.has_npu();
      kernels_.insert(kernels_.end(), model.kernels().begin(), model.kernels().end());
    }
  }

  Result<std::vector<FirmwareFile>> make() {
    DTR_TRY(check_memory());
    add_sources();
    for (const FirmwareModel& model : models_)
      std::ranges::move(model.files(options_), std::back_inserter(files_));
    add_memory();
    add_project_files();
    std::ranges::sort(files_, {}, &FirmwareFile::path);
    return std::move(files_);
  }

 private:
  void add(std::string path, std::string_view text) {
    files_.push_back({std::move(path), std::string(text)});
  }

  // Whether a source of kernels has one that is used, or none at all: what several of them share.
  bool is_needed(const EmbeddedFile& source) const {
    bool has_kernels = false;
    for (const KernelRow& row : kernel_rows()) {
      if (!source.path.starts_with(fmt::format("device/runtime/kernels/{}/", row.family)) ||
          !has_word(source.text, row.function))
        continue;
      if (std::ranges::find(kernels_, row.name, &KernelRow::name) != kernels_.end()) return true;
      has_kernels = true;
    }
    const bool other_family = std::ranges::none_of(kernels_, [&](const KernelRow& row) {
      return source.path.starts_with(fmt::format("device/runtime/kernels/{}/", row.family));
    });
    return !has_kernels && !other_family && !source.path.ends_with("/kernels.cpp");
  }

  void add_sources() {
    std::vector<std::string> core, kernels, board;
    for (const EmbeddedFile& source : device_sources()) {
      const bool is_code = source.path.ends_with(".cpp");
      const bool is_npu =
          source.path.starts_with("device/npu/") || source.path.ends_with("delegate_deuteron.cpp");
      std::vector<std::string>* list = &core;
      if (source.path.starts_with(kFirmwareTemplates)) continue;
      if (source.path.starts_with("device/runtime/ports/")) {
        if (!source.path.starts_with(options_.board->folder) &&
            !source.path.starts_with("device/runtime/ports/cortex_m/"))
          continue;
        list = &board;
      } else if (source.path.starts_with("device/simulator/")) {
        if (!has_npu_) continue;
        list = &kernels;
      } else if (source.path.starts_with("device/runtime/kernels/")) {
        if (is_code && !is_needed(source)) continue;
        list = &kernels;
      } else if (is_npu && is_code && !has_npu_) {
        continue;
      }
      const std::string path = fmt::format("deuteron/{}", source.path);
      if (is_code) list->push_back(path);
      add(path, source.text);
    }
    std::vector<std::string> plugins;
    for (const FirmwareModel& model : models_)
      for (const PluginFile* plugin : model.plugins()) {
        const std::string path = fmt::format("plugins/{}.c", plugin_entry(*plugin));
        if (std::ranges::find(plugins, path) != plugins.end()) continue;
        plugins.push_back(path);
        add(path, plugin->source);
      }
    std::vector<std::string> models = {"memory/memory.cpp"};
    if (!options_.tensor_files.empty()) models.emplace_back("memory/tensors.S");
    for (const FirmwareModel& model : models_)
      for (const std::string_view file : {"model.cpp", "program.S"})
        models.push_back(fmt::format("{}/{}", model.name(), file));
    add("deuteron/sources.cmake",
        fmt::format("set(DEUTERON_MODELS\n{})\n", lines(models, "  ")) +
            fmt::format(
                "set(DEUTERON_CORE\n{})\nset(DEUTERON_KERNELS\n{})\nset(DEUTERON_BOARD\n{})\nset("
                "DEUTERON_BOARD_FOLDER {})\n"
                "set(DEUTERON_RUN_EVENTS {})\n",
                lines(core, "  "),
                lines(kernels.empty() ? std::vector<std::string>{"deuteron/device/pte/status.cpp"}
                                      : kernels,
                      "  "),
                lines(board, "  "), options_.board->folder, run_events()) +
            fmt::format("set(DEUTERON_PLUGINS\n{})\n", lines(plugins, "  ")));
    add("deuteron/cpu.cmake", fmt::format("set(DEUTERON_CPU \"{}\")\n", options_.board->cpu));
  }

  // Of a region of the board's linker script: "RAM (rw) : ORIGIN = …, LENGTH = 4M".
  uint64_t region_bytes(std::string_view region) const {
    const std::string path = fmt::format("{}/board.ld", options_.board->folder);
    const auto script = std::ranges::find(device_sources(), path, &EmbeddedFile::path);
    DTR_CHECK(script != device_sources().end());
    constexpr std::string_view kLength = "LENGTH = ";
    const size_t at = script->text.find(kLength, script->text.find(fmt::format("\n  {} ", region)));
    DTR_CHECK(at != std::string_view::npos);
    uint64_t bytes = 0;
    size_t digit = at + kLength.size();
    for (; std::isdigit(static_cast<unsigned char>(script->text[digit])) != 0; ++digit)
      bytes = bytes * 10 + static_cast<uint64_t>(script->text[digit] - '0');
    return bytes << (script->text[digit] == 'M' ? 20 : script->text[digit] == 'K' ? 10 : 0);
  }

  // Arenas, states and programs against the board's memory; what else takes RAM is small
  // (docs/performance.md) and has a stack beside it.
  Result<void> check_memory() const {
    constexpr uint64_t kStackAndData = 20 << 10;
    uint64_t arenas = 0;
    for (const auto& [name, bytes] : planned_memories()) arenas += bytes;
    uint64_t state = 0, programs = 0;
    for (const FirmwareModel& model : models_)
      state += model.device_state_bytes(), programs += model.program_bytes();
    for (const PtdFile& file : options_.tensor_files) programs += file.bytes().size();
    const auto check = [&](uint64_t needed, std::string_view region,
                           const std::string& what) -> Result<void> {
      if (const uint64_t bytes = region_bytes(region); needed > bytes)
        return fail(DiagnosticId::kFirmwareBoard,
                    fmt::format("{}, {} has {}", what, options_.board->name, bytes),
                    "compile a smaller model, or choose a board with more memory",
                    {.file = models_.front().path()});
      return {};
    };
    DTR_TRY(check(
        arenas + state + kStackAndData, "RAM",
        fmt::format("its memory: {} bytes of arenas, {} of state and {} for stack and data of RAM",
                    arenas, state, kStackAndData)));
    return check(programs, "PROGRAM",
                 fmt::format("its memory: {} bytes of programs and constants", programs));
  }

  // Events of the run that has most of them, and at least those of a start.
  size_t run_events() const {
    size_t most = 2;
    for (const FirmwareModel& model : models_) most = std::max(most, model.events());
    return most;
  }

  // Name and bytes of each planned memory. Programs share one set, each as large as the program
  // needs that needs most of it, but for those with states.
  std::map<std::string, size_t> planned_memories() const {
    std::map<std::string, size_t> memories;
    for (const FirmwareModel& model : models_) {
      const std::vector<size_t> needed = model.memories();
      for (uint32_t i = 0; i < needed.size(); ++i) {
        size_t& bytes = memories[model.memory_name(i)];
        bytes = std::max(bytes, needed[i]);
      }
    }
    return memories;
  }

  void add_memory() {
    std::string declarations, definitions;
    for (const auto& [name, bytes] : planned_memories()) {
      const std::string array =
          fmt::format("std::byte {}[{}];\n", name, std::max<size_t>(bytes, 1));
      declarations += "extern " + array;
      definitions += "alignas(16) [[gnu::section(\".arena\")]] " + array;
    }
    std::string incbin;
    for (size_t i = 0; i < options_.tensor_files.size(); ++i) {
      const std::span<const std::byte> file = options_.tensor_files[i].bytes();
      const std::string path = fmt::format("memory/tensors_{}.ptd", i);
      add(path, {reinterpret_cast<const char*>(file.data()), file.size()});
      declarations += fmt::format(
          "extern \"C\" const std::byte tensors_{0}[], tensors_{0}_end[];  // tensors.S\n", i);
      incbin += fmt::format(
          "    .balign 16\n    .global tensors_{0}\n    .global tensors_{0}_end\ntensors_{0}:\n    "
          ".incbin \"{1}\"\ntensors_{0}_end:\n",
          i, path);
    }
    if (!incbin.empty()) {
      // In SRAM if one of the programs requires its constants there, since all programs share the
      // tensor files.
      auto marks = section_marks(std::ranges::any_of(models_, &FirmwareModel::constants_in_sram));
      marks.emplace_back("FILES", incbin);
      add("memory/tensors.S", fill_template("tensors.S.in", marks));
    }
    add("memory/memory.h", fill_template("memory.h.in", {{"MEMORIES", declarations}}));
    add("memory/memory.cpp", fill_template("memory.cpp.in", {{"MEMORIES", definitions}}));
  }

  void add_project_files() {
    std::string includes, rows, names, tensors;
    size_t most_steps = 1;
    for (const FirmwareModel& model : models_) {
      const std::string& name = model.name();
      includes += fmt::format("#include \"{}/model.h\"\n", name);
      rows += fmt::format(
          "    {{{0}, {1}::kSteps, {1}::start, {1}::method, {1}::take_npu_cycles, "
          "profile::of({1}::kProfiled)}},\n",
          as_c_string(model.title()), name);
      names += fmt::format("{}{}", names.empty() ? "" : ", ", as_markdown(model.title()));
      tensors += (models_.size() > 1 ? as_markdown(model.title()) + "\n\n" : "") +
                 model.tensor_lines("  ") + "\n";
      most_steps = std::max(most_steps, model.steps());
    }
    add("main.cpp", fill_template("main.cpp.in", {{"INCLUDES", includes},
                                                  {"MODELS", rows},
                                                  {"MOST_STEPS", fmt::to_string(most_steps)}}));
    add("main.c", fill_template("main.c.in", {{"MODEL", models_.front().name()}}));
    add("CMakeLists.txt", firmware_template("CMakeLists.txt.in"));
    for (const std::string_view name :
         {"deuteron.cmake", "sizes.py", "stack.py", "toolchain.cmake"})
      add(fmt::format("deuteron/{}", name), firmware_template(name));
    add("README.md",
        fill_template("README.md.in", {{"NAME", names},
                                       {"BOARD", std::string(options_.board->summary)},
                                       {"MACHINE", std::string(options_.board->machine)},
                                       {"TENSORS", tensors}}));
  }

  std::vector<FirmwareModel> models_;
  FirmwareOptions options_;
  bool has_npu_ = false;
  std::vector<KernelRow> kernels_;
  std::vector<FirmwareFile> files_;
};

// Folder and namespace of a program that is not alone: its name as a word of C++.
std::string word_for(std::string_view name) {
  std::string word = "model_";
  for (const char letter : name) {
    const bool is_of_word = (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') ||
                            (letter >= 'a' && letter <= 'z');
    word += is_of_word ? letter : '_';
  }
  return word;
}

}  // namespace

std::span<const Board> all_boards() { return kBoards; }

Result<const Board*> resolve_board(std::string_view name) {
  std::string names;
  for (const Board& board : kBoards) {
    if (board.name == name) return &board;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", board.name);
  }
  return fail(DiagnosticId::kFirmwareBoard, fmt::format("there is no board `{}`", name),
              "use one of " + names);
}

Result<std::vector<FirmwareFile>> make_firmware(std::span<const FirmwareInput> programs,
                                                const FirmwareOptions& options) {
  DTR_CHECK(!programs.empty());
  std::vector<pte::TensorFile> tensor_files;
  for (const PtdFile& file : options.tensor_files) tensor_files.push_back(file.file());
  std::vector<FirmwareModel> models;
  for (const FirmwareInput& program : programs) {
    const std::string name = programs.size() == 1 ? "model" : word_for(program.name);
    if (const auto same = std::ranges::find(models, name, &FirmwareModel::name);
        same != models.end()) {
      const std::string& other = programs[static_cast<size_t>(same - models.begin())].name;
      return fail(DiagnosticId::kFirmwareBoard,
                  other == program.name ? fmt::format("two programs are called `{}`", other)
                                        : fmt::format("`{}` and `{}` are both `{}` as a namespace",
                                                      other, program.name, name),
                  "rename one of the files", {.file = program.pte_file->path()});
    }
    DTR_ASSIGN(FirmwareModel model, FirmwareModel::load(program, name, tensor_files));
    if (const auto core = model.core(); core && *core != options.board->core)
      return fail(DiagnosticId::kFirmwareBoard,
                  fmt::format("the program's int8 kernels are for {}, {} has {}", core_text(*core),
                              options.board->name, core_text(options.board->core)),
                  "compile it with --target cortex-m33 or cortex-m55, or choose the other board",
                  {.file = program.pte_file->path()});
    models.push_back(std::move(model));
  }
  return Project(std::move(models), options).make();
}

}  // namespace dtr
