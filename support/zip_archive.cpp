// Listing goes through minizip on an in-memory stream, which also tells where the data of an entry lie; inflating goes straight to
// zlib, so that several threads may read one archive.
#include "support/zip_archive.h"

#include <fmt/format.h>
#include <minizip/unzip.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace dtr {
namespace {

constexpr uint64_t kMaxDeflateRatio = 1032;  // of deflate: 258 bytes from 2 bits
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint32_t kEncryptedFlag = 1;

struct MemoryStream {
  std::span<const std::byte> bytes;
  uint64_t position = 0;
};

zlib_filefunc64_def memory_functions(MemoryStream& stream) {
  zlib_filefunc64_def functions = {};
  functions.opaque = &stream;
  functions.zopen64_file = [](voidpf opaque, const void*, int) -> voidpf { return opaque; };
  functions.zread_file = [](voidpf, voidpf file, void* out, uLong size) -> uLong {
    auto& from = *static_cast<MemoryStream*>(file);
    const uint64_t left = from.bytes.size() - from.position;
    const auto count = static_cast<uLong>(std::min<uint64_t>(size, left));
    if (count != 0) std::memcpy(out, from.bytes.data() + from.position, count);
    from.position += count;
    return count;
  };
  functions.ztell64_file = [](voidpf, voidpf file) -> ZPOS64_T { return static_cast<MemoryStream*>(file)->position; };
  functions.zseek64_file = [](voidpf, voidpf file, ZPOS64_T offset, int origin) -> long {
    auto& in = *static_cast<MemoryStream*>(file);
    const uint64_t base = origin == ZLIB_FILEFUNC_SEEK_CUR ? in.position : origin == ZLIB_FILEFUNC_SEEK_END ? in.bytes.size() : 0;
    const uint64_t target = base + offset;
    if (target < base || target > in.bytes.size()) return -1;
    in.position = target;
    return 0;
  };
  functions.zclose_file = [](voidpf, voidpf) { return 0; };
  functions.zerror_file = [](voidpf, voidpf) { return 0; };
  return functions;
}

// The record that ends every archive is there and reaches to the last byte. minizip would take a part of it.
bool has_complete_end(std::span<const std::byte> bytes) {
  constexpr std::string_view kSignature("PK\x05\x06", 4);
  constexpr size_t kSize = 22;
  constexpr size_t kMaxComment = 0xFFFF;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t first = text.size() > kSize + kMaxComment ? text.size() - kSize - kMaxComment : 0;
  for (size_t at = text.rfind(kSignature); at != std::string_view::npos && at >= first;
       at = at == 0 ? std::string_view::npos : text.rfind(kSignature, at - 1)) {
    if (text.size() - at < kSize) continue;
    const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(text[at + i])); };
    if (at + kSize + (byte(20) | byte(21) << 8) == text.size()) return true;
  }
  return false;
}

struct CloseZip {
  void operator()(void* zip) const { unzClose(zip); }
};

}  // namespace

tl::unexpected<Diagnostic> ZipArchive::refuse(DiagnosticId id, std::string reason, std::string_view entry) const {
  const char* fix = id == DiagnosticId::kZipUnsupported ? "write the archive without encryption, stored or deflated"
                    : id == DiagnosticId::kZipTooLarge  ? "check where the file comes from; real models and data sets are smaller"
                                                        : "export or copy the file again; it is not what was written";
  return fail(id, std::move(reason), fix, {.file = file_, .node = std::string(entry)});
}

Result<ZipArchive> ZipArchive::open(std::span<const std::byte> bytes, std::string file, ZipLimits limits) {
  ZipArchive archive(bytes, std::move(file), limits);
  DTR_TRY(archive.list());
  DTR_TRY(archive.check_overlaps());
  return archive;
}

Status ZipArchive::list() {
  constexpr std::string_view kLocalHeader("PK\x03\x04", 4);
  if (bytes_.size() < kLocalHeader.size() || std::memcmp(bytes_.data(), kLocalHeader.data(), kLocalHeader.size()) != 0)
    return refuse(DiagnosticId::kZipInvalid, "not a zip archive");
  if (!has_complete_end(bytes_)) return refuse(DiagnosticId::kZipInvalid, "the archive has no end; it is truncated");
  MemoryStream stream{bytes_};
  zlib_filefunc64_def functions = memory_functions(stream);
  const std::unique_ptr<void, CloseZip> zip(unzOpen2_64("", &functions));
  if (zip == nullptr) return refuse(DiagnosticId::kZipInvalid, "the archive has no central directory");

  int state = unzGoToFirstFile(zip.get());
  for (; state == UNZ_OK; state = unzGoToNextFile(zip.get())) {
    std::array<char, 1024> name{};
    unz_file_info64 info{};
    if (unzGetCurrentFileInfo64(zip.get(), &info, name.data(), name.size() - 1, nullptr, 0, nullptr, 0) != UNZ_OK) break;
    if (info.size_filename >= name.size()) return refuse(DiagnosticId::kZipInvalid, "an entry's name is longer than 1023 bytes");
    ZipEntry entry{.name = {name.data(), info.size_filename},
                   .compressed_size = info.compressed_size,
                   .size = info.uncompressed_size,
                   .crc = static_cast<uint32_t>(info.crc),
                   .deflated = info.compression_method == kDeflated};
    if (entry.name.ends_with('/')) continue;
    if ((info.flag & kEncryptedFlag) != 0) return refuse(DiagnosticId::kZipUnsupported, "the entry is encrypted", entry.name);
    if (info.compression_method != kDeflated && info.compression_method != kStored)
      return refuse(DiagnosticId::kZipUnsupported, fmt::format("compression method {} is not known", info.compression_method), entry.name);
    int method = 0;
    if (unzOpenCurrentFile2(zip.get(), &method, nullptr, 1) != UNZ_OK)
      return refuse(DiagnosticId::kZipInvalid, "the entry's header is not where the central directory says", entry.name);
    entry.offset = unzGetCurrentFileZStreamPos64(zip.get());
    unzCloseCurrentFile(zip.get());

    if (entry.offset > bytes_.size() || entry.compressed_size > bytes_.size() - entry.offset)
      return refuse(DiagnosticId::kZipInvalid, "the entry reaches beyond the end of the archive; it is truncated", entry.name);
    if (!entry.deflated && entry.compressed_size != entry.size)
      return refuse(DiagnosticId::kZipInvalid, fmt::format("{} bytes stored, {} announced", entry.compressed_size, entry.size), entry.name);
    if (entry.deflated && entry.size / kMaxDeflateRatio > entry.compressed_size)
      return refuse(DiagnosticId::kZipTooLarge,
                    fmt::format("{} compressed bytes cannot hold the announced {}", entry.compressed_size, entry.size), entry.name);
    if (entry.deflated && entry.size > limits_.inflated_bytes)
      return refuse(DiagnosticId::kZipTooLarge,
                    fmt::format("{} bytes after inflating, the limit is {}", entry.size, limits_.inflated_bytes), entry.name);
    if (entries_.size() == limits_.entries) return refuse(DiagnosticId::kZipTooLarge, fmt::format("more than {} entries", limits_.entries));
    if (!by_name_.emplace(entry.name, entries_.size()).second)
      return refuse(DiagnosticId::kZipInvalid, "two entries have this name", entry.name);
    entries_.push_back(std::move(entry));
  }
  if (state != UNZ_END_OF_LIST_OF_FILE || entries_.empty()) return refuse(DiagnosticId::kZipInvalid, "the central directory is damaged");
  return {};
}

Status ZipArchive::check_overlaps() const {
  std::vector<const ZipEntry*> sorted;
  for (const ZipEntry& entry : entries_) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const ZipEntry* a, const ZipEntry* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->compressed_size)
      return refuse(DiagnosticId::kZipInvalid, fmt::format("the entry overlaps `{}`", sorted[i - 1]->name), sorted[i]->name);
  return {};
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto at = by_name_.find(std::string(name));
  return at == by_name_.end() ? nullptr : &entries_[at->second];
}

Result<ZipData> ZipArchive::read(const ZipEntry& entry) const {
  const std::span<const std::byte> raw = bytes_.subspan(entry.offset, entry.compressed_size);
  ZipData data{.bytes = raw, .owned = nullptr};
  if (entry.deflated) {
    data.owned = std::make_unique_for_overwrite<std::byte[]>(entry.size);
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return refuse(DiagnosticId::kZipTooLarge, "not enough memory to inflate", entry.name);
    // zlib counts in 32 bits: feed and drain in parts.
    constexpr uint64_t kPart = uint64_t{1} << 30;
    uint64_t taken = 0;
    uint64_t given = 0;
    int state = Z_OK;
    while (state == Z_OK) {
      const auto in = static_cast<uInt>(std::min(kPart, entry.compressed_size - taken));
      const auto out = static_cast<uInt>(std::min(kPart, entry.size - given));
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(raw.data() + taken));
      stream.avail_in = in;
      stream.next_out = reinterpret_cast<Bytef*>(data.owned.get() + given);
      stream.avail_out = out;
      state = inflate(&stream, Z_NO_FLUSH);
      taken += in - stream.avail_in;
      given += out - stream.avail_out;
    }
    inflateEnd(&stream);
    if (state != Z_STREAM_END || given != entry.size)
      return refuse(DiagnosticId::kZipCorrupt, "the compressed data are damaged", entry.name);
    data.bytes = {data.owned.get(), entry.size};
  }
  if (limits_.verify_checksums) {
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.bytes.data()), data.bytes.size());
    if (static_cast<uint32_t>(crc) != entry.crc)
      return refuse(DiagnosticId::kZipCorrupt, fmt::format("checksum {:08x}, expected {:08x}", crc, entry.crc), entry.name);
  }
  return data;
}

}  // namespace dtr
