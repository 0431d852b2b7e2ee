// The smallest graph that still fails.
#pragma once

#include <functional>

#include "compiler/ir/graph.h"

namespace dtr::test {

// Makes the graph smaller as long as `fails` says that it still fails: single outputs, ops replaced
// by an input of the graph or by one of their operands, what nobody reads removed. Nothing smaller
// of this kind fails. `fails` may add constants to the program, nothing else; it is true of
// `program`.
Module shrink(Module module, const std::function<bool(Module&)>& fails);

}  // namespace dtr::test
