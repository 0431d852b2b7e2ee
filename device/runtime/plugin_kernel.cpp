// The arguments of a call may be those of a hostile program: the kernel gets only tensors whose
// bytes the verifier has checked, and no more of them than its interface allows.
#include "device/runtime/plugin_kernel.h"

#include "device/runtime/deuteron_model.h"
#include "device/runtime/environment.h"

namespace dtr::runtime {
namespace {

// Dimensions of extent 1 do not matter.
bool is_contiguous(const Tensor& tensor) {
  uint8_t least = 0;
  for (const uint8_t dim : tensor.order()) {
    if (tensor.sizes[dim] == 1) continue;
    if (dim < least) return false;
    least = dim;
  }
  return true;
}

bool describe(const Value* value, bool written, dtr_kernel_tensor* out) {
  if (value == nullptr || value->kind != ValueKind::kTensor) return false;
  const Tensor& tensor = value->tensor;
  if (!is_contiguous(tensor) || (written && !tensor.writable)) return false;
  if (tensor.data == nullptr && tensor.bytes() > 0) return false;
  *out = {tensor.data, tensor.sizes, tensor.rank, static_cast<uint32_t>(tensor.dtype),
          tensor.elements()};
  return true;
}

const dtr_kernel* find(std::span<const dtr_plugin* const> plugins, const OperatorName& name) {
  for (const dtr_plugin* plugin : plugins) {
    for (const dtr_kernel& kernel : std::span(plugin->kernels, plugin->kernel_count)) {
      if (name == kernel.name) return &kernel;
    }
  }
  return nullptr;
}

}  // namespace

Status run_plugin_kernel(std::span<const dtr_plugin* const> plugins, const OperatorName& name,
                         std::span<Value* const> values) {
  const dtr_kernel* const kernel = find(plugins, name);
  if (kernel == nullptr) return {Error::kMissingKernel};
  if (values.empty()) return {};
  constexpr size_t kBeside = 3;  // the operands, the options, the results once more
  dtr_kernel_tensor operands[DTR_KERNEL_TENSORS], results[DTR_KERNEL_TENSORS];
  Arguments arguments(values);
  const std::span<Value* const> given = arguments.tensors(0);
  const std::string_view options = arguments.text(1);
  if (!arguments.good() || values.size() <= kBeside || given.size() > DTR_KERNEL_TENSORS ||
      values.size() - kBeside > DTR_KERNEL_TENSORS)
    return {Error::kKernelArguments};
  const size_t result_count = values.size() - kBeside;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!describe(given[i], false, &operands[i])) return {Error::kKernelArguments};
  }
  for (size_t i = 0; i < result_count; ++i) {
    if (!describe(values[2 + i], true, &results[i])) return {Error::kKernelArguments};
  }
  const dtr_kernel_call call{.operands = operands,
                             .results = results,
                             .operand_count = static_cast<uint32_t>(given.size()),
                             .result_count = static_cast<uint32_t>(result_count),
                             .options = options.data(),
                             .option_bytes = options.size()};
  const int32_t code = kernel->function(&call);
  if (code == 0) return {};
  return {Error::kKernelFailed, 0, static_cast<uint32_t>(code)};
}

}  // namespace dtr::runtime

dtr_status dtr_load_with_plugins(dtr_model* model, const void* program, size_t bytes,
                                 const dtr_environment* environment,
                                 const dtr_plugin* const* plugins, uint32_t plugin_count) {
  if (environment == nullptr || (plugins == nullptr && plugin_count > 0))
    return dtr_load(model, program, bytes, nullptr);
  dtr_environment extended = *environment;
  extended.options.plugins = {{plugins, plugin_count}, dtr::runtime::run_plugin_kernel};
  return dtr_load(model, program, bytes, &extended);
}
