// deuteron verify
#include "host/accuracy/verify.h"

#include <limits>
#include <optional>

#include "compiler/pipeline/read_model.h"
#include "compiler/support/output_file.h"
#include "compiler/support/progress.h"
#include "tools/execution.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct VerifyOptions {
  std::string program, against, data, json;
  std::string method;
  std::vector<std::string> tensor_files;  // .ptd
  uint32_t samples = 1;
  double min_sqnr = 10.0;
  ExecutorOptions executor;
};

const CLI::App* add_verify(CLI::App& app, VerifyOptions& o) {
  CLI::App* verb = app.add_subcommand(
      "verify", "Compare a program with its model layer by layer; exit code 1 if a layer is bad");
  verb->add_option("PROGRAM", o.program, "Program (.pte) with debug map")->required();
  add_tensor_files(verb, o.tensor_files);
  add_method(verb, o.method);
  verb->add_option("--against", o.against, "Model it was compiled from (.pt2, .tflite, .onnx, .ir)")
      ->required();
  verb->add_option("--data", o.data, "Samples (.npz, .npy)")->required();
  verb->add_option("--samples", o.samples, "Number of samples to compare on")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  verb->add_option("--min-sqnr", o.min_sqnr, "A layer below this many dB is bad")
      ->check(number(-std::numeric_limits<double>::max(), std::numeric_limits<double>::max(), ""))
      ->capture_default_str();
  verb->add_option("--json", o.json, "Write the table as JSON");
  add_executor(verb, o.executor);
  add_checked(verb);
  example(verb,
          "deuteron verify digits.pte --against models/digits_cnn/float.pt2 --data "
          "models/digits_cnn/test.npz");
  return verb;
}

Result<bool> run_verify(const CommonOptions&, const VerifyOptions& options) {
  DTR_TRY(check_outputs({options.program, options.against, options.data}, {options.json}));
  DTR_ASSIGN(const std::unique_ptr<Session> session,
             Session::open(options.program, options.tensor_files, options.method));
  note_unused_tensors(options.tensor_files, {&session->pte_file()});
  DTR_ASSIGN(const Module model,
             read_model(options.against, {.sampled = Samples::shapes_of(options.data)}));
  DTR_ASSIGN(const Samples samples, Samples::read(model.forward(), options.data));
  const std::unique_ptr<TaskExecutor> executor = make_executor(options.executor);
  std::optional<TerminalProgress> progress("verify");
  const Result<std::vector<LayerError>> verified =
      verify_layers(*session, model, samples, options.samples, *executor, progress->function());
  progress.reset();  // erases its line
  DTR_TRY(verified);
  const std::vector<LayerError>& layers = *verified;

  print("{}", EncodedLines{to_text(layers, options.min_sqnr)});
  if (options.samples < samples.size())
    print("on {} of {} samples (--samples)\n", options.samples, samples.size());
  if (!options.json.empty())
    DTR_TRY(write_file(options.json, to_json(trace_source(session->pte_file()), layers)));
  return first_bad(layers, options.min_sqnr) == nullptr;
}

}  // namespace

std::unique_ptr<Verb> verify_verb() {
  return std::make_unique<VerbOf<VerifyOptions, &add_verify, &run_verify>>();
}

}  // namespace dtr::tools
