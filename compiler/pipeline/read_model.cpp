#include "compiler/pipeline/read_model.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "compiler/frontends/onnx/onnx.h"
#include "compiler/frontends/pt2/pt2.h"
#include "compiler/frontends/tflite/tflite.h"
#include "compiler/ir/parser.h"
#include "compiler/support/file_contents.h"

namespace dtr {
namespace {

constexpr size_t kHeadBytes = 4096;

bool starts_with(std::span<const std::byte> bytes, size_t offset, std::string_view magic) {
  return bytes.size() >= offset + magic.size() &&
         std::memcmp(bytes.data() + offset, magic.data(), magic.size()) == 0;
}

bool is_text(std::span<const std::byte> bytes) {
  return !bytes.empty() && std::none_of(bytes.begin(), bytes.end(), [](std::byte b) {
    return b < std::byte{9} || b == std::byte{127};
  });
}

// Name of the first member of a zip that is no folder, by its local header (APPNOTE 4.3.7); empty
// if it is not within `head`.
std::string_view first_member(std::span<const std::byte> head) {
  constexpr size_t kHeaderBytes = 30, kNameBytesAt = 26, kExtraBytesAt = 28;
  const auto u16 = [&](size_t at) {
    return std::to_integer<size_t>(head[at]) | std::to_integer<size_t>(head[at + 1]) << 8;
  };
  while (starts_with(head, 0, "PK\x03\x04") && head.size() >= kHeaderBytes) {
    const size_t name_bytes = u16(kNameBytesAt),
                 end = kHeaderBytes + name_bytes + u16(kExtraBytesAt);
    if (end > head.size()) break;
    const std::string_view name(reinterpret_cast<const char*>(head.data()) + kHeaderBytes,
                                name_bytes);
    if (!name.ends_with('/')) return name;
    head = head.subspan(end);  // a folder has no data
  }
  return {};
}

Result<Module> parse_text(std::span<const std::byte> bytes, const std::string& name) {
  return parse_module({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name);
}

tl::unexpected<Diagnostic> not_a_model(FileKind kind, const std::string& name) {
  if (kind == FileKind::kProgram)
    return fail(DiagnosticId::kModelUnknown, "the file is a compiled program (.pte), not a model",
                "give the model that it was compiled from", {.file = name});
  return fail(DiagnosticId::kModelUnknown,
              "the file is neither a .pt2 archive, nor a .tflite or .onnx model, nor IR text",
              "export the model with torch.export.save, or convert it to .tflite or .onnx",
              {.file = name});
}

// The shapes of the text are those of every value, not only of the inputs.
Result<void> check_has_open_dimensions(FileKind kind, const std::string& name,
                                       const DimensionSizes& sizes) {
  if (kind == FileKind::kText)
    return check_no_dimensions(sizes, "IR text", "write the shape into the text", name);
  return {};
}

}  // namespace

std::string_view name_of(FileKind kind) {
  switch (kind) {
    case FileKind::kPt2:
      return "a .pt2 archive";
    case FileKind::kTflite:
      return "a .tflite file";
    case FileKind::kOnnx:
      return "an .onnx file";
    default:
      return "IR text";
  }
}

FileKind kind_of(std::span<const std::byte> bytes) {
  bytes = bytes.first(std::min(bytes.size(), kHeadBytes));
  if (starts_with(bytes, 0, "PK"))
    return first_member(bytes).ends_with(".npy") ? FileKind::kArrays : FileKind::kPt2;
  if (starts_with(bytes, 4, "TFL3")) return FileKind::kTflite;
  if (starts_with(bytes, 4, "ET")) return FileKind::kProgram;
  if (starts_with(bytes, 8, "ED00")) return FileKind::kTrace;
  if (starts_with(bytes, 0, "DTRP")) return FileKind::kRecords;
  if (starts_with(bytes, 4, "FT0")) return FileKind::kTensorFile;
  if (starts_with(bytes, 0, "\x93NUMPY")) return FileKind::kArrays;
  if (onnx::looks_like_onnx(bytes)) return FileKind::kOnnx;
  return is_text(bytes) ? FileKind::kText : FileKind::kUnknown;
}

Result<FileKind> file_kind(const std::string& path) {
  DTR_ASSIGN(const FileContents head, FileContents::read(path, kHeadBytes));
  return kind_of(head.bytes());
}

Result<Module> read_model(const std::string& path, const DimensionSizes& sizes) {
  DTR_ASSIGN(FileContents file, FileContents::read(path));
  const FileKind kind = kind_of(file.bytes());
  return read_model(std::move(file), kind, path, sizes);
}

Result<Module> read_model(FileContents file, FileKind kind, const std::string& path,
                          const DimensionSizes& sizes) {
  if (kind == FileKind::kPt2) return pt2::read_pt2(std::move(file), path, sizes);
  if (kind == FileKind::kOnnx) return onnx::read_onnx(std::move(file), path, sizes);
  if (kind == FileKind::kTflite) return tflite::read_tflite(std::move(file), path, sizes);
  DTR_TRY(check_has_open_dimensions(kind, path, sizes));
  if (kind != FileKind::kText) return not_a_model(kind, path);
  DTR_ASSIGN(Module module, parse_text(file.bytes(), path));
  module.constants.keep(std::move(file));
  return module;
}

Result<Module> parse_model(std::span<const std::byte> bytes, FileKind kind, const std::string& name,
                           std::span<const DetachedBytes> detached, const DimensionSizes& sizes) {
  if (kind == FileKind::kPt2) return pt2::parse_pt2(bytes, name, {}, detached, sizes);
  if (kind == FileKind::kOnnx) return onnx::import_onnx(bytes, name, sizes);
  DTR_TRY(check_has_open_dimensions(kind, name, sizes));
  if (kind == FileKind::kText) return parse_text(bytes, name);
  if (kind != FileKind::kTflite) return not_a_model(kind, name);
  DTR_ASSIGN(tflite::Import import, tflite::parse_tflite(bytes, name, {.sizes = &sizes}));
  return std::move(import.module);
}

}  // namespace dtr
