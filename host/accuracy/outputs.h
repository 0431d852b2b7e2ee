// Outputs of one side of `deuteron compare`: stored arrays, or a program or model run on samples.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/npz.h"
#include "compiler/ir/tensor.h"
#include "compiler/support/result.h"

namespace dtr {

struct Output {
  std::string name;
  double step = 0;        // quantization step in the output's own unit; 1 for integers, 0: unknown
  bool stored = false;    // read from a file, not computed
  bool integers = false;  // of a quantized model, run by the integer reference
  // Of int8 samples of a program or model that tells it: what the codes mean.
  std::optional<Quantization> codes = std::nullopt;
  std::vector<Tensor> samples;  // one or more, of one dtype and shape; none if `unusable`
  // Why a stored array could not be read: an error only if it is compared.
  std::optional<Diagnostic> unusable = std::nullopt;
};

struct OutputSource {
  std::string
      path;  // .npz or .npy: stored outputs; .pte, .pt2, .tflite, .onnx or .ir: run on `data`
  std::string data;                            // .npz or .npy; empty: none
  std::vector<std::string> tensor_files = {};  // .ptd: constants outside of a program
  size_t samples = 0;                          // at most; 0: all
  std::string method = {};                     // of a program (PteFile::select)
  // In memory instead, `path` and `data` are then names for messages: a program or a model, with
  // the tensor file of a program; results; samples. They outlive the call.
  std::span<const std::byte> bytes = {}, tensors = {};
  std::span<const NamedTensor> results = {}, samples_to_run = {};
};

// Reads or computes outputs. Stored: one output per array, whose first axis is the sample. Programs
// and models: `output_0`, …; float models run in float, quantized models by the integer reference.
// Errors: kCompareNoData and those of reading, binding and running; a stored array that cannot be
// read or has no sample (kDataEmpty) is `unusable`.
Result<std::vector<Output>> read_outputs(const OutputSource& source);

}  // namespace dtr
