// Compile-time arguments of an op: a small sorted map from name to value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dtr {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;
using AttributeValue = std::variant<bool, int64_t, double, std::string, Ints, Floats>;

// Index of the alternative in AttributeValue.
enum class AttributeKind : uint8_t { kBool, kInt, kFloat, kString, kInts, kFloats };

class Attributes {
 public:
  using Entry = std::pair<std::string, AttributeValue>;

  Attributes() = default;
  Attributes(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) set(entry.first, entry.second);
  }

  const AttributeValue* find(std::string_view name) const {
    const auto at = lower_bound(name);
    return at != entries_.end() && at->first == name ? &at->second : nullptr;
  }
  // The value of an attribute that the op's schema requires, of the type that the verifier checked.
  template <class T>
  const T& get(std::string_view name) const {
    const AttributeValue* value = find(name);
    return std::get<T>(*value);
  }
  template <class T>
  T get_or(std::string_view name, T fallback) const {
    const AttributeValue* value = find(name);
    return value == nullptr ? std::move(fallback) : std::get<T>(*value);
  }
  void set(std::string_view name, AttributeValue value) {
    const auto at = entries_.begin() + (lower_bound(name) - entries_.begin());
    if (at != entries_.end() && at->first == name) {
      at->second = std::move(value);
    } else {
      entries_.emplace(at, std::string(name), std::move(value));
    }
  }
  void erase(std::string_view name) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.first == name; });
  }

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  bool operator==(const Attributes&) const = default;

 private:
  std::vector<Entry>::const_iterator lower_bound(std::string_view name) const {
    return std::lower_bound(entries_.begin(), entries_.end(), name,
                            [](const Entry& entry, std::string_view n) { return entry.first < n; });
  }
  std::vector<Entry> entries_;
};

}  // namespace dtr
