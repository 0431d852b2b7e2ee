// Open dimensions of an export (dynamic_shapes): symbols, their ranges and relations, and the sizes
// that they have in this program.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/frontends/pt2/expression.h"
#include "compiler/ir/dimensions.h"

namespace dtr::pt2 {

struct SymbolRange {
  std::string_view name;  // "s77"; derived sizes ("2*s44") have a range too
  int64_t least = 0;
  int64_t most = INT64_MAX;
};

struct InputSize {
  std::string_view expression;  // empty: `fixed`
  int64_t fixed = 0;
  std::optional<int64_t> example = {};  // that of the example input
};

struct OpenInput {
  std::string_view name;
  std::vector<InputSize> sizes;
};

// What a file says about the sizes of its inputs.
struct OpenShapes {
  std::vector<OpenInput> inputs;  // of the user, in order
  std::vector<SymbolRange> ranges;
  std::vector<std::string_view> guards;  // conditions over sizes of inputs, as Python
};

struct BoundDimensions {
  std::map<std::string_view, int64_t> sizes;  // by symbol
  std::vector<std::string> notes;             // on sizes that follow from samples
};

// Gives every symbol of the inputs a size. Errors: kPt2SymbolicShape (a name that is no open
// dimension; a size outside of its range, or that breaks a relation, with the sizes that work; a
// symbol without a size, with the options that give it one), kModelUnknown (no size is open), those
// of reading samples.
Result<BoundDimensions> bind_dimensions(const OpenShapes& shapes, const DimensionSizes& sizes,
                                        const std::string& file);

}  // namespace dtr::pt2
