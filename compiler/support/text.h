// Formats text for terminals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtr {

// 12345678 → "12,345,678".
std::string with_thousands(uint64_t value);
// The number of UTF-8 characters, not bytes.
size_t width_of(const std::string& text);
// The text, cut to `width` characters ending in "~" if it is wider.
std::string clipped(const std::string& text, size_t width);

// Splits a command into words as a shell does: blanks separate words, except inside '…' or "…" or
// after a backslash, which also escapes a quote (not inside '…'). No other character is special.
// std::nullopt: a quote or a backslash at the end is not closed.
std::optional<std::vector<std::string>> shell_words(std::string_view command);

// The names of `known` that differ least from `name` (Levenshtein's distance), the nearest first,
// and at most so many.
std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& known,
                                 size_t most);

// A table whose columns are as wide as their widest cell, with two spaces between them.
class TextTable {
 public:
  // `right`: which columns are right-aligned.
  TextTable(std::vector<std::string> header, std::vector<bool> right) : right_(std::move(right)) {
    add(std::move(header));
  }
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Cells wider than `widest` are clipped.
  std::string text(size_t widest) const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace dtr
