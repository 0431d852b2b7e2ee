// Reads and writes ETDump files, which ExecuTorch's Inspector reads. Blocks "Default" (load) and
// "Execute" (each run); an operator is the two events native_call_NAME and OPERATOR_CALL, a
// delegate DELEGATE_CALL with one event per command, whose id is the command's index and whose
// metadata is the kernel's name. Times are cycles. If values were recorded, each event of an
// operator has a debug event with the operator's result or null, and the block has the index of its
// sample as bundled input.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "compiler/support/result.h"
#include "host/profiler/trace.h"

namespace dtr {

std::vector<std::byte> to_etdump(const Trace& trace);

// Reads an ETDump of Deuteron or ExecuTorch. `file` names it in messages. Error: kTraceDamaged.
Result<Trace> parse_etdump(std::span<const std::byte> bytes, const std::string& file);
// The same from a file. Errors: kTraceDamaged, kFileNotFound.
Result<Trace> read_etdump(const std::string& path);

}  // namespace dtr
