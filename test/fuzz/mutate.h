// Mutations of the seeded engine, drawn from a random sequence that is the same everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace dtr::fuzz {

using Input = std::vector<uint8_t>;
using Random = std::mt19937_64;

// A seed with one to six mutations: by LLVMFuzzerCustomMutator, where the target has one, and of
// bytes.
Input make_input(uint64_t iteration, const std::vector<Input>& seeds);

}  // namespace dtr::fuzz
