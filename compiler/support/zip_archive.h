// Reads a zip archive in memory (usually FileContents): stored entries are referenced in place,
// deflated entries are inflated into memory of their own. Everything is checked before use, so that
// untrusted archives are safe to open.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/support/detached_bytes.h"
#include "compiler/support/result.h"

namespace dtr {

struct ZipLimits {
  size_t entries = size_t{1} << 20;
  uint64_t inflated_bytes = uint64_t{1}
                            << 31;  // of one deflated entry; the file's size bounds stored entries
  uint64_t all_inflated_bytes = uint64_t{1} << 32;  // of all entries that are read
  uint64_t text_bytes =
      uint64_t{1}  // of an entry that is read as text: parsers need many times its size
      << 26;
  bool verify_checksums = true;  // false: fuzzers reach the code behind the checksum
  bool appended = false;         // other bytes stand before the first entry; offsets count them
};

struct ZipEntry {
  std::string name;
  uint64_t offset = 0;           // of the data in the archive, bytes
  uint64_t compressed_size = 0;  // bytes in the archive
  uint64_t size = 0;             // bytes after inflating
  uint32_t crc = 0;
  bool deflated = false;
};

// The content of an entry: `bytes` refers to the archive if the entry is stored, else to `owned`.
struct ZipData {
  std::span<const std::byte> bytes;
  std::unique_ptr<std::byte[]> owned;
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

class ZipArchive {
 public:
  // `bytes` must outlive the archive; `file` names it in messages. Errors: kZipInvalid (not a zip,
  // truncated, entries that overlap or repeat a name), kZipUnsupported (encrypted, a compression
  // other than deflate), kZipTooLarge (beyond `limits`). `detached`: the data of stored entries
  // that are not in `bytes`; they must outlive the archive too.
  static Result<ZipArchive> open(std::span<const std::byte> bytes, std::string file,
                                 ZipLimits limits = {},
                                 std::span<const DetachedBytes> detached = {});

  // In the order of the central directory, without folders.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;
  // Inflates an entry if it is deflated. Errors: kZipCorrupt (wrong checksum or size), kZipTooLarge
  // (beyond ZipLimits::all_inflated_bytes, together with earlier reads).
  Result<ZipData> read(const ZipEntry& entry) const;
  // The same for an entry that is parsed as text, such as JSON. Errors: those of read, and
  // kZipTooLarge beyond ZipLimits::text_bytes.
  Result<ZipData> read_text(const ZipEntry& entry) const;

 private:
  ZipArchive(std::span<const std::byte> bytes, std::string file, ZipLimits limits,
             std::span<const DetachedBytes> detached)
      : bytes_(bytes),
        detached_(detached.begin(), detached.end()),
        file_(std::move(file)),
        limits_(limits),
        inflated_(std::make_unique<std::atomic<uint64_t>>(0)) {}
  Result<void> list();
  Result<void> check_overlaps() const;
  tl::unexpected<Diagnostic> refuse(DiagnosticId id, std::string reason,
                                    std::string_view entry = {}) const;

  // The bytes of an entry as they are stored.
  std::span<const std::byte> raw(const ZipEntry& entry) const;

  std::span<const std::byte> bytes_;
  std::vector<DetachedBytes> detached_;
  std::string file_;
  ZipLimits limits_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string, size_t> by_name_;
  // total so far; atomic, since several threads may read
  std::unique_ptr<std::atomic<uint64_t>> inflated_;
};

}  // namespace dtr
