// Tensor files (.ptd). Names are found whatever their order, in a time that grows with the
// logarithm of their number; what lies outside of the file is refused; a tensor of another type
// does not fit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>

#include "compiler/program/file_bytes.h"
#include "compiler/program/reader.h"
#include "compiler/program/tensor_file_writer.h"
#include "device/pte/flat_tensor_generated.h"
#include "device/pte/program_generated.h"
#include "test/unit/plan_builder.h"

namespace dtr {
namespace {

constexpr int kMany = 50'000;

struct Segment {
  uint64_t offset = 0, size = 0;
};

// A file without a checksum whose entries have these keys, in this order, and one segment of `data`
// bytes; all entries name the segment with that index.
std::vector<std::byte> file_of(const std::vector<std::string>& keys, Segment segment = {},
                               size_t data = 0, uint32_t index = 0, uint32_t version = 0) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<ptd::NamedData>> named;
  for (const std::string& key : keys)
    named.push_back(ptd::CreateNamedData(builder, builder.CreateString(key), index, {}));
  const std::vector<flatbuffers::Offset<ptd::DataSegment>> segments{
      ptd::CreateDataSegment(builder, segment.offset, segment.size)};
  const auto segment_vector = builder.CreateVector(segments);
  const auto named_vector = builder.CreateVector(named);
  ptd::FinishFlatTensorBuffer(
      builder, ptd::CreateFlatTensor(builder, version, segment_vector, named_vector));
  const std::span structure(reinterpret_cast<const std::byte*>(builder.GetBufferPointer()),
                            builder.GetSize());
  constexpr uint32_t kHeaderBytes = 40, kInserted = align_in_file(kHeaderBytes);
  const uint64_t base = align_in_file(structure.size() + kInserted);
  FileBytes header;
  for (const char letter : std::string_view("FH01")) append(header, letter);
  append(header, kHeaderBytes);
  for (const uint64_t word :
       {uint64_t{kInserted}, uint64_t{structure.size()}, base, uint64_t{data}})
    append(header, word);
  header.resize(kInserted);
  FileBytes file;
  append_with_header(file, structure, header);
  file.resize(base + data);
  return file;
}

// Seconds of processor time until every key is found at the place that it has in `keys`.
double find_all(const pte::TensorFile& file, const std::vector<std::string>& keys) {
  const std::clock_t begin = std::clock();
  size_t wrong = 0;
  for (size_t i = 0; i < keys.size(); ++i) wrong += file.find(keys[i]) == &file.entry(i) ? 0 : 1;
  EXPECT_EQ(wrong, 0u);
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TEST(TensorFile, ManyNamesAreFoundSoonInAnyOrder) {
  std::vector<std::string> keys;
  for (int i = 0; i < kMany; ++i) keys.push_back(fmt::format("module.{:06}.weight", i));
  std::mt19937 random(1);
  for (const bool ascending : {true, false}) {
    if (!ascending) std::ranges::shuffle(keys, random);
    const auto pte_file = PtdFile::parse(file_of(keys), "many.ptd");
    ASSERT_TRUE(pte_file.has_value()) << to_text(pte_file.error());
    EXPECT_EQ(pte_file->file().names_ascend(), ascending);
    // One after another they would take 1.25·10^9 comparisons, several seconds.
    const double seconds = find_all(pte_file->file(), keys);
    std::printf("%d names, %s: %.3f s\n", kMany, ascending ? "ascending" : "in any order", seconds);
    EXPECT_LT(seconds, 1.0);
  }
}

TEST(TensorFile, FindsTheFirstOfEqualNamesAndNoOthers) {
  for (const std::vector<std::string>& keys :
       {std::vector<std::string>{"a", "b", "b", "b", "d"}, {"b", "d", "a", "b", "b"}, {"b"}, {}}) {
    const auto pte_file = PtdFile::parse(file_of(keys), "equal.ptd");
    ASSERT_TRUE(pte_file.has_value()) << to_text(pte_file.error());
    pte::TensorFile plain = pte_file->file();  // as a device has it, which sorts nothing
    plain.set_order({});
    for (const pte::TensorFile& file : {pte_file->file(), plain})
      for (const std::string name : {"", "a", "b", "c", "d", "e", "bb"}) {
        const auto first = std::ranges::find(keys, name);
        EXPECT_EQ(file.find(name), first == keys.end()
                                       ? nullptr
                                       : &file.entry(static_cast<size_t>(first - keys.begin())))
            << name;
      }
  }
}

TEST(TensorFile, IsWrittenWithAscendingNames) {
  TensorFileWriter writer;
  std::vector<std::string> keys;
  for (const std::string name : {"z", "a", "m"})
    keys.push_back(writer.add(name, {DType::kInt8, {1}}, {std::byte(name[0])}));
  const auto pte_file = PtdFile::parse(writer.finish(), "written.ptd");
  ASSERT_TRUE(pte_file.has_value()) << to_text(pte_file.error());
  EXPECT_TRUE(pte_file->file().names_ascend());
  for (const std::string& key : keys) {
    const ptd::NamedData* entry = pte_file->file().find(key);
    ASSERT_NE(entry, nullptr) << key;
    EXPECT_EQ(pte_file->file().data(*entry).front(), std::byte(key[0]));
  }
}

pte::Error opened(const std::vector<std::byte>& bytes, bool check_checksum = true) {
  const test::AlignedCopy copy(bytes);
  pte::TensorFile file;
  return pte::TensorFile::open(copy.bytes(), check_checksum, &file).error;
}

TEST(TensorFile, SegmentsLieInTheFile) {
  const auto error = [](Segment segment, uint32_t index = 0) {
    return opened(file_of({"a"}, segment, 32, index));
  };
  EXPECT_EQ(error({0, 32}), pte::Error::kOk);
  EXPECT_EQ(error({32, 0}), pte::Error::kOk);
  EXPECT_EQ(error({16, 16}), pte::Error::kOk);
  for (const Segment& beyond :
       {Segment{0, 33}, {16, 17}, {33, 0}, {UINT64_MAX, 2}, {2, UINT64_MAX}, {32, 1}})
    EXPECT_EQ(error(beyond), pte::Error::kTruncated) << beyond.offset << ", " << beyond.size;
  EXPECT_EQ(error({0, 32}, 1), pte::Error::kMalformed);  // there is one segment, of index 0
  EXPECT_EQ(error({0, 32}, UINT32_MAX), pte::Error::kMalformed);
}

TEST(TensorFile, OtherVersionsAreRefused) {
  EXPECT_EQ(opened(file_of({"a"}, {0, 32}, 32, 0, 0)), pte::Error::kOk);
  for (const uint32_t version : {1U, UINT32_MAX})
    EXPECT_EQ(opened(file_of({"a"}, {0, 32}, 32, 0, version)), pte::Error::kNewerVersion);
}

// Its place and its size, each of 64 bits, end before the first segment.
TEST(TensorFile, TheStructureLiesBeforeTheSegments) {
  const std::vector<std::byte> whole = file_of({"a"}, {0, 32}, 32);
  uint64_t base = 0;
  std::memcpy(&base, whole.data() + 32, sizeof base);
  ASSERT_EQ(base + 32, whole.size());
  const auto error = [&](uint64_t offset, uint64_t size) {
    std::vector<std::byte> bytes = whole;
    std::memcpy(bytes.data() + 16, &offset, sizeof offset);
    std::memcpy(bytes.data() + 24, &size, sizeof size);
    return opened(bytes);
  };
  EXPECT_EQ(error(0, base), pte::Error::kOk);
  EXPECT_EQ(error(48, base - 48), pte::Error::kOk);
  for (const auto& [offset, size] : {std::pair{uint64_t{48}, base - 47},
                                     {base, uint64_t{1}},
                                     {base + 1, uint64_t{0}},
                                     {base + 16, uint64_t{16}},
                                     {UINT64_MAX, base + 1},
                                     {uint64_t{48}, UINT64_MAX - 8}})
    EXPECT_EQ(error(offset, size), pte::Error::kMalformed) << offset << ", " << size;
}

TEST(TensorFile, EveryTruncationIsRefused) {
  const std::vector<std::byte> whole = file_of({"a", "b"}, {0, 48}, 48);
  EXPECT_EQ(opened(whole), pte::Error::kOk);
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(opened({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)}),
              pte::Error::kOk)
        << length;
}

TEST(TensorFile, ChangesAreFoundByTheChecksum) {
  TensorFileWriter writer;
  writer.add("w", {DType::kInt8, {5}}, std::vector<std::byte>(5, std::byte{3}));
  std::vector<std::byte> bytes = writer.finish();
  EXPECT_EQ(opened(bytes), pte::Error::kOk);
  const std::vector<std::byte> content(5, std::byte{3});
  const auto at = std::search(bytes.begin(), bytes.end(), content.begin(), content.end());
  ASSERT_NE(at, bytes.end());
  at[4] = std::byte{4};
  EXPECT_EQ(opened(bytes), pte::Error::kBadChecksum);
  EXPECT_EQ(opened(bytes, false), pte::Error::kOk);
}

// Type, shape and order of the file's tensor are those of the program's.
TEST(TensorFile, OnlyTheTensorItselfFits) {
  TensorFileWriter writer;
  const std::string key =
      writer.add("w", {DType::kInt8, {2, 3}}, std::vector<std::byte>(6, std::byte{3}));
  const auto pte_file = PtdFile::parse(writer.finish(), "written.ptd");
  ASSERT_TRUE(pte_file.has_value()) << to_text(pte_file.error());
  const ptd::NamedData* entry = pte_file->file().find(key);
  ASSERT_NE(entry, nullptr);
  const auto fits = [&](const std::vector<int32_t>& sizes, const std::vector<uint8_t>& order,
                        pte::ScalarType type = pte::ScalarType::Char) {
    flatbuffers::FlatBufferBuilder b;
    b.Finish(pte::CreateTensorDirect(b, type, 0, &sizes, &order));
    return pte_file->file().fits(*entry, *flatbuffers::GetRoot<pte::Tensor>(b.GetBufferPointer()));
  };
  EXPECT_TRUE(fits({2, 3}, {0, 1}));
  EXPECT_FALSE(fits({3, 2}, {0, 1}));
  EXPECT_FALSE(fits({6}, {0}));
  EXPECT_FALSE(fits({1, 2, 3}, {0, 1, 2}));
  EXPECT_FALSE(fits({2, 3}, {1, 0}));
  EXPECT_FALSE(fits({2, 3}, {0, 1}, pte::ScalarType::Byte));
  EXPECT_FALSE(fits({2, 3}, {0, 1}, pte::ScalarType::Float));
  EXPECT_FALSE(fits({2, 4}, {0, 1}));
}

// Of a tensor of six bytes: neither less nor more.
TEST(TensorFile, DataAreTheBytesOfTheTensor) {
  for (const size_t bytes : {5u, 6u, 7u, 12u}) {
    TensorFileWriter writer;
    const std::string key =
        writer.add("w", {DType::kInt8, {2, 3}}, std::vector<std::byte>(bytes, std::byte{3}));
    const auto pte_file = PtdFile::parse(writer.finish(), "written.ptd");
    ASSERT_TRUE(pte_file.has_value()) << to_text(pte_file.error());
    const ptd::NamedData* entry = pte_file->file().find(key);
    ASSERT_NE(entry, nullptr);
    ASSERT_EQ(pte_file->file().data(*entry).size(), bytes);
    flatbuffers::FlatBufferBuilder b;
    const std::vector<int32_t> sizes{2, 3};
    const std::vector<uint8_t> order{0, 1};
    b.Finish(pte::CreateTensorDirect(b, pte::ScalarType::Char, 0, &sizes, &order));
    EXPECT_EQ(
        pte_file->file().fits(*entry, *flatbuffers::GetRoot<pte::Tensor>(b.GetBufferPointer())),
        bytes == 6)
        << bytes;
  }
}

}  // namespace
}  // namespace dtr
