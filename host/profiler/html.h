// Writes a profile as a self-contained HTML page, with everything that to_json writes.
#pragma once

#include <string>

#include "compiler/program/reader.h"
#include "compiler/support/result.h"
#include "host/profiler/profile.h"

namespace dtr {

// Reports of other commands about the same program; empty: none.
struct HtmlAdditions {
  std::string compile_report;  // `deuteron compile --report-json`: why operators are on the CPU
  std::string verify;          // `deuteron verify --json`: errors of layers
  // The same texts in memory, instead of files.
  std::string compile_report_text, verify_text;
};

// `pte_file` may be null, as for to_json. Errors: kFileNotFound; kTraceDamaged for a file that
// those commands did not write; kReportProgram if a report is for another program or target than
// the profile or, if the profile does not name its program, shares no operator with it.
Result<std::string> to_html(const Profile& profile, const PteFile* pte_file,
                            const HtmlAdditions& additions = {});

}  // namespace dtr
