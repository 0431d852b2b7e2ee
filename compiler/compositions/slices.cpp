#include "compiler/compositions/slices.h"

#include <fmt/format.h>

namespace dtr::compositions {

Result<ValueId> replace_slice(GraphBuilder& builder, ValueId x, ValueId part, int64_t dim,
                              int64_t start, int64_t step) {
  constexpr int64_t kMostPieces = 256;
  const int64_t extent = builder.type(x).shape[static_cast<size_t>(dim)];
  const int64_t count = builder.type(part).shape[static_cast<size_t>(dim)];
  if (builder.type(part).dtype != builder.type(x).dtype)
    return builder.unsupported(fmt::format("it writes {} into {}", name(builder.type(part).dtype),
                                           name(builder.type(x).dtype)));
  if (step != 1 && count > kMostPieces)
    return builder.unsupported(
        fmt::format("it replaces {} single elements, at most {} are taken", count, kMostPieces),
        "replace a range without steps");
  const int64_t run = step == 1 ? count : 1;  // elements that are replaced together
  std::vector<ValueId> pieces;
  const auto add = [&](ValueId from, int64_t first, int64_t last) -> Result<void> {
    if (first >= last) return {};
    DTR_ASSIGN(pieces.emplace_back(), builder.slice(from, dim, first, last));
    return {};
  };
  int64_t kept = 0;  // of x, that is in the pieces or replaced
  for (int64_t i = 0; i < count; i += run) {
    const int64_t at = start + i * step;
    DTR_TRY(add(x, kept, at));
    DTR_TRY(add(part, i, i + run));
    kept = at + run;
  }
  DTR_TRY(add(x, kept, extent));
  return builder.concatenate(std::move(pieces), dim);
}

}  // namespace dtr::compositions
