// Deuteron's runtime for C++: the types of namespace `deuteron` are enough to load and run a
// program. Kernels and delegates are passed as tables (device/runtime/kernels/*/kernels.h,
// device/runtime/delegate_deuteron.h); code that implements a kernel or a delegate includes
// device/runtime/kernel.h or device/runtime/delegate.h. Complete examples:
// device/runtime/examples/run_model.cpp on a host, main.cpp of a firmware project.
#pragma once

#include "device/runtime/method.h"

namespace deuteron {

using dtr::ScalarType;            // dtypes, with PyTorch's numbers
using dtr::pte::Error;            // what can go wrong; dtr::pte::text(error) is a sentence
using dtr::pte::Status;           // an error with its place
using dtr::runtime::InputTensor;  // input data of the caller
using dtr::runtime::LoadOptions;  // kernels, delegates, tensor files, target
using dtr::runtime::Method;       // ready to run, in memory of the caller
using dtr::runtime::Observer;     // called for every step; may end the run
using dtr::runtime::Program;      // loaded and checked
using Requirements = Method::Requirements;  // memory that a method needs
using dtr::runtime::Tensor;                 // address and type of an input or output

}  // namespace deuteron
