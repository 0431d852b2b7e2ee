// What devices write of their starts and runs (`profile.bin`): headers with their records,
// device/npu/profile.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "compiler/support/result.h"
#include "device/npu/profile.h"
#include "host/profiler/trace.h"

namespace dtr {

struct ProfileBlock {
  npu::ProfileHeader header;
  std::vector<npu::ProfileRecord> records;
};

// `file` names them in messages. Errors: kTraceDamaged.
Result<std::vector<ProfileBlock>> parse_blocks(std::span<const std::byte> bytes,
                                               const std::string& file);

// The blocks of a file that are of this program. Errors: those, kFileNotFound, and kTraceProgram if
// there is none.
Result<Trace> read_records(const std::string& path, const PteFile& pte_file);

}  // namespace dtr
