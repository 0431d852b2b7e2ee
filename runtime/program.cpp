#include "runtime/program.h"

#include "abi/program_generated.h"

namespace dtr::runtime {
namespace {

template <class Vector>
uint32_t count(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

std::string_view view(const flatbuffers::String* text) {
  return text == nullptr ? std::string_view() : std::string_view(text->c_str(), text->size());
}

}  // namespace

bool OperatorName::operator==(std::string_view full) const {
  if (overload.empty()) return full == name;
  return full.size() == name.size() + 1 + overload.size() && full.starts_with(name) && full[name.size()] == '.' && full.ends_with(overload);
}

OperatorName operator_name(const pte::ExecutionPlan& plan, uint32_t index) {
  const pte::Operator& op = *plan.operators()->Get(index);
  return {view(op.name()), view(op.overload())};
}

Status Program::load(std::span<const std::byte> bytes, const LoadOptions& options, Program* program) {
  *program = {};
  Program loaded;
  if (const Status status = pte::ProgramFile::open(bytes, options.check_checksum, &loaded.file_); !status.ok()) return status;
  loaded.kernels_ = options.kernels;
  loaded.delegates_ = options.delegates;
  loaded.tensor_files_ = options.tensor_files;
  const pte::Manifest* manifest = loaded.file_.manifest();
  if (manifest != nullptr && manifest->target_hash != 0 && options.target_hash != 0 && manifest->target_hash != options.target_hash) {
    return {Error::kWrongTarget, 0, manifest->target_hash, manifest->target};
  }

  Status missing;
  const auto report = [&](Error what, uint32_t index, const OperatorName& name) {
    if (missing.ok()) missing = {what, index, 0, name.name};
    if (options.on_missing != nullptr) options.on_missing(options.context, what, name.name, name.overload);
  };
  for (uint32_t m = 0; m < loaded.method_count(); ++m) {
    const pte::ExecutionPlan& plan = *loaded.file_.program().execution_plan()->Get(m);
    for (uint32_t i = 0; i < count(plan.operators()); ++i) {
      const OperatorName name = operator_name(plan, i);
      if (loaded.find_kernel(name) == nullptr) report(Error::kMissingKernel, i, name);
    }
    for (uint32_t i = 0; i < count(plan.delegates()); ++i) {
      const std::string_view id = view(plan.delegates()->Get(i)->id());
      if (loaded.find_delegate(id) == nullptr) report(Error::kMissingDelegate, i, {id, {}});
    }
    for (uint32_t i = 0; i < count(plan.values()); ++i) {
      const pte::Tensor* tensor = plan.values()->Get(i)->val_as_Tensor();
      if (tensor == nullptr || !pte::is_external(*tensor) || loaded.constant(*tensor) != nullptr) continue;
      report(Error::kMissingData, i, {pte::external_name(*tensor), {}});
    }
  }
  if (missing.ok()) *program = loaded;
  return missing;
}

size_t Program::method_count() const { return file_.bytes().empty() ? 0 : count(file_.program().execution_plan()); }

std::string_view Program::method_name(size_t index) const {
  return view(file_.program().execution_plan()->Get(static_cast<uint32_t>(index))->name());
}

const pte::ExecutionPlan* Program::method(std::string_view name) const {
  for (size_t i = 0; i < method_count(); ++i) {
    if (method_name(i) == name) return file_.program().execution_plan()->Get(static_cast<uint32_t>(i));
  }
  return nullptr;
}

KernelFunction Program::find_kernel(const OperatorName& name) const {
  for (const Kernel& kernel : kernels_) {
    if (name == kernel.name) return kernel.function;
  }
  return nullptr;
}

const std::byte* Program::constant(const pte::Tensor& tensor) const {
  if (!pte::is_external(tensor)) return tensor.data_buffer_idx() > 0 ? file_.constant(tensor) : nullptr;
  for (const pte::TensorFile& file : tensor_files_) {
    const ptd::NamedData* entry = file.find(pte::external_name(tensor));
    if (entry != nullptr && file.fits(*entry, tensor)) return file.data(*entry).data();
  }
  return nullptr;
}

const Delegate* Program::find_delegate(std::string_view id) const {
  for (const Delegate& delegate : delegates_) {
    if (delegate.id == id) return &delegate;
  }
  return nullptr;
}

}  // namespace dtr::runtime
