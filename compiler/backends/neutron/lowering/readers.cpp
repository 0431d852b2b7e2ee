#include "compiler/backends/neutron/lowering/readers.h"

#include <algorithm>

#include "compiler/backends/neutron/lowering/rules.h"
#include "compiler/ops/define.h"
#include "compiler/ops/ops.h"

namespace dtr::neutron {
namespace {

bool is_one_of(const OpDef* def, std::initializer_list<const OpDef*> list) {
  return std::ranges::find(list, def) != list.end();
}

}  // namespace

bool reads_in_place(const Graph& graph, OpId op) {
  return is_table_op(graph, op) ||
         is_one_of(graph.op(op).def,
                   {&ops::kAddTensor, &ops::kAvgPool2d, &ops::kConvolution, &ops::kLinear,
                    &ops::kMatmul, &ops::kMaxPool2d, &ops::kMaximum, &ops::kMinimum,
                    &ops::kMulTensor, &ops::kPrelu, &ops::kSubTensor});
}

ViewChain trailing_views(const Graph& graph, ValueId value) {
  std::vector<OpId> moves;
  ViewChain views{value, graph.sole_user(value), {}};
  const auto moves_nothing = [&](OpId op) {
    return is_one_of(graph.op(op).def, {&ops::kView, &ops::kPermute, &ops::kToDimOrderCopy});
  };
  for (; views.reader.valid() && moves_nothing(views.reader);
       views.reader = graph.sole_user(views.last)) {
    moves.push_back(views.reader);
    views.last = graph.op(views.reader).results[0];
  }
  views.layout = strided_layout(graph.type(views.last));
  for (auto move = moves.rbegin(); move != moves.rend() && views.layout; ++move) {
    const Op& op = graph.op(*move);
    if (op.def != &ops::kPermute) continue;
    const Ints& dims = op.attributes.get<Ints>("dims");
    std::vector<size_t> back(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) back[*ops::normalize_dim(dims[i], dims.size())] = i;
    views.layout = permuted(*views.layout, graph.type(op.results[0]).shape, back);
  }
  return views;
}

std::optional<StridedLayout> layout_preferred_by_readers(const Graph& graph, ValueId value) {
  if (!graph.value(value).has_one_use()) return std::nullopt;
  const ViewChain views = trailing_views(graph, value);
  const bool is_output =
      graph.value(views.last).has_one_use() && graph.value(views.last).output_uses == 1;
  const bool reads_pixels =
      views.reader.valid() && is_one_of(graph.op(views.reader).def,
                                        {&ops::kAvgPool2d, &ops::kConvolution, &ops::kMaxPool2d});
  return is_output || reads_pixels ? views.layout : std::nullopt;
}

}  // namespace dtr::neutron
