// One program of a firmware image: what its code needs, and the files that hold it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/npu/target.h"
#include "device/runtime/method.h"
#include "host/firmware/firmware.h"

namespace dtr {

// Where a kernel comes from.
struct KernelRow {
  std::string_view name, function, family;
};
std::span<const KernelRow> kernel_rows();

class FirmwareModel {
 public:
  // Loads the program for its sizes: nothing runs. `name` is its folder and namespace.
  // Errors: those of make_firmware.
  static Result<FirmwareModel> load(const FirmwareInput& program, std::string name,
                                    std::span<const pte::TensorFile> tensor_files);

  const std::string& name() const { return name_; }
  const std::string& title() const { return title_; }
  bool has_npu() const { return !payloads_.empty(); }
  bool constants_in_sram() const;
  size_t steps() const { return steps_; }  // kernel and delegate calls of a run
  size_t events() const;                   // of a profile of it
  std::span<const KernelRow> kernels() const { return kernels_; }
  // The core that its int8 kernels are for, if it has any.
  std::optional<cortex_m::Core> core() const;
  const std::string& path() const { return pte_file_->path(); }
  // Bytes of the file; of its method's state and its NPU's tables on a core of 32 bits.
  size_t program_bytes() const { return pte_file_->bytes().size(); }
  uint64_t device_state_bytes() const;
  // Bytes of each planned memory.
  std::vector<size_t> memories() const;
  // The inputs and outputs, a line each.
  std::string tensor_lines(std::string_view prefix) const;
  // Program, header and code.
  std::vector<FirmwareFile> files(const FirmwareOptions& options) const;

 private:
  explicit FirmwareModel(const PteFile& pte_file) : pte_file_(&pte_file) {}

  Result<void> read(std::span<const pte::TensorFile> tensor_files);
  void choose_kernels();
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
  std::vector<uint32_t> payloads_;  // copies that each has in flight at most
  std::vector<size_t> commands_;    // that each delegate gives to the NPU
  std::vector<KernelRow> kernels_;
};

// Marks of program.S and tensors.S: where what they hold lies.
std::vector<std::pair<std::string_view, std::string>> section_marks(bool in_sram);
// A file of device/runtime/ports/project.
std::string_view firmware_template(std::string_view name);
// One with each @KEY@ replaced; a value may have marks, which stay.
std::string fill_template(std::string_view name,
                          const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace dtr
