// Which machine a program was compiled for, as the program itself says.
#pragma once

#include "compiler/program/reader.h"
#include "compiler/targets/target.h"

namespace dtr {

// The target in the program's manifest. Without a manifest: the first target whose NPU understands
// the program's microcode. Null: the program does not depend on a machine, since it has no
// microcode. Errors: kTargetUnknown, if it has microcode for a machine that is no row of
// compiler/targets/.
Result<const TargetDescription*> target_of(const PteFile& pte_file);

// The NPU of that target; zeros, which refuse every microcode, for null.
inline npu::Target npu_of(const TargetDescription* target) {
  return target == nullptr ? npu::Target{} : target->npu;
}

}  // namespace dtr
