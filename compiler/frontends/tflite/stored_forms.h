// The forms in which a .tflite file may store numbers that the IR has no type for: half precision,
// two elements a byte, sparse weights, weights quantized beside float activations, int16
// activations. Each becomes a form that the importer takes.
#pragma once

#include "compiler/frontends/tflite/model_file.h"
#include "compiler/support/diagnostic.h"

namespace dtr::tflite {

// Rewrites the tensors of the file: constants are converted, types and quantizations changed with
// them. Returns a note on each kind of tensor whose numbers are not those of the file any more.
// Errors: kTfliteInvalid, kTfliteUnsupportedDtype, with the tensor at fault.
Result<std::vector<Diagnostic>> convert_stored_forms(ModelFile& file, const std::string& name);

}  // namespace dtr::tflite
