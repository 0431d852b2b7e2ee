#include "compiler/support/text.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/support/encode.h"

namespace dtr {
namespace {

// Whether a byte goes on with a character of UTF-8 that began before it.
bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

// Levenshtein's distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

}  // namespace

std::string with_thousands(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return !continues(c); }));
}

std::string clipped(const std::string& text, size_t width) {
  if (width_of(text) <= width) return text;
  size_t at = 0;
  for (size_t seen = 0; at < text.size(); ++at)
    if (!continues(text[at]) && ++seen == width) break;
  return text.substr(0, at) + "~";
}

std::string TextTable::text(size_t widest) const {
  std::vector<size_t> width(right_.size(), 0);
  std::vector<std::vector<std::string>> rows = rows_;
  for (auto& row : rows)
    for (std::string& cell : row) cell = as_terminal(cell);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      width[i] = std::max(width[i], std::min(width_of(row[i]), widest));
  std::string all;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = clipped(row[i], width[i]);
      const std::string space(width[i] - width_of(cell), ' ');
      line += (right_[i] ? space + cell : cell + space) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    all += line + "\n";
  }
  return all;
}

std::optional<std::vector<std::string>> shell_words(std::string_view command) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < command.size(); ++i) {
    const char letter = command[i];
    const bool is_blank = letter == ' ' || letter == '\t' || letter == '\n';
    if (quote == 0 && is_blank) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (letter == quote) {
      quote = 0;
    } else if (quote == 0 && (letter == '\'' || letter == '"')) {
      quote = letter;
    } else if (letter == '\\' && quote != '\'') {
      if (++i == command.size()) return std::nullopt;
      if (quote == '"' && command[i] != '"' && command[i] != '\\') words.back() += letter;
      words.back() += command[i];
    } else {
      words.back() += letter;
    }
  }
  if (quote != 0) return std::nullopt;
  return words;
}

std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& known,
                                 size_t most) {
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& each : known) near.emplace_back(distance(name, each), each);
  std::sort(near.begin(), near.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(most, near.size()); ++i) names.push_back(near[i].second);
  return names;
}

}  // namespace dtr
