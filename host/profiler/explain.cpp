#include "host/profiler/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/support/encode.h"
#include "compiler/support/text.h"
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

// The axes of a tensor that are longer than 1, outermost first.
std::vector<uint32_t> order_of(const pte::Tensor& tensor) {
  std::vector<uint32_t> axes;
  if (tensor.dim_order() == nullptr || tensor.sizes() == nullptr) return axes;
  for (const uint32_t axis : *tensor.dim_order())
    if (axis < tensor.sizes()->size() && tensor.sizes()->Get(axis) != 1) axes.push_back(axis);
  return axes;
}

// What a kernel reads, then what it makes.
std::vector<const pte::Tensor*> tensors_of(const PteFile& pte_file, int32_t instruction) {
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
  return tensors;
}

// Whether a kernel's result has its elements in another order than what it reads.
bool reorders(const PteFile& pte_file, int32_t instruction) {
  const std::vector<const pte::Tensor*> tensors = tensors_of(pte_file, instruction);
  return tensors.size() > 1 && order_of(*tensors.front()) != order_of(*tensors.back());
}

// Whether a kernel makes a value of the shape of the one that it reads.
bool is_unary(const PteFile& pte_file, int32_t instruction) {
  const std::vector<const pte::Tensor*> tensors = tensors_of(pte_file, instruction);
  if (tensors.empty() || tensors.front()->sizes() == nullptr) return false;
  const auto same = [&](const pte::Tensor* tensor) {
    return tensor->sizes() != nullptr &&
           std::ranges::equal(*tensor->sizes(), *tensors.front()->sizes());
  };
  // A result can be an argument twice: as the out tensor and as what the kernel returns.
  const std::set<const pte::Tensor*> different(tensors.begin(), tensors.end());
  return different.size() == 2 && std::ranges::all_of(tensors, same);
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
    if (profile_.target == nullptr || !has_npu(*profile_.target) || ends >= row_.spent.cpu) return;
    explain_move(converts ? stretches_of_row() : operators_of_row(), ends,
                 converts ? "what computes in float beside it" : "it");
  }

  // Kernels of the CPU that could run on the NPU instead.
  struct Movable {
    uint64_t cycles = 0;
    uint32_t computing = 0;  // of them, those that need a call
  };

  // Whether a kernel would need a call: conversions are not needed there, and a function of one
  // value, such as an activation, is a part of the call for the kernel of its row before it.
  bool needs_call(const ProfileSpan& span, const ProfileSpan* before) const {
    if (is_conversion(span)) return false;
    return before == nullptr || before->row != span.row || is_conversion(*before) ||
           pte_file_ == nullptr || !is_unary(*pte_file_, span.instruction);
  }

  // The row's own kernels, with the conversions beside them, which would be needed no more.
  Movable operators_of_row() const {
    Movable found;
    const std::vector<const ProfileSpan*> order = host_order();
    const auto is_beside = [&](size_t at) {
      return (at > 0 && is_own(*order[at - 1])) ||
             (at + 1 < order.size() && is_own(*order[at + 1]));
    };
    for (size_t at = 0; at < order.size(); ++at) {
      const ProfileSpan& span = *order[at];
      if (span.track != ProfileSpan::Track::kHost) continue;
      if (!is_own(span) && !(is_conversion(span) && is_beside(at))) continue;
      found.cycles += span.end - span.start;
      if (needs_call(span, at == 0 ? nullptr : order[at - 1])) ++found.computing;
    }
    return found;
  }

  // All kernels between two calls of the NPU where one of them is a conversion of the row.
  Movable stretches_of_row() const {
    Movable all, stretch;
    bool has_own = false;
    const ProfileSpan* before = nullptr;
    const auto end_stretch = [&] {
      if (has_own) all.cycles += stretch.cycles, all.computing += stretch.computing;
      stretch = {}, has_own = false;
    };
    for (const ProfileSpan* span : host_order()) {
      if (span->track == ProfileSpan::Track::kNpu) {
        end_stretch();
        before = nullptr;
        continue;
      }
      stretch.cycles += span->end - span->start;
      if (needs_call(*span, before)) ++stretch.computing;
      before = span;
      has_own = has_own || is_own(*span);
    }
    end_stretch();
    return all;
  }

  // Kernels of the CPU and calls of the NPU in the order in which they run.
  std::vector<const ProfileSpan*> host_order() const {
    std::vector<const ProfileSpan*> order;
    for (const ProfileSpan& span : profile_.spans)
      if (span.track != ProfileSpan::Track::kCopy && !span.waits) order.push_back(&span);
    return order;
  }

  // What the NPU could save: it needs calls, and the array for the products.
  // `kept`: cycles of conversions that the program's ends need anyway.
  void explain_move(const Movable& kernels, uint64_t kept, std::string_view what) {
    const npu::Target& npu = profile_.target->npu;
    const uint64_t call = uint64_t{npu.call_host_cycles} + npu.call_npu_cycles;
    const uint64_t products = row_.npu_calls == 0 ? static_cast<uint64_t>(row_.macs) : 0;
    const uint64_t needs =
        kernels.computing * call + products / (uint64_t{npu.macs} * npu.pipelines);
    const uint64_t now = kernels.cycles - std::min(kernels.cycles, kept);
    if (now > needs)
      change(
          fmt::format("bring {} onto the NPU, which saves at most {} in {} of its own: `deuteron "
                      "compile --placement FILE` says why it is not there",
                      what, with_time(now - needs), plural(kernels.computing, "call")));
    else
      because(
          fmt::format("on the NPU, {} would cost more in {} of its own: each starts with {} "
                      "cycles; it could only save in fewer calls, as a part of other operators'",
                      what, plural(kernels.computing, "call"), with_thousands(call)));
  }

  static bool is_conversion(const ProfileSpan& span) {
    return span.kernel.find("quantize_per_") != std::string::npos;
  }

  // Says what the row's conversions between float and int8 cost at the program's ends, where
  // nothing computes before them or nothing behind them. Returns their cycles.
  uint64_t explain_ends() {
    const std::vector<const ProfileSpan*> kernels = host_order();
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
      change(fmt::format("give and take int8: compile with --io int8, which saves {}{}{}",
                         layout ? "at most " : "", with_time(cycles),
                         layout ? ", less what another order of the bytes costs then, which the "
                                  "conversion changes in passing"
                                : ""));
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
    const std::vector<const simulator::ArrayCall*> calls = array_calls();
    uint64_t packing_saves = 0;
    for (const simulator::ArrayCall* call : calls)
      packing_saves += call->cycles - call->packed_cycles;
    if (packing_saves > 0)
      change(fmt::format(
          "compile with --row-packing, which saves {} of computing (waits for constants may "
          "change), if the NPU reads unaligned bytes at full speed, as docs/npu.md "
          "assumes",
          with_time(packing_saves)));
    explain_depthwise(calls);
    explain_unfilled(calls);
    explain_shared(calls);
  }

  // Of the row.
  std::vector<const simulator::ArrayCall*> array_calls() const {
    std::vector<const simulator::ArrayCall*> calls;
    for (const ProfileSpan& span : profile_.spans) {
      const auto found = advised_.find({span.instruction, span.command});
      if (is_own(span) && span.track == ProfileSpan::Track::kNpu && found != advised_.end())
        calls.push_back(&found->second);
    }
    return calls;
  }

  void explain_depthwise(const std::vector<const simulator::ArrayCall*>& calls) {
    uint64_t now = 0, full = 0;
    for (const simulator::ArrayCall* call : calls)
      if (call->full_cycles > 0) now += call->cycles, full += call->full_cycles;
    constexpr double kAboutAsMuch = 1.1;
    if (full == 0 || static_cast<double>(full) > kAboutAsMuch * static_cast<double>(now)) return;
    const uint32_t macs = profile_.target->npu.macs;
    change(
        fmt::format("a depthwise convolution has one product for each of the {} a pipeline could "
                    "add at a time: a grouped or full convolution computes {} times as much in {} "
                    "cycles in place of {}",
                    macs, macs, with_thousands(full), with_thousands(now)));
  }

  void explain_unfilled(const std::vector<const simulator::ArrayCall*>& calls) {
    std::vector<simulator::UnfilledExtent> told;
    for (const simulator::ArrayCall* call : calls)
      for (const simulator::UnfilledExtent& part : call->unfilled) {
        if (std::ranges::find(told, part) != told.end()) continue;
        told.push_back(part);
        change(fmt::format("{}{} in multiples of {}: {} cost as much as {}", part.what,
                           calls.size() > 1 ? " of a call" : "", part.unit, part.extent,
                           part.filled));
      }
  }

  // Of the call that takes most cycles.
  void explain_shared(const std::vector<const simulator::ArrayCall*>& calls) {
    const simulator::ArrayCall* longest = nullptr;
    for (const simulator::ArrayCall* call : calls)
      if (call->shared.more > 0 && (longest == nullptr || call->cycles > longest->cycles))
        longest = call;
    if (longest == nullptr) return;
    const simulator::SharedWeights& shared = longest->shared;
    change(fmt::format("more {} for each weight: a call for {} takes {} cycles, one for {} {}",
                       shared.what, shared.outputs, with_thousands(longest->cycles), shared.more,
                       with_thousands(shared.more_cycles)));
  }

  void explain_added() {
    std::string values;
    for (const ProfileSpan& span : profile_.spans)
      if (!span.step.rearranges.empty() && &profile_.rows[span.row] == &row_)
        values += fmt::format("{}`{}`", values.empty() ? "" : ", ", span.step.rearranges);
    because(fmt::format("of all these, {} cycles bring {} into another order of bytes",
                        of_it(row_.added), values));
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
