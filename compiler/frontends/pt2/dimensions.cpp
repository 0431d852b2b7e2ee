#include "compiler/frontends/pt2/dimensions.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtr::pt2 {
namespace {

constexpr int64_t kMostTried = 4096;     // sizes, to say which work
constexpr size_t kMostShown = 4;         // intervals of sizes
constexpr size_t kMostGuardBytes = 200;  // of a condition in a message

struct Use {
  size_t input, dim;
};

struct Symbol {
  std::string_view name;
  int64_t least = 1;
  int64_t most = INT64_MAX;
  std::vector<Use> uses = {};
  std::optional<int64_t> example = {};
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The names in Symbol('NAME', …); all of the text if it is a name itself.
std::vector<std::string_view> symbols_in(std::string_view expression) {
  constexpr std::string_view kBefore = "Symbol('";
  std::vector<std::string_view> names;
  if (expression.size() > 1 && expression[0] == 's' &&
      std::ranges::all_of(expression.substr(1), is_digit))
    names.push_back(expression);
  for (size_t at = expression.find(kBefore); at != std::string_view::npos;
       at = expression.find(kBefore, at)) {
    at += kBefore.size();
    const std::string_view name = expression.substr(at, expression.find('\'', at) - at);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

class Binder {
 public:
  Binder(const OpenShapes& shapes, const std::string& file) : shapes_(shapes), file_(file) {
    for (size_t i = 0; i < shapes.inputs.size(); ++i)
      for (size_t d = 0; d < shapes.inputs[i].sizes.size(); ++d) add_use(i, d);
    // PyTorch calls sizes from 2 on what it takes at 1 too; where 1 differs there is a guard.
    for (Symbol& symbol : symbols_)
      for (const SymbolRange& range : shapes.ranges)
        if (range.name == symbol.name) {
          symbol.least = range.least <= 2 ? 1 : range.least;
          symbol.most = range.most;
        }
  }

  Result<BoundDimensions> run(const DimensionSizes& sizes) {
    for (const auto& [name, size] : sizes.given) DTR_TRY(bind_named(name, size));
    bind_related();
    if (sizes.sampled) DTR_TRY(bind_sampled(sizes));
    bind_related();
    DTR_TRY(check_ranges());
    for (const Symbol& symbol : symbols_)
      if (!bound_.sizes.contains(symbol.name)) return open();
    DTR_TRY(check_relations());
    return std::move(bound_);
  }

 private:
  void add_use(size_t input, size_t dim) {
    const InputSize& size = shapes_.inputs[input].sizes[dim];
    const std::vector<std::string_view> names = symbols_in(size.expression);
    for (const std::string_view name : names) {
      auto at = std::ranges::find(symbols_, name, &Symbol::name);
      if (at == symbols_.end()) at = symbols_.insert(at, Symbol{.name = name});
      at->uses.push_back({input, dim});
      if (size.example && names.size() == 1 && !at->example)
        at->example = solve(size, *size.example);
    }
  }

  std::string place_text(const Use& use) const {
    const OpenInput& input = shapes_.inputs[use.input];
    std::string text = fmt::format("{}.{}", input.name, use.dim);
    const InputSize& size = input.sizes[use.dim];
    const std::string form = form_of(size);
    return form.empty() ? text : fmt::format("{} = {}", text, form);
  }

  // The value of a size where its only symbol is `number`.
  static std::optional<int64_t> value_at(const InputSize& size, int64_t number) {
    return as_integer(evaluate(size.expression, [&](std::string_view) { return Number(number); }));
  }

  // "2*s44 + 1"; empty for a symbol alone, and for what is not linear.
  static std::string form_of(const InputSize& size) {
    const std::vector<std::string_view> names = symbols_in(size.expression);
    if (names.size() != 1) return fmt::format("an expression of {}", fmt::join(names, ", "));
    const auto zero = value_at(size, 0), one = value_at(size, 1), ten = value_at(size, 10);
    if (!zero || !one || !ten || *ten - *zero != 10 * (*one - *zero))
      return fmt::format("an expression of {}", names[0]);
    const int64_t factor = *one - *zero;
    if (factor == 1 && *zero == 0) return {};
    std::string text = factor == 1 ? std::string(names[0]) : fmt::format("{}*{}", factor, names[0]);
    if (*zero != 0) text += fmt::format(" {} {}", *zero < 0 ? '-' : '+', std::abs(*zero));
    return text;
  }

  // The number of its only symbol at which a linear size is `value`.
  static std::optional<int64_t> solve(const InputSize& size, int64_t value) {
    const auto zero = value_at(size, 0), one = value_at(size, 1);
    if (!zero || !one || *one == *zero) return std::nullopt;
    const int64_t number = (value - *zero) / (*one - *zero);
    return value_at(size, number) == value ? std::optional(number) : std::nullopt;
  }

  std::string text_of(const Symbol& symbol) const {
    std::vector<std::string> uses;
    for (const Use& use : symbol.uses) uses.push_back(place_text(use));
    return fmt::format("{} ({}; {})", symbol.name, fmt::join(uses, ", "), range_text(symbol));
  }
  static std::string range_text(const Symbol& symbol) {
    if (symbol.most == INT64_MAX) return fmt::format("from {} on", symbol.least);
    return fmt::format("{} to {}", symbol.least, symbol.most);
  }
  std::string all_texts() const {
    std::vector<std::string> texts;
    for (const Symbol& symbol : symbols_) texts.push_back(text_of(symbol));
    return fmt::format("{}", fmt::join(texts, ", "));
  }

  Place place_of(const Symbol& symbol) const {
    return {.file = file_, .node = std::string(shapes_.inputs[symbol.uses.front().input].name)};
  }

  // "x.0" or "x[0]".
  std::optional<Use> find_use(std::string_view name) const {
    for (size_t i = 0; i < shapes_.inputs.size(); ++i)
      for (size_t d = 0; d < shapes_.inputs[i].sizes.size(); ++d)
        if (!shapes_.inputs[i].sizes[d].expression.empty() &&
            (name == fmt::format("{}.{}", shapes_.inputs[i].name, d) ||
             name == fmt::format("{}[{}]", shapes_.inputs[i].name, d)))
          return Use{i, d};
    return std::nullopt;
  }

  Result<void> bind_named(const std::string& name, int64_t size) {
    const auto symbol = std::ranges::find(symbols_, name, &Symbol::name);
    if (symbol != symbols_.end()) return bind(*symbol, size, fmt::format("--dim {}", name));
    std::optional<Use> use = find_use(name);
    // Names of dynamic_shapes are not in the file: first dimensions are what people call so.
    if (!use && name == "batch") {
      for (size_t i = 0; i < shapes_.inputs.size(); ++i)
        if (!shapes_.inputs[i].sizes.empty() && !shapes_.inputs[i].sizes[0].expression.empty()) {
          DTR_TRY(bind_size({i, 0}, size, "--dim batch"));
          use = Use{i, 0};
        }
      if (use) return {};
    }
    if (use) return bind_size(*use, size, fmt::format("--dim {}", name));
    if (symbols_.empty())
      return check_no_dimensions({.given = {{name, size}}}, "this export",
                                 "leave --dim away, or export with dynamic_shapes", file_);
    return fail(
        DiagnosticId::kPt2SymbolicShape,
        fmt::format("`{}` is no open dimension of the model, which has {}", name, all_texts()),
        "give the name as the export has it, or the input and its dimension (--dim "
        "x.0=1); names of torch.export.Dim are not in the file",
        {.file = file_});
  }

  Result<void> bind_size(const Use& use, int64_t size, const std::string& from) {
    const InputSize& of = shapes_.inputs[use.input].sizes[use.dim];
    const std::vector<std::string_view> names = symbols_in(of.expression);
    const std::optional<int64_t> number =
        names.size() == 1 ? solve(of, size) : std::optional<int64_t>();
    if (!number)
      return fail(DiagnosticId::kPt2SymbolicShape,
                  fmt::format("{} cannot be {} ({})", place_text(use), size, from),
                  fmt::format("give the size of {} by name", fmt::join(names, ", ")),
                  {.file = file_, .node = std::string(shapes_.inputs[use.input].name)});
    return bind(*std::ranges::find(symbols_, names[0], &Symbol::name), *number, from);
  }

  Result<void> bind(const Symbol& symbol, int64_t number, const std::string& from) {
    const auto [at, is_new] = bound_.sizes.emplace(symbol.name, number);
    if (!is_new && at->second != number)
      return fail(DiagnosticId::kPt2SymbolicShape,
                  fmt::format("{} is {} by {} and {} by {}", symbol.name, at->second,
                              from_[symbol.name], number, from),
                  "give inputs whose sizes agree", place_of(symbol));
    if (is_new) from_[symbol.name] = from;
    return {};
  }

  // The sizes of arrays, for symbols without one.
  Result<void> bind_sampled(const DimensionSizes& sizes) {
    const auto given = bound_.sizes;
    for (size_t i = 0; i < shapes_.inputs.size(); ++i) {
      const OpenInput& input = shapes_.inputs[i];
      std::optional<Shape> array;
      for (size_t d = 0; d < input.sizes.size(); ++d) {
        const std::vector<std::string_view> names = symbols_in(input.sizes[d].expression);
        if (names.size() != 1 || given.contains(names[0])) continue;
        if (!array) {
          DTR_ASSIGN(array, sizes.sampled(std::string(input.name), i, shapes_.inputs.size()));
          if (!array) break;
        }
        const auto size = sampled_size(*array, input.sizes.size(), d);
        if (!size) break;
        const bool known = bound_.sizes.contains(names[0]);
        DTR_TRY(bind_size({i, d}, *size, fmt::format("the samples of `{}`", input.name)));
        if (!known)
          bound_.notes.push_back(fmt::format(
              "dimension {} of `{}` is {}, as in the samples; --dim {}=N chooses another size", d,
              input.name, *size, names[0]));
      }
    }
    return {};
  }

  // Sizes that an equation of the export leaves no choice: dimensions of one Dim are symbols of
  // their own, with the condition that they are equal.
  void bind_related() {
    for (bool bound = true; bound;) {
      bound = false;
      for (const Symbol& symbol : symbols_) {
        if (bound_.sizes.contains(symbol.name)) continue;
        if (const auto size = only_size(symbol)) {
          bound_.sizes.emplace(symbol.name, *size);
          from_[symbol.name] = "a condition of the export";
          bound = true;
        }
      }
    }
  }

  std::optional<int64_t> only_size(const Symbol& symbol) const {
    std::map<std::string_view, int64_t> sizes = bound_.sizes;
    for (const std::string_view guard : shapes_.guards) {
      if (guard.find("==") == std::string_view::npos || evaluate(guard, lookup_in(sizes))) continue;
      std::optional<int64_t> only;
      bool several = false;
      for (int64_t size = symbol.least; size <= last_tried(symbol) && !several; ++size) {
        sizes[symbol.name] = size;
        const auto holds = evaluate(guard, lookup_in(sizes));
        if (!holds) break;
        if (as_double(*holds) == 0) continue;
        several = only.has_value();
        only = size;
      }
      sizes.erase(symbol.name);
      if (only && !several) return only;
    }
    return std::nullopt;
  }

  static int64_t last_tried(const Symbol& symbol) {
    return std::min(symbol.most, symbol.least + kMostTried);
  }

  tl::unexpected<Diagnostic> open() const {
    std::string options, entries;
    for (const Symbol& symbol : symbols_) {
      if (bound_.sizes.contains(symbol.name)) continue;
      const int64_t size =
          std::clamp(symbol.example.value_or(symbol.least), symbol.least, symbol.most);
      options += fmt::format(" --dim {}={}", symbol.name, size);
      entries += fmt::format("{}\"{}\": {}", entries.empty() ? "" : ", ", symbol.name, size);
    }
    const auto first = std::ranges::find_if(
        symbols_, [&](const Symbol& symbol) { return !bound_.sizes.contains(symbol.name); });
    return fail(DiagnosticId::kPt2SymbolicShape,
                fmt::format("a program has fixed shapes, and the export leaves dimensions open: {}",
                            all_texts()),
                fmt::format("give their sizes: deuteron compile {}{} (in Python dims={{{}}}), or "
                            "samples of that size with --calibrate",
                            file_, options, entries),
                place_of(*first));
  }

  // ---- ranges and relations

  // "L['x'].size()[0]"; nested arguments: "L['xs'][0].size()[1]", which the graph calls xs_0.
  std::optional<Number> size_of_path(std::string_view path,
                                     const std::map<std::string_view, int64_t>& sizes) const {
    constexpr std::string_view kSize = ".size()[";
    const size_t at = path.find(kSize);
    if (at == std::string_view::npos || !path.ends_with(']')) return std::nullopt;
    std::string name;
    for (const char c : path.substr(1, at - 1)) {
      if (c == '[' && !name.empty()) name += '_';
      if (c != '[' && c != ']' && c != '\'') name += c;
    }
    const std::string_view digits =
        path.substr(at + kSize.size(), path.size() - at - kSize.size() - 1);
    // strict=True counts the inputs: L['flat_args'][1].
    for (size_t i = 0; i < shapes_.inputs.size(); ++i)
      if (name == fmt::format("flat_args_{}", i)) name = shapes_.inputs[i].name;
    const auto input = std::ranges::find(shapes_.inputs, name, &OpenInput::name);
    if (input == shapes_.inputs.end() || digits.size() != 1 || digits[0] < '0' ||
        static_cast<size_t>(digits[0] - '0') >= input->sizes.size())
      return std::nullopt;
    const InputSize& size = input->sizes[static_cast<size_t>(digits[0] - '0')];
    if (size.expression.empty()) return Number(size.fixed);
    return evaluate(size.expression, lookup_in(sizes));
  }

  Lookup lookup_in(const std::map<std::string_view, int64_t>& sizes) const {
    return [this, &sizes](std::string_view name) -> std::optional<Number> {
      if (name.starts_with("L[")) return size_of_path(name, sizes);
      const auto at = sizes.find(name);
      return at == sizes.end() ? std::optional<Number>() : Number(at->second);
    };
  }

  // The first condition that does not hold; empty: all hold.
  std::string_view broken_guard(const std::map<std::string_view, int64_t>& sizes) const {
    for (const std::string_view guard : shapes_.guards)
      if (const auto holds = evaluate(guard, lookup_in(sizes)); holds && as_double(*holds) == 0)
        return guard;
    return {};
  }

  static bool is_in(const Symbol& symbol, int64_t size) {
    return size >= symbol.least && size <= symbol.most;
  }

  // Whether a derived size, such as 2*s44, is outside of its range.
  const SymbolRange* broken_range(const std::map<std::string_view, int64_t>& sizes) const {
    for (const SymbolRange& range : shapes_.ranges) {
      if (sizes.contains(range.name)) continue;
      const auto size = as_integer(evaluate(range.name, lookup_in(sizes)));
      if (size && ((*size < range.least && range.least > 2) || *size > range.most)) return &range;
    }
    return nullptr;
  }

  // "5 to 64": the sizes of a symbol that work, where the others are as they are.
  std::string working_sizes(const Symbol& symbol) const {
    std::map<std::string_view, int64_t> sizes = bound_.sizes;
    std::vector<std::pair<int64_t, int64_t>> intervals;
    const int64_t last = last_tried(symbol);
    for (int64_t size = symbol.least; size <= last; ++size) {
      sizes[symbol.name] = size;
      if (!broken_guard(sizes).empty() || broken_range(sizes) != nullptr) continue;
      if (!intervals.empty() && intervals.back().second == size - 1) {
        intervals.back().second = size;
      } else {
        intervals.emplace_back(size, size);
      }
    }
    std::vector<std::string> texts;
    for (const auto& [from, to] : intervals) {
      if (texts.size() == kMostShown) {
        texts.emplace_back("…");
        break;
      }
      const bool ends = to < last || last == symbol.most;
      texts.push_back(!ends        ? fmt::format("from {} on", from)
                      : from == to ? fmt::format("{}", from)
                                   : fmt::format("{} to {}", from, to));
    }
    return fmt::format("{}", fmt::join(texts, ", "));
  }

  Result<void> check_ranges() const {
    for (const Symbol& symbol : symbols_)
      if (const auto at = bound_.sizes.find(symbol.name);
          at != bound_.sizes.end() && !is_in(symbol, at->second))
        return refused(symbol, fmt::format("the export takes {}", range_text(symbol)));
    return {};
  }

  Result<void> check_relations() const {
    if (const SymbolRange* range = broken_range(bound_.sizes))
      return refused_by(
          fmt::format("{} is to be {} to {}", range->name, range->least, range->most));
    if (const std::string_view guard = broken_guard(bound_.sizes); !guard.empty())
      return refused_by(
          fmt::format("the export was made for {}", readable(guard.substr(0, kMostGuardBytes))));
    return {};
  }

  // "L['x'].size()[0] >= 3" as "x.size()[0] >= 3".
  static std::string readable(std::string_view guard) {
    std::string text(guard);
    for (size_t at = text.find("L['"); at != std::string::npos; at = text.find("L['", at)) {
      const size_t end = text.find("']", at);
      if (end == std::string::npos) break;
      text.erase(end, 2);
      text.erase(at, 3);
    }
    return text;
  }

  // Of the symbols the one that can be changed, the first for which there are sizes that work.
  tl::unexpected<Diagnostic> refused_by(const std::string& why) const {
    for (const Symbol& symbol : symbols_)
      if (!working_sizes(symbol).empty()) return refused(symbol, why);
    return refused(symbols_.front(), why);
  }

  tl::unexpected<Diagnostic> refused(const Symbol& symbol, const std::string& why) const {
    const std::string working = working_sizes(symbol);
    return fail(DiagnosticId::kPt2SymbolicShape,
                fmt::format("{} is {} ({}), and {}", symbol.name, bound_.sizes.at(symbol.name),
                            from_.at(symbol.name), why),
                working.empty()
                    ? "export the model with other ranges in dynamic_shapes"
                    : fmt::format("give --dim {}=N with N {}; another range needs another export "
                                  "(dynamic_shapes)",
                                  symbol.name, working),
                place_of(symbol));
  }

  const OpenShapes& shapes_;
  const std::string& file_;
  std::vector<Symbol> symbols_;
  BoundDimensions bound_;
  std::map<std::string_view, std::string> from_;
};

}  // namespace

Result<BoundDimensions> bind_dimensions(const OpenShapes& shapes, const DimensionSizes& sizes,
                                        const std::string& file) {
  return Binder(shapes, file).run(sizes);
}

}  // namespace dtr::pt2
