// deuteron-opt: reads the text form of the IR or a .pt2, runs passes, prints the text form. For
// tests of passes and for looking at models.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <new>

#include "compiler/frontends/pt2/pt2.h"
#include "compiler/ir/parser.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verifier.h"
#include "compiler/support/file_contents.h"
#include "compiler/transforms/pass_manager.h"
#include "tools/print.h"

namespace dtr {
namespace {

constexpr int kGood = 0;
constexpr int kInputAtFault = 1;
constexpr int kUsage = 2;
constexpr int kOurBug = 3;

struct Options {
  std::string file;
  std::vector<std::string> passes;
  std::string pipeline;
  std::string diagnostics = "text";
  std::vector<std::string> print_after;
  uint64_t seed = 1;
  bool verify_each = false;
  bool check_semantics = false;
  bool bisect = false;
  bool time = false;
  bool verbose = false;
  bool list = false;
  bool markdown = false;
  bool split = false;
  bool no_locations = false;
  bool no_print = false;
  PrintOptions print;
};

void report(const Diagnostic& diagnostic, const Options& options) {
  tools::print_error("{}\n", EncodedLines{options.diagnostics == "json" ? to_json(diagnostic)
                                                                        : to_text(diagnostic)});
}

int exit_code(const Diagnostic& diagnostic) {
  return diagnostic.id == DiagnosticId::kPassBrokeGraph ? kOurBug : kInputAtFault;
}

void print_list() {
  for (const PassDef* pass : all_passes()) tools::print("{:<30}{}\n", pass->name, pass->summary);
  for (const Pipeline& pipeline : all_pipelines()) {
    tools::print("pipeline {:<21}{}:", pipeline.name, pipeline.summary);
    for (const PassDef* pass : pipeline.passes) tools::print(" {}", pass->name);
    tools::print("\n");
  }
}

std::string_view promise(Exactness exactness) {
  if (exactness == Exactness::kExact) return "equal";
  return exactness == Exactness::kFloatRounding ? "2^-20 of the maximum"
                                                : "one step an op, 25 dB a graph";
}

// The table of docs/passes.md.
void print_markdown() {
  tools::print("| pass | what it does | proof | pipelines |\n|---|---|---|---|\n");
  for (const PassDef* pass : all_passes()) {
    std::string pipelines;
    for (const Pipeline& pipeline : all_pipelines())
      if (std::find(pipeline.passes.begin(), pipeline.passes.end(), pass) != pipeline.passes.end())
        pipelines += fmt::format("{}{}", pipelines.empty() ? "" : ", ", pipeline.name);
    tools::print("| `{}` | {} | {} | {} |\n", pass->name, pass->summary, promise(pass->exactness),
                 pipelines);
  }
}

void print_times(const Graph& graph, const std::vector<PassRun>& runs) {
  double total = 0;
  for (const PassRun& run : runs) {
    tools::print_error("{:10.3f} ms {:6} changes  {}\n", run.milliseconds, run.changes,
                       run.pass->name);
    total += run.milliseconds;
  }
  tools::print_error("{:10.3f} ms total for @{}\n", total, graph.name);
}

void print_remarks(const Remarks& remarks, const Options& options) {
  for (const Remark& remark : remarks.list())
    tools::print_error("{}\n", options.diagnostics == "json" ? to_json(remark) : to_text(remark));
}

// Looks for the first wrong pass; an error if there is one.
Result<void> bisect(Module& module, const Options& options) {
  std::vector<const PassDef*> passes;
  for (const std::string& name : options.passes) passes.push_back(find_pass(name));
  const Pipeline* known = find_pipeline(options.pipeline);
  for (Graph& graph : module.graphs) {
    DTR_ASSIGN(const auto found,
               bisect(module, graph, known != nullptr ? *known : Pipeline{"--pass", "", passes},
                      known != nullptr, options.seed));
    if (!found) {
      tools::print_error("@{}: no pass changes the result\n", graph.name);
      continue;
    }
    return fail(DiagnosticId::kPassBrokeGraph,
                fmt::format("pass {} is the first whose result differs, run {} of {}: {}",
                            found->pass->name, found->run, found->runs, found->reason),
                "Report this as a bug.", {.node = "@" + graph.name});
  }
  return {};
}

Result<void> transform(Module& module, const Options& options) {
  if (options.bisect) return bisect(module, options);
  for (Graph& graph : module.graphs) {
    const auto after_pass = [&](const PassDef& pass, const Module&, const Graph& changed,
                                size_t changes) {
      for (const std::string& name : options.print_after)
        if (name == "all" || name == pass.name)
          tools::print_error("// after {}: {} changes\n{}", pass.name, changes,
                             EncodedLines{print(module, changed, options.print)});
    };
    Remarks remarks;
    const PassOptions pass_options{
        options.verify_each,
        options.check_semantics ? SemanticsCheck::kEachPass : SemanticsCheck::kNone, options.seed,
        &remarks, after_pass};
    std::vector<const PassDef*> passes;
    for (const std::string& name : options.passes) passes.push_back(find_pass(name));
    DTR_ASSIGN(std::vector<PassRun> runs, run_passes(module, graph, passes, pass_options));
    if (const Pipeline* pipeline = find_pipeline(options.pipeline)) {
      DTR_ASSIGN(const std::vector<PassRun> more,
                 run_pipeline(module, graph, *pipeline, pass_options));
      runs.insert(runs.end(), more.begin(), more.end());
    }
    if (options.time) print_times(graph, runs);
    if (options.verbose) print_remarks(remarks, options);
  }
  return {};
}

int run_on(Result<Module> module, const Options& options) {
  Result<void> status = module ? verify(*module) : Result<void>(tl::unexpected(module.error()));
  if (status) status = transform(*module, options);
  if (!status) {
    report(status.error(), options);
    return exit_code(status.error());
  }
  if (!options.no_print) tools::print("{}", EncodedLines{print(*module, options.print)});
  return kGood;
}

int run_on(std::string_view text, const Options& options) {
  return run_on(parse_module(text, options.file == "-" ? "<stdin>" : options.file), options);
}

// Every part of the text between lines `// -----` by itself, its lines numbered as in the file; the
// worst exit code.
int run_on_parts(std::string_view text, const Options& options) {
  constexpr std::string_view kSeparator = "// -----\n";
  int worst = kGood;
  std::string skipped;
  for (;;) {
    const size_t end = text.find(kSeparator);
    const std::string_view part = text.substr(0, end);
    worst = std::max(worst, run_on(skipped + std::string(part), options));
    if (end == std::string_view::npos) return worst;
    text.remove_prefix(end + kSeparator.size());
    skipped.append(static_cast<size_t>(std::count(part.begin(), part.end(), '\n')) + 1, '\n');
    if (!options.no_print) tools::print("{}", EncodedLines{kSeparator});
  }
}

Result<std::string> read_text(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

int run(const Options& options) {
  if (options.list) {
    options.markdown ? print_markdown() : print_list();
    return kGood;
  }
  if (options.file.ends_with(".pt2")) return run_on(pt2::read_pt2(options.file), options);
  const Result<std::string> text = read_text(options.file);
  if (!text) {
    report(text.error(), options);
    return kInputAtFault;
  }
  return options.split ? run_on_parts(*text, options) : run_on(*text, options);
}

std::vector<std::string> names_of_passes() {
  std::vector<std::string> names;
  for (const PassDef* pass : all_passes()) names.emplace_back(pass->name);
  return names;
}

}  // namespace
}  // namespace dtr

namespace {

int command(int argc, char** argv, dtr::Options& options) {
  using namespace dtr;
  CLI::App app("Runs passes on the text form of the IR and prints the result.", "deuteron-opt");
  app.footer(
      "Example:\n"
      "  deuteron-opt --pass fold_batch_norm,fuse_activation --prove model.ir\n"
      "      folds and fuses, checks each pass by evaluating the graph before and after it, prints "
      "the new graph\n\n"
      "Exit codes: 0 good, 1 the input is at fault, 2 usage, 3 a pass is wrong (report it)");
  std::vector<std::string> names = names_of_passes();
  std::vector<std::string> pipelines;
  for (const Pipeline& pipeline : all_pipelines()) pipelines.emplace_back(pipeline.name);
  app.add_option("FILE", options.file, "IR text, or a model (.pt2); - reads standard input");
  app.add_option("--pass", options.passes, "Passes to run, in order")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(names))
      ->type_name("NAME[,NAME]");
  app.add_option("--pipeline", options.pipeline, "Pipeline to run to its fix-point, after --pass")
      ->check(CLI::IsMember(pipelines))
      ->type_name("NAME");
  app.add_flag("--list", options.list, "List all passes and pipelines");
  app.add_flag("--markdown", options.markdown, "With --list: as a page of the documentation");
  app.add_flag("--verify-each", options.verify_each, "Run the verifier after every pass");
  app.add_flag("--prove", options.check_semantics,
               "Evaluate the graph before and after every pass on random inputs and compare");
  app.add_flag(
      "--bisect", options.bisect,
      "Find the first pass after which the graph computes something else than at the start");
  app.add_option("--seed", options.seed, "Seed of the inputs of --prove and --bisect")
      ->type_name("N")
      ->capture_default_str();
  names.emplace_back("all");
  app.add_option("--print-after", options.print_after,
                 "Print the graph after these passes, or `all`, to standard error")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(names))
      ->type_name("NAME[,NAME]");
  app.add_flag("--time", options.time,
               "Print time and number of changes of every pass to standard error");
  app.add_flag("-v,--verbose", options.verbose,
               "Print to standard error why passes did not change operators");
  app.add_flag("--split-input-file", options.split,
               "Treat the parts between lines `// -----` as separate files");
  app.add_flag("--elide-constants", options.print.elide_constants,
               "Print big constants as seeded<hash>: small text, other contents");
  app.add_option("--elide-above", options.print.inline_elements,
                 "Elements up to which constants are printed in full")
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--no-locations", options.no_locations, "Leave out the table of sources and loc(…)");
  app.add_flag("--no-print", options.no_print, "Do not print the result");
  app.add_option("--diagnostics", options.diagnostics,
                 "How errors are written: text, or json (one object a line)")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kGood : kUsage;
  }
  if (options.file.empty() && !options.list) {
    tools::print_error("FILE is missing; run deuteron-opt --help\n");
    return kUsage;
  }
  options.print.locations = !options.no_locations;
  return run(options);
}

}  // namespace

int main(int argc, char** argv) {
  dtr::Options options;
  try {
    return command(argc, argv, options);
  } catch (const std::bad_alloc&) {
    dtr::report(dtr::out_of_memory("deuteron-opt", {.file = options.file}), options);
    return dtr::kInputAtFault;
  } catch (const std::exception& error) {  // of the standard library
    dtr::tools::print_error("deuteron-opt: {}\n", error.what());
    return dtr::kOurBug;
  }
}
