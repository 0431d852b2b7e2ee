// deuteron profile
#include <fmt/format.h>

#include "compiler/pipeline/read_model.h"
#include "compiler/support/output_file.h"
#include "host/commands/traced_profile.h"
#include "host/profiler/etdump.h"
#include "host/profiler/html.h"
#include "host/profiler/report.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct ProfileOptions {
  std::string trace;  // .etdump, profile.bin, .pte
  std::string program, etrecord;
  std::string compare;                            // another trace
  std::string compare_program, compare_etrecord;  // of that
  std::string by = "operator", sort = "cycles", filter;
  uint32_t depth = 0;
  std::string etdump, json, csv, perfetto, html;
  std::string compile_report, verify;     // for html: files of those commands
  std::string method;                     // of both programs
  std::vector<std::string> tensor_files;  // .ptd, of programs that are run
};

const CLI::App* add_profile(CLI::App& app, ProfileOptions& o) {
  CLI::App* verb = app.add_subcommand(
      "profile", "Show where the cycles of a run went, by operator of the model");
  verb->add_option("TRACE", o.trace,
                   "Profile (.etdump) that `deuteron run --profile` or ExecuTorch wrote; records "
                   "that a firmware wrote (profile.bin); or a program (.pte), which is then run")
      ->required();
  add_tensor_files(verb, o.tensor_files);
  add_method(verb, o.method);
  verb->add_option("--program", o.program, "Program that was run (.pte): it names the operators");
  verb->add_option(
          "--etrecord", o.etrecord,
          "Instead of the program its record (`deuteron compile --etrecord`, or ExecuTorch's)")
      ->excludes("--program");
  verb->add_option("--by", o.by, "What a line of the table stands for")
      ->check(CLI::IsMember({"operator", "module", "kernel", "memory"}))
      ->capture_default_str();
  verb->add_option("--sort", o.sort, "Most cycles first, or in the order of the program")
      ->check(CLI::IsMember({"cycles", "program"}))
      ->capture_default_str();
  verb->add_option("--filter", o.filter,
                   "Only lines whose operator, module or kernel contains this in its name");
  verb->add_option("--depth", o.depth, "Fold modules below this level (0: show all)")
      ->capture_default_str();
  CLI::Option* compare = verb->add_option(
      "--compare", o.compare,
      "Another profile or program to compare with: what got slower, what faster (.etdump, .pte)");
  verb->add_option("--compare-program", o.compare_program,
                   "Program of the profile of --compare, if it is not --program (.pte)")
      ->needs(compare);
  verb->add_option("--compare-etrecord", o.compare_etrecord, "Instead of that program its record")
      ->needs(compare)
      ->excludes("--compare-program");
  verb->add_option("--etdump", o.etdump,
                   "Write the trace for ExecuTorch's Inspector (.etdump): what a firmware "
                   "recorded, or a program that is run");
  verb->add_option("--json", o.json,
                   "Write all figures, with --compare those of both (.json, docs/profiling.md)");
  verb->add_option("--csv", o.csv, "Write the table, with --compare that of both (.csv)");
  verb->add_option("--perfetto", o.perfetto,
                   "Write the timeline for https://ui.perfetto.dev (.json)")
      ->excludes(compare);
  CLI::Option* html = verb->add_option("--html", o.html,
                                       "Write a page with timeline, operators, roofline, memory "
                                       "and graph that opens from disk (.html)")
                          ->excludes(compare);
  verb->add_option("--compile-report", o.compile_report,
                   "For --html: why operators are not on the NPU, as `deuteron compile "
                   "--report-json` wrote it")
      ->needs(html);
  verb->add_option("--verify", o.verify,
                   "For --html: errors of layers, as `deuteron verify --json` wrote them")
      ->needs(html);
  example(verb, "deuteron profile digits.pte");
  return verb;
}

// Options that would do nothing beside the others.
std::string misuse_of_profile(const CLI::App& verb) {
  const std::string by = verb.get_option("--by")->as<std::string>();
  if (verb.count("--depth") > 0 && by != "module")
    return "--depth has no effect without --by module";
  if (verb.count("--sort") > 0 && by == "module")
    return "--sort has no effect with --by module, whose lines are a tree";
  if (verb.count("--sort") > 0 && verb.count("--compare") > 0)
    return "--sort has no effect with --compare, whose lines are in the order of change";
  return {};
}

// Tensor files are for programs that are run.
Result<void> check_runs_a_program(const ProfileOptions& options) {
  for (const std::string& path : {options.trace, options.compare}) {
    if (path.empty()) continue;
    DTR_ASSIGN(const FileKind kind, file_kind(path));
    if (kind == FileKind::kProgram) return {};
  }
  return fail(DiagnosticId::kTraceProgram,
              "it is a recorded profile, and no program is run: --tensors has no effect",
              "omit --tensors", {.file = options.trace});
}

ProfileTable table_of(const ProfileOptions& options) {
  ProfileTable table{
      .program_order = options.sort == "program", .filter = options.filter, .depth = options.depth};
  if (options.by == "module") table.view = ProfileView::kModule;
  if (options.by == "kernel") table.view = ProfileView::kKernel;
  if (options.by == "memory") table.view = ProfileView::kMemory;
  return table;
}

Result<void> run_profile(const CommonOptions&, const ProfileOptions& options) {
  DTR_TRY(check_outputs(
      {options.trace, options.program, options.etrecord, options.compare, options.compare_program,
       options.compare_etrecord, options.compile_report, options.verify},
      {options.etdump, options.json, options.csv, options.perfetto, options.html}));
  if (!options.tensor_files.empty()) DTR_TRY(check_runs_a_program(options));
  DTR_ASSIGN(const TracedProfile loaded,
             read_profile(options.trace, options.program, options.etrecord, options.tensor_files,
                          options.method));
  const ProfileTable table = table_of(options);
  if (!options.etdump.empty()) DTR_TRY(write_file(options.etdump, to_etdump(loaded.trace)));
  if (!options.compare.empty()) {
    DTR_ASSIGN(const FileKind kind, file_kind(options.compare));
    const bool same = kind != FileKind::kProgram && options.compare_program.empty() &&
                      options.compare_etrecord.empty();
    DTR_ASSIGN(const TracedProfile other,
               read_profile(options.compare, same ? options.program : options.compare_program,
                            same ? options.etrecord : options.compare_etrecord,
                            options.tensor_files, options.method));
    if (!options.json.empty())
      DTR_TRY(write_file(options.json, compare_json(loaded.profile, loaded.program(), other.profile,
                                                    other.program(), table)));
    if (!options.csv.empty())
      DTR_TRY(write_file(options.csv, compare_csv(loaded.profile, other.profile, table)));
    print("{}", EncodedLines{compare_text(loaded.profile, other.profile, table)});
    return {};
  }
  if (!options.json.empty())
    DTR_TRY(write_file(options.json, to_json(loaded.profile, loaded.program())));
  if (!options.csv.empty()) DTR_TRY(write_file(options.csv, to_csv(loaded.profile, table)));
  if (!options.perfetto.empty())
    DTR_TRY(write_file(options.perfetto, to_perfetto(loaded.profile, loaded.program())));
  if (!options.html.empty()) {
    DTR_ASSIGN(const std::string page,
               to_html(loaded.profile, loaded.program(),
                       {.compile_report = options.compile_report, .verify = options.verify}));
    DTR_TRY(write_file(options.html, page));
  }
  print("{}", EncodedLines{to_text(loaded.profile, table)});
  return {};
}

}  // namespace

std::unique_ptr<Verb> profile_verb() {
  return std::make_unique<VerbOf<ProfileOptions, &add_profile, &run_profile, &misuse_of_profile>>();
}

}  // namespace dtr::tools
