#include "compiler/compositions/masks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/ops/broadcast.h"

namespace dtr::compositions {

Result<Known> paired(const GraphBuilder& builder, const Known& a, const Known& b,
                     const std::function<double(double, double)>& function) {
  const auto shape = ops::broadcast_shape(a.shape, b.shape);
  const auto count = shape ? checked_element_count(*shape) : std::nullopt;
  if (!count || *count > (int64_t{1} << 24))
    return builder.unsupported(
        fmt::format("constants of shapes {} and {}", to_string(a.shape), to_string(b.shape)));
  Known result{*shape, std::vector<double>(static_cast<size_t>(*count))};
  ops::for_each_broadcast_row(
      a.shape, b.shape, *shape,
      [&](int64_t at, int64_t at_a, int64_t at_b, int64_t row, int64_t step_a, int64_t step_b) {
        for (int64_t i = 0; i < row; ++i)
          result.values[static_cast<size_t>(at + i)] =
              function(a.values[static_cast<size_t>(at_a + i * step_a)],
                       b.values[static_cast<size_t>(at_b + i * step_b)]);
      });
  return result;
}

void keep_triangle(Known& matrices, bool upper, int64_t diagonal) {
  const int64_t rows = matrices.shape[matrices.shape.size() - 2], columns = matrices.shape.back();
  for (size_t i = 0; i < matrices.values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t right = at % columns - at / columns % rows;
    if (upper ? right < diagonal : right > diagonal) matrices.values[i] = 0;
  }
}

Result<ValueId> select_by_constant(GraphBuilder& builder, const Known& mask, ValueId x, bool keeps,
                                   const Known& other) {
  DTR_ASSIGN(const Known keep, paired(builder, mask, Known{{}, {0}},
                                      [&](double m, double) { return (m != 0) == keeps; }));
  DTR_ASSIGN(const Known offset, paired(builder, keep, other,
                                        [](double k, double value) { return k != 0 ? 0 : value; }));
  DTR_ASSIGN(const Known factors, paired(builder, keep, other, [](double k, double value) {
               return k != 0 || !std::isfinite(value) ? 1 : 0;
             }));
  if (std::ranges::any_of(factors.values, [](double value) { return value != 1; })) {
    DTR_ASSIGN(const ValueId factor,
               builder.constant(builder.type(x).dtype, factors.values, factors.shape));
    DTR_ASSIGN(x, builder.emit("aten.mul.Tensor", {x, factor}));
  }
  if (std::ranges::all_of(offset.values, [](double value) { return value == 0; })) return x;
  DTR_ASSIGN(const ValueId addend,
             builder.constant(builder.type(x).dtype, offset.values, offset.shape));
  return builder.emit("aten.add.Tensor", {x, addend});
}

Result<ValueId> fill_by_mask(GraphBuilder& builder, ValueId x, ValueId mask, bool fills_where_true,
                             double number, const Shape& shape) {
  std::optional<Shape> wide = ops::broadcast_shape(builder.type(x).shape, builder.type(mask).shape);
  if (wide) wide = ops::broadcast_shape(*wide, shape);
  if (!wide) return builder.unsupported("its shapes do not broadcast");
  DTR_ASSIGN(x, builder.expand(x, *wide));
  if (!fills_where_true) {
    DTR_ASSIGN(mask, builder.emit("aten.logical_not", {mask}));
  }
  return builder.emit("aten.masked_fill", {x, mask}, {{"value", number}});
}

Result<ValueId> select(GraphBuilder& builder, ValueId mask, ValueId a, ValueId b) {
  for (const bool first : {true, false}) {
    const ValueId filled = first ? a : b, x = first ? b : a;
    if (!is_float(builder.type(x).dtype)) break;
    const std::optional<std::vector<double>> elements = builder.constant_elements(filled);
    if (!elements || elements->empty() ||
        std::ranges::adjacent_find(*elements, std::not_equal_to<>()) != elements->end())
      continue;
    return fill_by_mask(builder, x, mask, first, elements->front(), builder.type(filled).shape);
  }
  return builder.emit("aten.where.self", {mask, a, b});
}

}  // namespace dtr::compositions
