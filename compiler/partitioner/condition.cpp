#include "compiler/partitioner/condition.h"

#include <fmt/format.h>

namespace dtr {

std::optional<std::string> computed_operand(const OpQuery& query, size_t index) {
  const std::vector<ValueId>& operands = query.graph.op(query.op).operands;
  if (index >= operands.size() || !operands[index].valid() ||
      query.graph.is_constant(operands[index]))
    return std::nullopt;
  return fmt::format("`{}` is computed while the model runs",
                     query.graph.value(operands[index]).name);
}

}  // namespace dtr
