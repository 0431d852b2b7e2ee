// What the importer says to operators whose arguments it does not take: programs of one operator,
// written here as exports would be, and the exact text. Most of them PyTorch itself would not have
// exported; a file may hold them all the same.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace dtr::test {

struct Refusal {
  std::string_view target;
  // Shapes of the inputs x0, x1, …: "2x3", "" for a scalar; another dtype than float32 in front:
  // "i8:2x3".
  std::vector<std::string_view> inputs;
  // "self=%0 size=[4,-1] mode='same'": tensors, integers, floats (with a dot, or NaN and Infinity),
  // flags, strings, dtype:N; lists of each.
  std::string_view arguments;
  std::string_view reason;  // without "TARGET: "
  std::string_view fix = "change the model so that it does without";
};

// A program with the node `y`; before it, if `before` has arguments, the node `z` of the same
// operator.
std::vector<std::byte> program_of(const Refusal& refusal, std::string_view before = {});

void expect_refused(std::span<const Refusal> refusals);

}  // namespace dtr::test
