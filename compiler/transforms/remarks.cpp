#include "compiler/transforms/remarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/support/encode.h"
#include "compiler/transforms/pass.h"

namespace dtr {

std::string to_text(const Remark& remark) {
  const std::string& source = remark.place.source_line;
  return terminal_format("note: `{}`{}: {} left {} as it is: {}", remark.place.node,
                         source.empty() ? "" : terminal_format(" ({})", source), remark.pass,
                         remark.op, remark.reason);
}

std::string to_json(const Remark& remark) {
  return fmt::format(
      R"({{"severity": "note", "pass": "{}", "op": "{}", "reason": {}, "node": {}, "module_path": {}, "source_line": {}}})",
      remark.pass, remark.op, json_quote(remark.reason), json_quote(remark.place.node),
      json_quote(remark.place.module_path), json_quote(remark.place.source_line));
}

void Remarks::settle(const PassDef& pass, const Module& module, const Graph& graph) {
  std::stable_sort(found_.begin(), found_.end(),
                   [](const Found& a, const Found& b) { return a.op < b.op; });
  std::set<OpId> repeated;
  for (const Found& found : found_) repeated.insert(found.op);
  std::erase_if(entries_, [&](Entry& entry) {
    const bool went = entry.alive && graph.op(entry.op).erased;
    entry.alive = entry.alive && !went;
    return entry.remark.pass == pass.name && (went || repeated.contains(entry.op));
  });
  for (Found& found : found_) {
    const Op& op = graph.op(found.op);
    if (op.erased) continue;
    Place place = place_of(module, graph, found.op);
    if (place.node.empty()) place.node = graph.value(op.results[0]).name;
    entries_.push_back(
        {found.op, true, {pass.name, op.def->name, std::move(place), std::move(found.reason)}});
  }
  found_.clear();
}

std::vector<Remark> Remarks::list() const {
  std::vector<Remark> remarks;
  for (const Entry& entry : entries_) remarks.push_back(entry.remark);
  return remarks;
}

}  // namespace dtr
