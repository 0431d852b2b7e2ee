// Checks what a FlatBuffers verifier cannot: indices, ranges and the meaning of the plans' values and instructions. Freestanding.
#pragma once

#include "abi/program_file.h"

namespace dtr::pte {

// All plans of a program whose structure, segments and named data are known to be sound. In a failed status, `index` is the value, list
// entry or instruction at fault and `detail` the plan.
Status verify_plans(const ProgramFile& file);

}  // namespace dtr::pte
