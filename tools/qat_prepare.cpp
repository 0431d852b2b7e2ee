// deuteron qat-prepare
#include "compiler/pipeline/qat_prepare.h"

#include <fmt/format.h>

#include "compiler/pipeline/read_model.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/output_file.h"
#include "compiler/targets/target.h"
#include "host/commands/compile_options.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct QatPrepareOptions {
  std::string model, output;
  std::string calibration;   // .npz, .npy
  CompileOptions quantizer;  // target, threads, and how values are quantized
};

const CLI::App* add_qat_prepare(CLI::App& app, QatPrepareOptions& o) {
  CLI::App* verb = app.add_subcommand(
      "qat-prepare",
      "Insert fake quantization into a float export, for quantization-aware training in PyTorch");
  verb->add_option("MODEL", o.model, "Float model (.pt2)")->required();
  verb->add_option("-o,--output", o.output, "Export to write, which torch.export.load reads")
      ->required();
  add_target(verb, o.quantizer.target,
             "Target whose patterns decide what is quantized, see `deuteron targets`");
  CLI::Option* data = verb->add_option(
      "--calibrate", o.calibration,
      "Data for the initial ranges (.npz, .npy); default: the first batch of the training");
  verb->add_flag("--equalize", o.quantizer.equalize,
                 "Before training, scale channels of activations against the weights beside them, "
                 "as compile --equalize does")
      ->needs(data);
  verb->add_option("--observer", o.quantizer.observer,
                   "How the initial range of a value is computed from the observed values")
      ->check(CLI::IsMember(std::vector<std::string>(QuantSpec::kObserverNames.begin(),
                                                     QuantSpec::kObserverNames.end())))
      ->needs(data)
      ->capture_default_str();
  add_threads(verb, o.quantizer.threads);
  example(verb,
          "deuteron qat-prepare models/digits_cnn/float.pt2 --calibrate "
          "models/digits_cnn/calibration.npz -o prepared.pt2\n"
          "  then train, export and compile it: docs/quantization.md");
  return verb;
}

Result<void> run_qat_prepare(const CommonOptions&, const QatPrepareOptions& options) {
  CompileSettings settings = training_settings(options.quantizer);
  DTR_ASSIGN(settings.target, resolve_target(options.quantizer.target));
  DTR_TRY(check_outputs({options.model, options.calibration}, {options.output}));
  DTR_ASSIGN(OutputFile file, OutputFile::create(options.output));
  DTR_ASSIGN(const FileContents model, FileContents::read(options.model));
  const FileKind kind = kind_of(model.bytes());
  DTR_TRY(check_trainable(kind, options.model));
  DTR_ASSIGN(Module module, parse_model(model.bytes(), kind, options.model));
  std::optional<Samples> samples;
  if (!options.calibration.empty()) {
    DTR_ASSIGN(PickedSamples picked,
               pick_samples(module.forward(), options.calibration, kMostCalibrationSamples));
    samples = std::move(picked.samples);
  }
  DTR_ASSIGN(const QatPrepared prepared, dtr::qat_prepare(std::move(module), model.bytes(),
                                                          settings, samples ? &*samples : nullptr));
  DTR_TRY(file.write(prepared.archive));
  DTR_TRY(file.commit());
  for (const std::string& note : prepared.notes) print("note: {}\n", note);
  if (const Equalization& made = prepared.equalization; made.groups != 0)
    print("equalized {} channels of {} groups, factors up to {:.3g} apart\n", made.channels,
          made.groups, made.largest);
  print(
      "fake quantization of {} activations and {} weights; fusion of {} batch norms "
      "simulated\nexport {}\n",
      prepared.activations, prepared.weights, prepared.batch_norms, options.output);
  return {};
}

}  // namespace

std::unique_ptr<Verb> qat_prepare_verb() {
  return std::make_unique<VerbOf<QatPrepareOptions, &add_qat_prepare, &run_qat_prepare>>();
}

}  // namespace dtr::tools
