// Sources of what runs on a device, as this command carries them: a firmware project holds a copy of those that it needs.
#pragma once

#include <span>
#include <string_view>

namespace dtr {

struct DeviceSource {
  std::string_view path;  // in the repository: "runtime/method.cpp"
  std::string_view text;
};

// Sorted by path: abi, numerics, runtime, simulator/core, and the header that is generated from the program's schema.
std::span<const DeviceSource> device_sources();

}  // namespace dtr
