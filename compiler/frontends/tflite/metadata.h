// The metadata of a .tflite file: what its author says of the model, of its inputs and outputs, and
// the files that are attached to it, such as the names of classes. Programs do not depend on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/frontends/tflite/model_file.h"

namespace dtr::tflite {

struct TensorDescription {
  std::string name, description;
  std::vector<float> mean, std;  // of (x − mean) / std, a number a channel or one; empty: not said
  std::vector<float> least, greatest;  // of its values, the same
  std::string labels_file;             // "": none
  std::vector<std::string> labels;     // its lines; empty if the file is not attached
};

struct Metadata {
  std::string name, description, version, author, license;
  std::vector<TensorDescription> inputs, outputs;  // of the first subgraph, in its order
};

// Returns nullopt for a file without metadata. Errors: kTfliteInvalid for metadata that are
// damaged; ids zip-* for attached files that are.
Result<std::optional<Metadata>> read_metadata(const ModelFile& model, const std::string& file);

}  // namespace dtr::tflite
