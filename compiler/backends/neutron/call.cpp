#include "compiler/backends/neutron/call.h"

namespace dtr::neutron {

std::string_view name(const Kernel& kernel) {
  return std::visit(
      [](const auto& command) { return std::string_view(npu::name(command.kOpcode)); }, kernel);
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
