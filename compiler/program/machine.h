// Finds the machine that a program was compiled for.
#pragma once

#include "compiler/program/reader.h"
#include "compiler/targets/target.h"

namespace dtr {

// The target that the program's manifest names: the machine in the program itself, if it has one,
// else a row of compiler/targets/. Without a manifest: the first target whose NPU understands the
// program's microcode. Null: the program has no microcode and runs on any machine.
// Errors: kTargetUnknown, if its microcode is for a machine that is not in compiler/targets/;
// kTargetInvalid, if the machine in the program is malformed, or not the one that its manifest
// names.
Result<const TargetDescription*> target_of(const PteFile& pte_file);

// The same by the manifest alone. Null: there is none, or its machine is unknown or malformed.
const TargetDescription* target_of_manifest(const PteFile& pte_file);

// The NPU of that target; for null a machine of zeros, whose decoder rejects every microcode.
inline npu::Target npu_of(const TargetDescription* target) {
  return target == nullptr ? npu::Target{} : target->npu;
}

}  // namespace dtr
