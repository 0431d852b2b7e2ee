#include "compiler/pipeline/placement_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/pipeline/compilation.h"
#include "compiler/support/encode.h"
#include "compiler/support/text.h"

namespace dtr {
namespace {

RefusalRow row_of(const Module& module, const Graph& graph, OpId op, const Reason& reason) {
  const Place place = place_of(module, graph, op);
  return {.name = place.node,
          .op = std::string(graph.op(op).def->name),
          .module_path = place.module_path,
          .source_line = place.source_line,
          .backend = std::string(reason.backend),
          .id = std::string(reason.refusal.id),
          .reason = reason.refusal.reason,
          .remedy = reason.refusal.remedy,
          .limit = reason.refusal.limit,
          .value = reason.refusal.value,
          .because_of = reason.because_of,
          .macs = reason.macs,
          .cycles_lost = reason.host_cycles > reason.bound_cycles
                             ? reason.host_cycles - reason.bound_cycles
                             : 0};
}

// The most that all of them together would save. A program without a call of the NPU needs one for
// them; else the calls that there are might take them.
uint64_t cycles_saved(const CompileReport& report) {
  uint64_t sum = 0;
  for (const RefusalRow& row : report.refusals) sum += row.cycles_lost;
  const uint64_t call = report.partitions == 0 ? report.target->npu.call_host_cycles : 0;
  return sum > call ? sum - call : 0;
}

}  // namespace

std::vector<RefusalRow> refusal_rows(const Compilation& compilation) {
  const Graph& graph = compilation.module.forward();
  const Placement& placement = compilation.placement;
  std::vector<RefusalRow> rows;
  std::map<std::string, uint64_t> lost;  // by cause
  for (const OpId op : graph.ops()) {
    if (!placement.reasons[op.index]) continue;
    rows.push_back(row_of(compilation.module, graph, op, *placement.reasons[op.index]));
    const RefusalRow& row = rows.back();
    lost[row.because_of.empty() ? row.name : row.because_of] += row.cycles_lost;
  }
  const auto cause = [](const RefusalRow& row) -> const std::string& {
    return row.because_of.empty() ? row.name : row.because_of;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const RefusalRow& a, const RefusalRow& b) {
    const uint64_t of_a = lost.at(cause(a)), of_b = lost.at(cause(b));
    if (of_a != of_b) return of_a > of_b;
    if (cause(a) != cause(b)) return cause(a) < cause(b);
    if (a.because_of.empty() != b.because_of.empty()) return a.because_of.empty();
    return a.cycles_lost > b.cycles_lost;
  });
  return rows;
}

std::vector<TransposeRow> transpose_rows(const Compilation& compilation) {
  const Module& module = compilation.module;
  const Graph& graph = module.forward();
  const Recipe& recipe = compilation.recipe;
  const EmitResult& emitted = compilation.emitted;
  std::vector<TransposeRow> rows;
  for (const OpId op : compilation.layouts.conversions) {
    const Backend& backend = *recipe[compilation.placement.backend[op.index]];
    if (backend.as_delegate() != nullptr) continue;  // delegates report their own
    const Type& type = graph.type(graph.op(op).results[0]);
    rows.push_back({.value = graph.value(graph.op(op).operands[0]).name,
                    .to = type.layout == Layout::kContiguous ? "contiguous" : "channels_last",
                    .for_operator = place_of(module, graph, op).node,
                    .backend = std::string(backend.name()),
                    .bytes = type.bytes(),
                    .cycles = backend.cost(graph, op)});
  }
  for (size_t i = 0; i < emitted.partitions.size(); ++i) {
    if (emitted.partitions[i] == nullptr) continue;
    for (const StepInfo& step : emitted.partitions[i]->step_info) {
      if (step.rearranges.empty()) continue;
      TransposeRow row{.value = step.rearranges,
                       .to = "another order",
                       .for_operator = place_of(module, step.origin).node,
                       .backend = std::string(recipe[emitted.backends[i]]->name()),
                       .cycles = step.cycles};
      for (const InteriorValue& value : emitted.partitions[i]->values)
        if (value.name == step.rearranges) row.bytes = value.type.bytes();
      rows.push_back(std::move(row));
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const TransposeRow& a, const TransposeRow& b) {
    return a.cycles > b.cycles;
  });
  return rows;
}

std::string refusals_text(const CompileReport& report) {
  if (report.refusals.empty()) return {};
  size_t name_width = 8, op_width = 8, module_width = 6;
  for (const RefusalRow& row : report.refusals) {
    name_width =
        std::clamp<size_t>(row.name.size() + (row.because_of.empty() ? 0 : 2), name_width, 30);
    op_width = std::clamp<size_t>(row.op.size(), op_width, 24);
    module_width = std::clamp<size_t>(row.module_path.size(), module_width, 26);
  }
  std::string text = terminal_format(
      "\nNot on the NPU: {} operator{}; their own cycles there would be at most {} fewer "
      "(docs/placement.md)\n",
      report.refusals.size(), report.refusals.size() == 1 ? "" : "s",
      with_thousands(cycles_saved(report)));
  text +=
      terminal_format("{:>12}  {:>12}  {:<{}}  {:<{}}  {:<{}}  {}\n", "saves ≤", "MACs", "operator",
                      name_width, "kind", op_width, "module", module_width, "source");
  const std::string indent(28, ' ');
  for (const RefusalRow& row : report.refusals) {
    const std::string name = row.because_of.empty() ? row.name : "+ " + row.name;
    text += terminal_format(
        "{:>12}  {:>12}  {:<{}}  {:<{}}  {:<{}}  {}\n", with_thousands(row.cycles_lost),
        row.macs > 0 ? with_thousands(static_cast<uint64_t>(row.macs)) : "",
        clipped(name, name_width), name_width, clipped(row.op, op_width), op_width,
        clipped(row.module_path, module_width), module_width, row.source_line);
    if (row.because_of.empty()) {
      text += terminal_format("{}{}: {}\n", indent, row.id, row.reason);
      if (!row.remedy.empty()) text += terminal_format("{}fix: {}\n", indent, row.remedy);
    } else {
      text += terminal_format("{}  follows `{}`, which is on the CPU ({}{}{})\n", indent,
                              row.because_of, row.id, row.value.empty() ? "" : ": ", row.value);
    }
  }
  return text;
}

std::string transposes_text(const CompileReport& report) {
  if (report.transposes.empty()) return {};
  std::string text =
      terminal_format("\nTransposes that remain: {}\n{:>12}  {:>12}  {:<8}  {}\n",
                      report.transposes.size(), "cycles", "bytes", "runs on", "tensor");
  for (const TransposeRow& row : report.transposes)
    text +=
        terminal_format("{:>12}  {:>12}  {:<8}  {} to {}{}\n", with_thousands(row.cycles),
                        with_thousands(static_cast<uint64_t>(row.bytes)), row.backend, row.value,
                        row.to, row.for_operator.empty() ? "" : ", for " + row.for_operator);
  return text;
}

std::string refusals_json(const CompileReport& report) {
  std::string text = "  \"refusals\": [";
  for (size_t i = 0; i < report.refusals.size(); ++i) {
    const RefusalRow& row = report.refusals[i];
    text += fmt::format(
        "{}\n    {{\"name\": {}, \"op\": {}, \"module_path\": {}, \"source_line\": {}, "
        "\"backend\": {}, \"id\": {}, \"reason\": {}, "
        "\"limit\": {}, \"value\": {}, \"remedy\": {}, \"because_of\": {}, \"macs\": {}, "
        "\"cycles_lost\": {}}}",
        i == 0 ? "" : ",", json_quote(row.name), json_quote(row.op), json_quote(row.module_path),
        json_quote(row.source_line), json_quote(row.backend), json_quote(row.id),
        json_quote(row.reason), json_quote(row.limit), json_quote(row.value),
        json_quote(row.remedy), row.because_of.empty() ? "null" : json_quote(row.because_of),
        row.macs, row.cycles_lost);
  }
  return text + "\n  ]";
}

std::string transposes_json(const CompileReport& report) {
  std::string text = "  \"transposes\": [";
  for (size_t i = 0; i < report.transposes.size(); ++i) {
    const TransposeRow& row = report.transposes[i];
    text += fmt::format(
        "{}\n    {{\"value\": {}, \"to\": {}, \"for\": {}, \"backend\": {}, \"bytes\": {}, "
        "\"cycles\": {}}}",
        i == 0 ? "" : ",", json_quote(row.value), json_quote(row.to), json_quote(row.for_operator),
        json_quote(row.backend), row.bytes, row.cycles);
  }
  return text + "\n  ]";
}

std::string placement_json(const CompileReport& report) {
  return fmt::format(
      "{{\n  \"version\": 1, \"model\": {}, \"target\": {}, \"partitions\": {}, \"cycles_lost\": "
      "{},\n{},\n{}\n}}\n",
      json_quote(report.model), json_quote(report.target->name), report.partitions,
      cycles_saved(report), refusals_json(report), transposes_json(report));
}

}  // namespace dtr
