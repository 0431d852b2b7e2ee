// deuteron verify
#include "host/accuracy/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/pipeline/read_model.h"
#include "compiler/support/output_file.h"
#include "host/profiler/trace.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct VerifyOptions {
  std::string program, against, data, json;
  std::vector<std::string> tensor_files;  // .ptd
  uint32_t samples = 1;
  double min_sqnr = 10.0;
};

const CLI::App* add_verify(CLI::App& app, VerifyOptions& o) {
  CLI::App* verb = app.add_subcommand(
      "verify", "Compare a program with its model layer by layer; exit code 1 if a layer is bad");
  verb->add_option("PROGRAM", o.program, "Program (.pte) with debug map")->required();
  add_tensor_files(verb, o.tensor_files);
  verb->add_option("--against", o.against, "Model it was compiled from (.pt2, .tflite, .ir)")
      ->required();
  verb->add_option("--data", o.data, "Samples (.npz, .npy)")->required();
  verb->add_option("--samples", o.samples, "Number of samples to compare on")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  verb->add_option("--min-sqnr", o.min_sqnr, "A layer below this many dB is bad")
      ->check(number(-std::numeric_limits<double>::max(), std::numeric_limits<double>::max(), ""))
      ->capture_default_str();
  verb->add_option("--json", o.json, "Write the table as JSON");
  example(verb,
          "deuteron verify digits.pte --against models/digits_cnn/float.pt2 --data "
          "models/digits_cnn/test.npz");
  return verb;
}

std::string to_json(const TraceProgram& program, const std::vector<LayerError>& layers) {
  std::string text = "[";
  for (const LayerError& layer : layers)
    text += fmt::format(
        "{}\n  {{\"name\": {}, \"op\": {}, \"module_path\": {}, \"source_line\": {}, \"fused\": "
        "{}, \"where\": {}, \"dtype\": {}, "
        "\"sqnr_db\": {:.3f}, \"max_error\": {:.8g}, \"steps\": {:.3f}, \"differing\": {:.6f}}}",
        text.size() == 1 ? "" : ",", json_quote(layer.name), json_quote(layer.op),
        json_quote(layer.module_path), json_quote(layer.source_line), layer.fused,
        json_quote(layer.where), json_quote(layer.dtype), layer.sqnr_db, layer.max_error,
        layer.steps, layer.differing);
  return fmt::format("{{\"checksum\": \"{:08x}\", \"target\": {}, \"layers\": {}\n]}}\n",
                     program.checksum, json_quote(program.target), text);
}

Result<bool> run_verify(const CommonOptions&, const VerifyOptions& options) {
  DTR_TRY(check_outputs({options.program, options.against, options.data}, {options.json}));
  DTR_ASSIGN(const std::unique_ptr<Session> session,
             Session::open(options.program, options.tensor_files));
  note_unused_tensors(options.tensor_files, {&session->image()});
  DTR_ASSIGN(const Program model, read_model(options.against));
  DTR_ASSIGN(const Samples samples, Samples::read(model.forward(), options.data));
  DTR_ASSIGN(const std::vector<LayerError> layers,
             verify_layers(*session, model, samples, options.samples));

  size_t width = 8;
  for (const LayerError& layer : layers) width = std::clamp(layer.name.size(), width, size_t{40});
  print("{:<{}}  {:<26}  {:<8}  {:>8}  {:>12}  {:>7}  {:>8}\n", "operator", width, "module", "on",
        "SQNR dB", "max error", "steps", "differ");
  const LayerError* first_bad = nullptr;
  for (const LayerError& layer : layers) {
    if (layer.fused) {
      print("{:<{}}  {:<26}  (inside another operator's kernel call)\n", layer.name, width,
            layer.module_path);
      continue;
    }
    const bool bad = layer.sqnr_db < options.min_sqnr;
    if (bad && first_bad == nullptr) first_bad = &layer;
    print("{:<{}}  {:<26}  {:<8}  {:>8.1f}  {:>12.5g}  {:>7.2f}  {:>6.2f} %{}\n", layer.name, width,
          layer.module_path, layer.where + " " + layer.dtype, layer.sqnr_db, layer.max_error,
          layer.steps, 100 * layer.differing, bad ? "  bad" : "");
  }
  if (!options.json.empty())
    DTR_TRY(write_file(options.json, to_json(trace_program(session->image()), layers)));
  if (first_bad == nullptr) {
    print("all layers at {} dB or better\n", options.min_sqnr);
    return true;
  }
  print("first bad operator: {} ({}){}{}{}{}: {:.1f} dB\n", first_bad->name, first_bad->op,
        first_bad->module_path.empty() ? "" : " in ", first_bad->module_path,
        first_bad->source_line.empty() ? "" : ", ", first_bad->source_line, first_bad->sqnr_db);
  return false;
}

}  // namespace

std::unique_ptr<Verb> verify_verb() {
  return std::make_unique<VerbOf<VerifyOptions, &add_verify, &run_verify>>();
}

}  // namespace dtr::tools
