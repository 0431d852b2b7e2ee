// The folder of a firmware project, into which programs are written more than once and in which
// people work.
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

// Paths in the folder. A file that someone changed stays as it is.
struct FirmwareChanges {
  std::vector<std::string> kept;     // it stays
  std::vector<std::string> beside;   // it stays, and what would have been written is beside it, as
                                     // PATH.new: it differs from last time
  std::vector<std::string> unused;   // it stays, and the project does not use it any more
  std::vector<std::string> removed;  // nobody changed it, and the project does not use it any more
};

// Writes a project into `folder`, which is made if it is not there. A list of what was written
// (kWrittenList) says which files someone changed since. Programs and tensor files (.pte, .ptd) are
// written in any case. Errors: kFirmwareFolder, naming files that are in the way and that this
// never wrote; kFileNotWritable.
Result<FirmwareChanges> write_firmware(std::span<const FirmwareFile> files,
                                       const std::string& folder);

inline constexpr const char* kWrittenList = "deuteron/written.txt";

}  // namespace dtr
