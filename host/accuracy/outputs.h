// What a file makes of data: arrays of results, or a program or model run on samples. What
// `deuteron compare` compares.
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
  double step = 0;      // quantization step in the output's own unit; 1 for integers, 0: not known
  bool stored = false;  // an array of a file, else computed
  std::vector<Tensor> samples;  // one or more, of one dtype and shape; none if `unusable`
  // Why a stored array has no samples: an error only for those who compare it.
  std::optional<Diagnostic> unusable = std::nullopt;
};

struct OutputSource {
  std::string path;  // .npz or .npy: results as they are; .pte, .pt2, .tflite or .ir: run on `data`
  std::string data;  // .npz or .npy; empty: none
  std::vector<std::string> tensor_files = {};  // .ptd: where constants outside of a program are
  size_t samples = 0;                          // at most; 0: all
  // In memory instead, `path` and `data` are then names for messages: a program or a model, with
  // the tensor file of a program; results; samples. They outlive the call.
  std::span<const std::byte> bytes = {}, tensors = {};
  std::span<const NamedTensor> results = {}, samples_to_run = {};
};

// Results: one output an array, its first axis counts samples. Programs and models: `output_0`, …;
// float models run in float, models with quantized types by the integer reference. Errors:
// kCompareNoData and those of reading, binding and running; an array of results that cannot be read
// or holds no sample (kDataEmpty) is `unusable`.
Result<std::vector<Output>> read_outputs(const OutputSource& source);

}  // namespace dtr
