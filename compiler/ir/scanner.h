// Tokenizer of the text form: reads words, numbers and strings, and reports "line:column: expected
// X, found `y`". Line and column are computed only for an error. Used by compiler/ir/parser.cpp
// only.
#pragma once

#include <charconv>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "compiler/support/result.h"

namespace dtr {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Where the next token starts.
  size_t offset() {
    skip_space();
    return at_;
  }
  bool at_end() { return offset() == text_.size(); }
  bool peek(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }

  tl::unexpected<Diagnostic> error_at(size_t offset, std::string_view reason,
                                      DiagnosticId id = DiagnosticId::kIrSyntax) const;
  tl::unexpected<Diagnostic> expected(std::string_view what);

  // Skips white space, then `token` if it is next. For a word the next character must not continue
  // it.
  bool accept(std::string_view token);
  // Errors, also of the functions below: kIrSyntax, with line and column and what was expected.
  Result<void> expect(std::string_view token);

  // [A-Za-z_][A-Za-z0-9_.]*
  Result<std::string_view> identifier(std::string_view what);
  // Decimal, or hexadecimal after 0x.
  template <class T>
  Result<T> integer(std::string_view what);
  // Decimal, `inf`, `-inf`, `nan` or `nan:0x<bits>`.
  template <class T>
  Result<T> floating(std::string_view what);
  // In double quotes, with \" \\ \xHH.
  Result<std::string> string(std::string_view what);
  // Fills `bytes` from pairs of hexadecimal digits.
  Result<void> hex_bytes(std::span<std::byte> bytes);
  // True if the next number is written as an integer.
  bool integer_ahead();

 private:
  void skip_space();

  std::string_view text_;
  size_t at_ = 0;
};

template <class T>
Result<T> Scanner::integer(std::string_view what) {
  skip_space();
  T value{};
  const bool hex = text_.substr(at_).starts_with("0x");
  const char* const first = text_.data() + at_ + (hex ? 2 : 0);
  const auto [end, error] =
      std::from_chars(first, text_.data() + text_.size(), value, hex ? 16 : 10);
  if (error == std::errc::result_out_of_range)
    return error_at(at_, std::string(what) + " is out of range");
  if (error != std::errc{}) return expected(what);
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

template <class T>
Result<T> Scanner::floating(std::string_view what) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  if (accept("inf")) return std::numeric_limits<T>::infinity();
  if (accept("-inf")) return -std::numeric_limits<T>::infinity();
  if (accept("nan")) {
    if (!text_.substr(at_).starts_with(":0x"))
      return std::numeric_limits<T>::quiet_NaN();  // what follows may be a zero point
    const size_t start = ++at_;
    DTR_ASSIGN(const Bits bits, integer<Bits>("the bits of a NaN"));
    T value;
    std::memcpy(&value, &bits, sizeof value);
    if (value == value) return error_at(start, "these are not the bits of a NaN");
    return value;
  }
  skip_space();
  T value{};
  const char* const first = text_.data() + at_;
  const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range)
    return error_at(at_, std::string(what) + " is out of range");
  if (error != std::errc{} || value != value || value - value != 0)
    return expected(what);  // from_chars also accepts `infinity` and `nan(…)`
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

}  // namespace dtr
