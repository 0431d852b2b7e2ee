#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/support/encode.h"
#include "compiler/support/text.h"
#include "host/profiler/report.h"

namespace dtr {
namespace {

std::string number(uint64_t value) { return value == 0 ? "" : with_thousands(value); }
std::string percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? ""
                    : fmt::format("{:.1f} %",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// Rows that belong together in a view, added up.
ProfileRow& add_up(std::map<std::string, ProfileRow>& groups, const std::string& name,
                   const ProfileRow& row) {
  ProfileRow& group = groups.try_emplace(name, ProfileRow{.name = name}).first->second;
  group.spent += row.spent;
  group.copying += row.copying, group.added += row.added, group.calls += row.calls,
      group.macs += row.macs;
  group.flash_bytes += row.flash_bytes, group.sram_bytes += row.sram_bytes;
  return group;
}

// "features.3.conv" and what it lies in: "features", "features.3", each as deep as it is.
std::vector<std::string> modules_of(const std::string& path, size_t depth) {
  std::vector<std::string> modules;
  for (size_t at = 0;
       at != std::string::npos && !path.empty() && (depth == 0 || modules.size() < depth);) {
    at = path.find('.', at);
    modules.push_back(path.substr(0, at));
    if (at != std::string::npos) ++at;
  }
  return modules;
}

// A span counts for its kernel; what the host spends on it lies between spans and is shared out by
// the row's own.
std::vector<ProfileRow> by_kernel(const Profile& profile, const ProfileTable& table) {
  std::map<std::string, ProfileRow> groups;
  CycleBreakdown seen;
  for (const ProfileSpan& span : profile.spans) {
    const ProfileRow& row = profile.rows[span.row];
    if (!matches(row, table.filter)) continue;
    const uint64_t cycles = span.end - span.start;
    ProfileRow part{.calls = 1, .macs = span.step.macs};
    if (span.track == ProfileSpan::Track::kCopy) {
      part.copying = cycles, part.flash_bytes = span.step.bytes;
    } else if (span.track == ProfileSpan::Track::kNpu) {
      part.spent.npu = cycles, part.sram_bytes = span.step.bytes;
    } else {
      (span.waits ? part.spent.stall : part.spent.cpu) = cycles;
    }
    seen += part.spent;
    add_up(groups, span.kernel, part);
  }
  std::vector<ProfileRow> rows;
  for (auto& [name, group] : groups) rows.push_back(std::move(group));
  uint64_t host = 0;
  for (const ProfileRow& row : profile.rows)
    if (matches(row, table.filter)) host += row.spent.host;
  if (host > 0) rows.push_back({.name = "start calls and copies", .spent = {.host = host}});
  return rows;
}

// Lines at one depth add up to "(model)": operators of the model's own forward are "(no module)",
// unless no operator has a module (.tflite).
std::vector<ProfileRow> by_module(const Profile& profile, const ProfileTable& table) {
  const bool has_modules = std::ranges::any_of(
      profile.rows, [](const ProfileRow& row) { return !row.module_path.empty(); });
  std::map<std::string, ProfileRow> groups;
  for (const ProfileRow& row : profile.rows) {
    if (!matches(row, table.filter)) continue;
    const std::vector<std::string> modules = modules_of(row.module_path, table.depth);
    add_up(groups, row.sources.empty() ? "(no operator)" : "(model)", row);
    if (has_modules && modules.empty() && !row.sources.empty()) add_up(groups, "(no module)", row);
    for (const std::string& module : modules) add_up(groups, module, row);
  }
  std::vector<ProfileRow> rows;
  for (auto& [name, group] : groups) rows.push_back(std::move(group));
  return rows;
}

std::vector<ProfileRow> rows_of(const Profile& profile, const ProfileTable& table) {
  std::vector<ProfileRow> rows;
  switch (table.view) {
    case ProfileView::kModule:
      return by_module(profile, table);  // a tree: by name
    case ProfileView::kKernel:
      rows = by_kernel(profile, table);
      break;
    case ProfileView::kOperator:
    case ProfileView::kMemory:
      for (const ProfileRow& row : profile.rows)
        if (matches(row, table.filter)) rows.push_back(row);
      break;
  }
  if (!table.program_order)
    std::ranges::stable_sort(rows, std::greater<>(), [&](const ProfileRow& row) {
      return table.view == ProfileView::kMemory ? row.flash_bytes + row.sram_bytes
                                                : row.spent.total();
    });
  return rows;
}

std::string indented(const std::string& module) {
  const auto level = static_cast<size_t>(std::ranges::count(module, '.'));
  return module.starts_with('(')
             ? module
             : std::string(2 * level, ' ') + module.substr(module.rfind('.') + 1);
}

std::string_view view_name(ProfileView view) {
  switch (view) {
    case ProfileView::kModule:
      return "module";
    case ProfileView::kKernel:
      return "kernel";
    case ProfileView::kOperator:
    case ProfileView::kMemory:
      break;
  }
  return "operator";
}

// What the times of kernels are, where they are not the compiler's estimate.
std::string_view counted(npu::ProfileUnit unit) {
  switch (unit) {
    case npu::ProfileUnit::kEstimate:
      break;
    case npu::ProfileUnit::kInstructions:
      return ", counted instructions";
    case npu::ProfileUnit::kCycles:
      return ", counted cycles";
  }
  return "";
}

std::string own_time(const Profile& profile, uint64_t time) {
  if (profile.own_unit == "ns") return fmt::format("{:.3f} ms", static_cast<double>(time) / 1e6);
  return fmt::format("{} {}", with_thousands(time),
                     profile.own_unit.empty() ? "of the trace's clock" : profile.own_unit);
}

// A start is not part of a run.
std::string before_run(const Profile& profile) {
  if (!profile.load && !profile.init) return {};
  std::string text = "  before the run:";
  if (profile.load) text += " load " + own_time(profile, *profile.load);
  if (profile.init)
    text += (profile.load ? ", init " : " init ") + own_time(profile, *profile.init);
  return text + (profile.own_unit == "ns" ? " of the computer that simulated\n" : "\n");
}

bool has_npu_part(const Profile& profile) {
  const CycleBreakdown all = spent(profile);
  return all.total() > all.cpu;
}

std::string totals(const Profile& profile) {
  const CycleBreakdown all = spent(profile);
  std::string text = profile.id
                         ? profile.inference()
                         : fmt::format("{} {}", with_thousands(profile.total), profile.unit());
  if (const std::string reason = profile.time_error().reason; profile.id && !reason.empty())
    text += fmt::format("\n  {} (docs/{}.md)", reason,
                        profile.target == nullptr || has_npu(*profile.target) ? "npu" : "targets");
  text += '\n';
  if (!profile.id)
    text += fmt::format("  delegates {} ({}), beside their events {} ({}), kernels {} ({})\n",
                        with_thousands(all.npu), percent(all.npu, profile.total),
                        with_thousands(all.host), percent(all.host, profile.total),
                        with_thousands(all.cpu), percent(all.cpu, profile.total));
  else if (has_npu_part(profile))
    text += fmt::format(
        "  NPU computes {} ({}), host starts calls and copies {} ({}), waits for flash {} ({}), "
        "Cortex-M kernels {} ({}{})\n",
        with_thousands(all.npu), percent(all.npu, profile.total), with_thousands(all.host),
        percent(all.host, profile.total), with_thousands(all.stall),
        percent(all.stall, profile.total), with_thousands(all.cpu), percent(all.cpu, profile.total),
        counted(profile.cpu_unit));
  text += fmt::format("  {} traced to a source operator: {}\n", profile.unit(),
                      percent(profile.on_operators(), profile.total));
  text += before_run(profile) + recording_cost(profile);
  if (!profile.complete)
    text += profile.lost > 0
                ? fmt::format(
                      "  PARTIAL: {} events found no room in the profile buffer; these are the "
                      "first {} of {} cycles\n",
                      with_thousands(profile.lost), with_thousands(profile.total),
                      with_thousands(profile.run_totals.empty() ? profile.total
                                                                : profile.run_totals.back()))
                : fmt::format("  PARTIAL: the run did not end{}\n",
                              profile.error == pte::Error::kOk
                                  ? ""
                                  : fmt::format(": {}", pte::text(profile.error)));
  if (profile.spans.empty())
    text += "  NO EVENTS: none was recorded, or the program has no operators\n";
  for (const std::string& sentence : profile.missing)
    text += terminal_format("  NOT KNOWN: {}\n", sentence);
  return text;
}

std::string no_match(const ProfileTable& table) {
  return table.filter.empty()
             ? ""
             : terminal_format("no operator, module or kernel has `{}` in its name\n",
                               table.filter);
}

std::string quoted(const std::string& text) {
  std::string cell = "\"";
  for (const char c : as_terminal(text)) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

// At least `digits` significant digits, never 1.5e+03.
std::string without_exponent(double value, int digits) {
  return value < std::pow(10, digits) ? fmt::format("{:.{}g}", value, digits)
                                      : with_thousands(static_cast<uint64_t>(std::llround(value)));
}

}  // namespace

bool matches(const ProfileRow& row, const std::string& filter) {
  const auto has = [&](const std::string& text) { return text.find(filter) != std::string::npos; };
  return filter.empty() || has(row.name) || has(row.op) || has(row.module_path) || has(row.kernels);
}

std::string recording_cost(const Profile& profile) {
  const RecordingCost& cost = profile.cost;
  if (cost.events == 0) return {};
  const double all = cost.event * static_cast<double>(cost.events);
  return fmt::format(
      "  recording cost {} {} per event{}, {} % of the run with its {} events, none of it in the "
      "cycles\n",
      without_exponent(cost.event, 3), profile.own_unit,
      profile.own_unit == "ns" ? " on the computer that simulated" : "",
      without_exponent(cost.run > 0 ? 100 * all / cost.run : 0, 2), with_thousands(cost.events));
}

std::string to_text(const Profile& profile, const ProfileTable& table) {
  std::string text = totals(profile) + "\n";
  const std::vector<ProfileRow> listed = rows_of(profile, table);
  if (table.view == ProfileView::kMemory) {
    TextTable rows({"operator", "kernels", "from flash", "SRAM traffic", "copying", "waiting",
                    std::string(profile.unit())},
                   {false, false, true, true, true, true, true});
    for (const ProfileRow& row : listed)
      rows.add({row.name, row.kernels, number(row.flash_bytes), number(row.sram_bytes),
                number(row.copying), number(row.spent.stall), number(row.spent.total())});
    return text + rows.text(40) + (listed.empty() ? no_match(table) : "");
  }
  const bool operators = table.view == ProfileView::kOperator;
  std::vector<std::string> header{std::string(view_name(table.view))};
  std::vector<bool> right{false};
  const bool npu = has_npu_part(profile);
  const auto add_heads = [&](std::initializer_list<std::string> names, bool is_number) {
    header.insert(header.end(), names);
    right.insert(right.end(), names.size(), is_number);
  };
  if (operators) add_heads({"module", "runs on", "kernels"}, false);
  add_heads({std::string(profile.unit()), "share"}, true);
  if (npu) add_heads({"NPU", "host", "waiting", "CPU"}, true);
  add_heads({"MACs"}, true);
  if (npu) add_heads({"util"}, true);
  if (npu && operators) add_heads({"limited by"}, false);
  TextTable rows(std::move(header), std::move(right));
  for (const ProfileRow& row : listed) {
    std::vector<std::string> cells{table.view == ProfileView::kModule ? indented(row.name)
                                                                      : row.name};
    const auto add = [&](std::initializer_list<std::string> more) {
      cells.insert(cells.end(), more);
    };
    if (operators) add({row.module_path, row.backend, row.kernels});
    add({with_thousands(row.spent.total()), percent(row.spent.total(), profile.total)});
    if (npu)
      add({number(row.spent.npu), number(row.spent.host), number(row.spent.stall),
           number(row.spent.cpu)});
    add({number(static_cast<uint64_t>(std::max<int64_t>(row.macs, 0)))});
    const double utilization = profile.utilization(row);
    if (npu)
      add({row.macs > 0 && utilization > 0 ? fmt::format("{:.0f} %", 100 * utilization) : ""});
    if (npu && operators) add({row.limited_by});
    rows.add(std::move(cells));
  }
  return text + rows.text(operators ? 32 : 48) + (listed.empty() ? no_match(table) : "");
}

std::vector<ComparedRow> compared_rows(const Profile& before, const Profile& after,
                                       const ProfileTable& table) {
  std::vector<ComparedRow> compared;
  std::map<std::string, size_t> index;
  const auto at = [&](const std::string& name) -> ComparedRow& {
    const auto [found, inserted] = index.try_emplace(name, compared.size());
    if (inserted) compared.push_back({.name = name});
    return compared[found->second];
  };
  for (const ProfileRow& row : rows_of(before, table)) at(row.name).before += row.spent.total();
  for (const ProfileRow& row : rows_of(after, table)) at(row.name).after += row.spent.total();
  std::ranges::stable_sort(compared, std::greater<>(), &ComparedRow::change);
  return compared;
}

std::string compare_text(const Profile& before, const Profile& after, const ProfileTable& table) {
  const auto signed_number = [](int64_t value) {
    return fmt::format("{}{}",
                       value < 0   ? "-"
                       : value > 0 ? "+"
                                   : "",
                       with_thousands(static_cast<uint64_t>(value < 0 ? -value : value)));
  };
  const auto change_percent = [](const ComparedRow& row) {
    return row.before == 0 ? std::string("new")
                           : fmt::format("{:+.1f} %", 100.0 * static_cast<double>(row.change()) /
                                                          static_cast<double>(row.before));
  };
  TextTable rows({std::string(view_name(table.view)), "before", "after", "change", ""},
                 {false, true, true, true, true});
  const std::vector<ComparedRow> compared = compared_rows(before, after, table);
  for (const ComparedRow& row : compared)
    rows.add({row.name, with_thousands(row.before), with_thousands(row.after),
              signed_number(row.change()),
              row.after == 0 && row.before > 0 ? "gone" : change_percent(row)});
  const auto clock = [](const Profile& profile) { return profile.id ? profile.id->clock_hz : 0; };
  const ComparedRow whole{.before = before.total, .after = after.total};
  rows.add({"total", with_thousands(whole.before), with_thousands(whole.after),
            signed_number(whole.change()), change_percent(whole)});
  std::string text = rows.text(56) + (compared.empty() ? no_match(table) : "");
  for (const auto& [profile, which] : {std::pair(&before, "before"), std::pair(&after, "after")})
    for (const std::string& sentence : profile->missing)
      text += terminal_format("{}: {}\n", which, sentence);
  if (before.unit() != after.unit())
    text +=
        fmt::format("before in {}, after in {}: nothing to compare\n", before.unit(), after.unit());
  if (clock(before) != clock(after) && clock(before) > 0 && clock(after) > 0)
    text += fmt::format("cycles of two clocks, {} and {} MHz: {} before, {} after\n",
                        clock(before) / 1'000'000, clock(after) / 1'000'000, before.time(),
                        after.time());
  return text;
}

std::string to_csv(const Profile& profile, const ProfileTable& table) {
  std::string text = fmt::format(
      "{},op,module,source_line,backend,kernels,{},npu,host,stall,cpu,copying,added,calls,macs,"
      "utilization,flash_bytes,sram_bytes,"
      "limited_by\n",
      view_name(table.view), profile.unit());
  for (const ProfileRow& row : rows_of(profile, table)) {
    for (const std::string& cell :
         {row.name, row.op, row.module_path, row.source_line, row.backend, row.kernels})
      text += quoted(cell) + ",";
    text += fmt::format("{},{},{},{},{},{},{},{},{},{:.4f},{},{},{}\n", row.spent.total(),
                        row.spent.npu, row.spent.host, row.spent.stall, row.spent.cpu, row.copying,
                        row.added, row.calls, row.macs, profile.utilization(row), row.flash_bytes,
                        row.sram_bytes, quoted(row.limited_by));
  }
  return text;
}

std::string compare_csv(const Profile& before, const Profile& after, const ProfileTable& table) {
  std::string text = fmt::format("{},before,after,change\n", view_name(table.view));
  for (const ComparedRow& row : compared_rows(before, after, table))
    text += fmt::format("{},{},{},{}\n", quoted(row.name), row.before, row.after, row.change());
  return text;
}

}  // namespace dtr
