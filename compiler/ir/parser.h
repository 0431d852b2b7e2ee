// Reads the text form that compiler/ir/printer.h describes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace dtr {

// Parses the text form of a module and verifies every op. Errors: kIrSyntax for malformed text,
// kIrInvalid for a graph that breaks a rule of the IR; both begin with "line:column: ". `file` is
// only for messages.
Result<Module> parse_module(std::string_view text, std::string_view file = {});

// `elements` pseudo-random values, the same on every machine for a seed: i8 −127…127, u8 and bool
// all values, i16 −32767…32767, i32 −4096…4095 (a bias), i64 −128…127, floats in [−1, 1).
std::vector<std::byte> seeded_values(DType dtype, size_t elements, uint64_t seed);

}  // namespace dtr
