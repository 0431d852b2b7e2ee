// The implementation of deuteron.h's `dtr_environment`, constructed in C++ like kernels and
// delegates.
#pragma once

#include "device/runtime/deuteron.h"
#include "device/runtime/program.h"

struct dtr_environment {
  dtr::runtime::LoadOptions options;
};
