// deuteron inspect
#include "host/commands/describe.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct InspectOptions {
  std::string file;
};

const CLI::App* add_inspect(CLI::App& app, InspectOptions& o) {
  CLI::App* verb = app.add_subcommand("inspect", "Show a model, a program or data as text");
  verb->add_option("FILE", o.file, ".pt2, .tflite, .onnx, .pte, .ptd, .etdump, .npz, .npy")
      ->required();
  example(verb, "deuteron inspect digits.pte");
  return verb;
}

Result<void> run_inspect(const CommonOptions&, const InspectOptions& options) {
  DTR_ASSIGN(const std::string text, describe_file(options.file));
  print("{}", EncodedLines{text});
  return {};
}

}  // namespace

std::unique_ptr<Verb> inspect_verb() {
  return std::make_unique<VerbOf<InspectOptions, &add_inspect, &run_inspect>>();
}

}  // namespace dtr::tools
