// Which backend runs which op, and for every op that the recipe's delegates do not run, why.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/partitioner/backend.h"

namespace dtr {

using Recipe = std::vector<std::unique_ptr<Backend>>;  // first choice first

enum class PlacementOverride : uint8_t { kNone, kKeepOff, kForceOn };

struct PlacementOptions {
  std::vector<PlacementOverride> overrides = {};  // by op slot; shorter: no wish
  std::vector<uint32_t> excluded =
      {};  // by op slot, shorter: none; bit i: it does not run on backend i
  std::map<OpId, Refusal> known =
      {};  // why ops stayed float when the model was quantized: no delegate is asked about them
  bool weigh_costs = true;  // let units run on the host where that is faster
};

// Why an op is not on a delegate.
struct Reason {
  std::string_view backend;  // the delegate that does not run it
  Refusal refusal;
  std::string because_of;  // the operator that is the root of the chain, if this op only follows
                           // it; then `refusal` says how
  int64_t macs = 0;
  uint64_t host_cycles = 0;   // estimated, conversions to float and back included
  uint64_t bound_cycles = 0;  // the least that the delegate would need
};

struct Placement {
  static constexpr uint8_t kNowhere = 255;
  std::vector<uint8_t> backend;  // by op slot: index into the recipe
  std::vector<std::optional<Reason>>
      reasons;  // by op slot: of ops that a user would know, not of conversions
};

// Each op goes to the first backend of the recipe that takes it, and every backend is asked once
// about an op at most. What none takes as it is runs in float (float_fallback.h); a unit of a
// delegate that computes nothing, or that would cost more beside its neighbours on the host than
// the host needs for it, runs there too. Then backends rewrite what they have no kernel for
// (Backend::legalize). Errors: kNoBackend, naming every op that no backend takes with the reasons;
// kPlacementForced.
Result<Placement> place(Module& module, Graph& graph, const Recipe& recipe,
                        const PlacementOptions& options = {});

}  // namespace dtr
