// What is behind deuteron.h's `dtr_environment`: made in C++, since kernels and delegates are.
#pragma once

#include "device/runtime/deuteron.h"
#include "device/runtime/program.h"

struct dtr_environment {
  dtr::runtime::LoadOptions options;
};
