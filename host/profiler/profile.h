// Attributes a trace to the user's model: every cycle of a run to the source operators that it was
// spent for, or to a row without operator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/targets/target.h"
#include "compiler/targets/time_error.h"
#include "host/profiler/operator_map.h"
#include "host/profiler/trace.h"

namespace dtr {

// Cycles on the host's timeline by cause; they add up to the run.
struct CycleBreakdown {
  uint64_t npu = 0;    // computing
  uint64_t host = 0;   // the host starts calls and copies
  uint64_t stall = 0;  // the host waits for constants from flash
  uint64_t cpu = 0;    // kernels of the Cortex-M

  uint64_t total() const { return npu + host + stall + cpu; }
  CycleBreakdown& operator+=(const CycleBreakdown& other) {
    npu += other.npu, host += other.host, stall += other.stall, cpu += other.cpu;
    return *this;
  }
};

// An interval on a track of the timeline.
struct ProfileSpan {
  enum class Track : uint8_t { kHost, kNpu, kCopy };
  Track track = Track::kHost;
  std::string kernel;
  bool waits = false;  // the host waits for constants
  uint32_t row = 0;    // index into Profile::rows
  int32_t instruction = -1, command = -1;
  uint64_t start = 0, end = 0;
  MappedStep step;
};

// The cost of one set of source operators: fused operators share a row, and the parts of a split
// operator are in one row.
struct ProfileRow {
  std::vector<uint32_t> sources;  // into Profile::sources; empty: no operator
  std::string
      name;  // "conv2d_1 + relu_1"; of a row without operator a description: "enter the delegate"
  std::string op;  // "aten.conv2d.default", of the first
  std::string module_path, source_line;
  std::string backend;  // "NPU", "CPU", or both
  std::string kernels;  // "Conv2d", "Conv2d x4, Move"
  CycleBreakdown spent;
  uint64_t copying = 0;    // cycles of the copy engine, concurrent with the rest
  uint64_t added = 0;      // of `spent`: in steps that only change a value's layout
  uint32_t calls = 0;      // of kernels, on the NPU and the CPU
  uint32_t npu_calls = 0;  // of them
  int64_t macs = 0;
  uint64_t flash_bytes = 0, sram_bytes = 0;  // copied; read and written by the NPU
  std::string limited_by;                    // of its longest call
};

struct Profile {
  std::string program;  // path of the .pte, or of the record
  std::optional<TraceSource> id;
  const TargetDescription* target = nullptr;      // null: unknown
  std::optional<NpuConfiguration> configuration;  // none: unknown without the program
  std::vector<SourceOp> sources;
  std::vector<ProfileRow> rows;    // in program order; rows without operator last
  std::vector<ProfileSpan> spans;  // of the shown run, by start
  uint64_t total = 0;              // cycles of it
  std::vector<uint64_t> run_totals;
  bool complete = true;
  uint64_t lost = 0;
  pte::Error error = pte::Error::kOk;  // that ended the run
  uint64_t planned_bytes = 0, used_bytes = 0;
  npu::ProfileUnit cpu_unit = npu::ProfileUnit::kEstimate;  // of the times of CPU kernels
  bool cpu_known = true;  // false: CPU kernels ran whose estimates are unknown without a debug map
  // Times of loading and initializing, and the cost of recording, in `own_unit` (Trace).
  std::optional<uint64_t> load, init;
  RecordingCost cost;
  std::string_view own_unit;
  // unknown figures, why, and what would provide them: a sentence each
  std::vector<std::string> missing;

  std::string_view unit()
      const;  // of times: "cycles", or "ticks" of the host for traces of ExecuTorch
  uint64_t on_operators() const;  // cycles on rows with sources
  double utilization(
      const ProfileRow& row) const;            // of the array while the NPU is busy; 0 if unknown
  double milliseconds(uint64_t cycles) const;  // at the target's clock; 0 if unknown
  // The error of the milliseconds of the run, and of a row.
  TimeError time_error() const;
  TimeError time_error(const ProfileRow& row) const;
  // The cycles of the run by NPU and CPU, and their time, as every verb prints them.
  std::string inference() const;
  // Milliseconds with their error as text; empty if they are unknown.
  std::string time() const;
  std::string time(const ProfileRow& row) const;
};

// The options that the program was compiled with; std::nullopt if Deuteron did not compile it.
std::optional<NpuConfiguration> npu_configuration(const PteFile& pte_file);

// The profile of the last complete run, or of the last run. If `map` is empty, rows are calls.
Profile make_profile(const Trace& trace, const OperatorMap& map, std::string program);

}  // namespace dtr
