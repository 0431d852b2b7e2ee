// A profile for people (text), spreadsheets (CSV), tools (JSON) and Perfetto.
#pragma once

#include <string>
#include <string_view>

#include "host/profiler/profile.h"

namespace dtr {

enum class ProfileView : uint8_t { kOperator, kModule, kKernel, kMemory };

struct ProfileTable {
  ProfileView view = ProfileView::kOperator;
  bool program_order = false;  // else most cycles first
  std::string filter;          // only rows whose operator, module or kernel has this in it
  size_t depth = 0;            // kModule: folded below this level; 0: not at all
};

// Totals, then the table.
std::string to_text(const Profile& profile, const ProfileTable& table);
// One line; nothing where it was not measured.
std::string recording_cost(const Profile& profile);
// Two profiles side by side, operator by operator, by name; what got slower first. As JSON: those
// lines, and all that is known of both.
std::string compare_text(const Profile& before, const Profile& after, const ProfileTable& table);
std::string compare_csv(const Profile& before, const Profile& after, const ProfileTable& table);
std::string compare_json(const Profile& before, const PteFile* before_image, const Profile& after,
                         const PteFile* after_image, const ProfileTable& table);

struct ComparedRow {
  std::string name;
  uint64_t before = 0, after = 0;
  int64_t change() const { return static_cast<int64_t>(after) - static_cast<int64_t>(before); }
};
// Those lines.
std::vector<ComparedRow> compared_rows(const Profile& before, const Profile& after,
                                       const ProfileTable& table);
// One line a row of the table, with a header.
std::string to_csv(const Profile& profile, const ProfileTable& table);
// Everything that is known: docs/profiling.md has the fields. `image` may be null: then nothing of
// memory and tensors.
std::string to_json(const Profile& profile, const PteFile* pte_file);
// Chrome's trace event format: tracks for host, NPU and copy engine, flows from the host's calls to
// the NPU, a counter of SRAM.
std::string to_perfetto(const Profile& profile, const PteFile* pte_file);

// Whether a row's operator, module or kernels have the text in their names; all rows have the empty
// one.
bool matches(const ProfileRow& row, const std::string& filter);
// Where the totals of a run lie, of all its rows.
CycleBreakdown spent(const Profile& profile);

}  // namespace dtr
