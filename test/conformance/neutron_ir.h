// The Neutron IR of a model's NPU partitions, and what it should compute.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/npz.h"
#include "compiler/ir/samples.h"

namespace dtr::conformance {

struct NeutronIrCase {
  std::vector<std::byte> model;        // .tflite
  std::vector<std::string> operators;  // of it, in order: "CONV_2D"
  std::vector<NamedTensor> inputs;     // "input_0", …: pseudo-random, as the file's tensors lie
  std::vector<NamedTensor> outputs;    // "output_0", …: by the integer reference of the partition
  std::vector<NamedTensor> read_back;  // "read_back_0", …: by that of the file, read by the
                                       // frontend for .tflite, which rounds as TFLite does
};

// A case for each partition, in order; everything that may runs on the NPU. `samples` calibrate a
// float model.
Result<std::vector<NeutronIrCase>> neutron_ir_cases(const std::string& model,
                                                    const Samples* samples);

}  // namespace dtr::conformance
