// Minimum s-t cut of a small directed graph (Dinic's algorithm): exact solution of two-label
// problems with pairwise costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtr {

class MinCut {
 public:
  static constexpr int64_t kInfinite = INT64_MAX / 4;
  // Nodes 0 (source side: label 0) and 1 (sink side: label 1) exist from the start.
  static constexpr uint32_t kSource = 0;
  static constexpr uint32_t kSink = 1;

  MinCut() : adjacent_(2) {}
  uint32_t add_node();
  // Adds `cost` to the cut if `from` is on the source side and `to` on the sink side.
  void add_edge(uint32_t from, uint32_t to, int64_t cost);
  // The cheapest cut. Returns for each node whether it is on the sink side; of several cheapest
  // cuts the one with the fewest nodes on the source side, so the result does not depend on the
  // order of edges.
  std::vector<bool> solve();
  int64_t cost() const { return cost_; }

 private:
  struct Edge {
    uint32_t to;
    int64_t capacity;
  };
  bool build_levels();
  int64_t push(uint32_t node, int64_t limit);

  std::vector<Edge> edges_;  // edge i and its reverse i ^ 1
  std::vector<std::vector<uint32_t>> adjacent_;
  std::vector<int32_t> level_;
  std::vector<size_t> next_;
  int64_t cost_ = 0;
};

}  // namespace dtr
