// The folder of a firmware project: written again, for other programs, with changes of its user.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "compiler/support/output_file.h"
#include "host/firmware/firmware_folder.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using Paths = std::vector<std::string>;

class FirmwareFolder : public testing::Test {
 protected:
  FirmwareChanges write(const std::vector<FirmwareFile>& files) {
    const Result<FirmwareChanges> changes = write_firmware(files, folder_ / "project");
    EXPECT_TRUE(changes) << (changes ? "" : to_text(changes.error()));
    return changes.value_or(FirmwareChanges());
  }
  std::string path(const std::string& name) const { return folder_ / ("project/" + name); }
  void change(const std::string& name, std::string_view text) {
    ASSERT_TRUE(write_file(path(name), text));
  }
  std::string text(const std::string& name) const {
    const std::vector<std::byte> bytes = test::read_bytes(path(name));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }

  test::TemporaryFolder folder_;
};

TEST_F(FirmwareFolder, OfOtherProgramsIsReplaced) {
  write({{"main.cpp", "runs a and b"},
         {"model_a/model.cpp", "a"},
         {"model_a/program.pte", "A"},
         {"model_b/model.cpp", "b"}});
  const FirmwareChanges changes = write({{"main.cpp", "runs b"}, {"model_b/model.cpp", "b"}});
  EXPECT_EQ(text("main.cpp"), "runs b");
  EXPECT_FALSE(exists("model_a"));
  EXPECT_TRUE(exists("model_b/model.cpp"));
  EXPECT_EQ(changes.removed, (Paths{"model_a/model.cpp", "model_a/program.pte"}));
  EXPECT_EQ(changes.kept, Paths());
  EXPECT_EQ(changes.beside, Paths());
  EXPECT_EQ(changes.unused, Paths());
}

TEST_F(FirmwareFolder, ChangesAreNeverLost) {
  write({{"main.cpp", "runs a"}, {"model/model.cpp", "a"}});
  change("main.cpp", "mine");
  FirmwareChanges changes = write({{"main.cpp", "runs a"}, {"model/model.cpp", "a, again"}});
  EXPECT_EQ(changes.kept, Paths{"main.cpp"});
  EXPECT_FALSE(exists("main.cpp.new"));
  EXPECT_EQ(text("model/model.cpp"), "a, again");

  changes = write({{"main.cpp", "runs b"}, {"model/model.cpp", "b"}});
  EXPECT_EQ(changes.beside, Paths{"main.cpp"});
  EXPECT_EQ(text("main.cpp"), "mine");
  EXPECT_EQ(text("main.cpp.new"), "runs b");
  changes = write({{"main.cpp", "runs b"}, {"model/model.cpp", "b"}});  // not merged yet
  EXPECT_EQ(changes.beside, Paths{"main.cpp"});
  EXPECT_EQ(text("main.cpp.new"), "runs b");

  std::filesystem::remove(path("main.cpp.new"));
  changes = write({{"main.cpp", "runs b"}, {"model/model.cpp", "b"}});  // merged
  EXPECT_EQ(changes.kept, Paths{"main.cpp"});
  EXPECT_FALSE(exists("main.cpp.new"));

  change("model/model.cpp", "mine too");
  changes = write({{"main.cpp", "runs b"}});
  EXPECT_EQ(changes.unused, Paths{"model/model.cpp"});
  EXPECT_EQ(text("model/model.cpp"), "mine too");
}

TEST_F(FirmwareFolder, TakingWhatIsBesideEndsTheChange) {
  write({{"main.cpp", "runs a"}});
  change("main.cpp", "mine");
  write({{"main.cpp", "runs b"}});
  std::filesystem::rename(path("main.cpp.new"), path("main.cpp"));
  const FirmwareChanges changes = write({{"main.cpp", "runs c"}});
  EXPECT_EQ(changes.kept, Paths());
  EXPECT_EQ(changes.beside, Paths());
  EXPECT_EQ(text("main.cpp"), "runs c");
}

TEST_F(FirmwareFolder, ProgramsAreReplacedInAnyCase) {
  write({{"model/program.pte", "a"}, {"memory/tensors_0.ptd", "t"}});
  change("model/program.pte", "another");
  change("memory/tensors_0.ptd", "another");
  const FirmwareChanges changes = write({{"model/program.pte", "a"}});
  EXPECT_EQ(text("model/program.pte"), "a");
  EXPECT_FALSE(exists("memory"));
  EXPECT_EQ(changes.unused, Paths());
}

TEST_F(FirmwareFolder, WhatIsNotChangedKeepsItsTime) {
  write({{"main.cpp", "runs a"}});
  const auto past = std::filesystem::last_write_time(path("main.cpp")) - std::chrono::hours(1);
  std::filesystem::last_write_time(path("main.cpp"), past);
  write({{"main.cpp", "runs a"}});
  EXPECT_EQ(std::filesystem::last_write_time(path("main.cpp")), past);
}

TEST_F(FirmwareFolder, OfAnotherProjectIsRefused) {
  std::filesystem::create_directory(folder_ / "project");
  change("main.cpp", "of someone");
  change("inputs.bin", "data");
  const auto refused =
      write_firmware(std::vector<FirmwareFile>{{"CMakeLists.txt", "x"}, {"main.cpp", "runs a"}},
                     folder_ / "project");
  EXPECT_EQ(
      test::error_text(refused),
      "error[firmware-folder]: " + (folder_ / "project") +
          ": it has main.cpp, which `deuteron firmware` did not write and would have to replace\n"
          "  fix: choose another folder, or move them away");
  EXPECT_EQ(text("main.cpp"), "of someone");
  EXPECT_FALSE(exists("CMakeLists.txt"));
  std::filesystem::remove(path("main.cpp"));
  write({{"CMakeLists.txt", "x"}, {"main.cpp", "runs a"}});
  EXPECT_EQ(text("inputs.bin"), "data");
}

// A file that was there with the same bytes is in nobody's way.
TEST_F(FirmwareFolder, EqualFilesOfOthersAreTaken) {
  std::filesystem::create_directory(folder_ / "project");
  change("main.cpp", "runs a");
  const FirmwareChanges changes = write({{"CMakeLists.txt", "x"}, {"main.cpp", "runs a"}});
  EXPECT_EQ(changes.kept, Paths());
  EXPECT_EQ(changes.beside, Paths());
  EXPECT_EQ(text("CMakeLists.txt"), "x");
}

// Where one file cannot be written, the folder stays as it was: an earlier project whole, no file
// of the new one, and no folder that was made for it.
TEST_F(FirmwareFolder, AnErrorLeavesTheFolderAsItWas) {
  const auto all_paths = [&] {
    std::set<std::string> paths;
    for (const auto& each : std::filesystem::recursive_directory_iterator(folder_ / ""))
      paths.insert(each.path());
    return paths;
  };
  const std::vector<FirmwareFile> next = {
      {"main.cpp", "runs b"}, {"model_b/model.cpp", std::string(100000, 'b')}, {"z.cpp", "z"}};
  const auto on_a_full_disk = [&] {  // a limit for files gives the error EFBIG behind its bytes
    rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {.rlim_cur = 50000, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string error = test::error_text(write_firmware(next, folder_ / "project"));
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    return error;
  };
  EXPECT_NE(on_a_full_disk().find("model_b/model.cpp: cannot write the file"), std::string::npos);
  EXPECT_EQ(all_paths(), std::set<std::string>());

  write({{"main.cpp", "runs a"}, {"model_a/model.cpp", "a"}});
  const std::set<std::string> before = all_paths();
  EXPECT_NE(on_a_full_disk().find("error[file-not-writable]"), std::string::npos);
  EXPECT_EQ(all_paths(), before);
  EXPECT_EQ(text("main.cpp"), "runs a");

  change("model_b", "a file where the folder goes");
  EXPECT_NE(
      test::error_text(write_firmware(next, folder_ / "project")).find("cannot make the folder"),
      std::string::npos);
  EXPECT_EQ(text("main.cpp"), "runs a");
  std::filesystem::remove(path("model_b"));
  write(next);
  EXPECT_EQ(text("main.cpp"), "runs b");
  EXPECT_FALSE(exists("model_a"));
}

// A list that someone wrote removes nothing elsewhere.
TEST_F(FirmwareFolder, TheListStaysInItsFolder) {
  write({{"main.cpp", "runs a"}});
  ASSERT_TRUE(write_file(folder_ / "outside.pte", std::string_view("x")));
  ASSERT_TRUE(write_file(folder_ / "outside.cpp", std::string_view("")));
  change(kWrittenList, "0 ../outside.pte\n0 a/../../outside.pte\n0 " + (folder_ / "outside.pte") +
                           "\n\nzzz\n12\n0000000000000000 ../outside.cpp\n0 .\n0 ..\n");
  const Result<FirmwareChanges> changes =
      write_firmware(std::vector<FirmwareFile>{{"main.cpp", "runs a"}}, folder_ / "project");
  ASSERT_TRUE(changes);
  EXPECT_EQ(changes->removed, Paths());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "outside.pte"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "outside.cpp"));
}

}  // namespace
}  // namespace dtr
