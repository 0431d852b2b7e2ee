// Traces: the events of a program's runs, in cycles.
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

// Identifies the program of a trace.
struct TraceSource {
  uint32_t checksum = 0;  // of the .pte file
  std::string target;     // "imxrt700"; empty: the program does not depend on a target
  uint64_t clock_hz = 0;  // cycles per second; 0: unknown
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

// The recorded tensor of an event, contiguous in logical order at `offset` of the debug buffer,
// which is a separate file.
struct TraceTensor {
  DType dtype = DType::kFloat32;
  Shape shape;
  uint64_t offset = 0;
  bool operator==(const TraceTensor&) const = default;
};

// The result of an event's operator; without tensor if it no longer exists.
struct TraceValue {
  int32_t instruction = -1, command = -1;  // of the event; both -1: an output of the program
  std::optional<TraceTensor> tensor;
  bool operator==(const TraceValue&) const = default;
};

// The events of one run, by start.
struct TraceRun {
  std::vector<TraceEvent> events;
  bool complete = true;                // the run ended, and no event is lost
  uint64_t lost = 0;                   // events for which there was no room
  pte::Error error = pte::Error::kOk;  // that ended it
  int32_t sample = -1;                 // of the input; -1: not recorded
  std::vector<TraceValue>
      values;  // if recorded: one for each event of an operator, then the outputs
  bool operator==(const TraceRun&) const = default;
};

// The cost of recording the last run, which is not part of its cycles.
struct RecordingCost {
  double event = 0;     // in Trace::own_unit
  uint64_t events = 0;  // 0: not measured
  double run = 0;       // duration of the run, in the same unit
  bool operator==(const RecordingCost&) const = default;
};

struct Trace {
  std::optional<TraceSource> program;  // unknown for traces of ExecuTorch
  TraceRun load;
  std::vector<TraceRun> runs;
  uint64_t planned_bytes = 0;                           // of memory; 0: not recorded
  uint64_t used_bytes = 0;                              // of it, at most
  npu::ProfileUnit unit = npu::ProfileUnit::kEstimate;  // of the times of kernels of the CPU
  RecordingCost cost;

  // The unit of the recording machine's own times: of `load`, and of the cost. "ns" if it simulates
  // the target.
  std::string_view own_unit() const;
};

// Decodes the records of one run. Records have the order and times of events; the program gives
// their names.
TraceRun decode_run(std::span<const npu::ProfileRecord> records, uint64_t lost,
                    const PteFile& pte_file, npu::ProfileUnit unit = npu::ProfileUnit::kEstimate);

// Adds a run, or a start if the records are of one. `own_run`: the duration of the run in
// Trace::own_unit; 0: taken from its events.
void add_records(Trace& trace, const npu::ProfileHeader& header,
                 std::span<const npu::ProfileRecord> records, const PteFile& pte_file,
                 uint64_t own_run = 0);

// A line for each event.
std::string describe_trace(const Trace& trace);

}  // namespace dtr
