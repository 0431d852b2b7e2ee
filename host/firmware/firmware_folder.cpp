#include "host/firmware/firmware_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include "compiler/ir/constant_pool.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/interruption.h"
#include "compiler/support/output_file.h"

namespace dtr {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListHead =
    "# What `deuteron firmware` wrote here, a hash and a path a line: a file that differs from it "
    "was changed by someone, and is kept.\n";
constexpr size_t kMostNamed = 5;

uint64_t hash_of(const std::string& text) { return content_hash(std::as_bytes(std::span(text))); }

bool is_data(const std::string& path) { return path.ends_with(".pte") || path.ends_with(".ptd"); }

// Folders that were not there: removed with their contents, by an error or a signal, unless kept.
class NewFolders {
 public:
  NewFolders() = default;
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;
  ~NewFolders() {
    std::error_code ignored;
    for (const Folder& each : made_) fs::remove_all(each.path, ignored);
  }

  Result<void> make(const fs::path& folder) {
    std::error_code error;
    if (fs::is_directory(folder, error)) return {};
    if (folder.has_parent_path()) DTR_TRY(make(folder.parent_path()));
    const auto held = block_signals();
    if (fs::create_directory(folder, error))
      made_.push_back({folder, Ephemeral::path(folder.string())});
    if (!error) return {};
    return fail(DiagnosticId::kFileNotWritable, "cannot make the folder: " + error.message(),
                error == std::errc::no_space_on_device ? "free some space or write elsewhere"
                                                       : "choose a folder where you may write",
                {.file = folder.string()});
  }
  void keep() { made_.clear(); }

 private:
  struct Folder {
    fs::path path;
    Ephemeral ephemeral;
  };
  std::vector<Folder> made_;
};

class ProjectFolder {
 public:
  explicit ProjectFolder(const std::string& folder) : folder_(folder) { read_list(); }

  Result<FirmwareChanges> write(std::span<const FirmwareFile> files) {
    DTR_TRY(check_nothing_in_the_way(files));
    for (const FirmwareFile& file : files) DTR_TRY(place(file));
    DTR_TRY(prepare_list());
    const auto held = block_signals();  // the project is the old one or the new one
    DTR_TRY(OutputFile::commit(prepared_));
    folders_.keep();
    remove_unused();
    return std::move(changes_);
  }

 private:
  fs::path at(const std::string& path) const { return folder_ / path; }

  // Of the file that is there, if one is.
  std::optional<uint64_t> present(const std::string& path) const {
    const Result<FileContents> file = FileContents::read(at(path).string());
    return file ? std::optional(content_hash(file->bytes())) : std::nullopt;
  }

  std::optional<uint64_t> recorded(const std::string& path) const {
    const auto found = before_.find(path);
    return found == before_.end() ? std::nullopt : std::optional(found->second);
  }

  void read_list() {
    const Result<FileContents> file = FileContents::read(at(kWrittenList).string());
    if (!file) return;
    std::istringstream lines(
        std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      uint64_t hash = 0;
      std::string path;
      if (!(words >> std::hex >> hash >> std::ws) || !std::getline(words, path)) continue;
      // Files are removed by this list: those in the folder alone.
      const fs::path normal = fs::path(path).lexically_normal();
      if (normal.is_relative() && *normal.begin() != "..") before_[path] = hash;
    }
  }

  Result<void> check_nothing_in_the_way(std::span<const FirmwareFile> files) const {
    std::vector<std::string> others;
    for (const FirmwareFile& file : files)
      if (const auto there = present(file.path);
          there && !recorded(file.path) && *there != hash_of(file.text))
        others.push_back(file.path);
    if (others.empty()) return {};
    const size_t more = others.size() - std::min(others.size(), kMostNamed);
    others.resize(others.size() - more);
    return fail(
        DiagnosticId::kFirmwareFolder,
        fmt::format(
            "it has {}{}, which `deuteron firmware` did not write and would have to replace",
            fmt::join(others, ", "), more == 0 ? "" : fmt::format(" and {} more", more)),
        "choose another folder, or move them away", {.file = folder_.string()});
  }

  // Writes a file beside the one that it will replace.
  Result<void> prepare(const std::string& path, const std::string& text) {
    DTR_TRY(folders_.make(at(path).parent_path()));
    DTR_ASSIGN(OutputFile file, OutputFile::create(at(path).string()));
    DTR_TRY(file.write(std::as_bytes(std::span(text))));
    DTR_TRY(file.close());
    prepared_.push_back(std::move(file));
    return {};
  }

  Result<void> place(const FirmwareFile& file) {
    const std::optional<uint64_t> there = present(file.path), wrote = recorded(file.path);
    const uint64_t hash = hash_of(file.text);
    after_[file.path] = hash;
    if (there == hash) return {};  // its time stays, so that it is not built again
    if (!there || there == wrote || is_data(file.path)) return prepare(file.path, file.text);
    const std::string beside = file.path + ".new";
    if (wrote == hash && !(recorded(beside) && present(beside))) {
      changes_.kept.push_back(file.path);
      return {};
    }
    changes_.beside.push_back(file.path);
    after_[beside] = hash;
    return prepare(beside, file.text);
  }

  void remove_unused() {
    for (const auto& [path, hash] : before_) {
      const std::optional<uint64_t> there = present(path);
      if (after_.contains(path) || !there) continue;
      if (there != hash && !is_data(path)) {
        changes_.unused.push_back(path);
        continue;
      }
      changes_.removed.push_back(path);
      std::error_code ignored;
      fs::remove(at(path), ignored);
      for (fs::path parent = fs::path(path).parent_path();
           !parent.empty() && fs::remove(folder_ / parent, ignored);)
        parent = parent.parent_path();  // those that are empty now
    }
  }

  Result<void> prepare_list() {
    std::string text(kListHead);
    for (const auto& [path, hash] : after_) text += fmt::format("{:016x} {}\n", hash, path);
    return prepare(kWrittenList, text);
  }

  fs::path folder_;
  std::map<std::string, uint64_t> before_, after_;  // hash by path
  FirmwareChanges changes_;
  NewFolders folders_;
  std::vector<OutputFile> prepared_;
};

}  // namespace

Result<FirmwareChanges> write_firmware(std::span<const FirmwareFile> files,
                                       const std::string& folder) {
  return ProjectFolder(folder).write(files);
}

}  // namespace dtr
