// Reductions over dimensions; without dimensions they reduce all.
#include <fmt/format.h>

#include "frontends/pt2/operators.h"

namespace dtr::pt2 {

namespace {

// Sums and means take a dtype to compute in.
template <const char* kOp>
Result<Values> in_own_dtype(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const std::optional<DType> dtype, node.dtype("dtype"));
  if (dtype && *dtype != node.type(x).dtype)
    return node.unsupported(fmt::format("it computes in {}, its operand is {}", name(*dtype), name(node.type(x).dtype)));
  DTR_ASSIGN(Ints dims, node.dims("dim", node.type(x).rank()));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(const ValueId result, node.emit(kOp, {x}, {{"dim", std::move(dims)}, {"keepdim", keepdim}}));
  return Values{result};
}
constexpr char kMean[] = "aten.mean.dim";
constexpr char kSum[] = "aten.sum.dim_IntList";

}  // namespace

std::vector<Operator> reduction_operators() {
  const auto reduction = [](std::string_view target, std::string_view op) -> Operator {
    return {.target = target, .op = op, .params = {{"self"}, {"dim", Take::kDims}, {"keepdim", Take::kBool, 0}}};
  };
  return {
      Operator{.target = "aten.mean.dim", .op = kMean, .build = in_own_dtype<kMean>},
      Operator{.target = "aten.mean.default", .op = kMean, .build = in_own_dtype<kMean>},
      Operator{.target = "aten.sum.dim_IntList", .op = kSum, .build = in_own_dtype<kSum>},
      Operator{.target = "aten.sum.default", .op = kSum, .build = in_own_dtype<kSum>},
      reduction("aten.amax.default", "aten.amax"),
      reduction("aten.amin.default", "aten.amin"),
  };
}

}  // namespace dtr::pt2
