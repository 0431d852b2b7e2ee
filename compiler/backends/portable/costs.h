// What a portable kernel costs: instructions that were counted on a Cortex-M33.
#pragma once

#include <cstdint>
#include <string_view>

namespace dtr::portable {

// What a kernel's instructions depend on.
struct Work {
  int64_t result = 0;    // elements of the result
  int64_t operand = 0;   // elements of the first operand
  int64_t products = 0;  // multiply-accumulates; of a pool, elements of all windows
};

// Instructions of the kernel of an operator, by its name. An operator without a row in costs.inc
// counts as one with much work an element.
int64_t instructions(std::string_view op, const Work& work);

// Whether costs.inc has a row for the operator.
bool is_counted(std::string_view op);

}  // namespace dtr::portable
