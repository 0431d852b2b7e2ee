// Deuteron's runtime for C++: the ten types of namespace `deuteron` are all that loading and
// running a program takes. Kernels and delegates come as tables
// (device/runtime/kernels/*/kernels.h, device/runtime/delegate_deuteron.h); who writes some
// includes device/runtime/kernel.h or device/runtime/delegate.h. Complete examples:
// device/runtime/examples/run_model.cpp on a host, main.cpp of a firmware project.
#pragma once

#include "device/runtime/method.h"

namespace deuteron {

using dtr::ScalarType;            // dtypes, with PyTorch's numbers
using dtr::pte::Error;            // what can go wrong; dtr::pte::text(error) is a sentence
using dtr::pte::Status;           // an error with its place
using dtr::runtime::InputTensor;  // data as the caller has them
using dtr::runtime::LoadOptions;  // kernels, delegates, tensor files, target
using dtr::runtime::Method;       // ready to run, in memory of the caller
using dtr::runtime::Observer;     // told of every step; may end the run
using dtr::runtime::Program;      // loaded and checked
using Requirements = Method::Requirements;  // memory that a method wants
using dtr::runtime::Tensor;                 // where an input or output lies, and what it is

}  // namespace deuteron
