#include "compiler/ir/dimensions.h"

#include <fmt/format.h>

#include <charconv>

namespace dtr {

std::optional<int64_t> sampled_size(const Shape& array, size_t rank, size_t dim) {
  if (array.size() == rank + 1) return array[dim + 1];
  if (array.size() != rank) return std::nullopt;
  return dim == 0 ? 1 : array[dim];
}

Result<std::pair<std::string, int64_t>> parse_dimension(const std::string& text) {
  const size_t equals = text.rfind('=');
  int64_t size = 0;
  const std::string_view number =
      equals == std::string::npos ? std::string_view() : std::string_view(text).substr(equals + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
  if (equals == 0 || number.empty() || error != std::errc() ||
      end != number.data() + number.size() || size < 1 || size > INT32_MAX)
    return fail(DiagnosticId::kPt2SymbolicShape,
                fmt::format("`{}` is not the name of a dimension and a size from 1 on", text),
                "write --dim NAME=N, for example --dim batch=1", {});
  return std::pair(text.substr(0, equals), size);
}

Result<void> check_no_dimensions(const DimensionSizes& sizes, std::string_view what,
                                 std::string_view fix, const std::string& file) {
  if (sizes.given.empty()) return {};
  return fail(DiagnosticId::kModelUnknown,
              fmt::format("`{}` is no open dimension of the model: the shapes of {} are fixed",
                          sizes.given.front().first, what),
              std::string(fix), {.file = file});
}

}  // namespace dtr
