#include "tools/verb.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/thread_pool.h"
#include "device/pte/program_generated.h"
#include "host/simulator/host_simulator.h"
#include "tools/print.h"

namespace dtr::tools {
namespace {

bool has_constants_outside(const PteFile& pte_file) {
  const auto is_outside = [](const pte::EValue* value) {
    const pte::Tensor* tensor = value->val_as_Tensor();
    return tensor != nullptr && pte::is_external(*tensor);
  };
  return std::ranges::any_of(
      *pte_file.file().program().execution_plan(), [&](const pte::ExecutionPlan* plan) {
        return plan->values() != nullptr && std::ranges::any_of(*plan->values(), is_outside);
      });
}

constexpr const char* kCalibrate =
    "Calibration data (.npz, .npy, or a folder of them): arrays named as the inputs, or input, "
    "input_0, input_1, ...";

CLI::Option* add_ranges(CLI::App* verb, CLI::Option* calibrate,
                        std::optional<uint32_t>& random_samples, std::string& ranges) {
  verb->add_option("--calibrate-random", random_samples,
                   "Calibrate on this many samples of noise; the accuracy will be poor")
      ->check(CLI::Range(1, 10000))
      ->excludes(calibrate);
  return verb->add_option("--load-calibration", ranges,
                          "Reuse ranges written by --save-calibration (.json)");
}

}  // namespace

void example(CLI::App* verb, const std::string& text) { verb->footer("Example:\n  " + text); }

CLI::Validator number(double low, double high, const std::string& description) {
  const auto check = [low, high](const std::string& text) {
    double value = 0;
    if (!CLI::detail::lexical_cast(text, value)) return fmt::format("'{}' is not a number", text);
    return value >= low && value <= high
               ? std::string()
               : fmt::format("{} is not a number from {} to {}", text, low, high);
  };
  return {check, description, "number"};
}

void add_tensor_files(CLI::App* verb, std::vector<std::string>& files) {
  verb->add_option("--tensors", files,
                   "Tensor file (.ptd) with constants that are not in the program; may be repeated")
      ->allow_extra_args(false);
}

void add_method(CLI::App* verb, std::string& method) {
  verb->add_option("--method", method,
                   "Method of a program that has several; default: forward, or the only one")
      ->type_name("NAME");
}

void note_unused_tensors(const std::vector<std::string>& files,
                         std::initializer_list<const PteFile*> programs) {
  if (files.empty() || std::ranges::any_of(programs, [](const PteFile* pte_file) {
        return has_constants_outside(*pte_file);
      }))
    return;
  print_error("note: --tensors has no effect: all constants are in the program\n");
}

void add_threads(CLI::App* verb, unsigned& threads) {
  verb->add_option("--threads", threads,
                   "Number of threads (0: one for each processor); results do not depend on it")
      ->check(CLI::Range(0U, kMostThreads))
      ->capture_default_str();
}

void add_checked(CLI::App* verb) {
  using simulator::HostSimulator;
  verb->add_flag_callback(
      "--checked", [] { HostSimulator::set_default_checks(HostSimulator::Checks::kEveryRun); },
      "Check the NPU's use of memory before every run, not once a program, and read weights where "
      "its calls say, as the machine does");
}

void add_model(CLI::App* verb, std::string& model) {
  verb->add_option("MODEL", model, "Model: .pt2 (torch.export), .tflite, .onnx, or IR text (.ir)")
      ->required();
}

void add_recipe(CLI::App* verb, std::string& recipe) {
  verb->add_option(
      "--recipe", recipe,
      "Backends, their options and constraints instead of the target's (.json, docs/recipes.md)");
}

CLI::Option* add_calibration(CLI::App* verb, std::string& data,
                             std::optional<uint32_t>& random_samples, std::string& ranges) {
  return add_ranges(verb, verb->add_option("--calibrate", data, kCalibrate), random_samples,
                    ranges);
}

CLI::Option* add_calibration(CLI::App* verb, std::vector<std::string>& data,
                             std::optional<uint32_t>& random_samples, std::string& ranges) {
  CLI::Option* calibrate =
      verb->add_option("--calibrate", data,
                       std::string(kCalibrate) + "; of several methods METHOD=DATA (repeatable)")
          ->allow_extra_args(false)
          ->type_name("DATA");
  return add_ranges(verb, calibrate, random_samples, ranges);
}

CLI::Option* add_target(CLI::App* verb, std::string& target, const std::string& help) {
  return verb->add_option("--target", target, help + ", or a target file (.json, docs/targets.md)")
      ->capture_default_str();
}

}  // namespace dtr::tools
