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

Showing showing_of(const Graph& graph, ValueId value) {
  std::vector<OpId> moves;
  Showing showing{value, graph.sole_user(value), {}};
  const auto moves_nothing = [&](OpId op) {
    return is_one_of(graph.op(op).def, {&ops::kView, &ops::kPermute, &ops::kToDimOrderCopy});
  };
  for (; showing.reader.valid() && moves_nothing(showing.reader);
       showing.reader = graph.sole_user(showing.last)) {
    moves.push_back(showing.reader);
    showing.last = graph.op(showing.reader).results[0];
  }
  showing.order = order_of(graph.type(showing.last));
  for (auto move = moves.rbegin(); move != moves.rend() && showing.order; ++move) {
    const Op& op = graph.op(*move);
    if (op.def != &ops::kPermute) continue;
    const Ints& dims = op.attributes.get<Ints>("dims");
    std::vector<size_t> back(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) back[*ops::normalize_dim(dims[i], dims.size())] = i;
    showing.order = permuted(*showing.order, graph.type(op.results[0]).shape, back);
  }
  return showing;
}

std::optional<Order> order_asked_for(const Graph& graph, ValueId value) {
  if (!graph.value(value).has_one_use()) return std::nullopt;
  const Showing showing = showing_of(graph, value);
  const bool is_output =
      graph.value(showing.last).has_one_use() && graph.value(showing.last).output_uses == 1;
  const bool reads_pixels =
      showing.reader.valid() && is_one_of(graph.op(showing.reader).def,
                                          {&ops::kAvgPool2d, &ops::kConvolution, &ops::kMaxPool2d});
  return is_output || reads_pixels ? showing.order : std::nullopt;
}

}  // namespace dtr::neutron
