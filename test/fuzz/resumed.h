// An evaluation with a checkpoint, for seeds of fuzz_checkpoint and for the target.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "host/commands/evaluate.h"

namespace dtr::fuzz {

// Evaluates the sample program "image" on four samples, with a checkpoint at `path`. `note`
// receives what the evaluation says of the checkpoint.
Result<EvaluationResult> evaluate_sample(const std::string& path, bool resume, std::string* note);

// The form of an input: a checkpoint in which 0 stands for the identity of that evaluation and for
// right checksums. Seeds then depend on no build, and a mutation of a result is not refused for its
// checksum.
std::vector<std::byte> without_checksums(std::vector<std::byte> checkpoint);
std::vector<std::byte> with_checksums(std::vector<std::byte> input);

}  // namespace dtr::fuzz
