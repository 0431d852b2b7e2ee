// A FlatBuffer checked against a table of its schema: one function for all tables, a twelfth of the
// code that flatc generates for it. Checks what the generated verifier does (bounds, alignment,
// ends of strings, number of tables) and more: fields that must be there, and elements of 64 bits
// that are aligned. Freestanding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtr::pte {

enum class FieldKind : uint8_t {
  kScalar,  // of: bytes
  kVector,  // of: bytes of an element, a power of two
  kText,
  kTable,   // of: which
  kTables,  // a vector; of: which
  kUnion,   // of: the first of its tables, which stand in the union's order; its type is the field
            // before it
};

// One field that may refer to bytes elsewhere or is read as it stands. Fields of no table need no
// rows.
struct SchemaField {
  uint8_t table;  // whose; the root is 0
  uint8_t slot;   // flatc's VT_… of it
  FieldKind kind;
  uint8_t of = 0;
  uint8_t more = 0;  // kUnion: number of its tables; else kRequired or 0
};
inline constexpr uint8_t kRequired = 1;
using Schema = std::span<const SchemaField>;

// Calls within calls that checking a table can take: how deep the schema is.
consteval size_t depth(Schema schema, uint8_t table = 0) {
  size_t deepest = 0;
  for (const SchemaField& field : schema) {
    if (field.table != table) continue;
    const int tables = field.kind == FieldKind::kUnion
                           ? field.more
                           : field.kind == FieldKind::kTable || field.kind == FieldKind::kTables;
    for (int i = 0; i < tables; ++i) {
      const size_t below = depth(schema, static_cast<uint8_t>(field.of + i));
      if (below > deepest) deepest = below;
    }
  }
  return deepest + 1;
}
inline constexpr size_t kMaxSchemaDepth = 5;

// Tables and vectors may be reached by several ways (a writer may share what is equal), and count
// each time: 8 bytes a table (itself and the offset that leads to it), a vector or text its
// elements. In a buffer that shares nothing the sum is at most its size. A buffer where it is more
// than this many times its size is refused, so that a walk through a checked buffer takes a time
// that is linear in its size.
inline constexpr uint32_t kMaxSharing = 4;

// Whether every field that can be reached from the root may be read. `bytes` begin on a 16-byte
// boundary and are fewer than 2^31.
bool verify_flatbuffer(Schema schema, std::span<const std::byte> bytes);

}  // namespace dtr::pte
