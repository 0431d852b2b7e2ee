// deuteron ops
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/frontends/onnx/onnx.h"
#include "compiler/frontends/pt2/pt2.h"
#include "compiler/frontends/tflite/tflite.h"
#include "compiler/ops/ops.h"
#include "compiler/recipes/recipe.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

std::string joined(std::span<const std::string_view> words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

struct OpsOptions {
  bool markdown = false;
  bool tflite = false;
  bool onnx = false;
  bool pt2 = false;
};

const CLI::App* add_ops(CLI::App& app, OpsOptions& o) {
  CLI::App* verb = app.add_subcommand("ops", "List the operators");
  verb->add_flag("--markdown", o.markdown, "Print a page of the documentation");
  verb->add_flag("--tflite", o.tflite,
                 "List the operators of .tflite files, and which of them are read");
  verb->add_flag("--onnx", o.onnx, "List the operators of .onnx files, and which of them are read");
  verb->add_flag("--pt2", o.pt2, "List the operators of PyTorch that are read of .pt2 files");
  example(verb, "deuteron ops");
  return verb;
}

// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// A backend, and the targets on which it supports the same operators under the same conditions.
struct SupportedOn {
  std::unique_ptr<Backend> backend;
  std::vector<std::string_view> targets;
};

bool equal_support(const Backend& a, const Backend& b) {
  return a.name() == b.name() && std::ranges::all_of(all_ops(), [&](const OpDef* op) {
           return a.support(*op) == b.support(*op);
         });
}

// Those of every machine that exists.
std::vector<SupportedOn> supporting_backends() {
  std::vector<SupportedOn> found;
  for (const TargetDescription& target : all_targets()) {
    if (target.is_test) continue;
    for (std::unique_ptr<Backend>& backend : make_recipe(target, recipe_of(target))) {
      const auto same = std::ranges::find_if(
          found, [&](const SupportedOn& known) { return equal_support(*known.backend, *backend); });
      if (same == found.end())
        found.push_back({std::move(backend), {target.name}});
      else
        same->targets.push_back(target.name);
    }
  }
  return found;
}

// Operator × backend: dtypes and conditions, from the functions that decide. Conditions with
// numbers of a machine say whose they are.
void print_support() {
  const std::vector<SupportedOn> backends = supporting_backends();
  print("\n| backend | its conditions below are those of |\n|---|---|\n");
  for (const SupportedOn& each : backends)
    print("| {} | {} |\n", each.backend->name(), joined(each.targets));
  print("\n| operator | backend | dtype | runs there if |\n|---|---|---|---|\n");
  for (const OpDef* op : all_ops())
    for (const auto& [backend, targets] : backends) {
      const std::optional<OperatorSupport> support = backend->support(*op);
      if (!support) continue;
      const bool differs =
          std::ranges::count(backends, backend->name(),
                             [](const SupportedOn& each) { return each.backend->name(); }) > 1;
      print("| `{}` | {}{} | {} | {} |\n", op->name, backend->name(),
            differs ? fmt::format(" ({})", joined(targets)) : std::string(), support->dtypes,
            cell(fmt::format("{}", fmt::join(support->conditions, "; "))));
    }
}

// The operators of the format, one a line or a row.
void print_tflite(bool markdown) {
  if (markdown) print("| operator | read | what it needs that is not here |\n|---|---|---|\n");
  for (const auto& [name, read, needs] : tflite::builtin_operators()) {
    if (markdown) {
      print("| `{}` | {} | {} |\n", name, read ? "yes" : "no", needs);
    } else {
      print("{:<38} {}{}{}\n", name, read ? "read" : "refused", needs.empty() ? "" : ": ", needs);
    }
  }
}

void print_onnx(bool markdown) {
  if (markdown) print("| operator | read | what it needs that is not here |\n|---|---|---|\n");
  for (const auto& [domain, name, read, needs] : onnx::operators_of_format()) {
    const std::string full = fmt::format("{}{}{}", domain, domain.empty() ? "" : ".", name);
    if (markdown) {
      print("| `{}` | {} | {} |\n", full, read ? "yes" : "no", needs);
    } else {
      print("{:<38} {}{}{}\n", full, read ? "read" : "refused", needs.empty() ? "" : ": ", needs);
    }
  }
}

// Overloads on complex numbers are marked.
void print_pt2(bool markdown) {
  if (markdown) print("| operator | overloads | of complex numbers |\n|---|---|---|\n");
  for (const auto& [name, real, complex] : pt2::read_operators()) {
    if (markdown) {
      print("| `{}` | {} | {} |\n", name, fmt::format("{}", fmt::join(real, ", ")),
            fmt::format("{}", fmt::join(complex, ", ")));
    } else {
      print("{:<38} {}{}{}\n", name, fmt::format("{}", fmt::join(real, ", ")),
            complex.empty() ? ""
            : real.empty()  ? "complex: "
                            : "; complex: ",
            fmt::format("{}", fmt::join(complex, ", ")));
    }
  }
}

Result<void> run_ops(const CommonOptions&, const OpsOptions& options) {
  if (options.tflite) {
    print_tflite(options.markdown);
    return {};
  }
  if (options.pt2) {
    print_pt2(options.markdown);
    return {};
  }
  if (options.onnx) {
    print_onnx(options.markdown);
    return {};
  }
  if (options.markdown)
    print("| operator | what it is | quantized | traits |\n|---|---|---|---|\n");
  for (const OpDef* op : all_ops()) {
    std::string traits;
    const auto add = [&](OpTrait trait, std::string_view text) {
      if (op->has_trait(trait)) traits += fmt::format("{}{}", traits.empty() ? "" : ", ", text);
    };
    add(kElementwise, "elementwise");
    add(kMovesData, "moves data");
    add(kCommutative, "commutative");
    const std::string_view quantized = op->evaluate_integer != nullptr ? "yes" : "no";
    if (options.markdown) {
      print("| `{}` | {} | {} | {} |\n", op->name, cell(op->summary), quantized, traits);
    } else {
      print("{:<38} {}{}\n", op->name, op->summary,
            op->evaluate_integer != nullptr ? "" : " (float only)");
    }
  }
  if (options.markdown) print_support();
  return {};
}

}  // namespace

std::unique_ptr<Verb> ops_verb() {
  return std::make_unique<VerbOf<OpsOptions, &add_ops, &run_ops>>();
}

}  // namespace dtr::tools
