// Parses the central directory itself, with the zip64 fields for sizes and offsets of 4 GiB and
// more (Python writes them from 2 GiB on), and inflates by zlib directly, so that several threads
// can read one archive. Formats: PKWARE's APPNOTE 6.3.
#include "compiler/support/zip_archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <optional>

namespace dtr {
namespace {

constexpr uint64_t kMaxDeflateRatio = 1032;  // of deflate: 258 bytes from 2 bits
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint32_t kEncryptedFlag = 1;

// Little-endian fields of a record, all of it within the archive.
class Record {
 public:
  explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t get(size_t at, size_t bytes) const {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(bytes_[at + i]) << (8 * i);
    return value;
  }
  uint16_t u16(size_t at) const { return static_cast<uint16_t>(get(at, 2)); }
  uint32_t u32(size_t at) const { return static_cast<uint32_t>(get(at, 4)); }
  uint64_t u64(size_t at) const { return get(at, 8); }
  std::string_view text(size_t at, size_t bytes) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, bytes};
  }

 private:
  std::span<const std::byte> bytes_;
};

// The record of so many bytes with this signature at a place; none if it is not there.
std::optional<Record> record_at(std::span<const std::byte> bytes, uint64_t at,
                                std::string_view signature, size_t size) {
  if (at > bytes.size() || bytes.size() - at < size ||
      std::memcmp(bytes.data() + at, signature.data(), signature.size()) != 0)
    return {};
  return Record(bytes.subspan(at));
}

// Fields of 32 and 16 bits that are full have their values in an extra field or a record of zip64
// (APPNOTE 4.3.14, 4.5.3).
constexpr uint32_t kInZip64 = 0xFFFFFFFF;

struct Directory {
  uint64_t offset = 0, size = 0, entries = 0;
};

// Where the central directory is, by the record that ends the archive and reaches to its last byte.
std::optional<Directory> find_directory(std::span<const std::byte> bytes) {
  constexpr std::string_view kEnd("PK\x05\x06", 4), kLocator("PK\x06\x07", 4),
      kEnd64("PK\x06\x06", 4);
  constexpr size_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kMaxComment = 0xFFFF;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t first =
      text.size() > kEndBytes + kMaxComment ? text.size() - kEndBytes - kMaxComment : 0;
  for (size_t at = text.rfind(kEnd); at != std::string_view::npos && at >= first;
       at = at == 0 ? std::string_view::npos : text.rfind(kEnd, at - 1)) {
    const std::optional<Record> end = record_at(bytes, at, kEnd, kEndBytes);
    if (!end || at + kEndBytes + end->u16(20) != bytes.size()) continue;
    Directory found{.offset = end->u32(16), .size = end->u32(12), .entries = end->u16(10)};
    uint64_t before = at;  // it ends here at the latest
    if (const auto locator = at < kLocatorBytes
                                 ? std::nullopt
                                 : record_at(bytes, at - kLocatorBytes, kLocator, kLocatorBytes)) {
      before = locator->u64(8);
      const std::optional<Record> end64 = record_at(bytes, before, kEnd64, kEnd64Bytes);
      if (!end64) return {};
      found = {.offset = end64->u64(48), .size = end64->u64(40), .entries = end64->u64(32)};
    }
    if (found.offset > before || found.size > before - found.offset) return {};
    return found;
  }
  return {};
}

// Takes sizes and place of the local header from the zip64 field of an entry's extra fields; false
// if they are not there.
bool read_zip64(const Record& extra, size_t bytes, std::initializer_list<uint64_t*> fields) {
  constexpr uint16_t kId = 1;
  for (size_t at = 0; bytes - at >= 4;) {
    const size_t size = extra.u16(at + 2);
    if (size > bytes - at - 4) return false;
    if (extra.u16(at) == kId) {
      size_t next = at + 4;
      for (uint64_t* field : fields) {
        if (*field != kInZip64) continue;
        if (next + 8 > at + 4 + size) return false;
        *field = extra.u64(next);
        next += 8;
      }
      return true;
    }
    at += 4 + size;
  }
  return false;
}

}  // namespace

tl::unexpected<Diagnostic> ZipArchive::refuse(DiagnosticId id, std::string reason,
                                              std::string_view entry) const {
  const char* fix = id == DiagnosticId::kZipUnsupported
                        ? "write the archive without encryption, stored or deflated"
                    : id == DiagnosticId::kZipTooLarge
                        ? "check where the file comes from; real models and data sets are smaller"
                        : "export or copy the file again; it is not what was written";
  return fail(id, std::move(reason), fix, {.file = file_, .node = std::string(entry)});
}

Result<ZipArchive> ZipArchive::open(std::span<const std::byte> bytes, std::string file,
                                    ZipLimits limits, std::span<const DetachedBytes> detached) {
  ZipArchive archive(bytes, std::move(file), limits, detached);
  DTR_TRY(archive.list());
  DTR_TRY(archive.check_overlaps());
  return archive;
}

Result<void> ZipArchive::list() {
  constexpr std::string_view kCentral("PK\x01\x02", 4), kLocal("PK\x03\x04", 4),
      kEnd("PK\x05\x06", 4);  // an archive without entries begins with its end
  constexpr size_t kCentralBytes = 46, kLocalBytes = 30, kMaxName = 1023;
  if (record_at(bytes_, 0, kEnd, kEnd.size()))
    return refuse(DiagnosticId::kZipInvalid, "the archive has no entries");
  if (!limits_.appended && !record_at(bytes_, 0, kLocal, kLocal.size()))
    return refuse(DiagnosticId::kZipInvalid, "not a zip archive");
  const std::optional<Directory> directory = find_directory(bytes_);
  if (!directory)
    return refuse(DiagnosticId::kZipInvalid, "the archive has no end; it is truncated");
  const auto damaged = [&] {
    return refuse(DiagnosticId::kZipInvalid, "the central directory is damaged");
  };
  const std::span<const std::byte> central = bytes_.subspan(directory->offset, directory->size);
  uint64_t at = 0;
  for (uint64_t index = 0; index < directory->entries; ++index) {
    const std::optional<Record> record = record_at(central, at, kCentral, kCentralBytes);
    if (!record) return damaged();
    const size_t name_bytes = record->u16(28), extra_bytes = record->u16(30),
                 comment_bytes = record->u16(32);
    if (name_bytes + extra_bytes + comment_bytes > central.size() - at - kCentralBytes)
      return damaged();
    if (name_bytes > kMaxName)
      return refuse(DiagnosticId::kZipInvalid, "an entry's name is longer than 1023 bytes");
    const uint16_t flags = record->u16(8), method = record->u16(10);
    ZipEntry entry{.name = std::string(record->text(kCentralBytes, name_bytes)),
                   .compressed_size = record->u32(20),
                   .size = record->u32(24),
                   .crc = record->u32(16),
                   .deflated = method == kDeflated};
    uint64_t local_at = record->u32(42);
    const bool in_zip64 =
        entry.size == kInZip64 || entry.compressed_size == kInZip64 || local_at == kInZip64;
    if (in_zip64 && !read_zip64(Record(central.subspan(at + kCentralBytes + name_bytes)),
                                extra_bytes, {&entry.size, &entry.compressed_size, &local_at}))
      return refuse(DiagnosticId::kZipInvalid, "its size is in a field of zip64 that is not there",
                    entry.name);
    at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;
    if (entry.name.ends_with('/')) continue;
    if ((flags & kEncryptedFlag) != 0)
      return refuse(DiagnosticId::kZipUnsupported, "the entry is encrypted", entry.name);
    if (method != kDeflated && method != kStored)
      return refuse(DiagnosticId::kZipUnsupported,
                    fmt::format("compression method {} is not known", method), entry.name);
    const std::optional<Record> local = record_at(bytes_, local_at, kLocal, kLocalBytes);
    if (!local || local->u16(26) != name_bytes ||
        bytes_.size() - local_at - kLocalBytes < name_bytes ||
        local->text(kLocalBytes, name_bytes) != entry.name)
      return refuse(DiagnosticId::kZipInvalid,
                    "the entry's header is not where the central directory says", entry.name);
    entry.offset = local_at + kLocalBytes + name_bytes + local->u16(28);

    if (entry.offset > bytes_.size() || entry.compressed_size > bytes_.size() - entry.offset)
      return refuse(DiagnosticId::kZipInvalid,
                    "the entry reaches beyond the end of the archive; it is truncated", entry.name);
    if (!entry.deflated && entry.compressed_size != entry.size)
      return refuse(DiagnosticId::kZipInvalid,
                    fmt::format("{} bytes stored, {} announced", entry.compressed_size, entry.size),
                    entry.name);
    if (entry.deflated && entry.size / kMaxDeflateRatio > entry.compressed_size)
      return refuse(DiagnosticId::kZipTooLarge,
                    fmt::format("{} compressed bytes cannot hold the announced {}",
                                entry.compressed_size, entry.size),
                    entry.name);
    if (entry.deflated && entry.size > limits_.inflated_bytes)
      return refuse(DiagnosticId::kZipTooLarge,
                    fmt::format("{} bytes after inflating, the limit is {}", entry.size,
                                limits_.inflated_bytes),
                    entry.name);
    if (entries_.size() == limits_.entries)
      return refuse(DiagnosticId::kZipTooLarge,
                    fmt::format("more than {} entries", limits_.entries));
    if (!by_name_.emplace(entry.name, entries_.size()).second)
      return refuse(DiagnosticId::kZipInvalid, "two entries have this name", entry.name);
    entries_.push_back(std::move(entry));
  }
  if (entries_.empty()) return damaged();
  return {};
}

Result<void> ZipArchive::check_overlaps() const {
  std::vector<const ZipEntry*> sorted;
  for (const ZipEntry& entry : entries_) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const ZipEntry* a, const ZipEntry* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->compressed_size)
      return refuse(DiagnosticId::kZipInvalid,
                    fmt::format("the entry overlaps `{}`", sorted[i - 1]->name), sorted[i]->name);
  return {};
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto at = by_name_.find(std::string(name));
  return at == by_name_.end() ? nullptr : &entries_[at->second];
}

std::span<const std::byte> ZipArchive::raw(const ZipEntry& entry) const {
  for (const DetachedBytes& part : detached_)
    if (part.offset == entry.offset && part.bytes.size() == entry.compressed_size)
      return part.bytes;
  return bytes_.subspan(entry.offset, entry.compressed_size);
}

Result<ZipData> ZipArchive::read(const ZipEntry& entry) const {
  const std::span<const std::byte> raw = this->raw(entry);
  ZipData data{.bytes = raw, .owned = nullptr};
  if (entry.deflated) {
    if (const uint64_t all = inflated_->fetch_add(entry.size) + entry.size;
        all > limits_.all_inflated_bytes)
      return refuse(
          DiagnosticId::kZipTooLarge,
          fmt::format("{} bytes after inflating with the entries read before it, the limit is {}",
                      all, limits_.all_inflated_bytes),
          entry.name);
    data.owned = std::make_unique_for_overwrite<std::byte[]>(entry.size);
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
      return refuse(DiagnosticId::kZipTooLarge, "not enough memory to inflate", entry.name);
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
    data.bytes = {data.owned.get(), static_cast<size_t>(entry.size)};
  }
  if (limits_.verify_checksums) {
    const auto crc =
        crc32_z(0, reinterpret_cast<const Bytef*>(data.bytes.data()), data.bytes.size());
    if (static_cast<uint32_t>(crc) != entry.crc)
      return refuse(DiagnosticId::kZipCorrupt,
                    fmt::format("checksum {:08x}, expected {:08x}", crc, entry.crc), entry.name);
  }
  return data;
}

Result<ZipData> ZipArchive::read_text(const ZipEntry& entry) const {
  if (entry.size > limits_.text_bytes)
    return refuse(DiagnosticId::kZipTooLarge,
                  fmt::format("{} bytes of text, the limit is {}", entry.size, limits_.text_bytes),
                  entry.name);
  return read(entry);
}

}  // namespace dtr
