#include "compiler/ops/ops.h"

#include <array>

namespace dtr {

std::span<const OpDef* const> all_ops() {
  static constexpr std::array kTable{
#define DTR_OP(symbol, file) &ops::symbol,
#include "compiler/ops/ops.inc"
#undef DTR_OP
  };
  return kTable;
}

}  // namespace dtr
