// Runs partitions on the NPU through NXP's converter, if it is installed: writes a partition as an
// int8 TensorFlow Lite model (Neutron IR), which the converter turns into one operator, whose
// microcode, weights and kernels become the payload of the delegate `NeutronBackend`; ExecuTorch's
// runtime hands it to NXP's driver.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "compiler/partitioner/backend.h"

namespace dtr {

struct ConverterOptions {
  // Program and arguments, separated by blanks; `--input FILE.tflite --output FILE.tflite --target
  // NAME` are appended.
  std::string command;
  // folder in which to keep the model before and after the conversion, named after the partition's
  // first output; empty: not kept
  std::string keep;
  std::chrono::seconds limit{600};
};

// A backend for the ops that `machine`, a model of the NPU, runs and TensorFlow Lite can express;
// its costs are those of `machine`. Errors of lower: kConverterFailed, kConverterOutput,
// kFileNotWritable.
std::unique_ptr<DelegateBackend> make_neutron_ir_backend(std::unique_ptr<DelegateBackend> machine,
                                                         std::string target,
                                                         ConverterOptions options);

// The TensorFlow Lite model of a partition, all of whose ops that backend runs. Shapes of tensors
// are in their physical order.
struct NeutronIr {
  std::vector<std::byte> model;
  std::vector<OpId> ops;  // by operator of the model: the op that it is a part of
};
NeutronIr write_neutron_ir(const Module& module, const Graph& graph);

}  // namespace dtr
