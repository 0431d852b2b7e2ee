// Files that are read whole, and outputs that appear whole or not at all.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "compiler/support/file_contents.h"
#include "compiler/support/output_file.h"
#include "test/unit/byte_text.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using test::Bytes;
using test::error_id;
using test::to_bytes;

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
  // Spelled differently, in the folder of the process, where neither is there yet.
  EXPECT_FALSE(check_outputs(
      {}, {"none.out", "../" + std::filesystem::current_path().filename().string() + "/none.out"}));
}

TEST(OutputFile, WritesToDevices) {
  auto file = OutputFile::create("/dev/null");
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE(file->write(Bytes(10)).has_value());
  EXPECT_TRUE(file->commit().has_value());
}

}  // namespace
}  // namespace dtr
