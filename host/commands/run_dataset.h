// `deuteron-executor-runner` without its terminal: runs a program on files of raw tensors, as
// ExecuTorch's runner for the NXP simulator does.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"

namespace dtr {

struct DatasetOptions {
  std::string model;  // .pte
  // A folder: each file is a sample of a program with one input. Exclusive with `inputs`.
  std::string dataset;
  // Files: the inputs of one sample; or folders: each is a sample, whose files are the inputs in
  // the order of their names.
  std::vector<std::string> inputs;
  std::string output = "results";  // folder; made if it is not there
};

// Runs every sample. A file holds the bytes of an input in physical order, or one byte for each
// element of a float input. Output i of sample NAME goes to OUTPUT/NAME/000i.bin, for `inputs` of
// files to OUTPUT/000i.bin. If the program has one output, the index and value of its largest
// element are appended to OUTPUT/results.txt, a line a sample of a data set. A program with
// payloads that record profiles writes OUTPUT/trace.etdump. `say` receives progress as lines
// without line end. Returns the number of samples. Errors: those of Session; kFileNotFound,
// kDataShape, kDataCount, kFileNotWritable.
Result<size_t> run_dataset(const DatasetOptions& options,
                           const std::function<void(std::string_view)>& say);

}  // namespace dtr
