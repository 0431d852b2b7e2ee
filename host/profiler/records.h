// Reads records that devices write of their starts and runs (`profile.bin`): headers with records
// (device/npu/profile.h).
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

// Splits the bytes into blocks. `file` names them in messages. Error: kTraceDamaged.
Result<std::vector<ProfileBlock>> parse_blocks(std::span<const std::byte> bytes,
                                               const std::string& file);

// Reads the blocks of this program from a file. Errors: kTraceDamaged, kFileNotFound, and
// kTraceProgram if there is no such block.
Result<Trace> read_records(const std::string& path, const PteFile& pte_file);

}  // namespace dtr
