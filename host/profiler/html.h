// A profile as one page: opens from disk, loads nothing, shows everything that to_json writes.
#pragma once

#include <string>

#include "compiler/program/reader.h"
#include "compiler/support/result.h"
#include "host/profiler/profile.h"

namespace dtr {

// Files that other commands wrote about the same program; empty: none.
struct HtmlAdditions {
  std::string compile_report;  // `deuteron compile --report-json`: why operators are on the CPU
  std::string verify;          // `deuteron verify --json`: errors of layers
  // The same texts in memory, instead of files.
  std::string compile_report_text, verify_text;
};

// `image` may be null, as for to_json. Errors: kFileNotFound; kTraceDamaged for a file that those
// commands did not write; kReportProgram if it is of another program or target than the profile,
// or, where that does not say which it is of, has none of its operators.
Result<std::string> to_html(const Profile& profile, const PteFile* pte_file,
                            const HtmlAdditions& additions = {});

}  // namespace dtr
