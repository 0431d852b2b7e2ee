#include "compiler/backends/neutron/call.h"

namespace dtr::neutron {

std::string_view name(const Kernel& kernel) {
  static constexpr std::string_view kNames[] = {"Conv2d", "Depthwise", "Pool",   "Binary", "Lookup",    "Softmax", "Move",
                                                "Fill",   "Reduce",    "Resize", "Matmul", "Normalize", "Gather"};
  static_assert(std::size(kNames) == std::variant_size_v<Kernel>);
  return kNames[kernel.index()];
}

std::string_view text(npu::Limit limit) {
  switch (limit) {
    case npu::Limit::kArray:
      return "array";
    case npu::Limit::kWeightPort:
      return "weight port";
    case npu::Limit::kActivationPort:
      return "activation port";
    case npu::Limit::kWritePort:
      return "write port";
    case npu::Limit::kStart:
      return "start";
  }
  DTR_CHECK(false);
}

}  // namespace dtr::neutron
