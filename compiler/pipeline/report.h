// Reports the decisions of a compilation and its cost, as text for people, as JSON for tools and
// tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/pipeline/accuracy_summary.h"
#include "compiler/recipes/recipe.h"
#include "compiler/targets/target.h"
#include "compiler/targets/time_error.h"

namespace dtr {

// One source operator, or one op that the compiler added for it.
struct OperatorRow {
  std::string name;  // of the source operator(s), "conv2d_1 + relu_1" where fused into one call
  std::string op;    // "aten.convolution"
  std::string module_path;
  std::string source_line;
  std::string backend;  // "neutron", "portable"
  std::string kernel;   // "Conv2d", "aten::_softmax.out"
  int64_t macs = 0;
  uint64_t cycles = 0;      // NPU-busy; 0 on the CPU
  uint64_t cpu_cycles = 0;  // estimated; 0 on the NPU
  double utilization = 0;   // macs / (cycles · array size)
  std::string limited_by;   // "array", "weight port", …
};

// An operator that does not run on the NPU.
struct RefusalRow {
  std::string name, op, module_path, source_line;
  std::string backend;  // the backend that does not run it: "neutron"
  std::string id, reason, remedy;
  std::string limit, value;  // the two halves of the reason, if it has them
  // name of the operator that is the cause, if this one only follows from it
  std::string because_of;
  int64_t macs = 0;
  uint64_t cycles_lost = 0;  // estimated: cycles on the CPU minus the lower bound on the NPU
};

// A transposition that the layouts leave, and what it costs.
struct TransposeRow {
  std::string value;  // the tensor
  std::string to;     // "contiguous", "channels_last"
  std::string for_operator, backend;
  int64_t bytes = 0;
  uint64_t cycles = 0;  // estimated
};

struct SramUse {
  uint64_t planned_bytes = 0;  // part of the arena that holds values
  uint64_t live_bound_bytes =
      0;  // most bytes of values live at one step: a lower bound for every placement of them
  uint64_t staging_bytes = 0;  // rest of the arena: constants copied from flash; they fill the gaps
                               // between values first
  uint64_t state_bytes = 0;    // states, which are kept between runs
  uint64_t program_bytes = 0;  // the program and its tensor file, if they are in SRAM
  uint64_t total_bytes = 0;    // all of these
  // What a delegate takes from its runtime beside them, the most of one call.
  uint64_t runtime_bytes = 0;
  uint64_t target_bytes = 0;  // what the target has
  uint64_t budget_bytes = 0;  // --sram, or the recipe's; by default target_bytes
};

// How far the outputs of the program are from the reference, and on which samples.
struct OutputCheck {
  double sqnr_db = 0;           // of the worst sample, all float outputs together; 99: hardly any
                                // error
  bool has_floats = true;       // there is such an output
  bool equal = false;           // no output differs in any element
  bool is_int8 = false;         // the program has quantized values
  bool came_quantized = false;  // the reference is the quantized model itself, else the float model
  bool on_noise = false;        // samples are normally distributed noise, else calibration samples
  bool calibrated_on_noise = false;  // the ranges were chosen on noise
  uint32_t samples = 0;
  // The float output that is farthest from the reference, over all samples together.
  std::string worst_output;
  double worst_output_db = 99;
  // The output of integers or booleans that has the most differing elements, in parts of those that
  // are not its most frequent value: a program that gives nothing but that value has 1.
  struct Integers {
    std::string output;
    int64_t elements = 0, differing = 0;
    double part = 0;
  };
  Integers worst_integers = {};
};
// Below this many decibels of an output the error is more than a tenth of the signal, and `compile`
// warns.
inline constexpr double kLowAccuracyDecibels = 20;
// The same for integers: from this part (OutputCheck::Integers) of so many elements on.
inline constexpr double kLowAccuracyPart = 0.1;
inline constexpr int64_t kManyDiffering = 2;

// "int8 program against the float model: 42.4 dB, the worst of 4 calibration samples …", a line.
std::string to_text(const OutputCheck& check);

// An input or output of the program that is quantized.
struct CodesRow {
  bool is_output = false;
  size_t index = 0;
  std::string name;
  Quantization quantization;
};

// One that stays float although int8 is asked for.
struct FloatIoRow {
  bool is_output = false;
  size_t index = 0;
  std::string name;
};

struct CompileReport {
  std::string model;
  const TargetDescription* target = nullptr;
  uint32_t checksum = 0;  // of the .pte file
  uint32_t clock_hz = 0;
  std::vector<OperatorRow> operators;  // in program order
  std::vector<RefusalRow> refusals;    // most cycles lost first, followers behind their cause
  std::vector<TransposeRow> transposes;
  bool has_npu = true;
  ConstantMemory constants = ConstantMemory::kFlash;
  bool nxp_like = false;  // --schedule
  std::string converter;  // command that made the NPU's payloads, whose cycles are then unknown
  uint32_t cpu_calls = 0;
  uint64_t cpu_cycles = 0;  // estimated
  uint32_t partitions = 0;
  uint32_t npu_calls = 0;
  uint64_t npu_busy_cycles = 0, npu_host_cycles = 0, npu_stall_cycles = 0, npu_total_cycles = 0;
  SramUse sram;
  Optimize optimize = Optimize::kSpeed;  // how the program was chosen
  uint64_t flash_bytes = 0;              // constants and payloads, also if they are read from SRAM
  uint64_t external_bytes = 0;           // of them, constants in a tensor file of their own
  uint64_t program_bytes = 0;            // the .pte file
  bool knows_kernels = false;            // of the NPU: which operators each computes
  std::vector<CodesRow> codes;           // what the program takes and gives in int8
  std::vector<FloatIoRow> float_io;      // with --io int8: what it takes and gives in float
  OutputCheck check;
  std::optional<AccuracySummary> accuracy;  // of --accuracy auto
  bool checked = false;  // the program ran: calls and cycles of the NPU are known
};

// What runs of the program showed, cycles of the first: `check_program` of host/accuracy/check.h.
struct CheckFigures {
  uint32_t npu_calls = 0;
  uint64_t npu_busy_cycles = 0, npu_host_cycles = 0, npu_stall_cycles = 0, npu_total_cycles = 0;
  OutputCheck outputs;
};

struct Compilation;
// The report of a finished compilation. Without the figures of a check the cycles of the NPU are
// unknown.
CompileReport compile_report(const Compilation& compilation,
                             const std::optional<CheckFigures>& check = {});
// Only its use of SRAM.
SramUse sram_use(const Compilation& compilation);

// The work of an inference; nullopt if the NPU's cycles are unknown.
std::optional<TimedWork> timed_work(const CompileReport& report);
std::string to_json(const CompileReport& report);
// Only the operators that are not on the NPU (docs/placement.md).
std::string placement_json(const CompileReport& report);
// The table of operators, then cycles, time, memory; fits 140 columns.
std::string to_text(const CompileReport& report);

}  // namespace dtr
