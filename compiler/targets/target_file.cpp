// The fields of a target file are a table, from which the reader, the writer and the page of the
// documentation are made. A field that a machine gains becomes a line of it.
#include "compiler/targets/target_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "compiler/support/file_contents.h"
#include "compiler/support/json.h"
#include "compiler/support/text.h"

namespace dtr {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostName = 31;  // the manifest of a program has as many characters
constexpr size_t kMostSummary = 200, kMostBackends = 8;

// ---- Numbers

struct Number {
  std::string_view object, name;  // "npu", "clock_hz"
  uint64_t least, most;
  std::string_view meaning;
  uint64_t (*get)(const TargetDescription& target);
  void (*set)(TargetDescription& target, uint64_t value);
};

// A number that the members lead to, from the target inwards.
template <auto... kMembers>
constexpr Number number(std::string_view object, std::string_view name, uint64_t least,
                        uint64_t most, std::string_view meaning) {
  return {object,
          name,
          least,
          most,
          meaning,
          [](const TargetDescription& target) -> uint64_t { return (target.*....*kMembers); },
          [](TargetDescription& target, uint64_t value) {
            auto& field = (target.*....*kMembers);
            field = static_cast<std::remove_reference_t<decltype(field)>>(value);
          }};
}
template <auto kMember>
constexpr Number of_npu(std::string_view name, uint64_t least, uint64_t most,
                        std::string_view meaning) {
  return number<&TargetDescription::npu, kMember>("npu", name, least, most, meaning);
}

// The ranges are at most those of npu::is_machine.
constexpr uint64_t kMostLanes = 1024, kMostCycles = 1u << 24;
constexpr uint64_t kMostNpuSram = 1u << 30, kMostSram = INT32_MAX, kMostFlash = 1ull << 32;
constexpr uint64_t kLeastClock = 1'000'000, kMostClock = 4'000'000'000;

constexpr std::array kNumbers{
    of_npu<&npu::Target::pipelines>("pipelines", 1, kMostLanes,
                                    "M: output channels that are computed at once"),
    of_npu<&npu::Target::macs>("macs", 1, kMostLanes,
                               "N: int8 products that a pipeline adds up a cycle"),
    of_npu<&npu::Target::max_reduction>(
        "max_reduction", 1, 65536,
        "products of one accumulation: KH · KW · input channels, rounded up to `macs`; at least "
        "`macs`"),
    of_npu<&npu::Target::max_kernel>("max_kernel", 1, 4096,
                                     "kernel, stride and dilation of an axis"),
    of_npu<&npu::Target::accumulators>("accumulators", 1, kMostLanes,
                                       "A: output positions that a pipeline accumulates in turn"),
    of_npu<&npu::Target::activation_port>("activation_port", 1, kMostLanes,
                                          "bytes a cycle from SRAM to the shared operand"),
    of_npu<&npu::Target::weight_port>("weight_port", 1, kMostLanes,
                                      "bytes a cycle from SRAM to the pipelines' own operands"),
    of_npu<&npu::Target::write_port>("write_port", 1, kMostLanes, "bytes a cycle to SRAM"),
    of_npu<&npu::Target::call_npu_cycles>("call_npu_cycles", 0, kMostCycles,
                                          "cycles of the NPU to start and end a call"),
    of_npu<&npu::Target::call_host_cycles>(
        "call_host_cycles", 0, kMostCycles,
        "cycles of the NPU's clock that the host takes for a call"),
    of_npu<&npu::Target::copy_host_cycles>("copy_host_cycles", 0, kMostCycles,
                                           "the same to start a copy"),
    of_npu<&npu::Target::copy_setup_cycles>("copy_setup_cycles", 0, kMostCycles,
                                            "cycles until a copy delivers its first byte"),
    of_npu<&npu::Target::flash_bytes_per_16_cycles>("flash_bytes_per_16_cycles", 1, kMostLanes,
                                                    "bytes that a copy delivers in 16 cycles"),
    of_npu<&npu::Target::clock_hz>("clock_hz", kLeastClock, kMostClock, "clock of the NPU"),
    number<&TargetDescription::cpu, &Cpu::clock_hz>("cpu", "clock_hz", kLeastClock, kMostClock,
                                                    "clock of the CPU"),
    number<&TargetDescription::cpu, &Cpu::float_percent>(
        "cpu", "float_percent", 1, 1'000'000,
        "cycles of the portable float kernels, in percent of a Cortex-M33's instructions"),
    number<&TargetDescription::memory, &Memories::sram_bytes>(
        "memory", "sram_bytes", 1, kMostSram,
        "SRAM for programs; with an NPU at most 1,073,741,824"),
    number<&TargetDescription::memory, &Memories::flash_bytes>(
        "memory", "flash_bytes", 0, kMostFlash,
        "flash for programs; 0: not on the chip, its size depends on the board"),
};

// ---- Texts and names

struct Text {
  std::string_view path, values, meaning;
};
constexpr Text kTexts[] = {
    {"name", "1 to 31 letters, digits, `.`, `_` and `-`",
     "name of the machine in programs and reports"},
    {"summary", "up to 200 characters", "what the machine is, one line"},
    {"recipe", "backends ([recipes.md](recipes.md))",
     "who runs operators, first choice first; the last one runs every operator"},
    {"npu", "an object, or `null`", "the NPU; `null`: the machine has none"},
    {"cpu.name", "1 to 31 characters", "name of the CPU in reports"},
    {"cpu.core", "`\"dsp\"`, `\"mve\"`",
     "kernels of the CPU: for the DSP extension (Cortex-M4, M7, M33) or for Helium (Cortex-M55, "
     "M85)"},
    {"memory.constants", "`\"flash\"`, `\"sram\"`",
     "where constants are when a program starts, unless `--constants` says otherwise"},
};

std::string_view core_name(cortex_m::Core core) {
  return core == cortex_m::Core::kMve ? "mve" : "dsp";
}

// ---- Ownership

// A target and the texts that it refers to.
struct Machine {
  std::string name, summary, cpu_name;
  std::vector<std::string> recipe;
  std::vector<std::string_view> recipe_names;
  TargetDescription target{};

  void bind() {
    recipe_names.assign(recipe.begin(), recipe.end());
    target.name = name, target.summary = summary, target.cpu.name = cpu_name;
    target.recipe = recipe_names;
  }
};

// Programs, reports and profiles refer to a target by address, as to a row of target.cpp. So a
// target that was read is never freed; equal ones are stored once.
const TargetDescription* keep(std::unique_ptr<Machine> machine) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Machine>> known;  // by text
  std::string text = to_json(machine->target);
  const std::lock_guard lock(mutex);
  return &known.try_emplace(std::move(text), std::move(machine)).first->second->target;
}

// ---- Reader

std::string shortened(const Json& value) {
  constexpr size_t kMost = 40;
  const std::string text = value.dump();
  return text.size() <= kMost ? text : text.substr(0, kMost) + "…";
}

std::string range_text(uint64_t least, uint64_t most) {
  return fmt::format("a whole number from {} to {}", with_thousands(least), with_thousands(most));
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Result<std::unique_ptr<Machine>> read(const Json& document) {
    DTR_TRY(check_keys(document, "", {"name", "summary", "recipe", "npu", "cpu", "memory"}));
    has_npu_ = !document.at("npu").is_null();
    if (has_npu_) DTR_TRY(check_keys(document.at("npu"), "npu", {}));
    const Json& cpu = document.at("cpu");
    DTR_TRY(check_keys(cpu, "cpu", {"name", "core"}));
    DTR_TRY(check_keys(document.at("memory"), "memory", {"constants"}));
    DTR_TRY(read_texts(document));
    for (const Number& field : kNumbers) DTR_TRY(read_number(document, field));
    DTR_TRY(read_recipe(document.at("recipe")));
    machine_->target.npu.sram_bytes = has_npu_ ? machine_->target.memory.sram_bytes : 0;
    machine_->bind();
    DTR_TRY(check_npu());
    return std::move(machine_);
  }

 private:
  tl::unexpected<Diagnostic> invalid(std::string reason, std::string fix) const {
    return fail(DiagnosticId::kTargetInvalid, std::move(reason), std::move(fix), {.file = file_});
  }
  tl::unexpected<Diagnostic> wrong(std::string_view field, const Json& value,
                                   std::string_view allowed) const {
    return invalid(fmt::format("`{}` is {}; it must be {}", field, shortened(value), allowed),
                   "`deuteron targets --json imxrt700` prints a file to start from, "
                   "docs/targets.md explains its fields");
  }

  // The object has exactly the keys of kNumbers and `others`.
  Result<void> check_keys(const Json& object, std::string_view path,
                          std::initializer_list<std::string_view> others) const {
    const std::string what = path.empty() ? std::string("the target") : fmt::format("`{}`", path);
    if (!object.is_object())
      return invalid(fmt::format("{} is {}; it must be an object", what, shortened(object)),
                     "`deuteron targets --json imxrt700` prints a file to start from");
    std::vector<std::string_view> keys(others);
    for (const Number& field : kNumbers)
      if (field.object == path) keys.push_back(field.name);
    for (const auto& [key, value] : object.items())
      if (std::ranges::find(keys, key) == keys.end())
        return invalid(fmt::format("{} has a field `{}` that targets do not have", what, key),
                       fmt::format("remove it; the fields are: {}", fmt::join(keys, ", ")));
    for (const std::string_view key : keys)
      if (!object.contains(key))
        return invalid(fmt::format("{} has no field `{}`", what, key),
                       fmt::format("add it; no field has a default. The fields are: {}",
                                   fmt::join(keys, ", ")));
    return {};
  }

  Result<void> read_number(const Json& document, const Number& field) {
    if (field.object == "npu" && !has_npu_) return {};
    const Json& value = document.at(field.object).at(field.name);
    const bool limited = has_npu_ && field.object == "memory" && field.name == "sram_bytes";
    const uint64_t most = limited ? kMostNpuSram : field.most;
    if (!value.is_number_unsigned() || value.get<uint64_t>() < field.least ||
        value.get<uint64_t>() > most)
      return wrong(fmt::format("{}.{}", field.object, field.name), value,
                   range_text(field.least, most) + (limited ? ", for there is an NPU" : ""));
    field.set(machine_->target, value.get<uint64_t>());
    return {};
  }

  // Texts are printed on terminals and stored in programs.
  Result<std::string> read_text(const Json& value, std::string_view field, size_t least,
                                size_t most) const {
    const auto is_control = [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    };
    if (!value.is_string() || value.get_ref<const std::string&>().size() < least ||
        value.get_ref<const std::string&>().size() > most ||
        std::ranges::any_of(value.get_ref<const std::string&>(), is_control))
      return wrong(field, value,
                   fmt::format("a text of {} to {} bytes without control characters", least, most));
    return value.get<std::string>();
  }

  Result<void> read_texts(const Json& document) {
    const Json& cpu = document.at("cpu");
    DTR_ASSIGN(machine_->name, read_text(document.at("name"), "name", 1, kMostName));
    const auto is_plain = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '.' || c == '_' || c == '-';
    };
    if (!std::ranges::all_of(machine_->name, is_plain))
      return wrong("name", document.at("name"), "of letters, digits, `.`, `_` and `-`");
    DTR_ASSIGN(machine_->summary, read_text(document.at("summary"), "summary", 0, kMostSummary));
    DTR_ASSIGN(machine_->cpu_name, read_text(cpu.at("name"), "cpu.name", 1, kMostName));
    const Json &core = cpu.at("core"), &constants = document.at("memory").at("constants");
    if (core != "dsp" && core != "mve") return wrong("cpu.core", core, R"("dsp" or "mve")");
    machine_->target.cpu.core = core == "mve" ? cortex_m::Core::kMve : cortex_m::Core::kDsp;
    if (constants != "flash" && constants != "sram")
      return wrong("memory.constants", constants, R"("flash" or "sram")");
    machine_->target.memory.constants =
        constants == "sram" ? ConstantMemory::kSram : ConstantMemory::kFlash;
    return {};
  }

  // Which backends there are is known to compiler/recipes/ (check_target_recipe).
  Result<void> read_recipe(const Json& names) {
    if (!names.is_array() || names.empty() || names.size() > kMostBackends)
      return wrong("recipe", names, fmt::format("a list of 1 to {} backends", kMostBackends));
    for (const Json& each : names) {
      DTR_ASSIGN(std::string name, read_text(each, "recipe", 1, kMostName));
      machine_->recipe.push_back(std::move(name));
    }
    return {};
  }

  // What fields must fulfil together.
  Result<void> check_npu() const {
    const npu::Target& npu = machine_->target.npu;
    if (!has_npu_) return {};
    if (npu.max_reduction < npu.macs)
      return wrong("npu.max_reduction", npu.max_reduction,
                   fmt::format("at least `npu.macs`, {}", npu.macs));
    DTR_CHECK(npu::is_machine(npu));
    return {};
  }

  const std::string& file_;
  std::unique_ptr<Machine> machine_ = std::make_unique<Machine>();
  bool has_npu_ = false;
};

Result<std::unique_ptr<Machine>> machine_of(std::string_view text, const std::string& file) {
  if (std::string fault = json_error(text); !fault.empty())
    return fail(DiagnosticId::kTargetInvalid, std::move(fault),
                "`deuteron targets --json imxrt700` prints a file to start from", {.file = file});
  return Reader(file).read(
      Json::parse(text, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/true));
}

// The first line in which two texts differ, of the second one.
std::string first_difference(std::string_view a, std::string_view b) {
  const auto [at_a, at_b] = std::ranges::mismatch(a, b);
  const auto at = static_cast<size_t>(at_b - b.begin());
  const size_t begin = b.rfind('\n', at == 0 ? 0 : at - 1) + 1, end = b.find('\n', at);
  std::string_view line = b.substr(begin, end - begin);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return std::string(line);
}

// ---- Writer

// "  \"pipelines\": 8,\n…" without the last comma.
std::string numbers_json(const TargetDescription& target, std::string_view object, int indent) {
  std::string text;
  for (const Number& field : kNumbers)
    if (field.object == object)
      text += fmt::format("{}{:{}}\"{}\": {}", text.empty() ? "" : ",\n", "", indent, field.name,
                          field.get(target));
  return text;
}

}  // namespace

bool is_target_file(std::string_view argument) {
  return argument.ends_with(".json") || argument.find('/') != std::string_view::npos;
}

Result<const TargetDescription*> read_target(const std::string& path) {
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  return parse_target({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                      path);
}

Result<const TargetDescription*> parse_target(std::string_view text, const std::string& file) {
  DTR_ASSIGN(std::unique_ptr<Machine> machine, machine_of(text, file));
  const TargetDescription* row = find_target(machine->name);
  if (row == nullptr) return keep(std::move(machine));
  const std::string own = to_json(machine->target), rows = to_json(*row);
  if (own == rows) return row;
  return fail(DiagnosticId::kTargetInvalid,
              fmt::format("`name` is {}, a target of Deuteron's own whose values differ: its line "
                          "`{}` is `{}` here",
                          json_quote(machine->name), first_difference(own, rows),
                          first_difference(rows, own)),
              "give the machine a name of its own", {.file = file});
}

Result<const TargetDescription*> parse_target_of_program(std::string_view text,
                                                         const std::string& file) {
  DTR_ASSIGN(std::unique_ptr<Machine> machine, machine_of(text, file));
  return keep(std::move(machine));
}

std::string to_json(const TargetDescription& target) {
  std::string recipe;
  for (const std::string_view name : target.recipe)
    recipe += (recipe.empty() ? "" : ", ") + json_quote(name);
  std::string text = fmt::format("{{\n  \"name\": {},\n  \"summary\": {},\n  \"recipe\": [{}],\n",
                                 json_quote(target.name), json_quote(target.summary), recipe);
  text += has_npu(target)
              ? fmt::format("  \"npu\": {{\n{}\n  }},\n", numbers_json(target, "npu", 4))
              : "  \"npu\": null,\n";
  text += fmt::format("  \"cpu\": {{\n    \"name\": {},\n    \"core\": \"{}\",\n{}\n  }},\n",
                      json_quote(target.cpu.name), core_name(target.cpu.core),
                      numbers_json(target, "cpu", 4));
  text += fmt::format("  \"memory\": {{\n{},\n    \"constants\": \"{}\"\n  }}\n}}\n",
                      numbers_json(target, "memory", 4), name(target.memory.constants));
  return text;
}

std::string target_fields_markdown() {
  std::string text = "| field | values | meaning |\n|---|---|---|\n";
  const auto row = [&](std::string_view field, std::string_view values, std::string_view meaning) {
    text += fmt::format("| `{}` | {} | {} |\n", field, values, meaning);
  };
  for (const Text& each : kTexts) row(each.path, each.values, each.meaning);
  for (const Number& field : kNumbers)
    row(fmt::format("{}.{}", field.object, field.name),
        fmt::format("{} to {}", with_thousands(field.least), with_thousands(field.most)),
        field.meaning);
  return text;
}

}  // namespace dtr
