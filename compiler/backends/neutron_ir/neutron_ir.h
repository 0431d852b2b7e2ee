// The NPU through NXP's converter, where that is installed: a partition is written as a TensorFlow
// Lite model in int8 (Neutron IR), the converter makes one operator of it, and its microcode,
// weights and kernels become the payload of the delegate `NeutronBackend`, which ExecuTorch's
// runtime hands to NXP's driver.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "compiler/partitioner/backend.h"

namespace dtr {

struct ConverterOptions {
  // Program and arguments, separated by blanks; called with `--input FILE.tflite --output
  // FILE.tflite --target NAME` behind them.
  std::string command;
  std::string keep;  // folder for the model before and after the conversion, by the partition's
                     // first output; empty: they are not kept
  std::chrono::seconds limit{600};
};

// Takes what `machine`, a backend that models the NPU, takes and TensorFlow Lite has an operator
// for, and asks that one about costs. Errors of lower: kConverterFailed, kConverterOutput,
// kFileNotWritable.
std::unique_ptr<DelegateBackend> make_neutron_ir_backend(std::unique_ptr<DelegateBackend> machine,
                                                         std::string target,
                                                         ConverterOptions options);

// The model of a partition, all of whose ops that backend takes. Tensors have the shapes of their
// bytes, inputs and outputs their order.
std::vector<std::byte> write_neutron_ir(const Module& module, const Graph& graph);

}  // namespace dtr
