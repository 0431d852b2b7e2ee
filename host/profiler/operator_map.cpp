#include "host/profiler/operator_map.h"

#include "device/pte/debug_map_generated.h"

namespace dtr {
namespace {

Origin origin_of(const pte::DebugOrigin& stored) {
  Origin origin{.part = stored.part(), .parts = stored.parts()};
  if (stored.sources() != nullptr)
    origin.sources.assign(stored.sources()->begin(), stored.sources()->end());
  return origin;
}

}  // namespace

OperatorMap::OperatorMap(const pte::DebugMap& map) {
  if (map.sources() != nullptr)
    for (const pte::SourceOperator* source : *map.sources())
      sources_.push_back({.name = source->name()->str(),
                          .target = source->target()->str(),
                          .module_path = source->module_path()->str(),
                          .source_line = source->source_line()->str()});
  for (uint32_t i = 0; map.calls() != nullptr && i < map.calls()->size(); ++i) {
    const pte::DebugCall& call = *map.calls()->Get(i);
    const auto instruction = static_cast<int32_t>(i);
    add(instruction, -1,
        {.kernel = call.name()->str(), .origin = origin_of(*call.origin()), .macs = call.macs()});
    if (call.steps() == nullptr) continue;
    for (const pte::DebugStep* step : *call.steps())
      add(instruction, static_cast<int32_t>(step->command()),
          {.kernel = step->kernel()->str(),
           .origin = origin_of(*step->origin()),
           .macs = step->macs(),
           .bytes = step->bytes(),
           .limit = step->limit()->str(),
           .rearranges = step->rearranges() == nullptr ? "" : step->rearranges()->str()});
  }
}

const MappedStep* OperatorMap::find(int32_t instruction, int32_t command) const {
  const auto found = steps_.find({instruction, command});
  return found == steps_.end() ? nullptr : &found->second;
}

const MappedStep* OperatorMap::served(int32_t instruction, int32_t command) const {
  if (const MappedStep* own = find(instruction, command)) return own;
  for (auto at = steps_.upper_bound({instruction, command});
       at != steps_.end() && at->first.first == instruction; ++at)
    if (at->second.kernel != "Copy") return &at->second;
  return nullptr;
}

uint32_t OperatorMap::add_source(SourceOp source) {
  sources_.push_back(std::move(source));
  return static_cast<uint32_t>(sources_.size() - 1);
}

}  // namespace dtr
