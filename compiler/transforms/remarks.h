// Remarks: why passes left ops unchanged, as `-v` prints them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostic.h"

namespace dtr {

struct PassDef;

struct Remark {
  std::string_view pass;
  std::string_view op;  // "aten.batch_norm"
  Place place;
  std::string reason;
};
// "note: `bn` (model.py:2): fold_batch_norm left aten.batch_norm as it is: its operand `c` has
// another user".
std::string to_text(const Remark& remark);
// One JSON object on one line, with keys severity, pass, op, reason, node, module_path,
// source_line.
std::string to_json(const Remark& remark);

class Remarks {
 public:
  // Called by a running pass, which left `op` alone because of `reason`.
  void add(OpId op, std::string_view reason) { found_.push_back({op, std::string(reason)}); }
  // Called by the pass manager after a pass. A remark is dropped if the pass repeats it for the op,
  // or changes the op later.
  void settle(const PassDef& pass, const Module& module, const Graph& graph);
  // The remaining remarks, in the order of passes, then of ops.
  std::vector<Remark> list() const;

 private:
  struct Found {
    OpId op;
    std::string reason;
  };
  struct Entry {
    OpId op;
    bool alive;  // the op is in the graph
    Remark remark;
  };
  std::vector<Found> found_;  // of the running pass
  std::vector<Entry> entries_;
};

}  // namespace dtr
