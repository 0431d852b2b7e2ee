#include "device/runtime/program.h"

#include "device/pte/plan_access.h"

namespace dtr::runtime {

bool OperatorName::operator==(std::string_view full) const {
  if (!full.starts_with(name)) return false;
  full.remove_prefix(name.size());
  if (overload.empty()) return full.empty();
  if (full.empty() || full.front() != '.') return false;
  full.remove_prefix(1);
  return full == overload;
}

OperatorName operator_name(const pte::ExecutionPlan& plan, uint32_t index) {
  const pte::Operator& op = *plan.operators()->Get(index);
  return {GetStringView(op.name()), GetStringView(op.overload())};
}

Status Program::load(std::span<const std::byte> bytes, const LoadOptions& options,
                     Program* program) {
  program->kernels_ = options.kernels;
  program->plugins_ = options.plugins;
  program->delegates_ = options.delegates;
  program->tensor_files_ = options.tensor_files;
  program->states_ = options.states;
  Status status = pte::VerifiedFile::open(bytes, options.checksum, &program->file_);
  if (status.ok()) status = program->check(options);
  if (!status.ok()) program->file_ = {};
  return status;
}

Status Program::check(const LoadOptions& options) const {
  const pte::Manifest* manifest = file_.manifest();
  if (manifest != nullptr && manifest->target_hash != 0 && options.target_hash != 0 &&
      manifest->target_hash != options.target_hash) {
    return {Error::kWrongTarget, 0, manifest->target_hash, manifest->target};
  }
  Status missing;
  const auto report = [&](Error what, uint32_t index, std::string_view name,
                          std::string_view overload) {
    if (missing.ok()) missing = {what, index, 0, name};
    if (options.on_missing != nullptr) options.on_missing(options.context, what, name, overload);
  };
  for (const pte::ExecutionPlan* plan :
       pte::tables<pte::ExecutionPlan>(&file_.program(), pte::Program::VT_EXECUTION_PLAN)) {
    for (uint32_t i = 0; i < pte::list<uint32_t>(plan, pte::ExecutionPlan::VT_OPERATORS).size();
         ++i) {
      const OperatorName name = operator_name(*plan, i);
      if (find_kernel(name) == nullptr && !run_plugin_kernel(*plan, i, {}).ok())
        report(Error::kMissingKernel, i, name.name, name.overload);
    }
    const auto& delegates =
        pte::tables<pte::BackendDelegate>(plan, pte::ExecutionPlan::VT_DELEGATES);
    for (uint32_t i = 0; i < delegates.size(); ++i) {
      const std::string_view id = GetStringView(delegates.Get(i)->id());
      if (find_delegate(id) == nullptr) report(Error::kMissingDelegate, i, id, {});
    }
    const auto& values = pte::tables<pte::EValue>(plan, pte::ExecutionPlan::VT_VALUES);
    for (uint32_t i = 0; i < values.size(); ++i) {
      const pte::EValue& value = *values.Get(i);
      if (value.val_type() != pte::KernelTypes::Tensor) continue;
      const pte::Tensor& tensor = *static_cast<const pte::Tensor*>(value.val());
      if (pte::is_external(tensor) && constant(tensor) == nullptr)
        report(Error::kMissingData, i, pte::external_name(tensor), {});
    }
  }
  return missing;
}

size_t Program::method_count() const {
  return file_.bytes().empty()
             ? 0
             : pte::tables<pte::ExecutionPlan>(&file_.program(), pte::Program::VT_EXECUTION_PLAN)
                   .size();
}

std::string_view Program::method_name(size_t index) const {
  return GetStringView(file_.program().execution_plan()->Get(static_cast<uint32_t>(index))->name());
}

const pte::ExecutionPlan* Program::method(std::string_view name) const {
  for (size_t i = 0; i < method_count(); ++i) {
    if (method_name(i) == name)
      return file_.program().execution_plan()->Get(static_cast<uint32_t>(i));
  }
  return nullptr;
}

Status Program::run_plugin_kernel(const pte::ExecutionPlan& plan, uint32_t op,
                                  std::span<Value* const> arguments) const {
  if (plugins_.run == nullptr) return {Error::kMissingKernel};
  return plugins_.run(plugins_.plugins, operator_name(plan, op), arguments);
}

KernelFunction Program::find_kernel(const OperatorName& name) const {
  for (const Kernel& kernel : kernels_) {
    if (name == kernel.name) return kernel.function;
  }
  return nullptr;
}

const std::byte* Program::constant(const pte::Tensor& tensor) const {
  if (pte::is_external(tensor)) return tensor_files_.find(tensor);
  const uint32_t index = tensor.data_buffer_idx();
  return index > 0 ? file_.constant(index).data() : nullptr;
}

const Delegate* Program::find_delegate(std::string_view id) const {
  for (const Delegate& delegate : delegates_) {
    if (delegate.id == id) return &delegate;
  }
  return nullptr;
}

}  // namespace dtr::runtime
