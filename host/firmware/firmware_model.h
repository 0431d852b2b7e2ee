// One program of a firmware image: the sizes that its code needs, and its generated files.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/plugins/plugins.h"
#include "device/npu/target.h"
#include "device/runtime/method.h"
#include "host/firmware/firmware.h"

namespace dtr {

// The function and the source folder of a kernel.
struct KernelRow {
  std::string_view name, function, family;
};
std::span<const KernelRow> kernel_rows();

class FirmwareModel {
 public:
  // Loads the program to get its sizes, without running it. `name` is its folder and namespace.
  // Errors: those of make_firmware.
  static Result<FirmwareModel> load(const FirmwareInput& program, std::string name,
                                    std::span<const pte::TensorFile> tensor_files);

  const std::string& name() const { return name_; }
  const std::string& title() const { return title_; }
  bool has_npu() const { return !payloads_.empty(); }
  bool constants_in_sram() const;
  size_t steps() const { return steps_; }  // kernel and delegate calls of a run
  size_t events() const;                   // of a profile of one run
  std::span<const KernelRow> kernels() const { return kernels_; }
  std::span<const PluginFile* const> plugins() const { return plugins_; }
  // The core that its int8 kernels are for; std::nullopt if it has none.
  std::optional<cortex_m::Core> core() const;
  const std::string& path() const { return pte_file_->path(); }
  // Bytes of the file, and of its method's state with the NPU's tables on a 32-bit core.
  size_t program_bytes() const { return pte_file_->bytes().size(); }
  uint64_t device_state_bytes() const;
  // Bytes of each planned memory.
  std::vector<size_t> memories() const;
  // Whether the program keeps states in a planned memory, which no other program may use then.
  bool keeps_states_in(uint32_t memory) const;
  // The array of a planned memory, in namespace `memory`.
  std::string memory_name(uint32_t memory) const;
  // Lines that describe the inputs and outputs.
  std::string tensor_lines(std::string_view prefix) const;
  // The generated files: program, header and code.
  std::vector<FirmwareFile> files(const FirmwareOptions& options) const;

 private:
  explicit FirmwareModel(const PteFile& pte_file) : pte_file_(&pte_file) {}

  Result<void> read(std::span<const pte::TensorFile> tensor_files);
  void choose_kernels();
  Result<void> choose_plugins();
  std::string tensor_lines(std::string_view prefix, bool outputs) const;
  std::string code(const FirmwareOptions& options) const;
  std::string counts() const;
  std::string npu_objects() const;

  const PteFile* pte_file_;
  std::string name_, title_;
  runtime::Program program_;
  std::string_view method_;
  const pte::ExecutionPlan* plan_ = nullptr;
  runtime::Method::Requirements need_;
  size_t steps_ = 0;
  npu::Target target_;
  cortex_m::Core core_ = cortex_m::Core::kDsp;
  std::vector<uint32_t> payloads_;  // most copies in flight of each payload
  std::vector<size_t> commands_;    // of each delegate's payload
  std::vector<KernelRow> kernels_;
  std::vector<const PluginFile*> plugins_;  // that have a kernel of the program
};

// Name of the entry of a plug-in in a firmware project, which may have several.
std::string plugin_entry(const PluginFile& plugin);

// Values of the section marks in program.S and tensors.S: flash or SRAM.
std::vector<std::pair<std::string_view, std::string>> section_marks(bool in_sram);
// A file of device/runtime/ports/project.
std::string_view firmware_template(std::string_view name);
// A template with each @KEY@ replaced by its value; marks in values are not replaced.
std::string fill_template(std::string_view name,
                          const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace dtr
