// Writes MethodPlans as a .pte that Deuteron's and ExecuTorch's runtimes read. Same plan, same
// bytes.
//
// Layout: FlatBuffer with extended header, then segments on 16-byte boundaries: constants, one
// payload a delegate call, named data. The writer adds three entries of its own to the named data:
// manifest, debug map and checksum (device/pte/manifest.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/program/memory_planner.h"

namespace dtr {

struct WriteOptions {
  bool debug_map = true;
  bool external_constants =
      false;  // writes constants to a tensor file, except those in payloads of delegates
  // Methods that tell the quantization of inputs and outputs (device/pte/io_quantization.h), some
  // 550 bytes for each that is quantized.
  bool io_constants = true;
  const MemoryMap* memory = nullptr;  // for the debug map
};

struct ProgramSizes {
  int64_t file = 0;
  int64_t structure = 0;  // FlatBuffer and padding
  int64_t constants = 0;
  int64_t external = 0;  // constants in the tensor file, which is not part of `file`
  int64_t payloads = 0;
  int64_t debug_map = 0;
  int64_t other = 0;  // initial states, further named data
};

struct SerializedPte {
  std::vector<std::byte> bytes;
  std::vector<std::byte> tensor_file;  // .ptd, with external constants
  ProgramSizes sizes;
  uint32_t checksum = 0;  // of `bytes`, as they carry it
  // by tensor of the plan: its index among the values of the file, −1 if it has none
  std::vector<int32_t> value_of_tensor;
};

// A method of a program, and its memory for the debug map, which may be null.
struct MethodToWrite {
  const MethodPlan* plan;
  const MemoryMap* memory = nullptr;
};

// Several plans as methods of one program, at least one, with names that differ. Equal constants
// and equal payloads are stored once. Target, tool and machine are those of the first. Error:
// kProgramTooLarge. `value_of_tensor` is of the last method, `options.memory` is not used.
Result<SerializedPte> serialize_program(std::span<const MethodToWrite> methods,
                                        const WriteOptions& options = {});

// The plan's memory must be planned and its payloads encoded. Error: kProgramTooLarge (a tensor or
// the file beyond 2 GB).
Result<SerializedPte> serialize_program(const MethodPlan& plan, const WriteOptions& options = {});

// Writes the bytes of serialize_program to a file, atomically. Errors: those of serialize_program,
// kFileNotWritable.
Result<ProgramSizes> write_program(const MethodPlan& plan, const std::string& path,
                                   const WriteOptions& options = {});

}  // namespace dtr
