// Names and texts of files that someone else wrote, encoded for the place where they are shown or
// stored. A program, a model or an archive may call a tensor anything: quotes, line ends, escape
// sequences of a terminal, bytes that are no UTF-8. There is one function a place; `json_quote`
// (compiler/support/diagnostic.h) is the one for JSON.
//
// A character is *plain* if it is valid UTF-8 (RFC 3629: shortest form, no surrogates, up to
// U+10FFFF) and neither a control character (U+0000 to U+001F, U+007F to U+009F) nor one that is
// invisible or reorders what stands around it (bidirectional controls, zero-width characters, line
// and paragraph separators, tags).
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
// The character at the start of a text that is not empty.
Utf8Character first_character(std::string_view text);

// One line of a terminal or a log: plain characters as they are, others as \xNN (a byte) or \uNNNN,
// \UNNNNNNNN (a character). A backslash stays as it is, so that encoding twice is encoding once.
std::string as_terminal(std::string_view text);
// The same, but line ends stay: text of several lines.
std::string as_terminal_lines(std::string_view text);
// A string literal of C, C++ and the assembler, quotes included, of printable ASCII: other bytes
// are octal. No trigraphs.
std::string as_c_string(std::string_view text);
// Within a comment of C, C++ or the assembler, `//` or `/*`: does not end it, does not continue it
// on the next line.
std::string as_c_comment(std::string_view text);
// A code span of Markdown, within which nothing has a meaning. Not for cells of tables.
std::string as_markdown(std::string_view text);

// Lines that were encoded when they were made, as an argument of `terminal_format`.
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

// fmt::format whose arguments that are text are encoded for a terminal: line ends of the format
// alone make lines. fmt::join takes no format of its elements here.
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
