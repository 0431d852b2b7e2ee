#include "host/profiler/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/align.h"
#include "compiler/support/encode.h"
#include "compiler/support/text.h"
#include "device/pte/debug_map_generated.h"
#include "device/pte/manifest.h"
#include "device/pte/program_generated.h"
#include "host/profiler/report.h"

namespace dtr {
namespace {

// Parts of an operator's cycles below this are not worth a sentence.
constexpr double kWorthMentioning = 0.15;
// The array is as busy as it gets.
constexpr double kWellUsed = 0.8;

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}
std::string percent(double part) { return fmt::format("{:.0f} %", 100 * part); }
std::string plural(uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", with_thousands(count), what, count == 1 ? "" : "s");
}

// Of what the operators of a row read and make.
struct Channels {
  int64_t in = 0, out = 0;  // 0: not known
};

int64_t channels_of(const pte::DebugTensor& tensor) {
  const auto* sizes = tensor.sizes();
  return sizes == nullptr || sizes->size() < 2 ? 0 : sizes->Get(1);
}

bool shares(const pte::DebugOrigin& origin, const std::vector<uint32_t>& sources) {
  return origin.sources() != nullptr &&
         std::ranges::any_of(*origin.sources(), [&](uint32_t source) {
           return std::ranges::find(sources, source) != sources.end();
         });
}

Channels channels(const PteFile* pte_file, const ProfileRow& row) {
  Channels found;
  const pte::DebugMap* map = pte_file == nullptr ? nullptr : pte_file->debug_map();
  if (map == nullptr || map->tensors() == nullptr) return found;
  for (const pte::DebugTensor* tensor : *map->tensors()) {
    const bool made_here = shares(*tensor->origin(), row.sources);
    const bool read_here =
        tensor->readers() != nullptr &&
        std::ranges::any_of(*tensor->readers(), [&](const pte::DebugOrigin* reader) {
          return shares(*reader, row.sources);
        });
    if (made_here && !read_here) found.out = channels_of(*tensor);
    if (read_here && !made_here && found.in == 0) found.in = channels_of(*tensor);
  }
  return found;
}

// The axes of a tensor that are longer than 1, outermost first.
std::vector<uint32_t> order_of(const pte::Tensor& tensor) {
  std::vector<uint32_t> axes;
  if (tensor.dim_order() == nullptr || tensor.sizes() == nullptr) return axes;
  for (const uint32_t axis : *tensor.dim_order())
    if (axis < tensor.sizes()->size() && tensor.sizes()->Get(axis) != 1) axes.push_back(axis);
  return axes;
}

// Whether a kernel's result has its elements in another order than what it reads.
bool reorders(const PteFile& pte_file, int32_t instruction) {
  const pte::ExecutionPlan& plan = pte_file.plan();
  const auto* call = plan.chains()
                         ->Get(0)
                         ->instructions()
                         ->Get(static_cast<uint32_t>(instruction))
                         ->instr_args_as_KernelCall();
  std::vector<const pte::Tensor*> tensors;
  for (uint32_t i = 0; call != nullptr && call->args() != nullptr && i < call->args()->size(); ++i)
    if (const auto* tensor =
            plan.values()->Get(static_cast<uint32_t>(call->args()->Get(i)))->val_as_Tensor())
      tensors.push_back(tensor);
  return tensors.size() > 1 && order_of(*tensors.front()) != order_of(*tensors.back());
}

class Explainer {
 public:
  Explainer(const Profile& profile, const ProfileRow& row, const PteFile* pte_file,
            const AdvisedCalls& advised)
      : profile_(profile), row_(row), pte_file_(pte_file), advised_(advised) {}

  Explanation run() {
    const CycleBreakdown& spent = row_.spent;
    explanation_.costs = fmt::format("{} cycles, {} of the run", with_thousands(spent.total()),
                                     percent(share(spent.total(), profile_.total)));
    if (const std::string time = profile_.time(row_); !time.empty())
      explanation_.costs += fmt::format(" ({})", time);
    explanation_.costs += fmt::format(", in {} ({})", plural(row_.calls, "call"), row_.kernels);
    struct Part {
      uint64_t cycles;
      void (Explainer::*explain)();
    };
    Part parts[] = {{spent.cpu, &Explainer::explain_cpu},
                    {spent.host, &Explainer::explain_host},
                    {spent.stall, &Explainer::explain_stall},
                    {spent.npu, &Explainer::explain_npu}};
    std::ranges::stable_sort(parts, std::greater<>(), &Part::cycles);
    for (const Part& part : parts)
      if (share(part.cycles, spent.total()) >= kWorthMentioning) (this->*part.explain)();
    if (row_.npu_calls > 1 || share(spent.stall, spent.total()) >= kWorthMentioning)
      explain_budget();
    if (row_.added > 0) explain_added();
    return std::move(explanation_);
  }

 private:
  void because(std::string_view sentence) { explanation_.because.emplace_back(sentence); }
  void change(std::string_view sentence) { explanation_.to_change.emplace_back(sentence); }
  std::string of_it(uint64_t cycles) const {
    return fmt::format("{} ({})", with_thousands(cycles),
                       percent(share(cycles, row_.spent.total())));
  }

  // "73,728 cycles = 0.228 ms"
  std::string with_time(uint64_t cycles) const {
    std::string text = fmt::format("{} cycles", with_thousands(cycles));
    if (profile_.id && profile_.id->clock_hz > 0)
      text += fmt::format(" = {:.3f} ms", profile_.milliseconds(cycles));
    return text;
  }
  bool is_own(const ProfileSpan& span) const { return &profile_.rows[span.row] == &row_; }

  void explain_cpu() {
    std::string kernels;
    bool converts = true;
    for (const ProfileSpan& span : profile_.spans) {
      if (span.track != ProfileSpan::Track::kHost || span.waits || !is_own(span)) continue;
      converts = converts && is_conversion(span);
      if (kernels.find(span.kernel) == std::string::npos)
        kernels += (kernels.empty() ? "" : ", ") + span.kernel;
    }
    because(fmt::format("{} cycles are {} for the Cortex-M, which runs {}", of_it(row_.spent.cpu),
                        profile_.cpu_unit == npu::ProfileUnit::kEstimate ? "estimated" : "counted",
                        kernels));
    const uint64_t ends = explain_ends();
    if (converts && ends < row_.spent.cpu)
      change(
          "bring what computes in float beside it onto the NPU: `deuteron compile --placement "
          "FILE` says why it is not there");
    else if (!converts && profile_.target != nullptr && has_npu(*profile_.target))
      change("bring it onto the NPU: `deuteron compile --placement FILE` says why it is not there");
  }

  static bool is_conversion(const ProfileSpan& span) {
    return span.kernel.find("quantize_per_") != std::string::npos;
  }

  // Says what the row's conversions between float and int8 cost at the program's ends, where
  // nothing computes before them or nothing behind them. Returns their cycles.
  uint64_t explain_ends() {
    std::vector<const ProfileSpan*> kernels;
    for (const ProfileSpan& span : profile_.spans)
      if (span.track != ProfileSpan::Track::kCopy && !span.waits) kernels.push_back(&span);
    const auto computes = [](const ProfileSpan* span) { return !is_conversion(*span); };
    const auto first = std::ranges::find_if(kernels, computes);
    const auto last = std::find_if(kernels.rbegin(), kernels.rend(), computes).base();
    uint64_t cycles = 0;
    bool layout = false;
    for (auto at = kernels.begin(); at != kernels.end(); ++at) {
      if ((at >= first && at < last) || !is_own(**at)) continue;
      cycles += (*at)->end - (*at)->start;
      layout = layout || (pte_file_ != nullptr && reorders(*pte_file_, (*at)->instruction));
    }
    if (share(cycles, row_.spent.total()) >= kWorthMentioning)
      change(
          fmt::format("give and take int8: compile with --io int8, which saves {}{}{}",
                      layout ? "at most " : "", with_time(cycles),
                      layout ? ": the order of bytes, which changes here too, still has to" : ""));
    return cycles;
  }

  // Less SRAM costs parts of operators, and copies that wait for room.
  void explain_budget() {
    const pte::Manifest* manifest = pte_file_ == nullptr ? nullptr : pte_file_->file().manifest();
    if (manifest == nullptr || (manifest->flags & pte::kWithinBudget) == 0) return;
    change(
        fmt::format("more SRAM: the program is planned for {} bytes, less than the fastest one "
                    "takes; `deuteron explore` shows what more bytes save",
                    with_thousands(manifest->sram_bytes)));
  }

  void explain_host() {
    because(fmt::format("{} cycles are the host's: it starts each call of the NPU and each copy",
                        of_it(row_.spent.host)));
    if (row_.npu_calls > 1)
      change(fmt::format("fewer calls: it is split into {}", row_.npu_calls));
    else
      change(
          "more work per call: a call costs the host the same whether it computes little or much; "
          "fuse small operators or use fewer, wider ones");
  }

  void explain_stall() {
    because(fmt::format(
        "{} cycles wait for {} bytes of constants from flash, which what runs before does not hide",
        of_it(row_.spent.stall), with_thousands(row_.flash_bytes)));
    if (row_.copying > row_.spent.npu + row_.spent.host)
      change("fewer weights: they take longer to arrive than the operators around them compute");
    else
      change("put it later in the network, or keep the program's first operators small");
  }

  void explain_npu() {
    const double utilization = profile_.utilization(row_);
    std::string sentence = fmt::format("{} cycles the NPU computes", of_it(row_.spent.npu));
    if (row_.macs > 0)
      sentence +=
          fmt::format(": {} multiply-accumulates, {} of what the array can",
                      with_thousands(static_cast<uint64_t>(row_.macs)), percent(utilization));
    if (!row_.limited_by.empty() && row_.limited_by != "array")
      sentence += fmt::format("; the {} limits it", row_.limited_by);
    because(sentence);
    if (row_.macs == 0) return;
    if (utilization >= kWellUsed) {
      change("fewer multiply-accumulates: the array is as busy as it gets");
      return;
    }
    if (profile_.target == nullptr) return;
    const AdvisedCall advised = advised_call();
    if (advised.packing_saves > 0)
      change(fmt::format(
          "compile with --row-packing, which saves {} of computing (waits for constants may "
          "change), if the NPU reads unaligned bytes at full speed, as docs/npu.md "
          "assumes",
          with_time(advised.packing_saves)));
    // A convolution of one channel may run as a depthwise one without being one.
    if (row_.kernels.find("Depthwise") != std::string::npos && advised.in_channels != 1) {
      change(
          fmt::format("a depthwise convolution has one product for each of the {} a pipeline could "
                      "add at a time: a grouped or full convolution of the same cycles computes {} "
                      "times as much",
                      profile_.target->npu.macs, profile_.target->npu.macs));
      return;
    }
    const Channels found = channels(pte_file_, row_);
    explain_multiple(found.in, profile_.target->npu.macs, "input channels");
    explain_multiple(found.out, profile_.target->npu.pipelines, "output channels");
    if (row_.limited_by == "weight port")
      change(
          fmt::format("more positions or rows for each weight: only {} outputs share one at a time",
                      profile_.target->npu.accumulators));
  }

  // Of the row's calls together.
  AdvisedCall advised_call() const {
    AdvisedCall sum;
    for (const ProfileSpan& span : profile_.spans) {
      const auto found = advised_.find({span.instruction, span.command});
      if (!is_own(span) || span.track != ProfileSpan::Track::kNpu || found == advised_.end())
        continue;
      sum.in_channels = found->second.in_channels;
      sum.packing_saves += found->second.packing_saves;
    }
    return sum;
  }

  void explain_multiple(int64_t channels, uint32_t unit, std::string_view what) {
    if (channels <= 0 || channels % unit == 0) return;
    change(fmt::format("{} in multiples of {}: {} cost as much as {}", what, unit, channels,
                       align_up(channels, int64_t{unit})));
  }

  void explain_added() {
    std::string values;
    for (const ProfileSpan& span : profile_.spans)
      if (!span.step.rearranges.empty() && &profile_.rows[span.row] == &row_)
        values += fmt::format("{}`{}`", values.empty() ? "" : ", ", span.step.rearranges);
    because(
        fmt::format("{} cycles bring {} into another order of bytes", of_it(row_.added), values));
    change("operators around it that take the same layout");
  }

  const Profile& profile_;
  const ProfileRow& row_;
  const PteFile* pte_file_;
  const AdvisedCalls& advised_;
  Explanation explanation_;
};

}  // namespace

Explanation explain(const Profile& profile, const ProfileRow& row, const PteFile* pte_file,
                    const AdvisedCalls& advised) {
  return Explainer(profile, row, pte_file, advised).run();
}

std::string explain_text(const Profile& profile, const PteFile* pte_file,
                         const AdvisedCalls& advised, const std::string& name, size_t most) {
  std::vector<const ProfileRow*> rows;
  for (const ProfileRow& row : profile.rows)
    if (!row.sources.empty() && matches(row, name)) rows.push_back(&row);
  std::ranges::stable_sort(rows, std::greater<>(),
                           [](const ProfileRow* row) { return row->spent.total(); });
  std::string text;
  for (size_t i = 0; i < std::min(rows.size(), most); ++i) {
    const ProfileRow& row = *rows[i];
    const Explanation says = explain(profile, row, pte_file, advised);
    text += terminal_format("{}{}{}{}\n  {}\n", row.name,
                            row.module_path.empty() ? "" : "  in " + row.module_path,
                            row.source_line.empty() ? "" : "  at ", row.source_line, says.costs);
    for (const std::string& sentence : says.because) text += terminal_format("  - {}\n", sentence);
    for (const std::string& sentence : says.to_change)
      text += terminal_format("  cheaper: {}\n", sentence);
    if (says.to_change.empty()) text += "  nothing cheaper known\n";
    text += "\n";
  }
  if (rows.size() > most)
    text += terminal_format(
        "{} more operators cost less; `deuteron explain PROGRAM NAME` shows those of a name\n",
        rows.size() - most);
  return text;
}

}  // namespace dtr
