#include "compiler/partitioner/min_cut.h"

#include <algorithm>

namespace dtr {

uint32_t MinCut::add_node() {
  adjacent_.emplace_back();
  return static_cast<uint32_t>(adjacent_.size() - 1);
}

void MinCut::add_edge(uint32_t from, uint32_t to, int64_t cost) {
  if (from == to || cost <= 0) return;
  adjacent_[from].push_back(static_cast<uint32_t>(edges_.size()));
  edges_.push_back({to, cost});
  adjacent_[to].push_back(static_cast<uint32_t>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MinCut::build_levels() {
  level_.assign(adjacent_.size(), -1);
  level_[kSource] = 0;
  std::vector<uint32_t> queue{kSource};
  for (size_t head = 0; head < queue.size(); ++head)
    for (const uint32_t index : adjacent_[queue[head]]) {
      const Edge& edge = edges_[index];
      if (edge.capacity == 0 || level_[edge.to] >= 0) continue;
      level_[edge.to] = level_[queue[head]] + 1;
      queue.push_back(edge.to);
    }
  return level_[kSink] >= 0;
}

// Sends up to `limit` along one augmenting path of the level graph, with an explicit stack: graphs
// are as deep as the network.
int64_t MinCut::push(uint32_t start, int64_t limit) {
  std::vector<uint32_t> path;
  uint32_t node = start;
  while (node != kSink) {
    bool advanced = false;
    for (; next_[node] < adjacent_[node].size(); ++next_[node]) {
      const uint32_t index = adjacent_[node][next_[node]];
      if (edges_[index].capacity > 0 && level_[edges_[index].to] == level_[node] + 1) {
        path.push_back(index);
        node = edges_[index].to;
        advanced = true;
        break;
      }
    }
    if (advanced) continue;
    if (path.empty()) return 0;
    node = edges_[path.back() ^ 1].to;
    path.pop_back();
    ++next_[node];
  }
  for (const uint32_t index : path) limit = std::min(limit, edges_[index].capacity);
  for (const uint32_t index : path) {
    edges_[index].capacity -= limit;
    edges_[index ^ 1].capacity += limit;
  }
  return limit;
}

std::vector<bool> MinCut::solve() {
  while (build_levels()) {
    next_.assign(adjacent_.size(), 0);
    while (const int64_t sent = push(kSource, kInfinite)) cost_ += sent;
  }
  std::vector<bool> sink_side(adjacent_.size());
  for (size_t i = 0; i < adjacent_.size(); ++i) sink_side[i] = level_[i] < 0;
  return sink_side;
}

}  // namespace dtr
