#include "test/conformance/placement.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <map>
#include <utility>

namespace dtr::conformance {
namespace {

// Operators that are one kind: the graph's names differ from those of upstream's edge dialect.
std::string kind_of(std::string name) {
  for (const std::string_view prefix : {"aten::", "aten."})
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  if (const size_t dot = name.find('.'); dot != std::string::npos) name.erase(dot);
  if (name.starts_with("_")) name.erase(0, 1);
  if (name.ends_with("_copy")) name.erase(name.size() - 5);
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kSame = {
      {{"addmm", "linear"},
       {"mm", "linear"},
       {"hardtanh", "clamp"},
       {"native_batch_norm_legit_no_training", "batch_norm"},
       {"adaptive_avg_pool2d", "avg_pool2d"},
       {"max_pool2d_with_indices", "max_pool2d"},
       {"native_layer_norm", "layer_norm"},
       {"div", "mul"},
       {"matmul", "bmm"}}};
  for (const auto& [from, to] : kSame)
    if (name == from) return std::string(to);
  return name;
}

bool counts(const OperatorRow& row) {
  return row.backend != "neutron" && row.kernel.starts_with("aten::") &&
         !row.kernel.starts_with("aten::view_copy");
}

std::string why(const CompileReport& report, const OperatorRow& row) {
  for (const RefusalRow& refusal : report.refusals)
    if (row.name.find(refusal.name) != std::string::npos) return refusal.reason;
  return "no reason is given";
}

}  // namespace

Result<void> judge_placement(const std::filesystem::path& upstream,
                             const std::vector<PlacementReport>& reports, Check& check) {
  std::map<std::string, int64_t> kept;
  if (!upstream.empty()) {
    std::ifstream file(upstream);
    const nlohmann::json document =
        nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!document.is_object() || !document.contains("kept"))
      return fail(DiagnosticId::kFileNotFound, "no list of what upstream keeps", {},
                  {.file = upstream});
    for (const auto& [name, count] : document["kept"].items()) {
      kept[kind_of(name)] += count.get<int64_t>();
      if (name != "aten.addmm") continue;  // a product, an addition and two factors
      kept["add"] += count.get<int64_t>();
      kept["mul"] += 2 * count.get<int64_t>();
    }
  }
  check.judge(true);
  for (const auto& [model, report] : reports) {
    std::map<std::string, int64_t> ours;
    std::map<std::string, std::string> reasons;
    for (const OperatorRow& row : report.operators) {
      if (!counts(row)) continue;
      const std::string kind = kind_of(row.kernel);
      ++ours[kind];
      reasons.try_emplace(kind, fmt::format("{}: {}", row.name, why(report, row)));
    }
    for (const auto& [kind, count] : ours) {
      check.figures[model][kind] = count;
      if (count <= kept[kind]) continue;
      check.judge(false);
      check.text += fmt::format("{}{} {} of {} on the CPU, upstream keeps {}: {}",
                                check.text.empty() ? "" : "; ", count, kind, model, kept[kind],
                                reasons[kind]);
    }
  }
  return {};
}

}  // namespace dtr::conformance
