// Whether all executors agree on a graph.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/targets/target.h"

namespace dtr::test {

struct Failure {
  std::string kind;  // "" if there is none; failures of one kind are likely to have one cause
  std::string text;
  bool refused = false;  // some operator runs nowhere, with a reason: no failure
  bool failed() const { return !kind.empty(); }
};

// Compiles the program for the target and runs it on seeded inputs through the runtime, the NPU
// simulated with the plain and with each fast set of kernels. All outputs equal those of the
// reference; `in_float` says that operators may run in float, then the reference is that of the
// graph as it was placed (float results equal up to rounding), some operators are kept off the NPU
// or forced onto it, and some programs stop at an operator in the middle. The verifier is clean
// before and after, memory stays inside the arena, cycles do not depend on the kernels.
Failure judge(Module module, uint64_t seed, bool in_float,
              const TargetDescription& target = *find_target("imxrt700"));
// The same in a process of its own: a crash is a failure of kind "crash". The program stays as it
// is.
Failure judge_apart(Module& module, uint64_t seed, bool in_float,
                    const TargetDescription& target = *find_target("imxrt700"));

}  // namespace dtr::test
