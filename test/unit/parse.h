// Graphs that tests write as text.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "compiler/ir/parser.h"

namespace dtr::test {

// An empty module, and a failure, where the text has an error.
inline Module parse(std::string_view text) {
  Result<Module> module = parse_module(text, "test.ir");
  if (!module) ADD_FAILURE() << to_text(module.error()) << "\n" << text;
  return module ? std::move(*module) : Module{};
}

}  // namespace dtr::test
