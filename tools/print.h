// The one way in which commands write to the terminal: arguments that are text are encoded
// (compiler/support/encode.h), whoever named them, and control characters but line ends never get
// through. Text of several lines is given as EncodedLines. scripts/check_layers.py refuses other
// ways.
#pragma once

#include <cstdio>

#include "compiler/support/encode.h"

namespace dtr::tools {

// A failure is seen by std::ferror.
inline void write_lines(std::FILE* to, std::string_view text) {
  const std::string encoded = as_terminal_lines(text);
  std::fwrite(encoded.data(), 1, encoded.size(), to);
}

template <typename... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_lines(stdout, terminal_format(format, std::forward<Arguments>(arguments)...));
}

// To standard error.
template <typename... Arguments>
void print_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_lines(stderr, terminal_format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace dtr::tools
