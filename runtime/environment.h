// What is behind deuteron.h's `dtr_environment`: made in C++, since kernels and delegates are.
#pragma once

#include "runtime/deuteron.h"
#include "runtime/program.h"

struct dtr_environment {
  dtr::runtime::LoadOptions options;
};
