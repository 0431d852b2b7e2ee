// `Result<T>`: a value, or the diagnostic of an error. `Result<void>` is success or a diagnostic.
#pragma once

#include <tl/expected.hpp>
#include <utility>

#include "compiler/support/diagnostic.h"

namespace dtr {

template <class T>
using Result = tl::expected<T, Diagnostic>;

inline tl::unexpected<Diagnostic> fail(DiagnosticId id, std::string reason, std::string fix = {},
                                       Place place = {}) {
  return tl::unexpected<Diagnostic>(
      Diagnostic{id, std::move(reason), std::move(fix), std::move(place)});
}

}  // namespace dtr

#define DTR_CONCAT_INNER(a, b) a##b
#define DTR_CONCAT(a, b) DTR_CONCAT_INNER(a, b)

// Returns the diagnostic of `expression` (a Result) from this function if it failed.
#define DTR_TRY(expression)                                   \
  do {                                                        \
    if (auto&& dtr_status = (expression); !dtr_status)        \
      return ::tl::unexpected(std::move(dtr_status).error()); \
  } while (false)

// DTR_ASSIGN(const Graph graph, read(path)): declares or assigns the value of a Result, or returns
// its diagnostic.
#define DTR_ASSIGN(lhs, ...) DTR_ASSIGN_NAMED(DTR_CONCAT(dtr_result_, __LINE__), lhs, __VA_ARGS__)
#define DTR_ASSIGN_NAMED(name, lhs, ...)                       \
  auto name = (__VA_ARGS__);                                   \
  if (!name) return ::tl::unexpected(std::move(name).error()); \
  lhs = std::move(*name)
