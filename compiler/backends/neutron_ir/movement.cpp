// Converts operators that move elements without computing.
#include "compiler/ops/movement.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/backends/neutron_ir/forms.h"
#include "compiler/ops/integer.h"
#include "compiler/ops/ops.h"

namespace dtr::neutron_ir {
namespace {

int64_t from_front(int64_t dim, size_t rank) {
  return dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
}

void view(Emitter& emitter) {
  const TensorIndex x = emitter.operand(0, contiguous_order(emitter.type(0).rank()));
  const Shape& shape = emitter.result_type().shape;
  emitter.reshape(x, emitter.result(contiguous_order(shape.size())), shape);
}

void permute(Emitter& emitter) {
  const Tensor x = emitter.operand(0);
  const size_t rank = x.order.size();
  Ints dims = emitter.view().attribute<Ints>("dims");
  for (int64_t& dim : dims) dim = from_front(dim, rank);
  Order order;
  for (const int64_t dim : x.order) order.push_back(place_of_dim(dims, dim));
  emitter.rename_result(x, order);
}

void copy(Emitter& emitter) {
  const Tensor x = emitter.operand(0);
  emitter.rename_result(x, x.order);
}

void cat(Emitter& emitter) {
  const Order order = emitter.result_order();
  std::vector<TensorIndex> parts;
  for (size_t i = 0; i < emitter.op().operands.size(); ++i)
    parts.push_back(emitter.operand(i, order));
  const int64_t axis =
      place_of_dim(order, from_front(emitter.view().attribute<int64_t>("dim"), order.size()));
  emitter.add(BuiltinOperator::CONCATENATION, 2, parts, emitter.result(order),
              Emitter::options(
                  OptionsType::ConcatenationOptions,
                  fb::CreateConcatenationOptions(emitter.tables(), static_cast<int32_t>(axis))));
}

void slice(Emitter& emitter) {
  const ops::Slice slice = ops::slice_of(emitter.view());
  const Tensor x = emitter.operand(0);
  const Shape to = in_order(emitter.result_type().shape, x.order),
              from = in_order(emitter.type(0).shape, x.order);
  const auto axis = static_cast<size_t>(place_of_dim(x.order, static_cast<int64_t>(slice.dim)));
  Ints begin(from.size());
  begin[axis] = slice.start;
  if (slice.step == 1)
    return emitter.add(BuiltinOperator::SLICE, 2,
                       {x.index, emitter.integers(begin), emitter.integers(to)},
                       emitter.result(x.order));
  Ints end = from, step(from.size(), 1);
  end[axis] = std::min(slice.start + slice.count * slice.step, from[axis]);
  step[axis] = slice.step;
  emitter.add(BuiltinOperator::STRIDED_SLICE, 2,
              {x.index, emitter.integers(begin), emitter.integers(end), emitter.integers(step)},
              emitter.result(x.order),
              Emitter::options(OptionsType::StridedSliceOptions,
                               fb::CreateStridedSliceOptions(emitter.tables())));
}

void expand(Emitter& emitter) {
  const Order order = emitter.result_order();
  const TensorIndex x = emitter.operand(0, order);
  emitter.add(BuiltinOperator::BROADCAST_TO, 2,
              {x, emitter.integers(in_order(emitter.result_type().shape, order))},
              emitter.result(order));
}

// One dimension after the other: TFLite reverses neighbouring ones only.
void flip(Emitter& emitter) {
  const Ints& dims = emitter.view().attribute<Ints>("dims");
  const Tensor x = emitter.operand(0);
  TensorIndex from = x.index;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool last = i + 1 == dims.size();
    const TensorIndex to = last ? emitter.result(x.order)
                                : emitter.temporary(in_order(emitter.type(0).shape, x.order),
                                                    emitter.type(0).quantization);
    emitter.add(
        BuiltinOperator::REVERSE_V2, 2,
        {from, emitter.integers({place_of_dim(x.order, from_front(dims[i], x.order.size()))})}, to);
    from = to;
  }
  if (dims.empty()) emitter.rename_result(x, x.order);
}

// An index of several dimensions puts them in the place of one, which moves other dimensions: then
// table and result are in logical order.
void index_select(Emitter& emitter) {
  const size_t rank = emitter.type(0).rank();
  const bool one = emitter.type(1).rank() == 1;
  const Order order = one ? emitter.operand(0).order : contiguous_order(rank);
  const int64_t axis =
      place_of_dim(order, from_front(emitter.view().attribute<int64_t>("dim"), rank));
  emitter.add(
      BuiltinOperator::GATHER, 2, {emitter.operand(0, order), emitter.operand(1).index},
      emitter.result(one ? order : contiguous_order(emitter.result_type().rank())),
      Emitter::options(OptionsType::GatherOptions,
                       fb::CreateGatherOptions(emitter.tables(), static_cast<int32_t>(axis))));
}

// Negative padding cuts, before the rest is added.
void pad(Emitter& emitter) {
  const Ints& pads = emitter.view().attribute<Ints>("pad");
  const Type& type = emitter.type(0);
  const Quantization& q = *type.quantization;
  Tensor x = emitter.operand(0);
  const size_t rank = x.order.size();
  Ints begin(rank), kept = type.shape, amounts(2 * rank);
  bool cuts = false, adds = false;
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    const size_t dim = rank - 1 - i;
    const auto place = static_cast<size_t>(place_of_dim(x.order, static_cast<int64_t>(dim)));
    begin[place] = std::max<int64_t>(-pads[2 * i], 0);
    kept[dim] += std::min<int64_t>(pads[2 * i], 0) + std::min<int64_t>(pads[2 * i + 1], 0);
    for (size_t side = 0; side < 2; ++side) {
      amounts[2 * place + side] = std::max<int64_t>(pads[2 * i + side], 0);
      cuts |= pads[2 * i + side] < 0;
      adds |= pads[2 * i + side] > 0;
    }
  }
  const Shape shape = in_order(kept, x.order);
  if (cuts || !adds) {
    const TensorIndex cut = adds ? emitter.temporary(shape, q) : emitter.result(x.order);
    emitter.add(BuiltinOperator::SLICE, 2,
                {x.index, emitter.integers(begin), emitter.integers(shape)}, cut);
    x.index = cut;
  }
  if (!adds) return;
  const auto value = static_cast<int8_t>(numerics::code_of(
      emitter.view().attribute<double>("value"), q.scale(), q.zero_point(), ops::range_of(q)));
  const TensorIndex table = emitter.integers(amounts, {static_cast<int64_t>(rank), 2});
  emitter.add(BuiltinOperator::PADV2, 2,
              {x.index, table, emitter.int8_constant({&value, 1}, {1}, q)},
              emitter.result(x.order));
}

constexpr Form kMovementForms[] = {{&ops::kCat, any_layout, cat},
                                   {&ops::kConstantPadNd, any_layout, pad},
                                   {&ops::kExpand, any_layout, expand},
                                   {&ops::kFlip, any_layout, flip},
                                   {&ops::kIndexSelect, any_layout, index_select},
                                   {&ops::kPermute, any_to_any, permute},
                                   {&ops::kSliceTensor, any_layout, slice},
                                   {&ops::kToDimOrderCopy, any_to_any, copy},
                                   {&ops::kView, contiguous, view}};

}  // namespace

std::span<const Form> movement_forms() { return kMovementForms; }

}  // namespace dtr::neutron_ir
