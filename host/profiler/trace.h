// What runs of a program cost, event by event, in cycles.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/type.h"
#include "compiler/program/reader.h"
#include "device/npu/profile.h"
#include "device/pte/status.h"

namespace dtr {

// Which program a trace belongs to.
struct TraceSource {
  uint32_t checksum = 0;  // of the .pte file
  std::string target;     // "imxrt700"; empty: nothing in the program depends on one
  uint64_t clock_hz = 0;  // cycles a second; 0: not known
  bool operator==(const TraceSource&) const = default;
};
TraceSource trace_source(const PteFile& pte_file);

struct TraceEvent {
  npu::ProfileEvent kind = npu::ProfileEvent::kNone;
  std::string name;  // "aten::add.out", "DeuteronBackend"; of a command of the NPU its kernel:
                     // "Conv2d", "Copy"
  int32_t instruction = -1;     // of the program; -1: of none
  int32_t command = -1;         // of the delegate's microcode
  uint64_t start = 0, end = 0;  // cycles from the beginning of the run
  bool operator==(const TraceEvent&) const = default;
};

// A tensor beside an event, contiguous in logical order at `offset` of the debug buffer, a file of
// its own.
struct TraceTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  uint64_t offset = 0;
  bool operator==(const TraceTensor&) const = default;
};

// What an event's operator gave; without tensor where nothing of it is left.
struct TraceValue {
  int32_t instruction = -1, command = -1;  // of the event; both -1: an output of the program
  std::optional<TraceTensor> tensor;
  bool operator==(const TraceValue&) const = default;
};

// What happened between two points in time, in the order in which it began.
struct TraceRun {
  std::vector<TraceEvent> events;
  bool complete = true;                // it ended, and no event is lost
  uint64_t lost = 0;                   // events for which there was no room
  pte::Error error = pte::Error::kOk;  // that ended it
  int32_t sample = -1;                 // of the input; -1: not recorded
  std::vector<TraceValue>
      values;  // if asked for: one for each event of an operator, then the outputs
  bool operator==(const TraceRun&) const = default;
};

// What recording the run cost that was recorded last, beside its cycles.
struct RecordingCost {
  double event = 0;     // in Trace::own_unit
  uint64_t events = 0;  // 0: not measured
  double run = 0;       // what the run took, in the same unit
  bool operator==(const RecordingCost&) const = default;
};

struct Trace {
  std::optional<TraceSource> program;  // what ExecuTorch writes does not say
  TraceRun load;
  std::vector<TraceRun> runs;
  uint64_t planned_bytes = 0;                           // of memory; 0: not recorded
  uint64_t used_bytes = 0;                              // of it, at most
  npu::ProfileUnit unit = npu::ProfileUnit::kEstimate;  // of the times of kernels of the CPU
  RecordingCost cost;

  // Of what the recording machine itself took: times of `load`, and the cost. "ns" where it
  // simulates the one that the times are of.
  std::string_view own_unit() const;
};

// The records of one run. They say which events there were, in order; the program says what they
// are.
TraceRun decode_run(std::span<const npu::ProfileRecord> records, uint64_t lost,
                    const PteFile& pte_file, npu::ProfileUnit unit = npu::ProfileUnit::kEstimate);

// Adds a run, or if the records are of a start that. `own_run`: what it took in Trace::own_unit; 0:
// its times say it.
void add_records(Trace& trace, const npu::ProfileHeader& header,
                 std::span<const npu::ProfileRecord> records, const PteFile& pte_file,
                 uint64_t own_run = 0);

// One line an event.
std::string describe_trace(const Trace& trace);

}  // namespace dtr
