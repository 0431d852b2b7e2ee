// Values as bytes, for results of tasks. They are read by the same build on the same kind of
// machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dtr {

class Packer {
 public:
  template <class T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    add_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void add_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  // With its size before it.
  void add_sized(std::span<const std::byte> bytes) {
    add(uint64_t{bytes.size()});
    add_bytes(bytes);
  }
  void add_text(std::string_view text) { add_sized(std::as_bytes(std::span(text))); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : rest_(bytes) {}
  // False if fewer bytes are left; `value` is then unchanged.
  template <class T>
  [[nodiscard]] bool take(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::span<const std::byte> bytes;
    if (!take_bytes(sizeof value, bytes)) return false;
    std::memcpy(&value, bytes.data(), sizeof value);
    return true;
  }
  // The next `count` bytes, which refer to those given.
  [[nodiscard]] bool take_bytes(uint64_t count, std::span<const std::byte>& bytes) {
    if (rest_.size() < count) return false;
    bytes = rest_.first(static_cast<size_t>(count));
    rest_ = rest_.subspan(bytes.size());
    return true;
  }
  [[nodiscard]] bool take_sized(std::span<const std::byte>& bytes) {
    uint64_t size = 0;
    return take(size) && take_bytes(size, bytes);
  }
  [[nodiscard]] bool take_text(std::string& text) {
    std::span<const std::byte> bytes;
    if (!take_sized(bytes)) return false;
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace dtr
