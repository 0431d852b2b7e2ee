#include "compiler/pipeline/read_model.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "compiler/frontends/pt2/pt2.h"
#include "compiler/frontends/tflite/tflite.h"
#include "compiler/ir/parser.h"
#include "compiler/support/file_contents.h"

namespace dtr {
namespace {

bool starts_with(std::span<const std::byte> bytes, size_t offset, std::string_view magic) {
  return bytes.size() >= offset + magic.size() && std::memcmp(bytes.data() + offset, magic.data(), magic.size()) == 0;
}

bool is_text(std::span<const std::byte> bytes) {
  return !bytes.empty() && std::none_of(bytes.begin(), bytes.end(), [](std::byte b) { return b < std::byte{9} || b == std::byte{127}; });
}

// Name of the first member of a zip that is no folder, by its local header (APPNOTE 4.3.7); empty if
// it is not within `head`.
std::string_view first_member(std::span<const std::byte> head) {
  constexpr size_t kHeaderBytes = 30, kNameBytesAt = 26, kExtraBytesAt = 28;
  const auto u16 = [&](size_t at) { return std::to_integer<size_t>(head[at]) | std::to_integer<size_t>(head[at + 1]) << 8; };
  while (starts_with(head, 0, "PK\x03\x04") && head.size() >= kHeaderBytes) {
    const size_t name_bytes = u16(kNameBytesAt), end = kHeaderBytes + name_bytes + u16(kExtraBytesAt);
    if (end > head.size()) break;
    const std::string_view name(reinterpret_cast<const char*>(head.data()) + kHeaderBytes, name_bytes);
    if (!name.ends_with('/')) return name;
    head = head.subspan(end);  // a folder has no data
  }
  return {};
}

}  // namespace

Result<FileKind> file_kind(const std::string& path) {
  constexpr size_t kHeadBytes = 4096;
  DTR_ASSIGN(const FileContents head, FileContents::read(path, kHeadBytes));
  const std::span<const std::byte> bytes = head.bytes();
  if (starts_with(bytes, 0, "PK")) return first_member(bytes).ends_with(".npy") ? FileKind::kArrays : FileKind::kPt2;
  if (starts_with(bytes, 4, "TFL3")) return FileKind::kTflite;
  if (starts_with(bytes, 4, "ET")) return FileKind::kProgram;
  if (starts_with(bytes, 8, "ED00")) return FileKind::kTrace;
  if (starts_with(bytes, 0, "DTRP")) return FileKind::kRecords;
  if (starts_with(bytes, 4, "FT0")) return FileKind::kTensorFile;
  if (starts_with(bytes, 0, "\x93NUMPY")) return FileKind::kArrays;
  return is_text(bytes) ? FileKind::kText : FileKind::kUnknown;
}

Result<Program> read_model(const std::string& path) {
  DTR_ASSIGN(const FileKind kind, file_kind(path));
  if (kind == FileKind::kPt2) return pt2::read_pt2(path);
  if (kind == FileKind::kTflite) return tflite::read_tflite(path);
  if (kind == FileKind::kText) {
    DTR_ASSIGN(const FileContents file, FileContents::read(path));
    return parse_program({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
  }
  if (kind == FileKind::kProgram)
    return fail(DiagnosticId::kModelUnknown, "the file is a compiled program (.pte), not a model",
                "give the model that it was compiled from", {.file = path});
  return fail(DiagnosticId::kModelUnknown, "the file is neither a .pt2 archive, nor a .tflite model, nor IR text",
              "export the model with torch.export.save, or convert it to .tflite", {.file = path});
}

}  // namespace dtr
