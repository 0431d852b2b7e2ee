// Names in tensor files (.ptd): found whatever their order, in a time that grows with the logarithm
// of their number.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "compiler/program/file_bytes.h"
#include "compiler/program/reader.h"
#include "compiler/program/tensor_file_writer.h"
#include "device/pte/flat_tensor_generated.h"

namespace dtr {
namespace {

constexpr int kMany = 50'000;

// A file without a checksum whose entries have these keys, in this order; all have the same segment
// of no bytes.
std::vector<std::byte> file_of(const std::vector<std::string>& keys) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<ptd::NamedData>> named;
  for (const std::string& key : keys)
    named.push_back(ptd::CreateNamedData(builder, builder.CreateString(key), 0, {}));
  const std::vector<flatbuffers::Offset<ptd::DataSegment>> segments{
      ptd::CreateDataSegment(builder, 0, 0)};
  const auto segment_vector = builder.CreateVector(segments);
  const auto named_vector = builder.CreateVector(named);
  ptd::FinishFlatTensorBuffer(builder,
                              ptd::CreateFlatTensor(builder, 0, segment_vector, named_vector));
  const std::span structure(reinterpret_cast<const std::byte*>(builder.GetBufferPointer()),
                            builder.GetSize());
  constexpr uint32_t kHeaderBytes = 40, kInserted = align_up(kHeaderBytes);
  const uint64_t base = align_up(structure.size() + kInserted);
  FileBytes header;
  for (const char letter : std::string_view("FH01")) append(header, letter);
  append(header, kHeaderBytes);
  for (const uint64_t word : {uint64_t{kInserted}, uint64_t{structure.size()}, base, uint64_t{0}})
    append(header, word);
  header.resize(kInserted);
  FileBytes file;
  append_with_header(file, structure, header);
  file.resize(base);
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
    const auto image = TensorFileImage::parse(file_of(keys), "many.ptd");
    ASSERT_TRUE(image.has_value()) << to_text(image.error());
    EXPECT_EQ(image->file().names_ascend(), ascending);
    // One after another they would take 1.25·10^9 comparisons, several seconds.
    const double seconds = find_all(image->file(), keys);
    std::printf("%d names, %s: %.3f s\n", kMany, ascending ? "ascending" : "in any order", seconds);
    EXPECT_LT(seconds, 1.0);
  }
}

TEST(TensorFile, FindsTheFirstOfEqualNamesAndNoOthers) {
  for (const std::vector<std::string>& keys :
       {std::vector<std::string>{"a", "b", "b", "b", "d"}, {"b", "d", "a", "b", "b"}, {"b"}, {}}) {
    const auto image = TensorFileImage::parse(file_of(keys), "equal.ptd");
    ASSERT_TRUE(image.has_value()) << to_text(image.error());
    pte::TensorFile plain = image->file();  // as a device has it, which sorts nothing
    plain.set_order({});
    for (const pte::TensorFile& file : {image->file(), plain})
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
  const auto image = TensorFileImage::parse(writer.finish(), "written.ptd");
  ASSERT_TRUE(image.has_value()) << to_text(image.error());
  EXPECT_TRUE(image->file().names_ascend());
  for (const std::string& key : keys) {
    const ptd::NamedData* entry = image->file().find(key);
    ASSERT_NE(entry, nullptr) << key;
    EXPECT_EQ(image->file().data(*entry).front(), std::byte(key[0]));
  }
}

}  // namespace
}  // namespace dtr
