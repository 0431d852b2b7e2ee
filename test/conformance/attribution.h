// Whether a profile puts each kernel call on the operators that it computes: judged by the exported
// file and the microcode alone.
#pragma once

#include <filesystem>

#include "host/profiler/profile.h"
#include "host/session/session.h"
#include "test/conformance/check.h"

namespace dtr::conformance {

// What docs/conformance.md says of it.
inline constexpr const char* kAttributionRule =
    "Each NPU command of the program is on operators that the exported file has; one of them is of "
    "a kind that the command's kernel "
    "computes; what the command reads was written by commands of the same operators or of those "
    "whose results they take; every operator "
    "that computes has a call. The map is made from the file's own graph and from the decoded "
    "microcode, both models.";

// `profile` is of a run of the program in `session`, `model` the .pt2 that it was compiled from.
// Errors: of reading the file.
Result<void> judge_attribution(const std::filesystem::path& model, const Session& session,
                               const Profile& profile, Check& check);

}  // namespace dtr::conformance
