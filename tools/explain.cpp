// deuteron explain
#include "host/commands/describe.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct ExplainOptions {
  std::string program, name;
  std::string method;
  std::vector<std::string> tensor_files;  // .ptd
  uint32_t most = 5;
};

const CLI::App* add_explain(CLI::App& app, ExplainOptions& o) {
  CLI::App* verb = app.add_subcommand(
      "explain",
      "Explain in words what determines the cycles of operators, and what would reduce them");
  verb->add_option("PROGRAM", o.program, "Program (.pte)")->required();
  add_tensor_files(verb, o.tensor_files);
  add_method(verb, o.method);
  verb->add_option("OP", o.name, "Only operators whose name, module or kernel contains this");
  verb->add_option("--most", o.most, "Number of operators to explain, those with the most cycles")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  example(verb, "deuteron explain digits.pte stem");
  return verb;
}
Result<void> run_explain(const CommonOptions&, const ExplainOptions& options) {
  DTR_ASSIGN(const std::unique_ptr<Session> session,
             Session::open(options.program, options.tensor_files, options.method));
  note_unused_tensors(options.tensor_files, {&session->pte_file()});
  DTR_ASSIGN(const std::string text, explain_program(*session, options.name, options.most));
  print("{}", EncodedLines{text});
  return {};
}

}  // namespace

std::unique_ptr<Verb> explain_verb() {
  return std::make_unique<VerbOf<ExplainOptions, &add_explain, &run_explain>>();
}

}  // namespace dtr::tools
