// Writes a profile for people (text), spreadsheets (CSV), tools (JSON) and Perfetto.
#pragma once

#include <string>
#include <string_view>

#include "host/profiler/profile.h"

namespace dtr {

enum class ProfileView : uint8_t { kOperator, kModule, kKernel, kMemory };

struct ProfileTable {
  ProfileView view = ProfileView::kOperator;
  bool program_order = false;  // else most cycles first
  std::string filter;          // only rows whose operator, module or kernel contains this
  size_t depth = 0;            // kModule: merges modules below this level; 0: merges none
};

// Totals, then the table.
std::string to_text(const Profile& profile, const ProfileTable& table);
// One line; empty if it was not measured.
std::string recording_cost(const Profile& profile);
// Compare two profiles operator by operator, by name, the largest slowdown first. The JSON form
// also contains both profiles.
std::string compare_text(const Profile& before, const Profile& after, const ProfileTable& table);
std::string compare_csv(const Profile& before, const Profile& after, const ProfileTable& table);
std::string compare_json(const Profile& before, const PteFile* before_image, const Profile& after,
                         const PteFile* after_image, const ProfileTable& table);

struct ComparedRow {
  std::string name;
  uint64_t before = 0, after = 0;
  int64_t change() const { return static_cast<int64_t>(after) - static_cast<int64_t>(before); }
};
// The rows of such a comparison.
std::vector<ComparedRow> compared_rows(const Profile& before, const Profile& after,
                                       const ProfileTable& table);
// A header, then a line for each row of the table.
std::string to_csv(const Profile& profile, const ProfileTable& table);
// All figures; docs/profiling.md lists the fields. Without `pte_file` memory and tensors are left
// out.
std::string to_json(const Profile& profile, const PteFile* pte_file);
// Chrome's trace event format: tracks for host, NPU and copy engine, flows from the host's calls to
// the NPU, and a counter of SRAM.
std::string to_perfetto(const Profile& profile, const PteFile* pte_file);

// True if the name of a row's operator, module or kernels contains the text.
bool matches(const ProfileRow& row, const std::string& filter);
// The sum over all rows of a run.
CycleBreakdown spent(const Profile& profile);

}  // namespace dtr
