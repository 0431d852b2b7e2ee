// Writes a firmware project to a folder, repeatedly: files that the user edited are kept.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace dtr {

struct FirmwareFile {
  std::string path;  // in the project's folder
  std::string text;
};

// The files that were not simply written, by path in the folder. Files that the user changed are
// never overwritten.
struct FirmwareChanges {
  std::vector<std::string> kept;  // changed by the user, not overwritten
  // changed by the user, and the new version, which differs from the last one, is in PATH.new
  std::vector<std::string> beside;
  std::vector<std::string> unused;   // changed by the user, and no longer used by the project
  std::vector<std::string> removed;  // unchanged and no longer used by the project, hence removed
};

// Writes a project to `folder`, which is created if it does not exist. The list of written files
// (kWrittenList) has their checksums, which show the files that the user has changed since.
// Programs and tensor files (.pte, .ptd) are always written. Files take their names when all of
// them are complete: an error or a signal leaves the folder as it was. Errors: kFirmwareFolder,
// naming existing files that an earlier run did not write; kFileNotWritable.
Result<FirmwareChanges> write_firmware(std::span<const FirmwareFile> files,
                                       const std::string& folder);

inline constexpr const char* kWrittenList = "deuteron/written.txt";

}  // namespace dtr
