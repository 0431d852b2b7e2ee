#include "compiler/ir/scanner.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtr {
namespace {

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c) || c == '.'; }
int hex_digit(char c) {
  return is_digit(c)            ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

}  // namespace

void Scanner::skip_space() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '/' && text_.substr(at_).starts_with("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else {
      return;
    }
  }
}

tl::unexpected<Diagnostic> Scanner::error_at(size_t offset, std::string_view reason,
                                             DiagnosticId id) const {
  const std::string_view before = text_.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fail(id, fmt::format("{}:{}: {}", line, offset - line_start + 1, reason));
}

tl::unexpected<Diagnostic> Scanner::expected(std::string_view what) {
  const size_t start = offset();
  size_t end = start;
  while (end < text_.size() && end < start + 24 && is_name_part(text_[end])) ++end;
  const std::string_view found = text_.substr(start, std::max<size_t>(end - start, 1));
  if (found.empty())
    return error_at(start, fmt::format("expected {}, found the end of the text", what));
  return error_at(start, fmt::format("expected {}, found {}", what, json_quote(found)));
}

bool Scanner::accept(std::string_view token) {
  skip_space();
  if (!text_.substr(at_).starts_with(token)) return false;
  const size_t end = at_ + token.size();
  if (is_name_start(token.back()) && end < text_.size() && is_name_part(text_[end])) return false;
  at_ = end;
  return true;
}

Result<void> Scanner::expect(std::string_view token) {
  if (accept(token)) return {};
  return expected(fmt::format("`{}`", token));
}

Result<std::string_view> Scanner::identifier(std::string_view what) {
  skip_space();
  if (at_ == text_.size() || !is_name_start(text_[at_])) return expected(what);
  const size_t start = at_;
  while (at_ < text_.size() && is_name_part(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

Result<std::string> Scanner::string(std::string_view what) {
  if (!peek('"')) return expected(what);
  const size_t start = at_++;
  std::string value;
  for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
    const auto next = [&](size_t i) { return at_ + i < text_.size() ? text_[at_ + i] : '\0'; };
    if (text_[at_] != '\\') {
      value += text_[at_];
    } else if (next(1) == '"' || next(1) == '\\') {
      value += text_[++at_];
    } else if (next(1) == 'x' && hex_digit(next(2)) >= 0 && hex_digit(next(3)) >= 0) {
      value += static_cast<char>(hex_digit(next(2)) * 16 + hex_digit(next(3)));
      at_ += 3;
    } else {
      return error_at(at_, R"(expected `\"`, `\\` or `\x` and two hexadecimal digits)");
    }
  }
  if (at_ == text_.size()) return error_at(start, "the string does not end");
  ++at_;
  return value;
}

Result<void> Scanner::hex_bytes(std::span<std::byte> bytes) {
  skip_space();
  for (std::byte& byte : bytes) {
    const int high = at_ + 1 < text_.size() ? hex_digit(text_[at_]) : -1;
    const int low = high >= 0 ? hex_digit(text_[at_ + 1]) : -1;
    if (low < 0) return expected(fmt::format("{} hexadecimal digits", 2 * bytes.size()));
    byte = static_cast<std::byte>(high * 16 + low);
    at_ += 2;
  }
  return {};
}

bool Scanner::integer_ahead() {
  size_t end = offset() + (peek('-') ? 1 : 0);
  if (end == text_.size() || !is_digit(text_[end])) return false;
  while (end < text_.size() && is_digit(text_[end])) ++end;
  return end == text_.size() || (text_[end] != '.' && text_[end] != 'e' && text_[end] != 'E');
}

}  // namespace dtr
