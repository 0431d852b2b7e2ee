// Sums, means, extremes and their indices over any dimensions. Each mode of the operand's layout
// becomes a loop over results or over reduced elements, so that the operand is read in place;
// results have the same order of modes.
#include "compiler/backends/neutron/lowering/reduction.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "compiler/ops/integer.h"
#include "compiler/ops/reduction.h"

namespace dtr::neutron {
namespace {

bool finds_index(const OpView& view) {
  return view.def == &ops::kArgmax || view.def == &ops::kArgmin;
}

// The dimensions in which aten.argmax looks.
std::vector<bool> compared_dims(const OpView& view) {
  const size_t rank = view.operand(0).rank();
  const AttributeValue* dim = view.attributes->find("dim");
  std::vector<bool> compared(rank, dim == nullptr);
  if (dim != nullptr && rank != 0)
    compared[*ops::normalize_dim(std::get<int64_t>(*dim), rank)] = true;
  return compared;
}

struct Loops {
  std::vector<CopyLoop> results;  // from the operand to the result
  std::vector<CopyLoop> reduced;  // to_step: of the index of an element among them, or 0
  StridedLayout result_layout;
};

// Outermost first; loops that continue each other are one.
void join(std::vector<CopyLoop>& loops) {
  std::vector<CopyLoop> joined;
  for (const CopyLoop& loop : loops) {
    if (!joined.empty() && joined.back().from_step == loop.from_step * loop.extent &&
        joined.back().to_step == loop.to_step * loop.extent) {
      joined.back() = {joined.back().extent * loop.extent, loop.from_step, loop.to_step};
    } else {
      joined.push_back(loop);
    }
  }
  loops = std::move(joined);
}

// Loops over an operand of that layout; results have the layout `wanted`, or the order of their
// elements in the operand. nullopt if the modes of the layout cannot be split at the dimensions, or
// need more loops than the command has.
std::optional<Loops> loops_over(const OpView& view, const StridedLayout& layout,
                                const std::optional<StridedLayout>& wanted = {}) {
  const Shape& shape = view.operand(0).shape;
  const bool counts = finds_index(view);
  const std::vector<bool> reduced = counts ? compared_dims(view) : *ops::reduced_dims(view);
  const std::optional<StridedLayout> modes = split_at_dims(layout, shape);
  if (!modes) return std::nullopt;
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  std::vector<int64_t> result_places(shape.size());  // of kept dimensions
  int64_t place = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    result_places[i] = place;
    if (!reduced[i]) place *= shape[i];
  }
  Loops loops;
  StridedLayout kept;
  for (const Mode& mode : *modes) {
    if (mode.extent == 1) continue;
    size_t dim = 0;
    while (shape[dim] == 1 || mode.logical_stride < places[dim] ||
           mode.logical_stride >= places[dim] * shape[dim])
      ++dim;
    if (reduced[dim]) {
      loops.reduced.push_back({mode.extent, mode.byte_stride, counts ? mode.logical_stride : 0});
    } else {
      kept.push_back(
          {mode.extent, mode.logical_stride / places[dim] * result_places[dim], mode.byte_stride});
    }
  }
  loops.result_layout = wanted.value_or(compacted(kept));
  auto results = copy_loops(kept, loops.result_layout);
  if (!results) return std::nullopt;
  loops.results = std::move(*results);
  if (counts) std::ranges::sort(loops.reduced, std::greater(), &CopyLoop::to_step);
  join(loops.reduced);
  if (loops.results.size() > npu::kMoveRank || loops.reduced.size() > npu::kMoveRank)
    return std::nullopt;
  return loops;
}

npu::ReduceKind kind_of(const OpView& view) {
  if (view.def == &ops::kAmax) return npu::ReduceKind::kMaximum;
  if (view.def == &ops::kAmin) return npu::ReduceKind::kMinimum;
  if (view.def == &ops::kArgmax) return npu::ReduceKind::kIndexOfMaximum;
  if (view.def == &ops::kArgmin) return npu::ReduceKind::kIndexOfMinimum;
  return view.attribute_or("of_bytes", false) ? npu::ReduceKind::kSumOfBytes
                                              : npu::ReduceKind::kSum;
}

npu::Reduce reduce_of(npu::ReduceKind kind, const std::vector<CopyLoop>& results,
                      const std::vector<CopyLoop>& reduced) {
  npu::Reduce reduce{.kind = kind};
  std::ranges::fill(reduce.extent, 1u);
  std::ranges::fill(reduce.reduced_extent, 1u);
  for (size_t i = 0; i < results.size(); ++i) {
    const size_t d = npu::kMoveRank - results.size() + i;
    reduce.extent[d] = static_cast<uint32_t>(results[i].extent);
    reduce.input_stride[d] = static_cast<int32_t>(results[i].from_step);
    reduce.output_stride[d] = static_cast<int32_t>(results[i].to_step);
  }
  for (size_t i = 0; i < reduced.size(); ++i) {
    const size_t d = npu::kMoveRank - reduced.size() + i;
    reduce.reduced_extent[d] = static_cast<uint32_t>(reduced[i].extent);
    reduce.reduced_stride[d] = static_cast<int32_t>(reduced[i].from_step);
  }
  return reduce;
}

constexpr const Condition* kIndexConditions[] = {&kInt8First, &kNotEmpty, &kRank,
                                                 &kFitsSram<nothing_staged>};
constexpr const Condition* kConditions[] = {&kInt8Operand, &kNotEmpty, &kRank,
                                            &kFitsSram<nothing_staged>};

// An index of another type than int8 takes more bytes, and steps over them.
void set_result(npu::Reduce& reduce, const Type& result) {
  if (!npu::returns_index(reduce.kind)) return;
  reduce.index_bytes = static_cast<uint32_t>(byte_size(result.dtype));
  for (int32_t& stride : reduce.output_stride) stride *= static_cast<int32_t>(reduce.index_bytes);
}

std::optional<Kernel> estimate(const Machine&, const OpView& view) {
  const std::optional<Loops> loops =
      loops_over(view, strided_layout(view.operand(0).shape, Layout::kContiguous));
  DTR_CHECK(loops.has_value());
  npu::Reduce reduce = reduce_of(kind_of(view), loops->results, loops->reduced);
  set_result(reduce, view.result());
  return reduce;
}

LayoutChoice layouts(const OpView&) {
  return {.contiguous = true, .channels_last = true, .mixed = true};
}

void set_arithmetic(npu::Reduce& reduce, const OpView& view,
                    const std::optional<numerics::Range>& clamp) {
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  if (view.def == &ops::kMeanDim)
    set_sum(reduce, in, out,
            ops::mean_multiplier(view, view.operand(0).elements() / view.result().elements()));
  if (view.def == &ops::kSumDim) set_sum(reduce, in, out, ops::mean_multiplier(view, 1));
  const bool bytes = reduce.kind == npu::ReduceKind::kSumOfBytes;
  const bool sums = bytes || reduce.kind == npu::ReduceKind::kSum;
  set_clamp(reduce, bytes ? numerics::Range{0, 255}
                          : clamp.value_or(sums ? ops::range_of(out) : numerics::Range{}));
}

void lower(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const BoundOpView view(graph, group.head);
  const ValueId x = graph.op(group.head).operands[0];
  const ValueId y = graph.op(group.root()).results[0];
  Placed from = builder.placed(x);
  std::optional<Loops> loops = loops_over(*view, from.layout, builder.preferred_layout(y));
  if (!loops) loops = loops_over(*view, from.layout);
  if (!loops) {
    from.layout = contiguous_layout(view->operand(0).elements());
    from.address = builder.read(x, from.layout);
    loops = loops_over(*view, from.layout);
    DTR_CHECK(loops.has_value());  // each dimension is one digit
  }
  npu::Reduce reduce = reduce_of(kind_of(*view), loops->results, loops->reduced);
  npu::returns_index(reduce.kind) ? set_result(reduce, view->result())
                                  : set_arithmetic(reduce, *view, group.clamp);
  reduce.input = from.address;
  reduce.output = builder.define(y, loops->result_layout);
  builder.emit(reduce, origin_of(graph, group));
}

constexpr LoweringRule kRules[] = {
    {&ops::kAmax, kConditions, layouts, estimate, lower, Absorbs::kClamp},
    {&ops::kAmin, kConditions, layouts, estimate, lower, Absorbs::kClamp},
    {&ops::kArgmax, kIndexConditions, layouts, estimate, lower},
    {&ops::kArgmin, kIndexConditions, layouts, estimate, lower},
    {&ops::kMeanDim, kConditions, layouts, estimate, lower, Absorbs::kClamp},
    {&ops::kSumDim, kConditions, layouts, estimate, lower, Absorbs::kClamp},
};

}  // namespace

npu::Reduce reduce_windows(npu::ReduceKind kind, int64_t batch, int64_t channels,
                           const WindowLoops& h, const WindowLoops& w, npu::Address input,
                           npu::Address output) {
  const int64_t row = w.in * channels;
  const int64_t to_row = w.out * channels;
  npu::Reduce reduce =
      reduce_of(kind,
                {{batch, h.in * row, h.out * to_row},
                 {h.count, h.step * row, h.to_step * to_row},
                 {w.count, w.step * channels, w.to_step * channels},
                 {channels, 1, 1}},
                {{h.kernel, h.dilation * row, 0}, {w.kernel, w.dilation * channels, 0}});
  reduce.input = {input.region,
                  input.offset + static_cast<uint32_t>(h.first * row + w.first * channels)};
  reduce.output = {output.region, output.offset + static_cast<uint32_t>(h.to_first * to_row +
                                                                        w.to_first * channels)};
  return reduce;
}

void set_sum(npu::Reduce& reduce, const Quantization& in, const Quantization& out,
             numerics::Requantization by) {
  reduce.zero_point_in = in.zero_point();
  reduce.zero_point_out = out.zero_point();
  reduce.rescale = {by.multiplier, by.shift};
}

void set_clamp(npu::Reduce& reduce, numerics::Range range) {
  reduce.clamp_low = range.low;
  reduce.clamp_high = range.high;
}

std::span<const LoweringRule> reduction_rules() { return kRules; }

}  // namespace dtr::neutron
