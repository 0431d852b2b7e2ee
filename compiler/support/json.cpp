#include "compiler/support/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace dtr {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostLevels = 1000;  // as simdjson

// Reads characters and stores the furthest position.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

class FaultFinder : public nlohmann::json_sax<Json> {
 public:
  explicit FaultFinder(std::string_view text) : text_(text) {}

  std::string find() {
    const char* const begin = text_.data();
    furthest_ = begin;
    Json::sax_parse(
        CountingIterator(begin, &furthest_), CountingIterator(begin + text_.size(), &furthest_),
        this, nlohmann::detail::input_format_t::json, /*strict=*/true, /*ignore_comments=*/true);
    return fault_;
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_array(size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool start_object(size_t) override {
    keys_.emplace_back();
    return enter();
  }
  bool end_object() override {
    keys_.pop_back();
    return leave();
  }
  bool key(std::string& name) override {
    if (keys_.back().insert(name).second) return true;
    fault_ = fmt::format("line {}: `{}` occurs twice in its object", line(), name);
    return false;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string_view what =
        error.what();  // "[json.exception…] parse error at line 1, column 2: …"
    const size_t at = what.find(" at line ");
    fault_ = at == std::string_view::npos ? what : what.substr(at + 4);
    return false;
  }

 private:
  int64_t line() const { return 1 + std::count(text_.data(), furthest_, '\n'); }
  bool enter() {
    if (++levels_ <= kMostLevels) return true;
    fault_ = fmt::format("line {}: arrays and objects are nested deeper than {} levels", line(),
                         kMostLevels);
    return false;
  }
  bool leave() {
    --levels_;
    return true;
  }

  std::string_view text_;
  const char* furthest_ = nullptr;
  size_t levels_ = 0;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  std::string fault_;
};

}  // namespace

std::string json_error(std::string_view text) { return FaultFinder(text).find(); }

bool json_is_too_deep(std::string_view text) {
  size_t levels = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size() && levels <= kMostLevels; ++i) {
    const char c = text[i];
    if (c == '"') {
      in_string = !in_string;
    } else if (in_string) {
      if (c == '\\') ++i;
    } else if (c == '[' || c == '{') {
      ++levels;
    } else if ((c == ']' || c == '}') && levels != 0) {
      --levels;
    }
  }
  return levels > kMostLevels;
}

}  // namespace dtr
