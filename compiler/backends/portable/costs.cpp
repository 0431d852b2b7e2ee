#include "compiler/backends/portable/costs.h"

#include <algorithm>

namespace dtr::portable {
namespace {

struct Row {
  std::string_view op;
  int64_t call, result, operand, product;  // hundredths of an instruction
};
constexpr Row kRows[] = {
#define DTR_KERNEL_COST(op, call, result, operand, product) {op, call, result, operand, product},
#include "compiler/backends/portable/costs.inc"
#undef DTR_KERNEL_COST
};
constexpr Row kNotCounted{"", 100'000, 10'000, 0, 2'000};
static_assert(std::ranges::is_sorted(kRows, {}, &Row::op));

const Row* find(std::string_view op) {
  const auto* at = std::ranges::lower_bound(kRows, op, {}, &Row::op);
  return at != std::end(kRows) && at->op == op ? at : nullptr;
}

}  // namespace

int64_t instructions(std::string_view op, const Work& work) {
  const Row* counted = find(op);
  const Row& row = counted == nullptr ? kNotCounted : *counted;
  return (row.call + row.result * work.result + row.operand * work.operand +
          row.product * work.products) /
         100;
}

bool is_counted(std::string_view op) { return find(op) != nullptr; }

}  // namespace dtr::portable
