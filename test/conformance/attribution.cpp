// The judge shares nothing with the compiler's debug map: operators and who takes whose results
// come from the JSON of the .pt2, kernels and who reads what was written by whom from the decoded
// microcode.
#include "test/conformance/attribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "compiler/program/machine.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/zip_archive.h"
#include "device/pte/program_generated.h"
#include "device/simulator/decoder.h"

namespace dtr::conformance {
namespace {

using Names = std::set<std::string, std::less<>>;

// "conv2d" of "torch.ops.aten.conv2d.default", "hardtanh" of "torch.ops.aten.hardtanh_.default".
std::string kind_of(std::string target) {
  for (const std::string_view prefix : {"torch.ops.", "aten.", "quantized_decomposed."})
    if (target.starts_with(prefix)) target.erase(0, prefix.size());
  if (const size_t dot = target.find('.'); dot != std::string::npos) target.erase(dot);
  if (target.ends_with("_")) target.pop_back();
  return target;
}

// Operators that give what they take, in other places, another type or another shape, or that no
// input changes: they may need no call.
const Names kMoves = {"alias",
                      "cat",
                      "chunk",
                      "clone",
                      "concat",
                      "contiguous",
                      "detach",
                      "dequantize_per_channel",
                      "dequantize_per_tensor",
                      "dropout",
                      "expand",
                      "flatten",
                      "flip",
                      "getitem",
                      "narrow",
                      "permute",
                      "quantize_per_channel",
                      "quantize_per_tensor",
                      "repeat",
                      "reshape",
                      "roll",
                      "select",
                      "slice",
                      "split",
                      "split_with_sizes",
                      "squeeze",
                      "stack",
                      "t",
                      "to",
                      "transpose",
                      "unbind",
                      "unflatten",
                      "unsqueeze",
                      "view",
                      "zeros",
                      "zeros_like"};

const Names kProducts = {"addmm",
                         "baddbmm",
                         "bmm",
                         "conv1d",
                         "conv2d",
                         "conv_transpose1d",
                         "conv_transpose2d",
                         "cumsum",  // with a triangle of ones
                         "linear",
                         "matmul",
                         "mm",
                         "scaled_dot_product_attention"};
const Names kPools = {"adaptive_avg_pool2d", "adaptive_max_pool2d", "avg_pool1d",
                      "avg_pool2d",          "max_pool1d",          "max_pool2d"};
const Names kReductions = {"amax", "amin", "argmax", "argmin", "cdist", "logsumexp",
                           "max",  "mean", "min",    "pdist",  "sum"};
const Names kNormalizations = {"batch_norm", "group_norm", "instance_norm", "layer_norm",
                               "rms_norm"};
const Names kSoftmaxes = {"log_softmax", "logsumexp", "scaled_dot_product_attention", "softmax"};
const Names kResizes = {"upsample_bilinear2d", "upsample_nearest2d"};
const Names kGathers = {"as_strided",   "diagonal",       "embedding",
                        "index_select", "masked_scatter", "pdist"};
const Names kClamps = {"clamp", "hardtanh"};
// Several kernels compute one of them.
const Names kSteps = {"cdist", "logsumexp", "masked_scatter", "pdist",
                      "scaled_dot_product_attention"};
const Names kRescales = {"quantize_per_channel", "quantize_per_tensor"};

// An operator of no list above: one element at a time.
bool is_elementwise(const std::string& kind) {
  for (const Names* list : {&kMoves, &kProducts, &kPools, &kReductions, &kNormalizations,
                            &kSoftmaxes, &kResizes, &kGathers})
    if (list->contains(kind)) return false;
  return true;
}

// The graph as the exporter wrote it.
class Exported {
 public:
  static Result<Exported> read(const std::filesystem::path& model) {
    DTR_ASSIGN(const FileContents file, FileContents::read(model));
    DTR_ASSIGN(const ZipArchive archive, ZipArchive::open(file.bytes(), model));
    for (const ZipEntry& entry : archive.entries()) {
      if (!entry.name.ends_with("models/model.json")) continue;
      DTR_ASSIGN(const ZipData data, archive.read(entry));
      const auto document = nlohmann::json::parse(data.text(), nullptr, /*allow_exceptions=*/false);
      if (document.is_object()) return Exported(document["graph_module"]["graph"]);
    }
    return fail(DiagnosticId::kFileNotFound, "no models/model.json", {}, {.file = model});
  }

  struct Node {
    std::string target, kind;
    std::vector<size_t> takes;  // nodes
    bool computed = false;      // depends on an input of the model
    bool constants = false;     // one of what it takes does not
    bool moves = false;         // gives what it takes
  };
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::string& name(size_t node) const { return names_[node]; }
  // −1: the file has no such operator.
  int find(const std::string& name, const std::string& target) const {
    const auto at = by_name_.find(name);
    if (at == by_name_.end()) return -1;
    return nodes_[at->second].target == target ? static_cast<int>(at->second) : -1;
  }

  // Whether an operator of `to` takes a result of one of `from`, directly or through operators that
  // only move data.
  bool feeds(const std::set<size_t>& from, const std::set<size_t>& to) const {
    std::vector<size_t> open(to.begin(), to.end());
    std::set<size_t> seen;
    while (!open.empty()) {
      const size_t node = open.back();
      open.pop_back();
      if (from.contains(node)) return true;
      if (!seen.insert(node).second) continue;
      for (const size_t taken : nodes_[node].takes)
        if (from.contains(taken) || to.contains(taken) || nodes_[taken].moves)
          open.push_back(taken);
    }
    return false;
  }

 private:
  explicit Exported(const nlohmann::json& graph) {
    std::set<std::string> computed;
    for (const nlohmann::json& input : graph["inputs"])
      if (const auto name = input.find("as_tensor"); name != input.end()) {
        const auto text = (*name)["name"].get<std::string>();
        if (!text.starts_with("p_") && !text.starts_with("b_") && !text.starts_with("c_"))
          computed.insert(text);
      }
    for (const nlohmann::json& each : graph["nodes"]) {
      Node node{.target = each["target"].get<std::string>()};
      if (node.target.starts_with("torch.ops.")) node.target.erase(0, 10);
      node.kind = kind_of(node.target);
      for (const nlohmann::json& input : each["inputs"])
        for (const std::string& name : tensors(input["arg"])) {
          if (const auto at = by_name_.find(name); at != by_name_.end()) {
            node.takes.push_back(at->second);
            node.computed |= nodes_[at->second].computed;
            node.constants |= !nodes_[at->second].computed;
          } else {
            node.computed |= computed.contains(name);
            node.constants |= !computed.contains(name);
          }
        }
      node.moves = kMoves.contains(node.kind) || is_identity(graph, each, node);
      std::string first;
      for (const nlohmann::json& output : each["outputs"])
        for (const std::string& name : tensors(output)) {
          by_name_[name] = nodes_.size();
          if (first.empty()) first = name;
        }
      // Parts of a list are named by getitem operators, which the file does not keep; the list
      // itself by its operator.
      if (const auto name = each.find("name"); name != each.end() && name->is_string())
        by_name_[first = name->get<std::string>()] = nodes_.size();
      names_.push_back(first);
      nodes_.push_back(std::move(node));
    }
  }

  // Operators that change nothing with these arguments: pools and reductions of one element each,
  // limits that are none, and sums that give the codes of an addend: of a value with itself, whose
  // scale is double, and with a constant, which may be zeros.
  static bool is_identity(const nlohmann::json& graph, const nlohmann::json& each,
                          const Node& node) {
    const std::vector<std::string> taken = tensors(each["inputs"][0]["arg"]),
                                   given = tensors(each["outputs"]);
    if (kReductions.contains(node.kind) || node.kind.starts_with("adaptive_"))
      return !taken.empty() && !given.empty() &&
             elements(graph, taken[0]) == elements(graph, given[0]);
    if (kPools.contains(node.kind)) {
      for (const nlohmann::json& input : each["inputs"])
        if (input["name"] == "kernel_size")
          return std::ranges::all_of(input["arg"]["as_ints"],
                                     [](const auto& extent) { return extent == 1; });
      return false;
    }
    if (kClamps.contains(node.kind))
      return std::ranges::none_of(each["inputs"], [](const nlohmann::json& input) {
        return std::ranges::any_of(input["arg"],
                                   [](const nlohmann::json& value) { return value.is_number(); });
      });
    if (node.kind != "add") return false;
    const std::vector<std::string> other = tensors(each["inputs"][1]["arg"]);
    return !other.empty() && (other == taken || node.constants);
  }

  static int64_t elements(const nlohmann::json& graph, const std::string& tensor) {
    int64_t count = 1;
    for (const nlohmann::json& size : graph["tensor_values"][tensor]["sizes"])
      count *= size.value("as_int", int64_t{0});
    return count;
  }

  static std::vector<std::string> tensors(const nlohmann::json& argument) {
    std::vector<std::string> names;
    if (argument.is_object()) {
      for (const auto& [kind, value] : argument.items()) {
        if (kind == "name" && value.is_string()) names.push_back(value.get<std::string>());
        for (std::string& name : tensors(value)) names.push_back(std::move(name));
      }
    } else if (argument.is_array()) {
      for (const nlohmann::json& each : argument)
        for (std::string& name : tensors(each)) names.push_back(std::move(name));
    }
    return names;
  }

  std::vector<Node> nodes_;
  std::vector<std::string> names_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

bool any(const Exported& file, const std::set<size_t>& operators,
         std::initializer_list<const Names*> kinds, bool elementwise = false) {
  return std::ranges::any_of(operators, [&](size_t node) {
    const std::string& kind = file.nodes()[node].kind;
    return (elementwise && is_elementwise(kind)) ||
           std::ranges::any_of(kinds, [&](const Names* list) { return list->contains(kind); });
  });
}

// Whether one of the operators is of a kind that this kernel computes.
using npu::End;
bool fits(const Exported&, const std::set<size_t>&, const npu::Copy&) { return true; }
bool fits(const Exported&, const std::set<size_t>&, const npu::Move&) { return true; }
bool fits(const Exported&, const std::set<size_t>&, const npu::Fill&) { return true; }
bool fits(const Exported& file, const std::set<size_t>& by, const npu::Conv2d&) {
  return any(file, by, {&kProducts});
}
bool fits(const Exported& file, const std::set<size_t>& by, const npu::Depthwise&) {
  return any(file, by, {&kProducts, &kNormalizations});
}
bool fits(const Exported& file, const std::set<size_t>& by, const npu::Pool&) {
  return any(file, by, {&kPools, &kReductions});
}
bool fits(const Exported& file, const std::set<size_t>& by, const npu::Reduce&) {
  return any(file, by, {&kPools, &kReductions});
}
bool fits(const Exported& file, const std::set<size_t>& by, const npu::Softmax&) {
  return any(file, by, {&kSoftmaxes});
}
bool fits(const Exported& file, const std::set<size_t>& by, const npu::Normalize&) {
  return any(file, by, {&kNormalizations});
}
bool fits(const Exported& file, const std::set<size_t>& by, const npu::Resize&) {
  return any(file, by, {&kResizes});
}
bool fits(const Exported& file, const std::set<size_t>& by, const npu::Gather&) {
  return any(file, by, {&kGathers});
}
bool fits(const Exported& file, const std::set<size_t>& by, const npu::Matmul&) {
  return any(file, by, {&kProducts});
}
bool fits(const Exported& file, const std::set<size_t>& by, const npu::Binary&) {
  return any(file, by, {&kSteps}, true);
}
bool fits(const Exported& file, const std::set<size_t>& by, const npu::Lookup&) {
  return any(file, by, {&kSteps, &kRescales}, true);
}

// Loops of a strided walk, outermost first: how often, how many bytes apart.
using Loops = std::vector<std::pair<uint32_t, int64_t>>;

// Calls `visit(region, offset)` for every byte that a walk starts an element at.
template <class Visit>
void walk(npu::Address at, const Loops& loops, Visit&& visit) {
  if (std::ranges::any_of(loops, [](const auto& loop) { return loop.first == 0; })) return;
  std::vector<uint32_t> index(loops.size());
  int64_t offset = at.offset;
  for (;;) {
    visit(at.region, static_cast<size_t>(offset));
    size_t d = loops.size();
    for (; d > 0; --d) {
      offset += loops[d - 1].second;
      if (++index[d - 1] < loops[d - 1].first) break;
      offset -= loops[d - 1].second * loops[d - 1].first;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

// Who wrote what a command reads.
class Flow {
 public:
  Flow(const npu::Target& target, const simulator::Payload& payload) : target_(target) {
    for (uint32_t region = 0; region < npu::kFirstOperand + payload.header.operand_count; ++region)
      writer_.emplace_back(region == npu::kConstants ? 0 : payload.region_bytes(region), kNobody);
  }

  // Commands that wrote what this one reads; it becomes the writer of what it writes.
  template <class Command>
  std::set<uint32_t> run(uint32_t index, const Command& command) {
    std::set<uint32_t> sources;
    touch(
        command,
        [&](uint32_t region, size_t offset) {
          if (offset < writer_[region].size() && writer_[region][offset] != kNobody)
            sources.insert(writer_[region][offset]);
        },
        [&](uint32_t region, size_t offset) {
          if (offset < writer_[region].size()) writer_[region][offset] = index;
        });
    return sources;
  }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;

  template <class Command, class Read, class Write>
  void touch(const Command& command, Read&& read, Write&& write) const {
    const npu::Accesses accesses = npu::accesses(target_, command);
    for (const bool writes : {false, true})
      for (const npu::Access& each : accesses.all()) {
        if (each.write != writes || each.bytes == 0) continue;
        const uint64_t run = each.run == 0 ? each.bytes : each.run;
        const auto& r = each.repeats;
        const auto loop = [](const npu::Repeat& repeat) {
          return std::pair(static_cast<uint32_t>(repeat.count),
                           static_cast<int64_t>(repeat.stride));
        };
        const auto visit = [&](uint32_t region, size_t offset) {
          writes ? write(region, offset) : read(region, offset);
        };
        walk(each.address, {loop(r[2]), loop(r[1]), loop(r[0]), {static_cast<uint32_t>(run), 1}},
             visit);
      }
  }
  // Walks whose boxes are only their spans.
  template <class Read, class Write>
  void touch(const npu::Move& c, Read&& read, Write&& write) const {
    walk(c.input, loops(c.extent, c.input_stride), read);
    walk(c.output, loops(c.extent, c.output_stride), write);
  }
  template <class Read, class Write>
  void touch(const npu::Lookup& c, Read&& read, Write&& write) const {
    walk(c.input, loops(c.extent, c.input_stride), read);
    walk(c.table, {{256, 1}}, read);
    walk(c.output, loops(c.extent, c.output_stride), write);
  }
  template <class Read, class Write>
  void touch(const npu::Binary& c, Read&& read, Write&& write) const {
    walk(c.input_0, loops(c.extent, c.stride_0), read);
    walk(c.input_1, loops(c.extent, c.stride_1), read);
    walk(c.output, loops(c.extent, c.output_stride), write);
  }
  template <class Read, class Write>
  void touch(const npu::Reduce& c, Read&& read, Write&& write) const {
    Loops reads = loops(c.extent, c.input_stride);
    for (const auto& loop : loops(c.reduced_extent, c.reduced_stride)) reads.push_back(loop);
    walk(c.input, reads, read);
    walk(c.output, loops(c.extent, c.output_stride), [&](uint32_t region, size_t offset) {
      for (uint32_t byte = 0; byte < npu::result_bytes(c); ++byte) write(region, offset + byte);
    });
  }
  template <class Read, class Write>
  void touch(const npu::Matmul& c, Read&& read, Write&& write) const {
    const auto matrix = [&](npu::Address at, const uint32_t(&batch)[npu::kMatmulBatchRank],
                            std::pair<uint32_t, int64_t> rows, std::pair<uint32_t, int64_t> columns,
                            const auto& visit) {
      walk(at,
           {{c.batch[0], batch[0]},
            {c.batch[1], batch[1]},
            {c.batch[2], batch[2]},
            {c.batch[3], batch[3]},
            rows,
            columns},
           visit);
    };
    matrix(c.left, c.left_batch_stride, {c.rows, c.left_row_stride}, {c.inner, c.left_inner_stride},
           read);
    matrix(c.right, c.right_batch_stride, {c.inner, c.right_inner_stride},
           {c.columns, c.right_column_stride}, read);
    if ((c.flags & npu::kWithTable) != 0) walk(c.table, {{256, 1}}, read);
    matrix(c.output, c.output_batch_stride, {c.rows, c.output_row_stride},
           {c.columns, c.output_column_stride}, write);
  }

  static Loops loops(const uint32_t (&extent)[npu::kMoveRank],
                     const int32_t (&stride)[npu::kMoveRank]) {
    Loops loops;
    for (uint32_t d = 0; d < npu::kMoveRank; ++d) loops.emplace_back(extent[d], stride[d]);
    return loops;
  }

  const npu::Target& target_;
  std::vector<std::vector<uint32_t>> writer_;
};

// A delegate's commands against the file.
class Judge {
 public:
  Judge(const Exported& file, const Profile& profile) : file_(file) {
    for (const ProfileSpan& span : profile.spans) {
      if (span.waits) continue;
      std::set<size_t> operators;
      for (const uint32_t source : profile.rows[span.row].sources) {
        const SourceOp& op = profile.sources[source];
        const int node = file.find(op.name, op.target);
        if (node < 0) {
          complain(fmt::format("{} ({}) is no operator of the file", op.name, op.target));
        } else {
          operators.insert(static_cast<size_t>(node));
        }
      }
      covered_.insert(operators.begin(), operators.end());
      operators_[{span.instruction, span.command}] = std::move(operators);
    }
  }

  // Judges a payload; false if it cannot be read.
  bool delegate(int32_t instruction, const npu::Target& target, std::span<const std::byte> bytes) {
    const AlignedBytes aligned(bytes);
    simulator::Payload payload;
    if (simulator::decode(target, aligned.bytes(), payload).status != npu::Status::kOk)
      return false;
    Flow flow(target, payload);
    simulator::visit(payload, [&](uint32_t index, const auto& command) {
      judge(flow, instruction, index, command);
      return npu::Status::kOk;
    });
    return true;
  }

  void coverage() {
    for (size_t node = 0; node < file_.nodes().size(); ++node)
      if (file_.nodes()[node].computed && !file_.nodes()[node].moves && !covered_.contains(node))
        complain(fmt::format("{} has no call", file_.name(node)));
  }

  size_t commands() const { return commands_; }
  const std::string& text() const { return text_; }

 private:
  void judge(Flow&, int32_t, uint32_t, const npu::Wait&) {}
  void judge(Flow&, int32_t, uint32_t, const End&) {}
  template <class Command>
  void judge(Flow& flow, int32_t instruction, uint32_t index, const Command& command) {
    ++commands_;
    const std::set<uint32_t> writers = flow.run(index, command);
    const std::set<size_t>& own = operators_[{instruction, static_cast<int32_t>(index)}];
    const std::string where = fmt::format("command {} of call {} (opcode 0x{:02x})", index,
                                          instruction, static_cast<int>(Command::kOpcode));
    if (own.empty()) return complain(where + " is on no operator");
    if (!fits(file_, own, command)) complain(fmt::format("{} is on {}", where, names(own)));
    for (const uint32_t writer : writers) {
      const std::set<size_t>& before = operators_[{instruction, static_cast<int32_t>(writer)}];
      if (!before.empty() && !file_.feeds(before, own))
        complain(fmt::format("{} is on {} and reads what command {} wrote, on {}", where,
                             names(own), writer, names(before)));
    }
  }

  std::string names(const std::set<size_t>& operators) const {
    std::string text;
    for (const size_t node : operators) text += (text.empty() ? "" : " + ") + file_.name(node);
    return text;
  }
  void complain(const std::string& what) {
    if (text_.find(what) == std::string::npos) text_ += (text_.empty() ? "" : "; ") + what;
  }

  const Exported& file_;
  std::map<std::pair<int32_t, int32_t>, std::set<size_t>> operators_;
  std::set<size_t> covered_;
  std::string text_;
  size_t commands_ = 0;
};

}  // namespace

Result<void> judge_attribution(const std::filesystem::path& model, const Session& session,
                               const Profile& profile, Check& check) {
  DTR_ASSIGN(const Exported file, Exported::read(model));
  Judge judge(file, profile);
  const pte::VerifiedFile& program = session.pte_file().file();
  const pte::ExecutionPlan& plan = *program.program().execution_plan()->Get(0);
  const auto& instructions = *plan.chains()->Get(0)->instructions();
  for (uint32_t i = 0; i < instructions.size(); ++i)
    if (const auto* call = instructions.Get(i)->instr_args_as_DelegateCall())
      if (!judge.delegate(static_cast<int32_t>(i), npu_of(profile.target),
                          program.payload(*plan.delegates()->Get(
                              static_cast<uint32_t>(call->delegate_index())))))
        return fail(DiagnosticId::kPteMalformed,
                    fmt::format("the payload of call {} cannot be read", i), {}, {.file = model});
  judge.coverage();
  check.figures = {{"commands", judge.commands()}};
  check.text = judge.text();
  check.judge(check.text.empty());
  return {};
}

}  // namespace dtr::conformance
