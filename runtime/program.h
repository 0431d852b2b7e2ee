// A program that is loaded: checked against its format, its target, and the kernels and delegates that are there. Refers to the bytes
// and the tables, which must outlive it; copies nothing, allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "abi/program_file.h"
#include "runtime/delegate.h"
#include "runtime/kernel.h"

namespace dtr::runtime {

struct LoadOptions {
  KernelTable kernels = {};
  DelegateTable delegates = {};
  uint32_t target_hash = 0;    // of this machine; 0: do not compare
  bool check_checksum = true;  // reads the whole file once
  // Called for every kernel (kMissingKernel: name and overload, which may be empty) and delegate (kMissingDelegate: id) that the
  // program needs and the tables lack.
  void (*on_missing)(void* context, Error what, std::string_view name, std::string_view overload) = nullptr;
  void* context = nullptr;
};

// "aten::add.out" as it stands in a program, in two parts.
struct OperatorName {
  std::string_view name;
  std::string_view overload;  // may be empty
  bool operator==(std::string_view full) const;
};
OperatorName operator_name(const pte::ExecutionPlan& plan, uint32_t index);

class Program {
 public:
  // After an error the program is empty. A missing kernel or delegate is the last thing that is checked, so that `on_missing` has named
  // all of them; the status names the first.
  static Status load(std::span<const std::byte> bytes, const LoadOptions& options, Program* program);

  const pte::ProgramFile& file() const { return file_; }
  size_t method_count() const;
  std::string_view method_name(size_t index) const;
  // Null if there is no method of that name.
  const pte::ExecutionPlan* method(std::string_view name) const;
  // Null if it is not in the table.
  KernelFunction find_kernel(const OperatorName& name) const;
  const Delegate* find_delegate(std::string_view id) const;

 private:
  pte::ProgramFile file_;
  KernelTable kernels_;
  DelegateTable delegates_;
};

}  // namespace dtr::runtime
