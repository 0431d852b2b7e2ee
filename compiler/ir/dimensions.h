// Sizes for the dimensions that an export left open, such as a batch: from the user by name, or
// from the shapes of the sample inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/type.h"
#include "compiler/support/result.h"

namespace dtr {

struct DimensionSizes {
  // By the name that the export shows ("s77", "batch"), or by place: "x.0" is dimension 0 of the
  // input x.
  std::vector<std::pair<std::string, int64_t>> given = {};
  // The shape of the array that input `index` of `inputs` takes; std::nullopt: there is none. It is
  // called for inputs with open dimensions only. Absent: no samples. Errors: those of reading.
  std::function<Result<std::optional<Shape>>(const std::string& input, size_t index, size_t inputs)>
      sampled = {};
};

// The size of dimension `dim` of an input of rank `rank` whose samples are an array of this shape
// (Samples::bind): along one more axis, or, of the same rank, along the first, which is then 1.
// std::nullopt if the array has another rank.
std::optional<int64_t> sampled_size(const Shape& array, size_t rank, size_t dim);

// "NAME=N" as a size. Error: kPt2SymbolicShape, for other text.
Result<std::pair<std::string, int64_t>> parse_dimension(const std::string& text);

// Error: kModelUnknown if there are sizes for a model whose shapes are all fixed. `what` names
// the kind of the file, `fix` says how its shapes are changed.
Result<void> check_no_dimensions(const DimensionSizes& sizes, std::string_view what,
                                 std::string_view fix, const std::string& file);

}  // namespace dtr
