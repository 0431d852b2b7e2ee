#include "host/firmware/qemu_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "compiler/ir/reorder.h"
#include "compiler/program/machine.h"
#include "compiler/program/scalar_types.h"
#include "compiler/support/encode.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/output_file.h"
#include "compiler/support/process.h"
#include "compiler/support/temporary_folder.h"
#include "device/pte/manifest.h"
#include "device/pte/program_generated.h"
#include "host/profiler/records.h"

namespace dtr {
namespace {

using namespace std::chrono_literals;

constexpr const char *kInputs = "inputs.bin", *kOutputs = "outputs.bin",
                     *kRecords = "profile.bin";  // in the folder of the project
constexpr auto kBuildLimit = 600s, kRunLimit = 600s;

// By its name, or `qemu` for the one with the core that the program was compiled for.
Result<const Board*> board_for(std::string_view name, const PteFile& pte_file) {
  if (name != "qemu") return resolve_board(name);
  DTR_ASSIGN(const TargetDescription* target, target_of(pte_file));
  const bool mve = target != nullptr && target->cpu.core == cortex_m::Core::kMve;
  return resolve_board(mve ? "qemu-an547" : "qemu-an505");
}

class QemuSession final : public Session {
 public:
  QemuSession(std::unique_ptr<Session> host, const Board& board, TemporaryFolder folder)
      : host_(std::move(host)), board_(board), folder_(std::move(folder)) {
    const pte::ExecutionPlan& plan = pte_file().plan();
    for (const int32_t output : *plan.outputs()) {
      const pte::Tensor& tensor =
          *plan.values()->Get(static_cast<uint32_t>(output))->val_as_Tensor();
      const auto entries = [](const auto* list) {
        return list == nullptr ? std::span<const std::remove_cvref_t<decltype(*list->data())>>()
                               : std::span(list->data(), list->size());
      };
      outputs_.push_back(type_of(static_cast<ScalarType>(tensor.scalar_type()),
                                 entries(tensor.sizes()), entries(tensor.dim_order())));
    }
  }

  Result<void> build(uint32_t profile_events) {
    profile_events_ = profile_events;
    const FirmwareInput program{&pte_file(),
                                std::filesystem::path(pte_file().path()).stem().string()};
    DTR_ASSIGN(const std::vector<FirmwareFile> files,
               make_firmware({&program, 1}, {.board = &board_, .tensor_files = tensor_files()}));
    DTR_TRY(write_firmware(files, folder_.path()));
    std::vector<std::string> configure = {"cmake", "-G", "Ninja", "-S",
                                          ".",     "-B", "build", "-DDEUTERON_SERIAL=ON"};
    if (profile_events != kNoProfile)
      configure.insert(
          configure.end(),
          {"-DDEUTERON_PROFILE=ON", fmt::format("-DDEUTERON_PROFILE_EVENTS={}", profile_events)});
    for (const std::vector<std::string>& step :
         {configure, std::vector<std::string>{"cmake", "--build", "build"}}) {
      DTR_ASSIGN(const ProcessResult result, run_process(step, folder_.path(), kBuildLimit));
      if (result.exit_code != 0)
        return failed(fmt::format("the firmware for {} could not be built", board_.name),
                      "if a program is missing, scripts/setup installs it; if a section does not "
                      "fit, the board is too small",
                      result.output);
    }
    return {};
  }

  // Builds the firmware once more.
  Result<std::unique_ptr<Session>> open_another() const override {
    DTR_ASSIGN(std::unique_ptr<Session> host, host_->open_another());
    DTR_ASSIGN(TemporaryFolder folder, TemporaryFolder::create_for_build());
    auto session = std::make_unique<QemuSession>(std::move(host), board_, std::move(folder));
    DTR_TRY(session->build(profile_events_));
    return session;
  }

  const Graph& signature() const override { return host_->signature(); }
  Type output_type(size_t index) const override { return host_->output_type(index); }
  const PteFile& pte_file() const override { return host_->pte_file(); }
  std::span<const PtdFile> tensor_files() const override { return host_->tensor_files(); }

  bool has_states() const override { return host_->has_states(); }
  void reset() override { stream_.clear(), runs_ = 0; }

  // Each run is a start of the machine: a program with states runs its stream from the beginning.
  Result<std::vector<Tensor>> run(std::span<const TensorView> inputs, RunStats* stats,
                                  const RunHooks& hooks) override {
    if (!has_states()) reset();
    DTR_TRY(write_inputs(inputs));
    ++runs_;
    const auto start = std::chrono::steady_clock::now();
    DTR_ASSIGN(const ProcessResult result, start_qemu());
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    if (hooks.recording != nullptr) DTR_TRY(read_recording(*hooks.recording));
    // The exit code alone is not reliable: the firmware prints this line last, after all samples.
    if (result.exit_code != 0 ||
        result.output.find(fmt::format("done {} samples\n", runs_)) == std::string::npos)
      return failed(fmt::format("the firmware on {} {}", board_.name,
                                result.timed_out ? "took too long" : "did not run to its end"),
                    "run it by hand: deuteron firmware writes the same project", result.output);
    if (stats != nullptr) {
      ++stats->runs;
      stats->milliseconds.push_back(taken.count());
      read_costs(result.output, *stats);
    }
    return read_outputs();
  }

 private:
  tl::unexpected<Diagnostic> failed(const std::string& reason, std::string fix,
                                    std::string_view output) const {
    return fail(DiagnosticId::kFirmwareRun, as_terminal(reason) + end_of_output(output),
                std::move(fix), {.file = pte_file().path()});
  }

  // A program may come from anyone and code of the device may have faults, so the emulated machine
  // gets nothing of the host: no semihosting (its calls open files and run commands), no network,
  // no monitor. Its three serial ports lead to us and to two files that QEMU opens before the
  // machine starts; inputs are in its memory (device/runtime/ports/cortex_m/serial.cpp). The
  // sandbox is for faults of QEMU itself.
  Result<ProcessResult> start_qemu() const {
    std::error_code none;
    const auto inputs = std::filesystem::file_size(folder_.path() + "/" + kInputs, none);
    const std::string loader =
        fmt::format("loader,file={},addr={:#x},force-raw=on", kInputs, board_.inputs_end - inputs);
    std::vector<std::string> command = {"qemu-system-arm", "-nodefaults", "-no-user-config",
                                        "-display",        "none",        "-no-reboot"};
    for (const auto& [option, value] : {std::pair<std::string, std::string>("-M", board_.machine),
                                        {"-kernel", "build/firmware.elf"},
                                        {"-chardev", "stdio,id=text,signal=off"},
                                        {"-serial", "chardev:text"},
                                        {"-serial", fmt::format("file:{}", kOutputs)},
                                        {"-serial", fmt::format("file:{}", kRecords)},
                                        {"-device", loader},
                                        {"-icount", "shift=0"}})
      command.insert(command.end(), {option, value});
    std::vector<std::string> sandboxed = command;
    sandboxed.insert(
        sandboxed.end(),
        {"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"});
    DTR_ASSIGN(ProcessResult result, run_process(sandboxed, folder_.path(), kRunLimit));
    const bool lacks_sandbox =
        result.exit_code != 0 &&
        result.output.find("sandbox support is not enabled") != std::string::npos;
    return lacks_sandbox ? run_process(command, folder_.path(), kRunLimit) : std::move(result);
  }

  std::string records_path() const { return folder_.path() + "/" + kRecords; }

  // The first program's start and its run, as far as the firmware came.
  Result<void> read_recording(Recording& recording) const {
    recording = {};
    std::error_code none;
    if (std::filesystem::file_size(records_path(), none) == 0 || none) return {};
    DTR_ASSIGN(const FileContents file, FileContents::read(records_path()));
    DTR_ASSIGN(std::vector<ProfileBlock> blocks, parse_blocks(file.bytes(), records_path()));
    if (!blocks.empty()) recording.start = std::move(blocks[0].records);
    if (blocks.size() <= runs_) return {};
    recording.header = blocks[runs_].header;
    recording.buffer = std::move(blocks[runs_].records);
    recording.used = recording.buffer.size();
    recording.lost = recording.header.lost;
    return {};
  }

  Result<void> write_inputs(std::span<const TensorView> inputs) {
    std::vector<std::byte> sample;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Type& type = signature().type(signature().inputs()[i]);
      Tensor codes;
      DTR_ASSIGN(const TensorView given, planned_input(*this, i, inputs[i], codes));
      const size_t at = sample.size();
      sample.resize(at + given.bytes());
      to_physical(type, given.data, sample.data() + at);
    }
    stream_.insert(stream_.end(), sample.begin(), sample.end());
    std::vector<std::byte> bytes = stream_;
    const auto count = static_cast<uint32_t>(bytes.size());
    const auto words = std::as_bytes(std::span(&count, 1));  // both machines are little-endian
    bytes.insert(bytes.end(), words.begin(), words.end());
    return write_file(folder_.path() + "/" + kInputs, bytes);
  }

  Result<std::vector<Tensor>> read_outputs() const {
    DTR_ASSIGN(const FileContents file, FileContents::read(folder_.path() + "/" + kOutputs));
    std::vector<Tensor> outputs;
    size_t sample_bytes = 0;
    for (const Type& type : outputs_) sample_bytes += static_cast<size_t>(type.bytes());
    size_t at = (runs_ - 1) * sample_bytes;  // of the last run
    for (const Type& type : outputs_) {
      Tensor output(type.dtype, type.shape);
      if (at + output.bytes().size() > file.bytes().size())
        return fail(DiagnosticId::kFirmwareRun,
                    "the firmware wrote fewer bytes than its outputs have", {},
                    {.file = pte_file().path()});
      to_logical(type, file.bytes().data() + at, output.view().data);
      at += output.bytes().size();
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

  // "step 3 12345 instructions 678 NPU cycles", a line a step.
  static void read_costs(const std::string& output, RunStats& stats) {
    stats.instructions.clear();
    stats.total_cycles = 0;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
      uint64_t step = 0, instructions = 0, cycles = 0;
      if (std::sscanf(line.c_str(), "step %" SCNu64 " %" SCNu64 " instructions %" SCNu64 " NPU",
                      &step, &instructions, &cycles) != 3)
        continue;
      stats.instructions.push_back(instructions);
      stats.total_cycles += cycles;
    }
  }

  std::unique_ptr<Session> host_;  // for the signature and the files
  const Board& board_;
  TemporaryFolder folder_;
  uint32_t profile_events_ = kNoProfile;
  std::vector<Type> outputs_;
  std::vector<std::byte> stream_;  // inputs of the runs since the last reset
  size_t runs_ = 0;                // of them
};

}  // namespace

Result<std::unique_ptr<Session>> open_on_qemu(std::unique_ptr<Session> host, std::string_view name,
                                              uint32_t profile_events) {
  DTR_ASSIGN(const Board* board, board_for(name, host->pte_file()));
  DTR_ASSIGN(TemporaryFolder folder, TemporaryFolder::create_for_build());
  auto session = std::make_unique<QemuSession>(std::move(host), *board, std::move(folder));
  DTR_TRY(session->build(profile_events));
  return session;
}

}  // namespace dtr
