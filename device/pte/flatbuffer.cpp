#include "device/pte/flatbuffer.h"

#include <cstring>

namespace dtr::pte {
namespace {

constexpr uint32_t kWord = sizeof(uint32_t);

class Verifier {
 public:
  Verifier(Schema schema, std::span<const std::byte> bytes)
      : schema_(schema),
        data_(bytes.data()),
        size_(static_cast<uint32_t>(bytes.size())),
        left_(bytes.size() * uint64_t{kMaxSharing}) {}

  bool root() {
    uint32_t at = 0;
    return follow(0, &at) && table(at, 0);
  }

 private:
  template <class T>
  T read(uint32_t at) const {
    T value;
    std::memcpy(&value, data_ + at, sizeof value);
    return value;
  }

  // `alignment` is a power of two.
  bool inside(uint32_t at, uint32_t bytes, uint32_t alignment) const {
    return (at & (alignment - 1)) == 0 && bytes < size_ && at <= size_ - bytes;
  }

  // An offset, and where it leads: forwards, to something of at least four bytes.
  bool follow(uint32_t from, uint32_t* to) const {
    if (!inside(from, kWord, kWord)) return false;
    const auto offset = read<uint32_t>(from);
    *to = from + offset;
    return offset - 1 < INT32_MAX && inside(*to, kWord, kWord);
  }

  // Counts bytes that are reached, again if they were reached before. False if they are more than
  // the file can justify.
  bool spend(uint32_t bytes) {
    const bool enough = bytes <= left_;
    left_ -= bytes;
    return enough;
  }

  bool vector(uint32_t at, uint32_t element, uint32_t end) {
    const auto count = read<uint32_t>(at);
    const uint32_t items = at + kWord;
    return count < INT32_MAX / element && inside(items, count * element + end, 1) &&
           (count == 0 || (items & (element - 1)) == 0) && spend(count * element);
  }

  bool table(uint32_t at, uint32_t which) {
    const uint32_t names = at - read<uint32_t>(at);  // its vtable
    if (!spend(2 * kWord) || !inside(names, sizeof(uint16_t), sizeof(uint16_t))) return false;
    const auto size = read<uint16_t>(names);
    if (size % 2 != 0 || !inside(names, size, 1)) return false;
    uint32_t before = 0;  // the offset of the field before: the type of a union
    for (const SchemaField& row : schema_) {
      if (row.table != which) continue;
      const uint32_t offset = row.slot < size ? read<uint16_t>(names + row.slot) : 0;
      if (offset == 0 ? row.kind != FieldKind::kUnion && row.more == kRequired
                      : !field(row, at + offset, before))
        return false;
      before = offset == 0 ? 0 : at + offset;
    }
    return true;
  }

  bool field(const SchemaField& row, uint32_t at, uint32_t type_at) {
    if (row.kind == FieldKind::kScalar) return inside(at, row.of, row.of);
    uint32_t to = 0;
    if (!follow(at, &to)) return false;
    switch (row.kind) {
      case FieldKind::kVector:
        return vector(to, row.of, 0);
      case FieldKind::kText:
        return vector(to, 1, 1) && data_[to + kWord + read<uint32_t>(to)] == std::byte{0};
      case FieldKind::kTable:
        return table(to, row.of);
      case FieldKind::kTables: {
        if (!vector(to, kWord, 0)) return false;
        const uint32_t end = to + kWord * read<uint32_t>(to);
        while (to != end) {
          to += kWord;
          uint32_t item = 0;
          if (!follow(to, &item) || !table(item, row.of)) return false;
        }
        return true;
      }
      default: {
        // A type that the schema does not know is for the reader to refuse.
        const uint32_t type = type_at == 0 ? 0 : static_cast<uint32_t>(data_[type_at]);
        return type - 1 >= row.more || table(to, row.of + type - 1);
      }
    }
  }

  Schema schema_;
  const std::byte* data_;
  uint32_t size_;
  uint64_t left_;  // bytes that may still be reached
};

}  // namespace

bool verify_flatbuffer(Schema schema, std::span<const std::byte> bytes) {
  return Verifier(schema, bytes).root();
}

}  // namespace dtr::pte
