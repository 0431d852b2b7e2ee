// From the names in a target's recipe to backends.
#pragma once

#include <memory>
#include <vector>

#include "partitioner/placement.h"
#include "quantizer/pattern.h"
#include "targets/target.h"

namespace dtr {

struct BackendOptions {
  bool row_packing = false;  // of the neutron backend, see docs/npu.md
};

Recipe make_recipe(const TargetDescription& target, const BackendOptions& options = {});
// The quantization patterns of the recipe's backends, in its order.
std::vector<std::unique_ptr<QuantizationPatterns>> make_patterns(const TargetDescription& target);

}  // namespace dtr
