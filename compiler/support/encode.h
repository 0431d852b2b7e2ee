// Encodes names and texts from untrusted files for the place where they are shown or stored. A
// tensor in a program, model or archive can have any name: quotes, line ends, escape sequences of a
// terminal, invalid UTF-8. There is one function for each place; `json_quote`
// (compiler/support/diagnostic.h) is the one for JSON.
//
// A character is *plain* if it is valid UTF-8 (RFC 3629: shortest form, no surrogates, up to
// U+10FFFF) and neither a control character (U+0000 to U+001F, U+007F to U+009F) nor invisible, nor
// one that reorders its neighbours (bidirectional controls, zero-width characters, line and
// paragraph separators, tags).
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace dtr {

struct Utf8Character {
  size_t length = 0;  // bytes; 0: the text does not begin with valid UTF-8
  uint32_t code = 0;
  bool is_plain = false;
};
// The first character of a non-empty text.
Utf8Character first_character(std::string_view text);

// For one line of a terminal or log: plain characters are unchanged, others become \xNN (a byte) or
// \uNNNN, \UNNNNNNNN (a character). A backslash is unchanged, so that encoding is idempotent.
std::string as_terminal(std::string_view text);
// The same for text of several lines: line ends are unchanged.
std::string as_terminal_lines(std::string_view text);
// A string literal for C, C++ and the assembler, with quotes, in printable ASCII: other bytes are
// octal escapes. Contains no trigraphs.
std::string as_c_string(std::string_view text);
// For a comment of C, C++ or the assembler (`//` or `/*`): neither ends the comment nor continues
// it on the next line.
std::string as_c_comment(std::string_view text);
// For text of HTML or SVG, outside of tags and their attributes.
std::string as_html(std::string_view text);
// A code span of Markdown, in which no character is special. Not for table cells.
std::string as_markdown(std::string_view text);

// Text that has been encoded already, as an argument of `terminal_format`.
struct EncodedLines {
  std::string_view text;
};

namespace detail {

template <typename T>
inline constexpr bool kIsJoin = false;
template <typename Iterator, typename Sentinel, typename Letter>
inline constexpr bool kIsJoin<fmt::join_view<Iterator, Sentinel, Letter>> = true;

template <typename T>
decltype(auto) for_terminal(const T& value) {
  if constexpr (std::same_as<T, EncodedLines>) {
    return as_terminal_lines(value.text);
  } else if constexpr (kIsJoin<T>) {
    return as_terminal(fmt::format("{}", T(value)));
  } else if constexpr (std::convertible_to<const T&, std::string_view>) {
    return as_terminal(value);
  } else {
    return value;
  }
}

}  // namespace detail

// fmt::format that encodes text arguments for a terminal: only line ends of the format string start
// lines. fmt::join cannot have a format of its elements here.
template <typename... Arguments>
std::string terminal_format(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return [&](auto&&... encoded) {
    return fmt::vformat(format, fmt::make_format_args(encoded...));
  }(detail::for_terminal(arguments)...);
}

}  // namespace dtr

template <>
struct fmt::formatter<dtr::EncodedLines> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const dtr::EncodedLines& lines, Context& context) const {
    return fmt::formatter<std::string_view>::format(lines.text, context);
  }
};
