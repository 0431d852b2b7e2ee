#include "compiler/transforms/pass.h"

#include <algorithm>
#include <array>

namespace dtr {

std::span<const PassDef* const> all_passes() {
  static constexpr std::array kTable{
#define DTR_PASS(symbol, file) &passes::symbol,
#include "compiler/transforms/passes.inc"
#undef DTR_PASS
  };
  return kTable;
}

const PassDef* find_pass(std::string_view name) {
  const auto table = all_passes();
  const auto at = std::find_if(table.begin(), table.end(),
                               [&](const PassDef* pass) { return pass->name == name; });
  return at == table.end() ? nullptr : *at;
}

}  // namespace dtr
