// deuteron eval
#include <fmt/format.h>

#include "compiler/support/output_file.h"
#include "compiler/support/progress.h"
#include "host/commands/evaluate.h"
#include "tools/execution.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct EvalOptions {
  std::string program, data;
  std::string method;
  std::vector<std::string> tensor_files;  // .ptd
  std::string labels = "label";
  std::string output;   // name or number
  std::string against;  // a float model to evaluate side by side
  std::string json;
  ExecutorOptions executor;
  CheckpointOptions checkpoint;
};

const CLI::App* add_eval(CLI::App& app, EvalOptions& o) {
  CLI::App* verb = app.add_subcommand(
      "eval", "Compare the accuracy of a program over a data set with the float model's");
  verb->add_option("PROGRAM", o.program, "Program (.pte)")->required();
  verb->add_option("--data", o.data,
                   "Data set (.npz) with inputs, labels, and float_output if the float model's "
                   "outputs are known")
      ->required();
  add_tensor_files(verb, o.tensor_files);
  add_method(verb, o.method);
  verb->add_option("--labels", o.labels, "Array of class numbers")->capture_default_str();
  verb->add_option("--output", o.output,
                   "Output that is judged, by name or number (default: the first)");
  verb->add_option(
      "--against", o.against,
      "Float model to run on the same data (.pt2, .tflite, .onnx) instead of float_output");
  verb->add_option("--json", o.json, "Write the figures as JSON");
  add_executor(verb, o.executor);
  add_checked(verb);
  CLI::Option* const checkpoint = verb->add_option(
      "--checkpoint", o.checkpoint.path,
      "File that takes the result of each sample as soon as it is there (docs/scale.md)");
  verb->add_flag("--resume", o.checkpoint.resume,
                 "Go on with the checkpoint of an evaluation that was ended")
      ->needs(checkpoint);
  example(verb, "deuteron eval digits.pte --data models/digits_cnn/test.npz");
  return verb;
}

Result<void> run_eval(const CommonOptions& common, const EvalOptions& options) {
  DTR_TRY(check_outputs({options.program, options.data, options.against},
                        {options.json, options.checkpoint.path}));
  const ProgramInput program{
      .path = options.program, .method = options.method, .tensor_files = options.tensor_files};
  DTR_ASSIGN(const std::unique_ptr<Session> first, program.open());
  note_unused_tensors(options.tensor_files, {&first->pte_file()});
  const std::unique_ptr<TaskExecutor> executor = make_executor(options.executor);
  const auto note = [](const std::string& text) { print_error("note: {}\n", EncodedLines{text}); };
  std::optional<TerminalProgress> progress("eval");
  const Result<EvaluationResult> evaluation = evaluate({.program = program,
                                                        .data = {.path = options.data},
                                                        .labels = options.labels,
                                                        .output = options.output,
                                                        .against = {.path = options.against},
                                                        .executor = *executor,
                                                        .checkpoint = options.checkpoint,
                                                        .progress = progress->function(),
                                                        .note = note},
                                                       *first);
  progress.reset();  // erases its line
  DTR_TRY(evaluation);
  for (const Diagnostic& warning : evaluation->warnings)
    print_error("{}\n",
                EncodedLines{common.json_diagnostics ? to_json(warning) : to_text(warning)});
  const Score& score = evaluation->score;
  if (score.without_class > 0)
    print_error("note: the program's outputs hold NaN in {} of {} samples, which count as wrong\n",
                score.without_class, score.samples);
  print("{}", EncodedLines{to_text(*evaluation)});
  return options.json.empty() ? Result<void>() : write_file(options.json, to_json(*evaluation));
}

}  // namespace

std::unique_ptr<Verb> eval_verb() {
  return std::make_unique<VerbOf<EvalOptions, &add_eval, &run_eval>>();
}

}  // namespace dtr::tools
