// Zip archives, NumPy arrays, outputs that appear whole or not at all, parallel loops. Bad input is
// a table: kind, bytes, expected id.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <random>
#include <thread>

#include "compiler/ir/npz.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/json.h"
#include "compiler/support/output_file.h"
#include "compiler/support/progress.h"
#include "compiler/support/text.h"
#include "compiler/support/thread_pool.h"
#include "compiler/support/zip_archive.h"
#include "compiler/support/zip_writer.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using test::error_id;
using Bytes = std::vector<std::byte>;

Bytes to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string repeat(std::string_view text, size_t count) {
  std::string all;
  while (count-- > 0) all += text;
  return all;
}

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

std::string little_endian(uint64_t value, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
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

// ---------------------------------------------------------------------------------------------------------------------------------

Bytes npy(std::string_view dictionary, std::string_view data, int version = 1) {
  std::string text("\x93NUMPY", 6);
  text += static_cast<char>(version);
  text += '\0';
  text += little_endian(dictionary.size(), version == 1 ? 2 : 4);
  text += dictionary;
  text += data;
  return to_bytes(text);
}

TEST(Npy, ReadsEveryDtype) {
  struct Case {
    std::string_view descr;
    std::string data;
    DType dtype;
    double first;
    double second;
  };
  const Case cases[] = {
      {"<f4", std::string("\0\0\x80\x3f\0\0\0\xc0", 8), DType::kFloat32, 1, -2},
      {"<f8", std::string("\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\xc0", 16), DType::kFloat64, 1, -2},
      {"|i1", "\x01\xfe", DType::kInt8, 1, -2},
      {"|u1", "\x01\xfe", DType::kUint8, 1, 254},
      {"<i2", std::string("\x01\0\xfe\xff", 4), DType::kInt16, 1, -2},
      {"<i4", std::string("\x01\0\0\0\xfe\xff\xff\xff", 8), DType::kInt32, 1, -2},
      {"<i8", std::string("\x01\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff", 16), DType::kInt64,
       1, -2},
      {"|b1", std::string("\x01\0", 2), DType::kBool, 1, 0},
      {"<f2", std::string("\0\x3c\0\xc0", 4), DType::kFloat32, 1, -2},
      {"<f2", std::string("\x01\0\0\x7c", 4), DType::kFloat32, 0x1p-24, INFINITY},
  };
  const auto element = [](const Tensor& tensor, size_t i) -> double {
    switch (tensor.dtype()) {
      case DType::kFloat32:
        return tensor.values<float>()[i];
      case DType::kFloat64:
        return tensor.values<double>()[i];
      case DType::kInt8:
        return tensor.values<int8_t>()[i];
      case DType::kInt16:
        return tensor.values<int16_t>()[i];
      case DType::kInt32:
        return tensor.values<int32_t>()[i];
      case DType::kInt64:
        return static_cast<double>(tensor.values<int64_t>()[i]);
      default:
        return tensor.values<uint8_t>()[i];
    }
  };
  for (const Case& c : cases)
    for (const int version : {1, 2}) {
      const auto tensor = parse_npy(
          npy(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (2,), }}  \n",
                          c.descr),
              c.data, version),
          {});
      ASSERT_TRUE(tensor.has_value()) << c.descr << test::error_text(tensor);
      EXPECT_EQ(tensor->dtype(), c.dtype) << c.descr;
      EXPECT_EQ(tensor->shape(), Shape{2}) << c.descr;
      EXPECT_EQ(element(*tensor, 0), c.first) << c.descr;
      EXPECT_EQ(element(*tensor, 1), c.second) << c.descr;
    }
}

TEST(Npy, TurnsFortranOrder) {
  // Logical 2×3×1 array 0…5, first dimension fastest in the file.
  const auto tensor = parse_npy(npy("{'shape': (2, 3, 1), 'fortran_order': True, 'descr': '|u1'}",
                                    std::string("\0\x03\x01\x04\x02\x05", 6)),
                                {});
  ASSERT_TRUE(tensor.has_value()) << test::error_text(tensor);
  for (uint8_t i = 0; i < 6; ++i) EXPECT_EQ(tensor->values<uint8_t>()[i], i);
}

TEST(Npy, ReadsScalarsAndEmptyArrays) {
  const auto scalar =
      parse_npy(npy("{'descr': '|i1', 'fortran_order': False, 'shape': ()}", "\x07"), {});
  ASSERT_TRUE(scalar.has_value());
  EXPECT_EQ(scalar->values<int8_t>()[0], 7);
  const auto empty =
      parse_npy(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 0, 2)}", ""), {});
  ASSERT_TRUE(empty.has_value());
  EXPECT_EQ(empty->elements(), 0);
}

TEST(Npy, RefusesBadArrays) {
  const std::string_view good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  const std::string one(4, '\0');
  struct Case {
    Bytes bytes;
    std::string_view id;
  };
  const Case cases[] = {
      {to_bytes("no array"), "npy-invalid"},
      {npy(good, ""), "npy-invalid"},
      {npy(good, one + "x"), "npy-invalid"},
      {npy(good, one, 9), "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': False}", one), "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", one), "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", one), "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1", one), "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} junk", one), "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", ""),
       "npy-invalid"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", ""),
       "npy-invalid"},
      {npy(fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({})}}",
                       repeat("1, ", 40)),
           one),
       "npy-invalid"},
      {npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", "\x02"), "npy-invalid"},
      {npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", one), "npy-unsupported"},
      {npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", one + one),
       "npy-unsupported"},
      {npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", one + one), "npy-unsupported"},
      {npy("{'descr': '<U3', 'fortran_order': False, 'shape': (1,)}", one + one + one),
       "npy-unsupported"},
  };
  for (const Case& bad : cases) {
    const auto tensor = parse_npy(bad.bytes, {.file = "bad.npy"});
    EXPECT_EQ(error_id(tensor), bad.id)
        << std::string_view(reinterpret_cast<const char*>(bad.bytes.data()), bad.bytes.size());
    if (!tensor) {
      EXPECT_EQ(tensor.error().place.file, "bad.npy");
    }
  }
}

std::vector<NamedTensor> example_tensors() {
  std::vector<NamedTensor> tensors;
  tensors.push_back({"zeta", Tensor(DType::kFloat32, {2, 3})});
  for (size_t i = 0; i < 6; ++i)
    tensors[0].tensor.values<float>()[i] = static_cast<float>(i) * 0.5F;
  tensors.push_back({"alpha", Tensor(DType::kInt64, {3})});
  tensors.push_back({"scalar", Tensor(DType::kInt8, {})});
  return tensors;
}

TEST(Npz, WritesAndReadsBack) {
  const test::TemporaryFolder folder;
  const std::vector<NamedTensor> tensors = example_tensors();
  for (const bool compress : {false, true}) {
    ASSERT_TRUE(write_npz(folder / "a.npz", tensors, compress).has_value());
    for (const auto& read : {read_npz(folder / "a.npz"), read_tensors(folder / "a.npz")}) {
      ASSERT_TRUE(read.has_value()) << test::error_text(read);
      ASSERT_EQ(read->size(), tensors.size());
      for (size_t i = 0; i < tensors.size(); ++i) {
        const Tensor& a = tensors[i].tensor;
        const Tensor& b = (*read)[i].tensor;
        EXPECT_EQ((*read)[i].name, tensors[i].name);
        EXPECT_EQ(a.dtype(), b.dtype());
        EXPECT_EQ(a.shape(), b.shape());
        EXPECT_EQ(std::memcmp(a.view().data, b.view().data, a.view().bytes()), 0);
      }
    }
  }
  ASSERT_TRUE(write_npy(folder / "b.npy", tensors[0].tensor.view()).has_value());
  const auto array = read_npy(folder / "b.npy");
  ASSERT_TRUE(array.has_value());
  EXPECT_EQ(array->name, "b");
  EXPECT_EQ(array->tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(read_tensors(folder / "b.npy")->front().name, "b");
  EXPECT_EQ(folder.size(), 2U);  // no temporary file stays
}

// Forty arrays that deflate to nothing are small to carry and large to hold: what nobody wants is
// not inflated, the rest has a limit.
TEST(Npz, InflatesWhatIsWantedWithinTheTotal) {
  ZipWriter writer;
  for (int i = 0; i < 40; ++i)
    writer.add(fmt::format("a{}.npy", i), format_npy(Tensor(DType::kFloat32, {10000}).view()),
               true);
  const Bytes bytes = writer.finish();
  const ZipLimits limits{.all_inflated_bytes = 100000};
  const auto all = parse_npz(bytes, "cal.npz", limits);
  ASSERT_EQ(error_id(all), "zip-too-large");
  EXPECT_EQ(all.error().place, (Place{.file = "cal.npz", .node = "a2.npy"}));
  const auto two = parse_npz(bytes, "cal.npz", limits,
                             [](std::string_view name) { return name == "a7" || name == "a30"; });
  ASSERT_TRUE(two) << test::error_text(two);
  ASSERT_EQ(two->size(), 40U);
  for (const NamedTensor& array : *two)
    EXPECT_EQ(array.tensor.view().data != nullptr, array.name == "a7" || array.name == "a30");
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

TEST(Json, DepthIsLimited) {
  const auto nested = [](size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(json_fault(nested(1000)), "");
  EXPECT_FALSE(json_is_too_deep(nested(1000)));
  EXPECT_EQ(json_fault("{\n\"a\": " + nested(300000) + "}"),
            "line 2: arrays and objects are nested deeper than 1000 levels");
  EXPECT_EQ(json_fault("// \"\n" + nested(300000)),
            "line 2: arrays and objects are nested deeper than 1000 levels");
  EXPECT_TRUE(json_is_too_deep(nested(1001)));
  EXPECT_TRUE(json_is_too_deep("[\"\\\"\"," + nested(1000) + "]"));
  EXPECT_FALSE(json_is_too_deep("[\"" + std::string(5000, '[') + "\"]"));
}

TEST(Npz, HeaderIsWhatNumpyWrites) {
  const Tensor tensor(DType::kFloat32, {3});
  const Bytes bytes = format_npy(tensor.view());
  EXPECT_EQ(bytes.size(), 128U + 12U);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(text.substr(10, 60), "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }   ");
  EXPECT_EQ(text[127], '\n');
}

TEST(Npz, NamesTheBadArray) {
  ZipWriter writer;
  writer.add("x.npy", format_npy(Tensor(DType::kFloat32, {3}).view()));
  writer.add("y.npy", to_bytes("junk"));
  const auto read = parse_npz(writer.finish(), "cal.npz");
  ASSERT_EQ(error_id(read), "npy-invalid");
  EXPECT_EQ(read.error().place, (Place{.file = "cal.npz", .node = "y"}));
  EXPECT_EQ(error_id(read_npz("/nowhere/cal.npz")), "file-not-found");
}

TEST(Npz, RandomDamageNeverCrashes) {
  const Bytes good = test::read_bytes(test::source_path("models/digits_cnn/calibration.npz"));
  std::mt19937 random(1);
  size_t refused = 0;
  for (int i = 0; i < 500; ++i) {
    Bytes bad = good;
    for (int k = 0; k < 3; ++k)
      bad[random() % bad.size()] ^= static_cast<std::byte>(1 + random() % 255);
    refused += parse_npz(bad, "bad.npz").has_value() ? 0 : 1;
  }
  EXPECT_GT(refused, 490U);
}

TEST(Npz, FindsNonFinite) {
  Tensor tensor(DType::kFloat32, {2, 2});
  EXPECT_EQ(find_non_finite(tensor.view()), -1);
  tensor.values<float>()[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(find_non_finite(tensor.view()), 2);
  tensor.values<float>()[1] = -INFINITY;
  EXPECT_EQ(find_non_finite(tensor.view()), 1);
  Tensor wide(DType::kFloat64, {2});
  wide.values<double>()[1] = INFINITY;
  EXPECT_EQ(find_non_finite(wide.view()), 1);
  EXPECT_EQ(find_non_finite(Tensor(DType::kInt32, {2}).view()), -1);
}

// ---------------------------------------------------------------------------------------------------------------------------------

TEST(OutputFile, AppearsOnCommitOnly) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "out", std::string_view("old")).has_value());
  {
    auto file = OutputFile::create(folder / "out");
    ASSERT_TRUE(file.has_value());
    ASSERT_TRUE(file->write(to_bytes("half of the ne")).has_value());
    EXPECT_EQ(test::read_bytes(folder / "out"), to_bytes("old"));
  }
  EXPECT_EQ(test::read_bytes(folder / "out"), to_bytes("old"));
  EXPECT_EQ(folder.size(), 1U);
  ASSERT_TRUE(write_file(folder / "out", std::string_view("new")).has_value());
  EXPECT_EQ(test::read_bytes(folder / "out"), to_bytes("new"));
  EXPECT_EQ(folder.size(), 1U);
}

TEST(OutputFile, SaysWhyItCannotWrite) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(error_id(write_file(folder / "missing/out", std::string_view("x"))),
            "file-not-writable");
  EXPECT_EQ(error_id(write_file(folder / "", std::string_view("x"))), "file-not-writable");
  const auto full = write_file("/dev/full", std::string_view("x"));
  EXPECT_EQ(error_id(full), "file-not-writable");
  EXPECT_NE(test::error_text(full).find("space"), std::string::npos);
  EXPECT_EQ(folder.size(), 0U);
}

TEST(OutputFile, LeavesNothingWhenSpaceRunsOut) {
  const test::TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto result = write_file(folder / "big", Bytes(5000));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error_id(result), "file-not-writable");
  EXPECT_EQ(folder.size(), 0U);
}

TEST(OutputFile, SeveralAppearTogetherOrNotAtAll) {
  const test::TemporaryFolder folder;
  for (const bool in_the_way : {true, false}) {
    std::vector<OutputFile> files;
    for (const char* name : {"first", "second"}) {
      auto file = OutputFile::create(folder / name);
      ASSERT_TRUE(file.has_value());
      ASSERT_TRUE(file->write(to_bytes(name)).has_value());
      files.push_back(*std::move(file));
    }
    if (in_the_way) std::filesystem::create_directory(folder / "second");
    EXPECT_EQ(OutputFile::commit(files).has_value(), !in_the_way);
    files.clear();
    EXPECT_EQ(std::filesystem::exists(folder / "first"), !in_the_way);
    if (in_the_way) std::filesystem::remove(folder / "second");
    EXPECT_EQ(folder.size(), in_the_way ? 0U : 2U);
  }
  EXPECT_EQ(test::read_bytes(folder / "second"), to_bytes("second"));
}

TEST(OutputFile, APipeHasAReader) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(test::error_text(write_file(folder / "pipe", std::string_view("x"))),
            "error[file-not-writable]: " + (folder / "pipe") +
                ": nobody reads the pipe\n  fix: start the reader first");
  std::string got(100'000, ' ');
  std::jthread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::ifstream(folder / "pipe").read(got.data(), std::ssize(got));
  });
  ASSERT_TRUE(write_file(folder / "pipe", std::string(got.size(), 'x'))
                  .has_value());  // more than fits into it at once
  reader.join();
  EXPECT_EQ(got, std::string(got.size(), 'x'));
}

TEST(Text, WordsOfACommand) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(shell_words(""), Words());
  EXPECT_EQ(shell_words(" \t\n"), Words());
  EXPECT_EQ(shell_words("  a  b\tc "), (Words{"a", "b", "c"}));
  EXPECT_EQ(shell_words("'/opt/eiq 2/neutron' --a=\"b c\"d"),
            (Words{"/opt/eiq 2/neutron", "--a=b cd"}));
  EXPECT_EQ(shell_words(R"(a\ b "\"\\\n" '\"' '' "")"), (Words{"a b", R"("\\n)", R"(\")", "", ""}));
  EXPECT_EQ(shell_words("$HOME *.c"), (Words{"$HOME", "*.c"}));
  for (const char* open : {"'", "a \"b", "a\\", "\"a\\\""})
    EXPECT_EQ(shell_words(open), std::nullopt) << open;
}

TEST(OutputFile, FollowsALink) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "real", std::string_view("old")).has_value());
  std::filesystem::create_symlink("real", folder / "link");
  ASSERT_TRUE(write_file(folder / "link", std::string_view("new")).has_value());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(test::read_bytes(folder / "real"), to_bytes("new"));
}

TEST(OutputFile, FollowsALinkToWhatIsNotThereYet) {
  const test::TemporaryFolder folder;
  std::filesystem::create_symlink("middle", folder / "link");
  std::filesystem::create_symlink(folder / "new", folder / "middle");
  ASSERT_TRUE(write_file(folder / "link", std::string_view("text")).has_value());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(test::read_bytes(folder / "new"), to_bytes("text"));
  std::filesystem::create_symlink("other", folder / "loop");
  std::filesystem::create_symlink("loop", folder / "other");
  EXPECT_EQ(
      test::error_text(write_file(folder / "loop", std::string_view("text"))),
      "error[file-not-writable]: " + (folder / "loop") +
          ": cannot write the file: Too many levels of symbolic links\n  fix: check the path");
  std::filesystem::create_symlink("x", folder / "to_x");
  EXPECT_FALSE(check_outputs({}, {folder / "x", folder / "to_x"}).has_value());
}

// Pipes and devices are refused before they are opened: nobody writes to this one.
TEST(FileContents, ReadsRegularFilesAlone) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const std::string& path :
       {folder / "pipe", std::string("/dev/zero"), std::string("/dev/tty"), folder / "."})
    EXPECT_EQ(test::error_text(FileContents::read(path)),
              "error[file-not-found]: " + path +
                  ": cannot read the file: not a regular file\n  fix: check the path and its "
                  "permissions");
}

// What was read stays, whatever happens to the file.
TEST(FileContents, OutlivesItsFile) {
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "file", std::string(100'000, 'x')).has_value());
  const auto file = FileContents::read(folder / "file");
  ASSERT_TRUE(file.has_value());
  ASSERT_EQ(::truncate((folder / "file").c_str(), 1), 0);
  EXPECT_EQ(std::ranges::count(file->bytes(), std::byte{'x'}), 100'000);
  // Cut and written again and again by someone while it is read: the whole, or an error.
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) {
      std::ofstream(folder / "file", std::ios::binary) << std::string(1 << 20, 'y');
      if (::truncate((folder / "file").c_str(), 4096) != 0) break;
    }
  });
  for (int i = 0; i < 50; ++i) {
    const auto read = FileContents::read(folder / "file");
    const std::string said = read ? "" : test::error_text(read);
    EXPECT_TRUE(read || said.find("it became shorter while it was read\n  fix: wait until") !=
                            std::string::npos)
        << said;
  }
  stop = true;
  writer.join();
}

TEST(OutputFile, IsNoInputAndNoOtherOutput) {
  const test::TemporaryFolder folder;
  const std::string in = folder / "in", out = folder / "out";
  ASSERT_TRUE(write_file(in, std::string_view("x")).has_value());
  std::filesystem::create_symlink("in", folder / "link");
  EXPECT_TRUE(check_outputs({in, ""}, {out, ""}).has_value());
  EXPECT_TRUE(check_outputs({"/dev/null"}, {"/dev/null", "/dev/null"}).has_value());
  for (const std::string& same : {in, in + "/../in", folder / "./in", folder / "link"})
    EXPECT_EQ(
        test::error_text(check_outputs({in}, {out, same})),
        "error[file-not-writable]: " + same +
            ": the output is also an input: it would be lost\n  fix: give the output another name");
  EXPECT_EQ(test::error_text(check_outputs({in}, {out, out})),
            "error[file-not-writable]: " + out +
                ": two outputs go to this file\n  fix: give each its own name");
}

TEST(OutputFile, WritesToDevices) {
  auto file = OutputFile::create("/dev/null");
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE(file->write(Bytes(10)).has_value());
  EXPECT_TRUE(file->commit().has_value());
}

TEST(ParallelFor, RunsEachPieceOnce) {
  for (const unsigned threads : {0U, 1U, 3U, 8U}) {
    std::vector<std::atomic<int>> counts(1000);
    parallel_for(counts.size(), threads, [&](size_t i) { ++counts[i]; });
    for (const auto& count : counts) EXPECT_EQ(count.load(), 1);
  }
  parallel_for(0, 4, [](size_t) { FAIL(); });
  // What the standard library throws in a helper's thread arrives in the caller's.
  for (const unsigned threads : {1U, 4U})
    EXPECT_THROW(
        parallel_for(100, threads, [](size_t i) { i % 2 == 1 ? throw std::bad_alloc() : void(); }),
        std::bad_alloc);
  EXPECT_GE(default_threads(), 1U);
}

TEST(Progress, IsSilentWithoutTerminal) {
  testing::internal::CaptureStderr();
  {
    TerminalProgress progress("calibrate");
    progress.function()(1, 2);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace dtr
