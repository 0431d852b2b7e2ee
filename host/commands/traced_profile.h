// `deuteron profile` without its terminal: reads traces and maps them to their program.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/profiler/profile.h"
#include "host/session/session.h"

namespace dtr {

// A trace, from a file or a run, mapped to the operators of its program if that is given.
struct TracedProfile {
  Trace trace;
  Profile profile;
  std::unique_ptr<Session> session = {};
  std::optional<PteFile> pte_file = {};

  const PteFile* program() const {
    return session != nullptr ? &session->pte_file() : pte_file ? &*pte_file : nullptr;
  }
};

// A trace in terms of the program that was run.
Profile profile_of(const Trace& trace, const PteFile& pte_file);

// Runs a program on zeros, since its cost does not depend on data. Errors: those of running.
Result<TracedProfile> profile_session(std::unique_ptr<Session> session);

// Of an .etdump, of records of a device (profile.bin), or of a program, which is run on zeros.
// `program_path` or `record_path` (.etrecord) name the operators of a trace; both may be empty.
// `method` of the program: PteFile::select. Errors: those of reading and running; kTraceProgram, if
// the files are not of one program.
Result<TracedProfile> read_profile(const std::string& path, const std::string& program_path,
                                   const std::string& record_path,
                                   const std::vector<std::string>& tensor_files,
                                   std::string_view method = {});

}  // namespace dtr
