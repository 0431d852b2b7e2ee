#include "compiler/pipeline/spell_writes.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/frontends/pt2/operators.h"

namespace dtr {
namespace {

using Editor = pt2::ExportEditor;
using Name = Editor::Name;
using Dims = std::vector<int64_t>;

constexpr std::string_view kCopy = "aten.copy_.default", kPlainCopy = "aten.copy.default";

// Operators whose result may be a part of their operand's memory.
constexpr std::string_view kViews[] = {
    "alias",   "as_strided",   "chunk",     "contiguous",      "detach",    "diagonal", "expand",
    "flatten", "mT",           "movedim",   "narrow",          "numpy_T",   "permute",  "ravel",
    "reshape", "select",       "slice",     "split",           "squeeze",   "swapaxes", "swapdims",
    "t",       "tensor_split", "transpose", "unbind",          "unflatten", "unfold",   "unsqueeze",
    "view",    "view_as",      "expand_as", "split_with_sizes"};
// Those with all elements of their operand in the same order, which never copy.
constexpr std::string_view kSameOrder[] = {"alias",     "detach", "squeeze", "unflatten",
                                           "unsqueeze", "view",   "view_as"};

template <size_t kCount>
bool is_one_of(const std::string_view (&names)[kCount], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

// "index_put_" of "aten.index_put_.default"; empty: another library's.
std::string_view name_of(std::string_view target) {
  constexpr std::string_view kPrefix = "aten.";
  if (!target.starts_with(kPrefix)) return {};
  target.remove_prefix(kPrefix.size());
  return target.substr(0, target.find('.'));
}
bool is_in_place(std::string_view target) { return name_of(target).ends_with('_'); }
bool is_view(std::string_view target) { return is_one_of(kViews, name_of(target)); }

// A dimension or a position that counts from the end where it is negative.
int64_t from_start(int64_t at, int64_t size) { return at < 0 ? at + size : at; }

// A tensor with memory of its own, its views, and the names that their contents have from node to
// node. With `edits` off it only finds out whether its writes can be spelled.
class Memory {
 public:
  Memory(const Module& module, Editor& editor, std::string base, bool edits)
      : module_(module), editor_(editor), base_(std::move(base)), edits_(edits) {
    views_[base_] = {.of = {}, .node = 0, .now = base_};
  }

  // False if a view has no operator that writes it back, or is read behind a write to another one.
  bool spell(bool is_buffer) {
    for (uint32_t node = 0; node < module_.sources.size(); ++node)
      if (!visit(node)) return false;
    for (const std::string& name : editor_.outputs()) {
      if (!views_.contains(canonical(name))) continue;
      const std::optional<std::string> current = read(canonical(name));
      if (!current) return false;
      if (*current == name) continue;
      read_again_ = true;
      if (edits_) editor_.replace_output(name, *current);
    }
    if (edits_ && is_buffer && writes_ > 0)
      add(last_write_ + 1, kCopy, {{"self", Name{base_}}, {"src", Name{views_[base_].now}}},
          editor_.shape(base_));
    return true;
  }

  size_t writes() const { return writes_; }
  bool writes_views() const { return writes_views_; }
  // Whether a node reads what was written by an earlier name than that of the last write.
  bool is_read_again() const { return read_again_; }

 private:
  struct View {
    std::string of;     // the tensor that it is a view of; empty: the base
    uint32_t node = 0;  // that makes it
    std::string now;    // the tensor with its content; empty: a write changed it since
  };

  // In-place operators return the tensor that they are given.
  const std::string& canonical(const std::string& name) const {
    const auto same = same_.find(name);
    return same == same_.end() ? name : same->second;
  }

  bool visit(uint32_t node) {
    const std::vector<std::string> taken = editor_.tensors(node);
    const std::set<std::string> distinct(taken.begin(), taken.end());
    const std::string first = taken.empty() ? std::string() : canonical(taken[0]);
    for (const std::string& name : distinct) {
      if (!views_.contains(canonical(name))) continue;
      const std::optional<std::string> current = read(canonical(name));
      if (!current) return false;
      if (*current == name) continue;
      read_again_ = true;
      if (edits_) editor_.replace_argument(node, name, *current);
    }
    if (taken.empty() || !views_.contains(first)) return true;
    const std::string& target = module_.sources[node].target;
    if (is_in_place(target)) return write(node, first);
    if (!is_view(target)) return true;
    for (const std::string& result : editor_.results(node))
      views_[result] = {.of = first, .node = node, .now = result};
    return true;
  }

  // Node `node` writes to `name`.
  bool write(uint32_t node, const std::string& name) {
    const std::string plain = pt2::plain_form(module_.sources[node].target);
    const std::string result = editor_.result(node);
    if (result.empty() || pt2::find_operator(plain).row == nullptr) return false;
    if (edits_) editor_.set_target(node, plain);
    std::map<std::string, std::string> renewed{{name, result}};
    std::string part = name, content = result;
    for (; part != base_; part = views_.at(part).of) {
      writes_views_ = true;
      const std::optional<std::string> whole = read(views_.at(part).of);
      if (!whole) return false;
      const std::optional<std::string> scattered = scatter(part, *whole, content, node + 1);
      if (!scattered) return false;
      content = *scattered;
      renewed[views_.at(part).of] = content;
    }
    for (auto& [each, view] : views_) {
      const auto found = renewed.find(each);
      view.now = found == renewed.end() ? std::string() : found->second;
    }
    same_[result] = name;
    ++writes_;
    last_write_ = node;
    return true;
  }

  // The tensor with the present content of `name`; std::nullopt: of a view that a write has
  // changed.
  std::optional<std::string> read(const std::string& name) const {
    const std::string& now = views_.at(name).now;
    return now.empty() ? std::nullopt : std::optional(now);
  }

  std::string add(size_t before, std::string_view target, const Editor::Arguments& arguments,
                  const Shape& shape) {
    if (!edits_) return base_;
    const size_t like = std::min(before, module_.sources.size() - 1);
    return editor_.add_node(before, like, target, arguments, base_ + "_next", DType::kFloat32,
                            shape);
  }

  int64_t whole_number(uint32_t node, std::string_view argument, int64_t otherwise) const {
    const std::optional<double> number = editor_.number(node, argument);
    if (!number) return otherwise;
    constexpr double kMost = 1LL << 62;  // the end of a slice may be the largest integer
    return static_cast<int64_t>(std::clamp(*number, -kMost, kMost));
  }

  // Where `view`, a slice or an index of a dimension, lies in its operand.
  struct Part {
    bool selects = false;
    int64_t dim = 0, start = 0, end = 0, step = 1;
  };
  std::optional<Part> part_of(const View& view) const {
    const std::string_view kind = name_of(module_.sources[view.node].target);
    const Shape whole = editor_.shape(view.of);
    if (whole.empty()) return std::nullopt;
    Part part{
        .dim = from_start(whole_number(view.node, "dim", 0), static_cast<int64_t>(whole.size()))};
    const int64_t size = whole[static_cast<size_t>(part.dim)];
    if (kind == "slice") {
      const auto bound = [&](std::string_view argument, int64_t otherwise) {
        return std::clamp<int64_t>(from_start(whole_number(view.node, argument, otherwise), size),
                                   0, size);
      };
      part.start = bound("start", 0);
      part.end = bound("end", size);
      part.step = whole_number(view.node, "step", 1);
      return part;
    }
    if (kind != "select") return std::nullopt;
    part.selects = true;
    part.start = from_start(whole_number(view.node, "index", 0), size);
    return part;
  }

  // The order of dimensions by which `view` was made.
  std::optional<Dims> order_of(const View& view) const {
    const std::string_view kind = name_of(module_.sources[view.node].target);
    const auto rank = static_cast<int64_t>(editor_.shape(view.of).size());
    Dims order(static_cast<size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    if (kind == "permute") {
      const Dims dims = editor_.integers(view.node, "dims");
      if (dims.size() != order.size()) return std::nullopt;
      std::ranges::transform(dims, order.begin(),
                             [&](int64_t dim) { return from_start(dim, rank); });
    } else if (kind == "transpose" || kind == "swapaxes" || kind == "swapdims") {
      const bool axes = kind == "swapaxes";
      const int64_t one = from_start(whole_number(view.node, axes ? "axis0" : "dim0", 0), rank),
                    other = from_start(whole_number(view.node, axes ? "axis1" : "dim1", 0), rank);
      if (rank > 1) std::swap(order[static_cast<size_t>(one)], order[static_cast<size_t>(other)]);
    } else if (kind == "t" || kind == "mT" || (kind == "numpy_T" && rank <= 2)) {
      if (rank > 1) std::swap(order[order.size() - 1], order[order.size() - 2]);
    } else {
      return std::nullopt;
    }
    return order;
  }

  bool keeps_order(const View& view) const {
    const std::string_view target = module_.sources[view.node].target;
    return target != "aten.view.dtype" && is_one_of(kSameOrder, name_of(target));
  }

  Editor::Arguments diagonal_of(const View& view) const {
    return {{"offset", whole_number(view.node, "offset", 0)},
            {"dim1", whole_number(view.node, "dim1", 0)},
            {"dim2", whole_number(view.node, "dim2", 1)}};
  }

  // `whole` with `content` in the place of view `name`.
  std::optional<std::string> scatter(const std::string& name, const std::string& whole,
                                     const std::string& content, size_t before) {
    const View& view = views_.at(name);
    if (editor_.takes_sizes(view.node)) return std::nullopt;
    const Shape shape = editor_.shape(view.of);
    if (keeps_order(view))
      return add(before, "aten.reshape.default",
                 {{"self", Name{content}}, {"shape", Dims(shape.begin(), shape.end())}}, shape);
    if (const std::optional<Dims> order = order_of(view)) {
      Dims back(order->size());
      for (size_t i = 0; i < back.size(); ++i)
        back[static_cast<size_t>((*order)[i])] = static_cast<int64_t>(i);
      return add(before, "aten.permute.default", {{"self", Name{content}}, {"dims", back}}, shape);
    }
    Editor::Arguments arguments{{"self", Name{whole}}, {"src", Name{content}}};
    if (name_of(module_.sources[view.node].target) == "diagonal") {
      std::ranges::copy(diagonal_of(view), std::back_inserter(arguments));
      return add(before, "aten.diagonal_scatter.default", arguments, shape);
    }
    const std::optional<Part> part = part_of(view);
    if (!part) return std::nullopt;
    add_place(arguments, *part);
    return add(before, part->selects ? "aten.select_scatter.default" : "aten.slice_scatter.default",
               arguments, shape);
  }

  static void add_place(Editor::Arguments& arguments, const Part& part) {
    arguments.emplace_back("dim", part.dim);
    arguments.emplace_back(part.selects ? "index" : "start", part.start);
    if (part.selects) return;
    arguments.emplace_back("end", part.end);
    arguments.emplace_back("step", part.step);
  }

  const Module& module_;
  Editor& editor_;
  std::string base_;
  bool edits_;
  std::map<std::string, View> views_;
  std::map<std::string, std::string> same_;  // results of in-place operators: what they write to
  size_t writes_ = 0;
  uint32_t last_write_ = 0;
  bool writes_views_ = false, read_again_ = false;
};

// The tensors with memory of their own that in-place operators write to.
std::set<std::string> written_tensors(const Module& module, const Editor& editor) {
  std::map<std::string, std::string> memory;  // of views and of results of in-place operators
  std::set<std::string> written;
  for (uint32_t node = 0; node < module.sources.size(); ++node) {
    const std::string& target = module.sources[node].target;
    const bool writes = is_in_place(target);
    if (!writes && !is_view(target)) continue;
    const std::vector<std::string> taken = editor.tensors(node);
    if (taken.empty()) continue;
    const auto known = memory.find(taken[0]);
    const std::string base = known == memory.end() ? taken[0] : known->second;
    for (const std::string& result : editor.results(node)) memory[result] = base;
    if (writes) written.insert(base);
  }
  return written;
}

}  // namespace

bool is_written_whole(const Module& module, const Editor& editor, const std::string& name) {
  std::set<std::string> before{name};  // views of the buffer before its write
  bool written = false;
  for (uint32_t node = 0; node < module.sources.size(); ++node) {
    const std::string& target = module.sources[node].target;
    const std::vector<std::string> taken = editor.tensors(node);
    const bool reads =
        std::ranges::any_of(taken, [&](const auto& each) { return before.contains(each); });
    if (!reads) continue;
    if (written || (is_in_place(target) && (target != kCopy || taken[0] != name))) return false;
    written = target == kCopy;
    if (!is_view(target)) continue;
    for (const std::string& result : editor.results(node)) before.insert(result);
  }
  return true;
}

size_t spell_writes(const Module& module, Editor& editor) {
  const Graph& graph = module.forward();
  std::set<std::string> buffers;
  for (size_t i = 0; i < graph.state_count(); ++i)
    if (const std::string name = editor.buffer(graph.value(graph.state(i)).name); !name.empty())
      buffers.insert(name);
  size_t count = 0;
  for (const std::string& base : written_tensors(module, editor)) {
    if (editor.dtype(base) != DType::kFloat32) continue;
    const bool is_buffer = buffers.contains(base);
    Memory tried(module, editor, base, false);
    if (!tried.spell(is_buffer) || tried.writes() == 0 ||
        (!is_buffer && !tried.writes_views() && !tried.is_read_again()))
      continue;
    Memory(module, editor, base, true).spell(is_buffer);
    count += tried.writes();
  }
  return count;
}

size_t spell_copies(const Module& module, Editor& editor) {
  size_t count = 0;
  for (uint32_t node = 0; node < module.sources.size(); ++node) {
    if (module.sources[node].target != kPlainCopy) continue;
    const std::string result = editor.result(node), from = editor.argument(node, "src");
    if (editor.dtype(result) != DType::kFloat32 || editor.dtype(from) != DType::kFloat32) continue;
    const Shape shape = editor.shape(result);
    editor.remove_node(node);
    std::string all = from;
    if (editor.shape(from) != shape)
      all = editor.add_node(node, node, "aten.expand.default",
                            {{"self", Name{from}}, {"size", Dims(shape.begin(), shape.end())}},
                            result + "_expanded", DType::kFloat32, shape);
    editor.add_node(node, node, "aten.clone.default", {{"self", Name{all}}}, result,
                    DType::kFloat32, shape);
    ++count;
  }
  return count;
}

}  // namespace dtr
