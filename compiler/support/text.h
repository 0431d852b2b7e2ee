// Text for terminals.
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
// Characters, not bytes, of UTF-8.
size_t width_of(const std::string& text);
// The text if it is not wider, else its beginning and "~".
std::string clipped(const std::string& text, size_t width);

// Words as a shell takes a command apart: blanks end a word, unless they stand in '…' or "…" or
// behind a backslash, which also takes its meaning from a quote (not within '…'). Nothing else has
// a meaning. Empty: a quote or a backslash has no end.
std::optional<std::vector<std::string>> shell_words(std::string_view command);

// Columns as wide as their widest cell, two spaces between them.
class TextTable {
 public:
  // `right`: which columns stand to the right.
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
