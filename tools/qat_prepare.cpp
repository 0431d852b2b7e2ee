// deuteron qat-prepare
#include "compiler/pipeline/qat_prepare.h"

#include <fmt/format.h>

#include "compiler/pipeline/read_model.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/output_file.h"
#include "tools/print.h"
#include "tools/verbs.h"

namespace dtr::tools {

Status qat_prepare(const CommonOptions& common, const QatPrepareOptions& options) {
  CompileSettings settings{.threads = common.threads};
  DTR_ASSIGN(settings.target, resolve_target(options.target));
  DTR_TRY(check_outputs({options.model, options.calibration}, {options.output}));
  DTR_ASSIGN(OutputFile file, OutputFile::create(options.output));
  DTR_ASSIGN(const FileContents model, FileContents::read(options.model));
  DTR_ASSIGN(const FileKind kind, file_kind(options.model));
  if (kind == FileKind::kTflite || kind == FileKind::kText)
    return fail(DiagnosticId::kQatNotExport,
                fmt::format("the model is {}; only PyTorch can train it", kind == FileKind::kTflite ? "a .tflite file" : "IR text"),
                "give the export of a float PyTorch model (torch.export.save)", {.file = options.model});
  DTR_ASSIGN(Program program, read_model(options.model));
  std::optional<Samples> samples;
  if (!options.calibration.empty()) {
    DTR_ASSIGN(samples, Samples::read(program.forward(), options.calibration));
  }
  DTR_ASSIGN(const QatPrepared prepared, dtr::qat_prepare(std::move(program), model.bytes(), settings, samples ? &*samples : nullptr));
  DTR_TRY(file.write(prepared.archive));
  DTR_TRY(file.commit());
  for (const std::string& note : prepared.notes) print("note: {}\n", note);
  print("fake quantization of {} activations and {} weights; fusion of {} batch norms simulated\nexport {}\n", prepared.activations,
        prepared.weights, prepared.batch_norms, options.output);
  return {};
}

}  // namespace dtr::tools
