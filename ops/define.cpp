#include "ops/define.h"

namespace dtr::ops {

std::vector<Type> infer_like_first(const OpView& view) { return {{.dtype = view.operand(0).dtype, .shape = view.operand(0).shape}}; }

tl::unexpected<Diagnostic> broken(const OpView& view, std::string_view reason) {
  return fail(DiagnosticId::kIrInvalid, fmt::format("{}: {}", view.def->name, reason));
}

}  // namespace dtr::ops
