#include "compiler/backends/portable/costs.h"

#include <algorithm>

namespace dtr::portable {
namespace {

struct KernelCost {
  std::string_view op;
  int64_t call, result, operand, product;  // hundredths of an instruction
};
constexpr KernelCost kCosts[] = {
#define DTR_KERNEL_COST(op, call, result, operand, product) {op, call, result, operand, product},
#include "compiler/backends/portable/costs.inc"
#undef DTR_KERNEL_COST
};
constexpr KernelCost kNotCounted{"", 100'000, 10'000, 0, 2'000};
static_assert(std::ranges::is_sorted(kCosts, {}, &KernelCost::op));

const KernelCost* find_cost(std::string_view op) {
  const auto* at = std::ranges::lower_bound(kCosts, op, {}, &KernelCost::op);
  return at != std::end(kCosts) && at->op == op ? at : nullptr;
}

}  // namespace

int64_t instructions(std::string_view op, const Work& work) {
  const KernelCost* counted = find_cost(op);
  const KernelCost& row = counted == nullptr ? kNotCounted : *counted;
  return (row.call + row.result * work.result + row.operand * work.operand +
          row.product * work.products) /
         100;
}

bool is_counted(std::string_view op) { return find_cost(op) != nullptr; }

}  // namespace dtr::portable
