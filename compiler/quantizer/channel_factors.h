// Parts of the equalizer (equalize.h): channels that share a factor, and which channels a weight
// connects.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ops/ops.h"

namespace dtr {

// A set of integers, of which some are united (union-find).
class Sets {
 public:
  int add() {
    parent_.push_back(static_cast<int>(parent_.size()));
    return parent_.back();
  }
  int find(int item) {
    while (parent_[index(item)] != item)
      item = parent_[index(item)] = parent_[index(parent_[index(item)])];
    return item;
  }
  // The smaller number represents both, so that kPinned does.
  void unite(int a, int b) {
    a = find(a);
    b = find(b);
    parent_[index(std::max(a, b))] = std::min(a, b);
  }
  size_t size() const { return parent_.size(); }

 private:
  static size_t index(int item) { return static_cast<size_t>(item); }
  std::vector<int> parent_;
};

// The factors of a value's channels along `axis`; none: the value has no factor.
struct Channels {
  size_t axis = 0;
  std::vector<int> factors;
  bool empty() const { return factors.empty(); }
};

// The input and output channel that element `i` of a layer's weights connects.
class WeightMap {
 public:
  WeightMap(const Graph& graph, const Op& op) {
    const Shape& shape = graph.type(op.operands[1]).shape;
    const bool convolves = op.def == &ops::kConvolution;
    transposed_ = convolves && op.attributes.get<bool>("transposed");
    const int64_t groups = convolves ? op.attributes.get<int64_t>("groups") : 1;
    rows_ = shape[0];
    columns_ = shape[1];
    taps_ = 1;
    for (size_t i = 2; i < shape.size(); ++i) taps_ *= shape[i];
    rows_of_group_ = std::max<int64_t>(1, rows_ / groups);
  }
  // Calls each(i, input, output) for all elements in order, without the divisions of these.
  template <class Each>
  void for_each(const Each& each) const {
    size_t i = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t before = row / rows_of_group_ * columns_;
      for (int64_t column = 0; column < columns_; ++column) {
        const auto along_row = static_cast<size_t>(before + column),
                   along_column = static_cast<size_t>(row);
        for (int64_t tap = 0; tap < taps_; ++tap, ++i)
          each(i, transposed_ ? along_column : along_row, transposed_ ? along_row : along_column);
      }
    }
  }
  size_t input(size_t i) const {
    return static_cast<size_t>(transposed_ ? row(i) : in_group(i) * columns_ + column(i));
  }
  size_t output(size_t i) const {
    return static_cast<size_t>(transposed_ ? in_group(i) * columns_ + column(i) : row(i));
  }
  // Each output channel reads one input channel, whose factor its own scale takes.
  bool depthwise() const { return (transposed_ ? rows_of_group_ : columns_) == 1; }

 private:
  int64_t row(size_t i) const { return static_cast<int64_t>(i) / (columns_ * taps_); }
  int64_t column(size_t i) const { return static_cast<int64_t>(i) / taps_ % columns_; }
  int64_t in_group(size_t i) const { return row(i) / rows_of_group_; }

  bool transposed_ = false;
  int64_t rows_ = 1, columns_ = 1, taps_ = 1, rows_of_group_ = 1;
};

inline int64_t product(const Shape& shape, size_t first, size_t end) {
  return std::accumulate(shape.begin() + static_cast<int64_t>(first),
                         shape.begin() + static_cast<int64_t>(end), int64_t{1},
                         std::multiplies<>());
}

}  // namespace dtr
