// deuteron convert
#include "host/commands/convert.h"

#include "compiler/support/encode.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct ConvertVerbOptions {
  std::string input, output, kernel_selection;
  ConvertOptions convert;
  bool verbose = false;
};

const CLI::App* add_convert(CLI::App& app, ConvertVerbOptions& o) {
  CLI::App* verb = app.add_subcommand(
      "convert", "Convert Neutron IR to NeutronGraph operators, as NXP's converter does");
  verb->add_option("IN,--input", o.input, "Neutron IR, or another int8 model (.tflite)")
      ->required();
  verb->add_option("OUT,--output", o.output, "Converted model to write (.tflite)")->required();
  add_target(verb, o.convert.target, "Machine to convert for, see `deuteron targets`");
  verb->add_flag("--fetch-constants-to-sram", o.convert.fetch_constants_to_sram,
                 "Leave constants in flash, and copy them to SRAM while the model runs");
  verb->add_flag("--profile", o.convert.profile,
                 "Make payloads that record an event for each kernel when they run");
  verb->add_option("--kernel-selection", o.kernel_selection,
                   "Write the table of the kernels that the model calls (.c)");
  verb->add_flag("-v,--verbose", o.verbose, "Print the operators, graphs and kernels");
  example(verb, "deuteron convert models/mlperf_tiny/ic_resnet8_int8.tflite converted.tflite");
  return verb;
}

Result<void> run_convert(const CommonOptions&, const ConvertVerbOptions& options) {
  DTR_ASSIGN(const ConvertedModel made, convert_file(options.input, options.output,
                                                     options.kernel_selection, options.convert));
  if (options.verbose) print("{}", EncodedLines{made.log});
  print("{} of {} operators in {} NeutronGraph{}; {}\n", made.converted, made.operators,
        made.graphs, made.graphs == 1 ? "" : "s", options.output);
  for (const KeptOperator& kept : made.kept)
    print("  {} {} stays as it is: {}\n", kept.op, kept.name, kept.reason);
  return {};
}

}  // namespace

std::unique_ptr<Verb> convert_verb() {
  return std::make_unique<VerbOf<ConvertVerbOptions, &add_convert, &run_convert>>();
}

}  // namespace dtr::tools
