// Methods that return a constant: what the codes of quantized inputs and outputs mean
// (device/pte/io_quantization.h).
#pragma once

#include <span>
#include <vector>

#include "compiler/program/writer.h"
#include "device/pte/program_generated.h"

namespace dtr {

// Appends those of all methods to `plans`, in the order of methods, inputs before outputs. They
// share what they have alike: each takes about 100 bytes.
void add_io_constants(flatbuffers::FlatBufferBuilder& builder,
                      std::span<const MethodToWrite> methods,
                      std::vector<flatbuffers::Offset<pte::ExecutionPlan>>& plans);

}  // namespace dtr
