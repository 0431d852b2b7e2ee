#include "compiler/program/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "compiler/ir/quantized_values.h"
#include "compiler/program/scalar_types.h"
#include "compiler/support/encode.h"
#include "device/pte/debug_map_generated.h"
#include "device/pte/flat_tensor_generated.h"
#include "device/pte/program_generated.h"
#include "device/pte/scalar_type.h"

namespace dtr {
namespace {

template <class Vector>
uint32_t count(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// Names and lists that a program mentions again and again are not printed again and again in full:
// the text stays linear in the file.
constexpr size_t kMostLetters = 200, kMostItems = 32;
std::string clipped(std::string_view text) {
  return text.size() <= kMostLetters ? std::string(text)
                                     : fmt::format("{}…", text.substr(0, kMostLetters));
}

// "f32[1,3,4,5]", with the dimension order where it is not contiguous: "f32[1,3,4,5]
// channels_last".
template <class T>
std::string type_text(const T& tensor) {
  std::string text = fmt::format("{}[", name(static_cast<ScalarType>(tensor.scalar_type())));
  std::string order;
  bool contiguous = true;
  bool channels_last = count(tensor.sizes()) >= 3;
  for (uint32_t i = 0; i < count(tensor.sizes()); ++i) {
    const uint32_t dim = tensor.dim_order()->Get(i);
    const uint32_t rank = count(tensor.sizes());
    text += fmt::format("{}{}", i == 0 ? "" : ",", tensor.sizes()->Get(i));
    order += fmt::format("{}{}", i == 0 ? "" : ",", dim);
    contiguous &= dim == i;
    channels_last &= dim == (i == 0 ? 0 : i + 1 == rank ? 1 : i + 1);
  }
  text += "]";
  if (!contiguous) text += channels_last ? " channels_last" : fmt::format(" dim order {}", order);
  return text;
}

class Describer {
 public:
  Describer(const PteFile& pte_file, const DescribeOptions& options)
      : pte_file_(pte_file), options_(options) {}

  std::string run() {
    head();
    const pte::Program& program = pte_file_.file().program();
    for (uint32_t i = 0; i < pte_file_.method_count(); ++i) {
      if (pte_file_.is_io_constant(i)) continue;
      use(pte_file_.debug_map(i));
      method(i);
    }
    segments(program);
    for (uint32_t i = 0; i < pte_file_.method_count(); ++i)
      if (const pte::DebugMap* map = pte_file_.debug_map(i)) {
        if (pte_file_.method_count() > 1)
          line("method {}", GetStringView(pte_file_.plan(i).name()));
        debug_map(*map);
      }
    return std::move(text_);
  }

 private:
  template <class... T>
  void line(fmt::format_string<T...> format, T&&... arguments) {
    text_ += terminal_format(format, std::forward<T>(arguments)...) + '\n';
  }

  // Names values and calls by the map of a method, which may be null.
  void use(const pte::DebugMap* map) {
    map_ = map;
    name_of_value_.clear();
    for (uint32_t i = 0; map != nullptr && i < count(map->tensors()); ++i) {
      const pte::DebugTensor& tensor = *map->tensors()->Get(i);
      if (tensor.value() >= 0) name_of_value_.emplace(tensor.value(), GetStringView(tensor.name()));
    }
  }

  void head() {
    static constexpr std::string_view kChecksums[] = {"absent", "good", "not checked"};
    const pte::VerifiedFile& file = pte_file_.file();
    line("program {}: {} bytes, schema ET12 version {}, checksum {}", pte_file_.path(),
         file.bytes().size(), file.program().version(),
         kChecksums[static_cast<size_t>(file.checksum())]);
    if (const pte::Manifest* manifest = file.manifest()) {
      line("  target {} ({}), written by {}, model {:016x}", manifest->target,
           manifest->target_hash == 0 ? std::string("no NPU")
                                      : fmt::format("hash {:08x}", manifest->target_hash),
           manifest->tool, manifest->source_hash);
      line(
          "  SRAM {} bytes (most live at once, staged constants included: {}), constants and "
          "payloads {} bytes in {}",
          manifest->sram_bytes, manifest->max_live_bytes, manifest->flash_bytes,
          (manifest->flags & pte::kConstantsInSram) != 0 ? "SRAM, with the whole program"
                                                         : "flash");
      if (const auto machine = file.named_data(pte::kMachineKey); !machine.empty())
        line("  machine described in the program: {} bytes", machine.size());
      if ((manifest->flags & pte::kNxpLikeSchedule) != 0) line("  schedule nxp-like");
      if ((manifest->flags & pte::kWithinBudget) != 0)
        line("  planned for less SRAM than the fastest program takes");
    }
  }

  void method(uint32_t index) {
    const pte::ExecutionPlan& plan = pte_file_.plan(index);
    line("method {}", GetStringView(plan.name()));
    values(index, false);
    values(index, true);
    states(plan);
    for (uint32_t i = 1; i < count(plan.non_const_buffer_sizes()); ++i)
      line("  memory {}: {} bytes", i, plan.non_const_buffer_sizes()->Get(i));
    const pte::Chain& chain = *plan.chains()->Get(0);
    line("  {} instructions", count(chain.instructions()));
    for (uint32_t i = 0; i < count(chain.instructions()); ++i)
      instruction(plan, i, *chain.instructions()->Get(i));
    for (uint32_t i = 0; i < count(plan.delegates()); ++i) delegate(i, *plan.delegates()->Get(i));
    memory_map(plan);
  }

  // What the program keeps between runs, and how it begins.
  void states(const pte::ExecutionPlan& plan) {
    const std::vector<uint32_t> indices = state_values(plan);
    for (size_t i = 0; i < indices.size(); ++i) {
      const pte::Tensor& tensor = *plan.values()->Get(indices[i])->val_as_Tensor();
      line("  state {}: {} {}, {}", i, value(plan, indices[i]), type_text(tensor),
           tensor.data_buffer_idx() > 0 ? "with an initial value" : "zeros at first");
    }
  }

  void values(uint32_t method, bool outputs) {
    const pte::ExecutionPlan& plan = pte_file_.plan(method);
    const auto* indices = outputs ? plan.outputs() : plan.inputs();
    for (uint32_t i = 0; i < count(indices); ++i) {
      const auto index = static_cast<uint32_t>(indices->Get(i));
      const pte::Tensor* tensor = plan.values()->Get(index)->val_as_Tensor();
      const std::optional<Quantization> q = pte_file_.io_quantization(method, outputs, i);
      line("  {} {}: {} {}{}", outputs ? "output" : "input", i, value(plan, index),
           tensor == nullptr ? "" : type_text(*tensor), q ? ", " + codes_text(*q) : "");
    }
  }

  // "%3 `conv`", "7", "[1, 2]", …
  std::string value(const pte::ExecutionPlan& plan, uint32_t index) {
    const pte::EValue& held = *plan.values()->Get(index);
    const auto list = [&](const auto& items) {
      std::vector<std::string> parts;
      for (const auto item : items) {
        if (parts.size() == kMostItems) {
          parts.push_back(fmt::format("… ({} in all)", items.size()));
          break;
        }
        parts.push_back(item < 0 ? "none" : value(plan, static_cast<uint32_t>(item)));
      }
      return fmt::format("[{}]", fmt::join(parts, ", "));
    };
    switch (held.val_type()) {
      case pte::KernelTypes::Int:
        return fmt::to_string(held.val_as_Int()->int_val());
      case pte::KernelTypes::Bool:
        return held.val_as_Bool()->bool_val() ? "true" : "false";
      case pte::KernelTypes::Double:
        return fmt::format("{}", held.val_as_Double()->double_val());
      case pte::KernelTypes::String:
        return json_quote(clipped(GetStringView(held.val_as_String()->string_val())));
      case pte::KernelTypes::IntList:
        return list(*held.val_as_IntList()->items());
      case pte::KernelTypes::DoubleList:
        return doubles(*held.val_as_DoubleList()->items());
      case pte::KernelTypes::BoolList:
        return fmt::format("{} flags", held.val_as_BoolList()->items()->size());
      case pte::KernelTypes::TensorList:
        return list(*held.val_as_TensorList()->items());
      case pte::KernelTypes::OptionalTensorList:
        return list(*held.val_as_OptionalTensorList()->items());
      case pte::KernelTypes::Tensor: {
        const auto name = name_of_value_.find(static_cast<int32_t>(index));
        return name == name_of_value_.end() ? fmt::format("%{}", index)
                                            : fmt::format("%{} `{}`", index, clipped(name->second));
      }
      case pte::KernelTypes::Null:
      case pte::KernelTypes::NONE:
        break;
    }
    return "none";
  }

  static std::string doubles(const flatbuffers::Vector<double>& items) {
    const size_t shown = std::min<size_t>(items.size(), kMostItems);
    return fmt::format("{}{}", fmt::join(std::span(items.data(), shown), ", "),
                       shown == items.size() ? "" : fmt::format(", … ({} in all)", items.size()));
  }

  void instruction(const pte::ExecutionPlan& plan, uint32_t index, const pte::Instruction& held) {
    const auto* kernel = held.instr_args_as_KernelCall();
    const auto* delegate = held.instr_args_as_DelegateCall();
    std::vector<std::string> parts;
    const auto* arguments = kernel != nullptr ? kernel->args() : delegate->args();
    for (uint32_t i = 0; i < count(arguments); ++i)
      parts.push_back(value(plan, static_cast<uint32_t>(arguments->Get(i))));
    std::string name;
    if (kernel != nullptr) {
      const pte::Operator& op = *plan.operators()->Get(static_cast<uint32_t>(kernel->op_index()));
      name = fmt::format("{}{}{}", GetStringView(op.name()), count(op.overload()) == 0 ? "" : ".",
                         GetStringView(op.overload()));
    } else {
      name = fmt::format("delegate {}", delegate->delegate_index());
    }
    std::string from;
    if (map_ != nullptr && index < count(map_->calls()))
      from = sources(*map_, *map_->calls()->Get(index)->origin());
    line("    {}: {}({}){}{}", index, name, fmt::join(parts, ", "), from.empty() ? "" : "  # ",
         from);
  }

  void delegate(uint32_t index, const pte::BackendDelegate& held) {
    const std::span<const std::byte> payload = pte_file_.file().payload(held);
    line("  delegate {}: {}, {} bytes", index, GetStringView(held.id()), payload.size());
    if (!options_.describe_payload) return;
    const std::string listing = options_.describe_payload(GetStringView(held.id()), payload);
    for (size_t at = 0; at < listing.size();) {
      const size_t end = std::min(listing.find('\n', at), listing.size());
      line("    {}", std::string_view(listing).substr(at, end - at));
      at = end + 1;
    }
  }

  void memory_map(const pte::ExecutionPlan& plan) {
    struct Entry {
      uint32_t memory, offset, value;
      auto operator<=>(const Entry&) const = default;
    };
    std::vector<Entry> entries;
    for (uint32_t i = 0; i < count(plan.values()); ++i) {
      const pte::Tensor* tensor = plan.values()->Get(i)->val_as_Tensor();
      if (tensor == nullptr || tensor->allocation_info() == nullptr) continue;
      entries.push_back({tensor->allocation_info()->memory_id(),
                         tensor->allocation_info()->memory_offset_low(), i});
    }
    std::ranges::sort(entries);
    line("  memory map: memory, first byte, bytes, value");
    for (const Entry& entry : entries) {
      const pte::Tensor& tensor = *plan.values()->Get(entry.value)->val_as_Tensor();
      line("    {} {:>8} {:>8} {} {}", entry.memory, entry.offset, pte::tensor_bytes(tensor),
           value(plan, entry.value), type_text(tensor));
    }
  }

  void segments(const pte::Program& program) {
    line("{} segments", count(program.segments()));
    std::map<uint32_t, std::string_view> named;  // the last of a segment's names
    for (uint32_t n = 0; n < count(program.named_data()); ++n) {
      const pte::NamedData& entry = *program.named_data()->Get(n);
      named[entry.segment_index()] = GetStringView(entry.key());
    }
    for (uint32_t i = 0; i < count(program.segments()); ++i) {
      std::string what =
          program.constant_segment() != nullptr && program.constant_segment()->segment_index() == i
              ? "constants"
              : "";
      if (const auto name = named.find(i); name != named.end()) what = clipped(name->second);
      line("  {}: {} bytes{}{}", i, program.segments()->Get(i)->size(), what.empty() ? "" : " ",
           what);
    }
  }

  static std::string sources(const pte::DebugMap& map, const pte::DebugOrigin& origin) {
    std::vector<std::string> parts;
    for (uint32_t i = 0; i < count(origin.sources()); ++i) {
      const pte::SourceOperator& source = *map.sources()->Get(origin.sources()->Get(i));
      std::string part(GetStringView(source.name()));
      if (count(source.module_path()) > 0)
        part += fmt::format(" {}", GetStringView(source.module_path()));
      if (count(source.source_line()) > 0)
        part += fmt::format(" ({})", GetStringView(source.source_line()));
      parts.push_back(std::move(part));
    }
    std::string text = fmt::format("{}", fmt::join(parts, ", "));
    if (origin.parts() > 1)
      text += fmt::format(" part {} of {}", origin.part() + 1, origin.parts());
    return text;
  }

  void debug_map(const pte::DebugMap& map) {
    uint32_t lost = 0;
    uint32_t inside = 0;
    for (uint32_t i = 0; i < count(map.tensors()); ++i) {
      const pte::DebugTensor& tensor = *map.tensors()->Get(i);
      inside += tensor.in_delegate() ? 1 : 0;
      lost += tensor.value() < 0 && !tensor.in_delegate() ? 1 : 0;
    }
    line("debug map: {} source operators, {} tensors ({} inside delegates, {} lost to fusion)",
         count(map.sources()), count(map.tensors()), inside, lost);
    for (uint32_t i = 0; i < count(map.calls()); ++i) {
      const pte::DebugCall& call = *map.calls()->Get(i);
      for (uint32_t s = 0; s < count(call.steps()); ++s) {
        const pte::DebugStep& step = *call.steps()->Get(s);
        // The cycles of a copy are the copy engine's: the listing of the microcode has them.
        if (GetStringView(step.kernel()) == "Copy") {
          line("  call {} command {}: Copy, {} bytes from flash  # {}", i, step.command(),
               step.bytes(), sources(map, *step.origin()));
          continue;
        }
        line("  call {} command {}: {}, {} MACs, {} cycles, {}  # {}", i, step.command(),
             GetStringView(step.kernel()), step.macs(), step.cycles(), GetStringView(step.limit()),
             sources(map, *step.origin()));
      }
    }
  }

  const PteFile& pte_file_;
  const DescribeOptions& options_;
  std::string text_;
  const pte::DebugMap* map_ = nullptr;  // of the method that is described
  std::map<int32_t, std::string_view> name_of_value_;
};

}  // namespace

std::string describe_program(const PteFile& pte_file, const DescribeOptions& options) {
  return Describer(pte_file, options).run();
}

std::string describe_tensor_file(const PtdFile& ptd_file) {
  const pte::TensorFile& file = ptd_file.file();
  std::string text = terminal_format("tensor file {}: {} entries\n", ptd_file.path(), file.count());
  std::vector<const ptd::NamedData*>
      entries;  // in the order of their bytes, which is that of the program
  for (size_t i = 0; i < file.count(); ++i) entries.push_back(&file.entry(i));
  std::ranges::stable_sort(entries, {},
                           [](const ptd::NamedData* entry) { return entry->segment_index(); });
  for (const ptd::NamedData* entry : entries) {
    const ptd::TensorLayout* layout = entry->tensor_layout();
    const bool sound = layout != nullptr && count(layout->sizes()) == count(layout->dim_order());
    text += terminal_format("  {}: {} {} bytes\n", GetStringView(entry->key()),
                            sound ? type_text(*layout) : "no tensor", file.data(*entry).size());
  }
  return text;
}

}  // namespace dtr
