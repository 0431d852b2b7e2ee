#include "compiler/support/encode.h"

#include <algorithm>
#include <array>

namespace dtr {
namespace {

struct Range {
  uint32_t first, last;
};
// Characters that are invisible or reorder others: general category Cc, Cf, Zl and Zp of Unicode
// 15, without those of scripts (U+0600…).
constexpr std::array kNotPlain{
    Range{0x0000, 0x001F}, Range{0x007F, 0x009F},   Range{0x00AD, 0x00AD}, Range{0x061C, 0x061C},
    Range{0x115F, 0x1160}, Range{0x180B, 0x180F},   Range{0x200B, 0x200F}, Range{0x2028, 0x202E},
    Range{0x2060, 0x206F}, Range{0x3164, 0x3164},   Range{0xFEFF, 0xFEFF}, Range{0xFFA0, 0xFFA0},
    Range{0xFFF0, 0xFFFB}, Range{0xE0000, 0xE0FFF},
};

bool is_ascii(std::string_view character) { return static_cast<uint8_t>(character.front()) < 0x80; }

std::string escaped(std::string_view text, const Utf8Character& character) {
  if (character.length == 0 || character.code < 0x80)
    return fmt::format("\\x{:02x}", static_cast<uint8_t>(text.front()));
  return character.code < 0x10000 ? fmt::format("\\u{:04x}", character.code)
                                  : fmt::format("\\U{:08x}", character.code);
}

// Calls `plain` with each plain character, and adds the others as escapes.
template <typename Plain>
std::string encode(std::string_view text, Plain plain) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    const size_t length = std::max<size_t>(character.length, 1);
    if (character.is_plain || (character.length == 1 && plain.keeps(text.front()))) {
      plain.add(out, text.substr(0, length));
    } else {
      out += escaped(text, character);
    }
    text.remove_prefix(length);
  }
  return out;
}

struct Line {
  static bool keeps(char) { return false; }
  static void add(std::string& out, std::string_view character) { out += character; }
};

struct Lines : Line {
  static bool keeps(char letter) { return letter == '\n'; }
};

// A backslash may continue a line, `*/` ends a comment, `/*` is warned of within one, and `??/` is
// a backslash in C99.
struct Comment : Line {
  static void add(std::string& out, std::string_view character) {
    const char before = out.empty() ? '\0' : out.back(), letter = character.front();
    const bool means_something =
        letter == '\\' || (letter == '/' && (before == '*' || before == '?')) ||
        (letter == '*' && before == '/') || (letter == '?' && before == '?');
    out += is_ascii(character) && means_something
               ? fmt::format("\\x{:02x}", static_cast<unsigned>(letter))
               : std::string(character);
  }
};

}  // namespace

Utf8Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const size_t length = byte(0) < 0x80                      ? 1
                        : byte(0) >= 0xC2 && byte(0) < 0xE0 ? 2
                        : byte(0) >= 0xE0 && byte(0) < 0xF0 ? 3
                        : byte(0) >= 0xF0 && byte(0) < 0xF5 ? 4
                                                            : 0;
  if (length == 0 || length > text.size()) return {};
  uint32_t code = length == 1 ? byte(0) : byte(0) & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  const bool is_shortest = length < 3 || code >= (length == 3 ? 0x800U : 0x10000U);
  if (!is_shortest || (code >= 0xD800 && code < 0xE000) || code > 0x10FFFF) return {};
  const bool is_plain = std::ranges::none_of(
      kNotPlain, [&](const Range& range) { return code >= range.first && code <= range.last; });
  return {length, code, is_plain};
}

std::string as_terminal(std::string_view text) { return encode(text, Line()); }
std::string as_terminal_lines(std::string_view text) { return encode(text, Lines()); }
std::string as_c_comment(std::string_view text) { return encode(text, Comment()); }

std::string as_c_string(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    const auto byte = static_cast<uint8_t>(letter);
    const bool is_plain =
        byte >= 0x20 && byte < 0x7F && letter != '"' && letter != '\\' && letter != '?';
    out += is_plain ? std::string(1, letter) : fmt::format("\\{:03o}", byte);
  }
  return out + '"';
}

std::string as_html(std::string_view text) {
  std::string escaped;
  for (const char letter : as_terminal(text)) {
    if (letter == '<')
      escaped += "&lt;";
    else if (letter == '>')
      escaped += "&gt;";
    else if (letter == '&')
      escaped += "&amp;";
    else
      escaped += letter;
  }
  return escaped;
}

std::string as_markdown(std::string_view text) {
  const std::string line = as_terminal(text);
  size_t longest = 0, run = 0;
  for (const char letter : line) {
    run = letter == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  // One space at both ends is not shown.
  const bool padded = line.empty() || line.front() == '`' || line.back() == '`' ||
                      (line.front() == ' ' && line.back() == ' ');
  return fence + (padded ? " " + line + " " : line) + fence;
}

}  // namespace dtr
