// A loaded program: verified, and checked against the target and the available kernels and
// delegates. Refers to the bytes and the tables, which must outlive it; copies nothing, allocates
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "device/numerics/crc32.h"
#include "device/pte/tensor_file.h"
#include "device/pte/verified_file.h"
#include "device/runtime/delegate.h"
#include "device/runtime/deuteron_kernel.h"
#include "device/runtime/kernel.h"

namespace dtr::runtime {

class Method;
// Sets the states of a prepared method to their initial values. Errors: those of Method::reset.
Status reset_states(Method& method);

struct OperatorName;

// Kernels of plug-ins, which are searched behind the table, and how one is called:
// run_plugin_kernel (device/runtime/plugin_kernel.h). Null: its code is not linked.
struct PluginKernels {
  std::span<const dtr_plugin* const> plugins = {};
  Status (*run)(std::span<const dtr_plugin* const> plugins, const OperatorName& name,
                std::span<Value* const> arguments) = nullptr;
};

struct LoadOptions {
  KernelTable kernels = {};
  PluginKernels plugins = {};
  DelegateTable delegates = {};
  pte::TensorFiles tensor_files = {};  // searched for constants outside of the program
  uint32_t target_hash = 0;            // of this machine; 0: do not compare
  // Verifies the checksum, which reads the whole file. Null: it is not verified, and its code is
  // not linked.
  pte::VerifiedFile::ChecksumFunction checksum = crc32_with_hole;
  // Gives states their initial values when a method is prepared. Null, for programs that keep no
  // states between runs: its code is not linked.
  Status (*states)(Method& method) = reset_states;
  // Called for every missing kernel (kMissingKernel: name and overload, which may be empty),
  // delegate (kMissingDelegate: id) and constant (kMissingData: name).
  void (*on_missing)(void* context, Error what, std::string_view name,
                     std::string_view overload) = nullptr;
  void* context = nullptr;
};

// "aten::add.out" in two parts, as a program stores it.
struct OperatorName {
  std::string_view name;
  std::string_view overload;  // may be empty
  bool operator==(std::string_view full) const;
};
OperatorName operator_name(const pte::ExecutionPlan& plan, uint32_t index);

class Program {
 public:
  // Loads a program. After an error the program is empty. Missing kernels, delegates and constants
  // are checked last and all reported to `on_missing`; the status names the first. Errors: those of
  // VerifiedFile::open, kWrongTarget, kMissingKernel, kMissingDelegate, kMissingData.
  static Status load(std::span<const std::byte> bytes, const LoadOptions& options,
                     Program* program);

  const pte::VerifiedFile& file() const { return file_; }
  size_t method_count() const;
  std::string_view method_name(size_t index) const;
  // Null if there is no method of that name.
  const pte::ExecutionPlan* method(std::string_view name) const;
  // Null if the table does not have it.
  KernelFunction find_kernel(const OperatorName& name) const;
  // The kernel of a plug-in for an operator of the plan is called; with no arguments it is only
  // looked for. Errors: kMissingKernel, those of the kernel.
  Status run_plugin_kernel(const pte::ExecutionPlan& plan, uint32_t op,
                           std::span<Value* const> arguments) const;
  const Delegate* find_delegate(std::string_view id) const;
  // The data of a constant in the program or in a tensor file; null if the tensor is not a
  // constant.
  const std::byte* constant(const pte::Tensor& tensor) const;
  // LoadOptions::states.
  Status (*states() const)(Method& method) { return states_; }

 private:
  Status check(const LoadOptions& options) const;

  pte::VerifiedFile file_;
  KernelTable kernels_;
  PluginKernels plugins_;
  DelegateTable delegates_;
  pte::TensorFiles tensor_files_;
  Status (*states_)(Method& method) = nullptr;
};

}  // namespace dtr::runtime
