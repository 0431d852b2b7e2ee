// Kinds of files, by their first bytes.
#include "compiler/pipeline/read_model.h"

#include <filesystem>

#include "compiler/support/output_file.h"
#include "compiler/support/zip_writer.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

std::string zip_of(const std::string& path, const std::vector<std::string>& members) {
  ZipWriter writer;
  for (const std::string& member : members) writer.add(member, std::vector<std::byte>(10));
  EXPECT_TRUE(write_file(path, writer.finish()).has_value());
  return path;
}

std::string text_of(const std::string& path, std::string_view text) {
  EXPECT_TRUE(write_file(path, text).has_value());
  return path;
}

TEST(FileKind, IsToldByTheFirstBytes) {
  using namespace std::string_view_literals;
  const test::TemporaryFolder folder;
  EXPECT_EQ(file_kind(zip_of(folder / "a", {"x.npy", "model.json"})), FileKind::kArrays);
  EXPECT_EQ(file_kind(zip_of(folder / "b", {"model.json", "x.npy"})), FileKind::kPt2);
  EXPECT_EQ(file_kind(text_of(folder / "c", "PK\x03\x04")),
            FileKind::kPt2);  // truncated: its reader says so
  EXPECT_EQ(file_kind(text_of(folder / "d", "....ET12"sv)), FileKind::kProgram);
  EXPECT_EQ(file_kind(text_of(folder / "e", "....TFL3"sv)), FileKind::kTflite);
  EXPECT_EQ(file_kind(text_of(folder / "f", "....FT01"sv)), FileKind::kTensorFile);
  EXPECT_EQ(file_kind(text_of(folder / "g", "........ED00"sv)), FileKind::kTrace);
  EXPECT_EQ(file_kind(text_of(folder / "h", "DTRP"sv)), FileKind::kRecords);
  EXPECT_EQ(file_kind(text_of(folder / "i", "\x93NUMPY"sv)), FileKind::kArrays);
  EXPECT_EQ(file_kind(text_of(folder / "j", "graph @forward"sv)), FileKind::kText);
  EXPECT_EQ(file_kind(text_of(folder / "k", "\0\1\2"sv)), FileKind::kUnknown);
  EXPECT_EQ(file_kind(text_of(folder / "l", ""sv)), FileKind::kUnknown);
  EXPECT_EQ(test::error_id(file_kind(folder / "none")), "file-not-found");
}

// Folders of an archive are members without data.
TEST(FileKind, LooksBehindFoldersOfAnArchive) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "a";
  const std::string header =
      std::string("PK\x03\x04", 4) + std::string(22, '\0') + std::string("\x02\0\0\0", 4) + "d/";
  std::string arrays;
  {
    ZipWriter writer;
    writer.add("d/x.npy", std::vector<std::byte>(10));
    const auto bytes = writer.finish();
    arrays.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  EXPECT_EQ(file_kind(text_of(path, header + arrays)), FileKind::kArrays);
  EXPECT_EQ(file_kind(text_of(path, header)), FileKind::kPt2);
}

// More bytes than the machine has memory: reading all of them would fail.
TEST(FileKind, ReadsNoMoreThanTheFirstBytes) {
  const test::TemporaryFolder folder;
  const std::string path = text_of(folder / "large", "....ET12");
  std::filesystem::resize_file(path, uintmax_t{1} << 40);
  EXPECT_EQ(file_kind(path), FileKind::kProgram);
}

}  // namespace
}  // namespace dtr
