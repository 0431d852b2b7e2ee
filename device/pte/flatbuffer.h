// Verifies a FlatBuffer against a table of its schema: one function for all tables, a twelfth of
// the code that flatc generates. Checks what the generated verifier checks (bounds, alignment, ends
// of strings, number of tables), and also required fields and the alignment of 64-bit elements.
// Freestanding.
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
  kUnion,   // of: the first of its tables, which are in the union's order; its type is the field
            // before it
};

// A field that the reader uses. Fields that are never read need no row.
struct SchemaField {
  uint8_t table;  // the table that has the field; the root is 0
  uint8_t slot;   // flatc's VT_… of it
  FieldKind kind;
  uint8_t of = 0;
  uint8_t more = 0;  // kUnion: number of its tables; else kRequired or 0
};
inline constexpr uint8_t kRequired = 1;
using Schema = std::span<const SchemaField>;

// The depth of a schema: how deeply calls nest when a table is verified.
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

// Tables and vectors may be reached on several paths (a writer may share equal ones) and count each
// time: 8 bytes for a table (itself and the offset to it), its elements for a vector or text.
// Without sharing the sum is at most the size of the buffer. A buffer with a sum of more than this
// many times its size is rejected, so that walking through a verified buffer takes time linear in
// its size.
inline constexpr uint32_t kMaxSharing = 4;

// True if every field that can be reached from the root can be read safely. `bytes` must be 16-byte
// aligned and fewer than 2^31.
bool verify_flatbuffer(Schema schema, std::span<const std::byte> bytes);

}  // namespace dtr::pte
