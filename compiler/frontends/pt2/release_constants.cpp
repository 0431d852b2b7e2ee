#include <algorithm>

#include "compiler/frontends/pt2/importer.h"

namespace dtr::pt2 {

// After node `index` of the program's graph. A name may be read as long as a view of its memory is:
// what is written to the view, it gets too.
void Importer::release_constants(size_t index) {
  ConstantPool& pool = module_.constants;
  if (!release_.is_due(pool)) return;
  const Graph& graph = module_.forward();
  std::vector<bool> used(pool.size());
  graph.mark_constants(used);
  const auto read_later = [&](std::string_view name) {
    const auto use = program_.last_use.find(name);
    return use != program_.last_use.end() && use->second > index;
  };
  for (const std::vector<std::string_view>& names : program_.storages) {
    if (std::ranges::none_of(names, read_later)) continue;
    for (const std::string_view name : names)
      if (const ValueId value = program_.bindings.at(name).value; graph.is_constant(value))
        used.at(graph.value(value).constant.index) = true;
  }
  release_.release(pool, used);
}

}  // namespace dtr::pt2
