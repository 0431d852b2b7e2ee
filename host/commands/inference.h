// What one inference costs, from the counters of a run and the program's debug map.
#pragma once

#include "compiler/targets/time_error.h"
#include "host/session/session.h"

namespace dtr {

struct Inference {
  TimedWork work;
  uint64_t clock_hz = 0;  // of its cycles; 0: the target of the program is unknown
};

// Of the last run of `stats`: the NPU's cycles as they were counted; those of kernels of the CPU as
// the compiler estimated them, or, if a core executed them, the instructions that it counted, at
// the clock of the program's cycles. The same figures as those of `compile` and `profile`.
Inference inference_of(const PteFile& pte_file, const RunStats& stats);

// Whether the program computes in int8: it has a delegate, or a tensor of int8.
bool computes_in_int8(const PteFile& pte_file);

}  // namespace dtr
