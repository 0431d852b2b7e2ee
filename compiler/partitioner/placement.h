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

// The user's choice for one op: --keep-off, --force-on.
enum class PlacementOverride : uint8_t { kNone, kKeepOff, kForceOn };

// A reason that was found before, and the name of the operator at its root (Reason::because_of).
struct KnownRefusal {
  Refusal refusal;
  std::string because_of = {};
};

struct PlacementOptions {
  std::vector<PlacementOverride> overrides = {};  // by op slot; ops beyond the end have none
  std::vector<uint32_t> excluded =
      {};  // by op slot, ops beyond the end have none; bit i: the op does not run on backend i
  std::map<OpId, KnownRefusal> known =
      {};  // why ops stayed float when the model was quantized: they are not offered to delegates
  bool weigh_costs = true;  // moves partitions to the CPU where that is faster
};

// Why an op is not on a delegate.
struct Reason {
  std::string_view backend;  // the delegate that does not run it
  Refusal refusal;
  // the operator at the root of the chain, if this op is off the delegate only because of it;
  // `refusal` then says how
  std::string because_of;
  int64_t macs = 0;
  uint64_t host_cycles = 0;   // estimated cycles on the CPU, with conversions to float and back
  uint64_t bound_cycles = 0;  // the least that the delegate would need
};

// The backend of every op, and why ops are not on a delegate.
struct Placement {
  static constexpr uint8_t kNowhere = 255;
  std::vector<uint8_t> backend;  // by op slot: index into the recipe
  std::vector<std::optional<Reason>>
      reasons;  // by op slot, for ops of the model; conversions have none
  // Quantized ops that run in float between conversions, with the float ops that replace them.
  std::map<OpId, OpId> in_float = {};
};

// Places each op on the first backend of the recipe that runs it. An op that no backend runs as it
// is falls back to float (float_fallback.h). A delegate partition moves to the CPU if it does no
// arithmetic, or if its cost plus the dispatch overhead exceeds its cost on the CPU. Backends then
// rewrite ops that they have no kernel for (KernelBackend::legalize). Errors: kNoBackend, naming
// every op that no backend runs with the reasons; kPlacementForced; those of legalize.
Result<Placement> place(Module& module, Graph& graph, const Recipe& recipe,
                        const PlacementOptions& options = {});

}  // namespace dtr
