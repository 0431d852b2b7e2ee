// The driver interface of an NPU: prepare a payload once, run it. The simulator implements it on
// the host and in firmware; a port to silicon would implement it with the vendor's driver. A table
// of functions, which needs neither heap nor RTTI. Freestanding.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtr::npu {

enum class Status : uint32_t {
  kOk = 0,
  kTruncated,  // payload shorter than its header says
  kBadMagic,
  kBadVersion,
  kWrongTarget,  // compiled for another machine
  kBadChecksum,
  kUnknownOpcode,
  kBadArgument,         // a field of a command is out of its range
  kOutOfBounds,         // an address outside of its region
  kMisaligned,          // scratch, operand or constants not aligned to kAlignment
  kFlashAccess,         // a kernel call reads constants in flash, or a command writes constants
  kReadsUninitialized,  // a byte that was not written in this run
  kReadsInFlight,       // the destination of a copy that was not awaited, or a write to it
  kBadOperand,          // number or size of operands differs from the payload's table
  kTimeout,
  kOutOfMemory,  // the driver's own table of prepared programs is full
  kTooMuchWork,  // a run would need more than kMaxPayloadCycles (device/npu/microcode.h)
  kBadIndex,     // the data hold an index that is outside of the rows that a gather reads
};
const char* text(Status status);  // one sentence

struct Buffer {
  void* data;
  uint32_t bytes;
};

enum class EventKind : uint8_t { kCall, kCopy, kWait };

// One command on the timeline of a run, in NPU cycles from the start of the run.
struct Event {
  uint32_t command;  // index in the microcode
  EventKind kind;
  uint64_t start, end;  // kCall: of the host's call, its host cost at the beginning; kCopy: of the
                        // copy engine; kWait: of the host's stall
  uint64_t busy;        // kCall: cycles of the NPU
  uint8_t opcode;       // device/npu/microcode.h
};

struct Report {
  Status status = Status::kOk;
  uint32_t command = 0;       // index of the command at fault
  uint64_t total_cycles = 0;  // from the first command to the end
  uint64_t busy_cycles = 0;   // NPU
  uint64_t host_cycles = 0;   // cost of calls and copy starts on the host
  uint64_t stall_cycles = 0;  // waits
  uint64_t copied_bytes = 0;
  uint32_t calls = 0;
  uint32_t peak_scratch_bytes =
      0;  // highest byte of scratch touched; 0 if the driver does not track memory
};

struct Driver {
  void* context;
  // Checks the payload, whose address must not change, and returns a `handle` for it.
  Status (*prepare)(void* context, const void* payload, size_t bytes, uint32_t* handle);
  // Runs a payload. Operands are in the order of its table (inputs, then outputs). `on_event` may
  // be null.
  Report (*run)(void* context, uint32_t handle, const Buffer* operands, uint32_t operand_count,
                Buffer scratch, void (*on_event)(void* event_context, const Event& event),
                void* event_context);
  void (*unprepare)(void* context, uint32_t handle);
};

}  // namespace dtr::npu
