// One conformance case and what is asked of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "compiler/targets/target.h"

namespace dtr::conformance {

// Steps on average that a quantized output may be away from PyTorch's, ties of its real results
// apart (ties.h). Measured: at most 0.0002.
inline constexpr double kMeanSteps = 0.002;

// How a check ended. Whatever is not said to have passed has failed.
enum class State : uint8_t {
  kFailed,
  kPassed,       // compared, and as it has to be
  kRefused,      // the compiler does not take the model: `text` is its error
  kNotCompared,  // there is nothing to compare with: `text` says why
};
std::string_view name(State state);  // "failed", "passed", "refused", "not compared"

// One answer. `figures` go to the table and the JSON as they are; `text` says what is wrong, or
// remarks on what is right.
struct Check {
  // "float", "quantized", "equal float", "equal quantized", "cycles float", "attribution float",
  // "layout float.pt2", "neutron_ir_0", "placement"
  std::string name;
  State state = State::kFailed;
  std::string text;
  nlohmann::json figures = nlohmann::json::object();

  bool passed() const { return state == State::kPassed; }
  void judge(bool good) { state = good ? State::kPassed : State::kFailed; }
};

// Called as soon as a check is done, so that nothing is lost where a later one crashes.
using Sink = std::function<void(const Check&)>;

// A folder GROUP_NUMBER as shared/conformance/README.md describes it:
//
//   float         float.pt2, calibrated with calibration.npz, against PyTorch's float output: at
//   most 1 dB below upstream's quantized
//                 output for each output, and ≥ 30 dB where upstream's post-training quantization
//                 is below 25 dB. An output that is zero everywhere is judged by its largest
//                 difference: one quantization step.
//   quantized     quantized.pt2 or qat.pt2 as it is, against PyTorch's evaluation of it: at most
//   one step for each arithmetic operator on the longest path to the output, on average 0.002.
//   Where the real result is half-way between two codes, either is right. equal …       the
//   simulated program of both models gives what the integer reference of its quantized graph gives.
//   cycles …      of both models' programs, at least 99 of 100 are on operators of the model, and
//   all of them somewhere (docs/profiling.md). layout …      of both models, with inputs of the
//   other layout (channels-last for contiguous, and the other way round): equal results,
//                 NPU cycles within 1 %.
//   neutron_ir_K  the IR compiled and run: every element equal to what TFLite's reference kernels
//   computed. placement     nothing that upstream delegates is left to the CPU, in either program.
//   operators     always passes: names the operators of the case's graphs.
// Programs are for the target, those of layouts for imxrt700.
void run_case(const std::filesystem::path& folder, const TargetDescription& target,
              const Sink& sink);

}  // namespace dtr::conformance
