// deuteron explain
#include <fmt/format.h>

#include "host/profiler/explain.h"
#include "host/session/recorder.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct ExplainOptions {
  std::string program, name;
  std::vector<std::string> tensor_files;  // .ptd
  uint32_t most = 5;
};

const CLI::App* add_explain(CLI::App& app, ExplainOptions& o) {
  CLI::App* verb = app.add_subcommand(
      "explain",
      "Say in words why operators cost what they cost, and what would make them cheaper");
  verb->add_option("PROGRAM", o.program, "Program (.pte)")->required();
  add_tensor_files(verb, o.tensor_files);
  verb->add_option("OP", o.name, "Only operators that have this in their name, module or kernel");
  verb->add_option("--most", o.most, "So many of them, those with the most cycles")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  example(verb, "deuteron explain digits.pte stem");
  return verb;
}
Status run_explain(const CommonOptions&, const ExplainOptions& options) {
  DTR_ASSIGN(const std::unique_ptr<Session> session,
             Session::open(options.program, options.tensor_files));
  note_unused_tensors(options.tensor_files, {&session->image()});
  if (session->image().debug_map() == nullptr)
    return fail(DiagnosticId::kPteDebugMap,
                "the program has no debug map, which says what its calls stand for",
                "compile it without --no-debug-map", {.file = options.program});
  DTR_ASSIGN(const Trace trace, record_zeros(*session));
  Profile profile =
      make_profile(trace, OperatorMap(*session->image().debug_map()), options.program);
  profile.configuration = npu_configuration(session->image());
  const std::string text = explain_text(profile, &session->image(), options.name, options.most);
  if (text.empty())
    return fail(DiagnosticId::kNodeUnknown,
                fmt::format("no operator of the program has `{}` in its name, module or kernel",
                            options.name),
                "deuteron profile lists them", {.file = options.program});
  print("{}", EncodedLines{text});
  return {};
}

}  // namespace

std::unique_ptr<Verb> explain_verb() {
  return std::make_unique<VerbOf<ExplainOptions, &add_explain, &run_explain>>();
}

}  // namespace dtr::tools
