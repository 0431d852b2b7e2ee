// Reductions over dimensions; without dimensions they reduce all.
#include "frontends/pt2/operators.h"

namespace dtr::pt2 {

std::vector<Operator> reduction_operators() {
  const auto reduction = [](std::string_view target, std::string_view op) -> Operator {
    return {.target = target, .op = op, .params = {{"self"}, {"dim", Take::kDims}, {"keepdim", Take::kBool, 0}}};
  };
  return {
      reduction("aten.mean.dim", "aten.mean.dim"),
      reduction("aten.mean.default", "aten.mean.dim"),
      reduction("aten.sum.dim_IntList", "aten.sum.dim_IntList"),
      reduction("aten.sum.default", "aten.sum.dim_IntList"),
      reduction("aten.amax.default", "aten.amax"),
      reduction("aten.amin.default", "aten.amin"),
  };
}

}  // namespace dtr::pt2
