// Runs an op on a tensor of more than six dimensions on views with fewer: neighbours that the op
// treats alike become one dimension, and dimensions of one element go.
//
//   elementwise, expand          neighbours that the same operands have, not broadcast
//   softmax, slice, cat, …       all before the op's dimension, and all behind it
//   sum, mean, amax, amin        neighbours that are all reduced, or all kept
//   permute                      neighbours that stay neighbours
//
// Code that cuts images into windows, einops above all, writes permutes of seven and eight
// dimensions; backends have kernels for six. The views in front and behind join with those that
// such code has there.
#include <algorithm>
#include <functional>
#include <numeric>

#include "compiler/ops/define.h"
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

constexpr size_t kMostDimensions = 6;

// Dimensions of the op's shape that become one, in order.
using Groups = std::vector<std::vector<size_t>>;

class MergeDimensions : public EachOpPass<MergeDimensions> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    const Op& op = graph_.op(id);
    if (op.results.size() != 1 || op.operands.empty() || !op.operands[0].valid()) return {};
    const size_t rank = std::max(graph_.type(op.operands[0]).rank(), result_type(op).rank());
    if (rank <= kMostDimensions || has_channel_scales(op)) return {};
    if (op.def == &ops::kPermute) return merge_permute(id);
    if (op.def->has_trait(kElementwise) || op.def == &ops::kExpand) return merge_broadcast(id);
    if (is_reduction(op.def)) return merge_reduction(id);
    if (works_along_one(op)) return merge_around(id);
    return {};
  }

 private:
  const Type& result_type(const Op& op) const { return graph_.type(op.results[0]); }

  bool has_channel_scales(const Op& op) const {
    const auto per_channel = [&](ValueId value) {
      return value.valid() && graph_.type(value).quantized() &&
             graph_.type(value).quantization->per_channel();
    };
    return std::ranges::any_of(op.operands, per_channel) || per_channel(op.results[0]);
  }

  static bool is_reduction(const OpDef* def) {
    return def == &ops::kSumDim || def == &ops::kMeanDim || def == &ops::kAmax ||
           def == &ops::kAmin;
  }

  // Ops with the attribute `dim`, whose other dimensions only repeat them. A softmax's mask may
  // broadcast.
  static bool works_along_one(const Op& op) {
    const bool masked =
        op.def == &ops::kSoftmax && op.operands.size() > 1 && op.operands[1].valid();
    return op.def == &ops::kSliceTensor || op.def == &ops::kCat || op.def == &ops::kIndexSelect ||
           op.def == &ops::kCumsum || op.def == &ops::kLogSoftmax ||
           (op.def == &ops::kSoftmax && !masked);
  }

  // Groups of the dimensions of `shape` that have more than one element: neighbours for which
  // joins(previous, next) holds. At least one group.
  static Groups groups_of(const Shape& shape, const std::function<bool(size_t, size_t)>& joins) {
    Groups groups;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (shape[dim] == 1) continue;
      if (groups.empty() || !joins(groups.back().back(), dim)) groups.emplace_back();
      groups.back().push_back(dim);
    }
    if (groups.empty()) groups.push_back({0});
    return groups;
  }

  static Shape merged(const Shape& shape, const Groups& groups) {
    Shape result;
    for (const std::vector<size_t>& group : groups)
      result.push_back(std::accumulate(group.begin(), group.end(), int64_t{1},
                                       [&](int64_t n, size_t dim) { return n * shape[dim]; }));
    return result;
  }

  // Puts the op on views with these shapes, one an operand, in its place.
  Result<void> replace(OpId id, const std::vector<Shape>& shapes, Attributes attributes) {
    const Op& op = graph_.op(id);
    OpSpec spec{.def = op.def, .operands = op.operands, .attributes = std::move(attributes)};
    const Origin origin = op.origin;
    for (size_t i = 0; i < shapes.size(); ++i)
      if (spec.operands[i].valid() && graph_.type(spec.operands[i]).shape != shapes[i]) {
        DTR_ASSIGN(spec.operands[i],
                   insert_view(rewriter_, id, spec.operands[i], shapes[i], origin));
      }
    ++changes_;
    return replace_between_views(rewriter_, id, std::move(spec));
  }

  Result<void> merge_permute(OpId id) {
    const Op& op = graph_.op(id);
    const Shape& from = graph_.type(op.operands[0]).shape;
    Ints dims = op.attributes.get<Ints>("dims");
    for (int64_t& dim : dims)
      if (dim < 0) dim += static_cast<int64_t>(dims.size());
    // Of result dimensions; a group's dimensions are neighbours in the operand too if only
    // dimensions of one element are between them.
    const auto joins = [&](size_t previous, size_t next) {
      if (dims[previous] > dims[next]) return false;
      const auto first = static_cast<size_t>(dims[previous]) + 1;
      return std::all_of(from.begin() + static_cast<std::ptrdiff_t>(first),
                         from.begin() + static_cast<std::ptrdiff_t>(dims[next]),
                         [](int64_t extent) { return extent == 1; });
    };
    const Shape& to = result_type(op).shape;
    const Groups groups = groups_of(to, joins);
    if (groups.size() > kMostDimensions) return {};
    const Shape result = merged(to, groups);
    std::vector<size_t> order(groups.size());  // of the groups in the operand
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t group) { return dims[groups[group].front()]; });
    Shape operand;
    Ints permutation(groups.size());
    for (size_t i = 0; i < order.size(); ++i) {
      operand.push_back(result[order[i]]);
      permutation[order[i]] = static_cast<int64_t>(i);
    }
    return replace(id, {operand}, {{"dims", permutation}});
  }

  // Operands have their last dimensions in common with the result; one that is absent or has one
  // element is broadcast.
  Result<void> merge_broadcast(OpId id) {
    const Op& op = graph_.op(id);
    const Shape& to = result_type(op).shape;
    std::vector<Shape> aligned;  // operands with as many dimensions as the result
    for (const ValueId operand : op.operands) {
      Shape shape = operand.valid() ? graph_.type(operand).shape : Shape{};
      shape.insert(shape.begin(), to.size() - shape.size(), 1);
      aligned.push_back(std::move(shape));
    }
    const Groups groups = groups_of(to, [&](size_t previous, size_t next) {
      return std::ranges::all_of(aligned, [&](const Shape& shape) {
        return (shape[previous] == 1) == (shape[next] == 1);
      });
    });
    if (groups.size() > kMostDimensions) return {};
    std::vector<Shape> shapes;
    shapes.reserve(aligned.size());
    for (const Shape& shape : aligned) shapes.push_back(merged(shape, groups));
    Attributes attributes = op.attributes;
    if (op.def == &ops::kExpand) attributes.set("size", merged(to, groups));
    return replace(id, shapes, std::move(attributes));
  }

  Result<void> merge_reduction(OpId id) {
    const Op& op = graph_.op(id);
    const Shape& from = graph_.type(op.operands[0]).shape;
    const Ints& dims = op.attributes.get<Ints>("dim");
    std::vector<bool> reduced(from.size(), dims.empty());
    for (const int64_t dim : dims) reduced[*ops::normalize_dim(dim, from.size())] = true;
    const Groups groups = groups_of(
        from, [&](size_t previous, size_t next) { return reduced[previous] == reduced[next]; });
    Ints merged_dims;
    for (size_t i = 0; i < groups.size(); ++i)
      if (reduced[groups[i].front()]) merged_dims.push_back(static_cast<int64_t>(i));
    // An op that reduces dimensions of one element only stays: no dimension means all of them.
    if (groups.size() > kMostDimensions || merged_dims.empty()) return {};
    Attributes attributes = op.attributes;
    attributes.set("dim", merged_dims);
    attributes.set("keepdim", true);
    return replace(id, {merged(from, groups)}, std::move(attributes));
  }

  // Three dimensions: those before the op's own, it, and those behind it.
  Result<void> merge_around(OpId id) {
    const Op& op = graph_.op(id);
    const size_t rank = graph_.type(op.operands[0]).rank();
    const size_t own = *ops::normalize_dim(op.attributes.get<int64_t>("dim"), rank);
    std::vector<Shape> shapes;
    for (const ValueId operand : op.operands) {
      const Shape& shape = graph_.type(operand).shape;
      if (shape.size() != rank) {  // indices
        shapes.push_back(shape);
        continue;
      }
      const auto at = shape.begin() + static_cast<std::ptrdiff_t>(own);
      const auto product = [](auto first, auto last) {
        return std::accumulate(first, last, int64_t{1}, std::multiplies<>());
      };
      shapes.push_back({product(shape.begin(), at), *at, product(at + 1, shape.end())});
    }
    Attributes attributes = op.attributes;
    attributes.set("dim", int64_t{1});
    return replace(id, shapes, std::move(attributes));
  }
};

}  // namespace

constinit const PassDef kMergeDimensions{
    .name = "merge_dimensions",
    .summary = "operators on more than six dimensions work on views that have fewer",
    .exactness = Exactness::kExact,
    .keeps_sources = true,
    .run = run_pass<MergeDimensions>};

}  // namespace dtr::passes
