// Zip archives: reading, writing, damage, limits.
#include <algorithm>
#include <array>
#include <cstring>

#include "compiler/support/zip_archive.h"
#include "compiler/support/zip_writer.h"
#include "test/unit/byte_text.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using test::Bytes;
using test::error_id;
using test::little_endian;
using test::repeat;
using test::to_bytes;

Bytes example_zip() {
  ZipWriter writer;
  writer.add("folder/stored", to_bytes("0123456789"));
  writer.add("folder/deflated", to_bytes(repeat("abc", 500)), true);
  writer.add("folder/empty", {});
  return writer.finish();
}

// Replaces the n-th occurrence of `from`.
Bytes patched(Bytes bytes, std::string_view from, std::string_view to, int occurrence = 0) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  size_t at = text.find(from);
  for (; occurrence > 0; --occurrence) at = text.find(from, at + 1);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, to.size(), to);
  return to_bytes(text);
}

TEST(Zip, AnEmptyArchiveIsSaidToBeOne) {
  Bytes empty(22);
  std::ranges::copy(std::array{'P', 'K', '\x05', '\x06'}, reinterpret_cast<char*>(empty.data()));
  EXPECT_EQ(ZipArchive::open(empty, "a.zip").error().reason, "the archive has no entries");
}

TEST(Zip, ReadsStoredInPlaceAndDeflated) {
  const Bytes bytes = example_zip();
  const auto zip = ZipArchive::open(bytes, "a.zip");
  ASSERT_TRUE(zip.has_value()) << test::error_text(zip);
  ASSERT_EQ(zip->entries().size(), 3U);
  const auto stored = zip->read(*zip->find("folder/stored"));
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->text(), "0123456789");
  EXPECT_EQ(stored->owned, nullptr);
  EXPECT_TRUE(stored->bytes.data() > bytes.data() &&
              stored->bytes.data() < bytes.data() + bytes.size());
  const auto deflated = zip->read(*zip->find("folder/deflated"));
  ASSERT_TRUE(deflated.has_value());
  EXPECT_EQ(deflated->text(), repeat("abc", 500));
  EXPECT_LT(zip->find("folder/deflated")->compressed_size, 100U);
  EXPECT_TRUE(zip->read(*zip->find("folder/empty"))->bytes.empty());
  EXPECT_EQ(zip->find("folder/other"), nullptr);
}

TEST(Zip, ReadsDataThatLieElsewhere) {
  const Bytes whole = example_zip();
  const auto entry = *ZipArchive::open(whole, "a.zip")->find("folder/stored");
  const Bytes data = to_bytes("0123456789"), other = to_bytes("012345678_");
  Bytes hollow = whole;
  std::memset(hollow.data() + entry.offset, 0, data.size());
  const auto read = [&](std::span<const DetachedBytes> detached) {
    return ZipArchive::open(hollow, "a.zip", {}, detached)->read(entry);
  };
  const DetachedBytes part{.offset = entry.offset, .bytes = data};
  ASSERT_TRUE(read({&part, 1}).has_value());
  EXPECT_EQ(read({&part, 1})->bytes.data(), data.data());
  EXPECT_EQ(error_id(read({})), "zip-corrupt");
  const DetachedBytes changed{.offset = entry.offset, .bytes = other};
  EXPECT_EQ(error_id(read({&changed, 1})), "zip-corrupt");
  const DetachedBytes shorter{.offset = entry.offset, .bytes = std::span(data).first(9)};
  EXPECT_EQ(error_id(read({&shorter, 1})), "zip-corrupt");
}

TEST(Zip, WritesTheSameBytesEveryTime) { EXPECT_EQ(example_zip(), example_zip()); }

TEST(Zip, ReadsWhatNumpyWrites) {
  const Bytes bytes = test::read_bytes(test::source_path("models/digits_cnn/test.npz"));
  const auto zip = ZipArchive::open(bytes, "test.npz");
  ASSERT_TRUE(zip.has_value()) << test::error_text(zip);
  for (const ZipEntry& entry : zip->entries())
    EXPECT_TRUE(zip->read(entry).has_value()) << entry.name;
}

TEST(Zip, RefusesBadArchives) {
  const Bytes good = example_zip();
  ZipWriter twice;
  twice.add("same", to_bytes("1"));
  twice.add("same", to_bytes("2"));
  ZipWriter one;
  one.add("first", to_bytes("11111111"));
  one.add("other", to_bytes("22222222"));
  const Bytes pair = one.finish();
  // The second central record points at the first local header, under the first name: two entries,
  // one place.
  const std::string central("PK\x01\x02", 4);
  Bytes overlapping = patched(pair, "other", "firsu", 1);
  overlapping = patched(overlapping, "other", "first", 0);
  std::string text(reinterpret_cast<const char*>(overlapping.data()), overlapping.size());
  const size_t first = text.find(central);
  const size_t second = text.find(central, first + 1);
  text.replace(second + 16, 4, text.substr(first + 16, 4));  // checksum
  text.replace(second + 42, 4, little_endian(0, 4));         // offset of the local header
  const Bytes overlap = to_bytes(text);
  const std::string deflated_sizes = little_endian(1500, 4);

  struct Case {
    std::string_view what;
    Bytes bytes;
    std::string_view id;
  };
  const Case cases[] = {
      {"empty", {}, "zip-invalid"},
      {"not a zip", to_bytes("PyTorch model, honestly"), "zip-invalid"},
      {"starts like one", to_bytes("PK\x03\x04 and then nothing"), "zip-invalid"},
      {"same name twice", twice.finish(), "zip-invalid"},
      {"two entries in one place", overlap, "zip-invalid"},
      {"bomb: announced size cannot be",
       patched(patched(good, deflated_sizes, little_endian(0x7FFFFFFF, 4)), deflated_sizes,
               little_endian(0x7FFFFFFF, 4)),
       "zip-too-large"},
      {"encrypted",
       patched(patched(good, central + std::string("\0\0\x14\0\0", 5),
                       central + std::string("\0\0\x14\0\x01", 5)),
               "PK\x03\x04\x14\0\0", "PK\x03\x04\x14"),
       "zip-unsupported"},
  };
  for (const Case& bad : cases) {
    const auto zip = ZipArchive::open(bad.bytes, "bad.zip");
    EXPECT_EQ(error_id(zip), bad.id) << bad.what << " " << test::error_text(zip);
  }
}

TEST(Zip, RefusesBeyondItsLimits) {
  ZipWriter writer;
  writer.add("zeros", Bytes(1 << 20), true);
  writer.add("other", {});
  const Bytes bytes = writer.finish();
  EXPECT_TRUE(ZipArchive::open(bytes, "a.zip").has_value());
  EXPECT_EQ(error_id(ZipArchive::open(bytes, "a.zip", {.inflated_bytes = 1000})), "zip-too-large");
  EXPECT_EQ(error_id(ZipArchive::open(bytes, "a.zip", {.entries = 1})), "zip-too-large");
}

TEST(Zip, RefusesOtherCompressions) {
  ZipWriter writer;
  writer.add("a", to_bytes(repeat("abc", 500)), true);
  const std::string method = little_endian(8, 2);
  const Bytes bytes = writer.finish();
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text.replace(text.find(std::string("PK\x01\x02", 4)) + 10, 2, little_endian(12, 2));  // bzip2
  EXPECT_EQ(error_id(ZipArchive::open(to_bytes(text), "a.zip")), "zip-unsupported");
}

// Python writes sizes and places of 2 GiB and more into extra fields (zip64); here small ones stand
// there.
TEST(Zip, ReadsZip64) {
  const Bytes plain = example_zip();
  const auto entries = ZipArchive::open(plain, "a.zip")->entries();
  std::string text(reinterpret_cast<const char*>(plain.data()), plain.size());
  const size_t directory = text.find("PK\x01\x02"), end = text.find("PK\x05\x06");
  std::string central = text.substr(directory, end - directory), wide;
  const std::string full(4, '\xff');
  for (size_t at = 0; at < central.size();) {
    const auto field = [&](size_t offset, size_t bytes) {
      uint64_t value = 0;
      std::memcpy(&value, central.data() + at + offset, bytes);
      return value;
    };
    const size_t name = field(28, 2);
    std::string record = central.substr(at, 46 + name);
    const std::string extra = little_endian(0xCAFE, 2) + little_endian(2, 2) + "xy" +
                              little_endian(1, 2) + little_endian(24, 2) +
                              little_endian(field(24, 4), 8) + little_endian(field(20, 4), 8) +
                              little_endian(field(42, 4), 8);
    record.replace(20, 8, full + full)
        .replace(30, 2, little_endian(extra.size(), 2))
        .replace(42, 4, full);
    wide += record + extra;
    at += 46 + name + field(30, 2) + field(32, 2);
  }
  const auto archive = [&](const std::string& middle) {
    const std::string end64 = "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) +
                              little_endian(45, 2) + little_endian(0, 8) + little_endian(3, 8) +
                              little_endian(3, 8) + little_endian(middle.size(), 8) +
                              little_endian(directory, 8);
    return to_bytes(text.substr(0, directory) + middle + end64 + "PK\x06\x07" +
                    little_endian(0, 4) + little_endian(directory + middle.size(), 8) +
                    little_endian(1, 4) + "PK\x05\x06" + little_endian(0, 4) +
                    little_endian(0xFFFF, 2) + little_endian(0xFFFF, 2) + full + full +
                    little_endian(0, 2));
  };
  const Bytes bytes = archive(wide);
  const auto zip = ZipArchive::open(bytes, "a.zip");
  ASSERT_TRUE(zip.has_value()) << test::error_text(zip);
  ASSERT_EQ(zip->entries().size(), entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(zip->entries()[i].offset, entries[i].offset);
    EXPECT_EQ(zip->entries()[i].size, entries[i].size);
    EXPECT_TRUE(zip->read(zip->entries()[i]).has_value());
  }
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(ZipArchive::open(std::span(bytes).first(length), "cut.zip").has_value()) << length;
  // A field that is too short, and sizes beyond the file.
  const std::string id = little_endian(1, 2) + little_endian(24, 2);
  std::string cut = wide, large = wide;
  cut.replace(cut.find(id) + 2, 2, little_endian(16, 2));
  large.replace(large.find(id) + 4, 16,
                little_endian(uint64_t{1} << 62, 8) + little_endian(uint64_t{1} << 62, 8));
  for (const std::string& bad : {cut, large})
    EXPECT_EQ(error_id(ZipArchive::open(archive(bad), "bad.zip")), "zip-invalid");
}

TEST(Zip, FindsDamageByChecksum) {
  const Bytes good = example_zip();
  const Bytes stored = patched(good, "0123456789", "0123456780");
  const auto zip = ZipArchive::open(stored, "bad.zip");
  ASSERT_TRUE(zip.has_value());
  EXPECT_EQ(error_id(zip->read(*zip->find("folder/stored"))), "zip-corrupt");
  EXPECT_TRUE(zip->read(*zip->find("folder/deflated")).has_value());

  const auto whole = ZipArchive::open(good, "good.zip");
  Bytes deflated = good;
  for (size_t i = 0; i < 8; ++i)
    deflated[whole->find("folder/deflated")->offset + i] ^= std::byte{0x55};
  const auto damaged = ZipArchive::open(deflated, "bad.zip");
  ASSERT_TRUE(damaged.has_value());
  EXPECT_EQ(error_id(damaged->read(*damaged->find("folder/deflated"))), "zip-corrupt");
}

TEST(Zip, EveryTruncationIsRefused) {
  const Bytes good = example_zip();
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(ZipArchive::open(std::span(good).first(length), "cut.zip").has_value()) << length;
}

TEST(Zip, TextHasALimitOfItsOwn) {
  ZipWriter writer;
  writer.add("model.json", Bytes(1000), true);
  const Bytes bytes = writer.finish();
  for (const uint64_t limit : {999, 1000}) {
    const auto archive = ZipArchive::open(bytes, "m.pt2", {.text_bytes = limit});
    ASSERT_TRUE(archive);
    EXPECT_TRUE(archive->read(archive->entries()[0]));
    EXPECT_EQ(archive->read_text(archive->entries()[0]).has_value(), limit == 1000);
  }
}

}  // namespace
}  // namespace dtr
