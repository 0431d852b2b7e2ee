// deuteron-executor-runner: runs a program on files of raw tensors, with the command line of
// ExecuTorch's nxp_executor_runner. NXP's simulator, its firmware and its configuration, which that
// command line names, have no part in it.
#include <CLI/CLI.hpp>
#include <string>

#include "compiler/support/text.h"
#include "host/commands/run_dataset.h"
#include "tools/print.h"

namespace dtr::tools {
namespace {

int run(int argc, char** argv) {
  CLI::App app{
      "Runs a program (.pte) on files of raw tensors, with the command line of ExecuTorch's "
      "nxp_executor_runner",
      "deuteron-executor-runner"};
  DatasetOptions options;
  std::string unused;
  app.add_option("--model", options.model, "Program (.pte)")->required();
  CLI::Option* dataset = app.add_option("--dataset", options.dataset,
                                        "Folder with a file for each sample, for one input");
  app.add_option("--inputs", options.inputs,
                 "Files, one an input; or folders, one a sample; separated by commas")
      ->delimiter(',')
      ->excludes(dataset);
  app.add_option("--output", options.output, "Folder for the outputs")->capture_default_str();
  for (const char* name : {"--firmware", "--nsys", "--nsys_config"})
    app.add_option(name, unused, "Of NXP's simulator; not used");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.dataset.empty() && options.inputs.empty()) {
    print_error("give --dataset or --inputs\n");
    return 2;
  }
  const Result<size_t> samples =
      run_dataset(options, [](std::string_view line) { print("{}\n", line); });
  if (!samples) {
    print_error("{}\n", EncodedLines{to_text(samples.error())});
    return 1;
  }
  print("Finished...\n");
  return 0;
}

}  // namespace
}  // namespace dtr::tools

int main(int argc, char** argv) { return dtr::tools::run(argc, argv); }
