// The `deuteron` command: common options, dispatch to the verbs of verbs.inc, and exit codes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <system_error>
#include <vector>

#include "compiler/plugins/plugins.h"
#include "compiler/support/interruption.h"
#include "compiler/support/text.h"
#include "tools/execution.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

enum ExitCode : int { kGood = 0, kBadInput = 1, kUsage = 2, kBug = 3 };

void report(const CommonOptions& common, const Diagnostic& diagnostic) {
  print_error("{}\n",
              EncodedLines{common.json_diagnostics ? to_json(diagnostic) : to_text(diagnostic)});
}

std::vector<std::unique_ptr<Verb>> all_verbs() {
  std::vector<std::unique_ptr<Verb>> verbs;
#define DTR_VERB(name) \
  if (offers_verb(#name)) verbs.push_back(name##_verb());
#include "tools/verbs.inc"
#undef DTR_VERB
  return verbs;
}

// The file that a verb was given first.
std::string first_file(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options())
    if (option->get_positional() && option->count() > 0) return option->results().front();
  return {};
}

// What is wrong with the values of a verb's options: one is empty (an unset variable of a script),
// or the verb says so.
std::string misuse(const Verb& verb, const CLI::App& parsed) {
  for (const CLI::Option* option : parsed.get_options())
    for (const std::string& value : option->results())
      if (value.empty()) return fmt::format("{}: its value is empty", option->get_name());
  return verb.misuse(parsed);
}

int run(const Verb& verb, const CLI::App& parsed, const CommonOptions& common) {
  if (const std::string wrong = misuse(verb, parsed); !wrong.empty()) {
    print_error("{}\nRun with --help for more information.\n", wrong);
    return kUsage;
  }
  const Result<bool> good = verb.run(common);
  if (!good) report(common, good.error());
  return good && *good ? kGood : kBadInput;
}

// Reads the command line and runs its verb.
int command(int argc, char** argv, CommonOptions& common) {
  CLI::App app{
      "Deuteron compiles a model for a microcontroller with an eIQ Neutron NPU, runs it "
      "bit-exactly on a simulator, and shows what it "
      "costs.",
      kCommandName};
  app.set_version_flag("--version", std::string(kCommandName) + " " DTR_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  std::string diagnostics = "text";
  app.add_option("--diagnostics", diagnostics,
                 "How messages are written: text, or json (one object a line on standard error)")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  std::vector<std::string> plugin_files;
  app.add_option(
         "--plugin", plugin_files,
         "Plug-in with kernels of operators that Deuteron does not know: a C source (.c) or "
         "a shared library (docs/plugins.md); may be repeated")
      ->allow_extra_args(false)
      ->type_name("FILE");
  const std::vector<std::unique_ptr<Verb>> verbs = all_verbs();
  std::vector<const CLI::App*> added;
  for (const std::unique_ptr<Verb>& verb : verbs) added.push_back(verb->add(app));
  app.footer(
      "Exit codes: 0 good, 1 the input is at fault, 2 usage, 3 a bug of Deuteron.\nExample:\n  "
      "deuteron compile model.pt2 --calibrate data.npz "
      "-o model.pte");

  if (argc > 1 && argv[1][0] != '-') {
    std::vector<std::string> names;
    for (const CLI::App* verb : added) names.push_back(verb->get_name());
    if (std::ranges::find(names, argv[1]) == names.end()) {
      print_error(
          "there is no command `{}`; the nearest is `{}`\nRun with --help for more "
          "information.\n",
          argv[1], nearest(argv[1], names, 1).front());
      return kUsage;
    }
  }

  try {  // CLI11 reports by exceptions; nothing else here throws
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const int code = app.exit(error, out, err);
    print("{}", EncodedLines{out.str()});
    print_error("{}", EncodedLines{err.str()});  // it repeats what was given
    return code == 0 ? kGood : kUsage;
  }
  common.json_diagnostics = diagnostics == "json";
  for (size_t i = 0; i < verbs.size(); ++i)
    if (added[i]->parsed()) {
      common.verb = added[i]->get_name();
      common.input = first_file(*added[i]);
      for (const std::string& file : plugin_files)
        if (const Result<void> loaded = load_plugin(file); !loaded) {
          report(common, loaded.error());
          return kBadInput;
        }
      return run(*verbs[i], *added[i], common);
    }
  return kBug;  // CLI11 asks for a verb
}

// `command`, whose exceptions become diagnostics.
int guarded(int argc, char** argv, CommonOptions& common) {
  const auto without_memory = [&] {
    report(common, out_of_memory(common.verb.empty() ? "deuteron" : "deuteron " + common.verb,
                                 {.file = common.input}));
    return kBadInput;
  };
  try {
    clean_up_on_signals();
    return command(argc, argv, common);
  } catch (const std::bad_alloc&) {
    return without_memory();
  } catch (const std::system_error& error) {  // of a thread, whose stack finds no room
    if (error.code() == std::errc::resource_unavailable_try_again) return without_memory();
    print_error("deuteron: {}\n", error.what());
    return kBug;
  } catch (const std::exception& error) {  // of the standard library, or fmt's, of standard output
    if (std::ferror(stdout) == 0) print_error("deuteron: {}\n", error.what());
    return kBug;
  }
}

}  // namespace
}  // namespace dtr::tools

int main(int argc, char** argv) {
  using namespace dtr::tools;
  begin_command();
  CommonOptions common;
  const int code = guarded(argc, argv, common);
  // What was printed is known to have arrived only now.
  const bool lost = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !lost) return end_command(code);
  report(common, {.id = dtr::DiagnosticId::kFileNotWritable,
                  .reason = "cannot write the output",
                  .fix = "free some space, or redirect the output",
                  .place = {.file = "standard output"}});
  return end_command(kBadInput);
}
