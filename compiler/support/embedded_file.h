// A file of the source tree that is embedded in the executable (cmake/embed.cmake).
#pragma once

#include <string_view>

namespace dtr {

struct EmbeddedFile {
  std::string_view path;  // in the repository: "device/runtime/method.cpp"
  std::string_view text;
};

}  // namespace dtr
