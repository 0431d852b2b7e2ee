#include "compiler/compositions/pixels.h"

#include <fmt/format.h>

namespace dtr::compositions {

Result<ValueId> pixel_shuffle(GraphBuilder& builder, ValueId x, int64_t factor, bool back) {
  const Shape shape = builder.type(x).shape;
  const size_t rank = shape.size();
  const bool fits = rank >= 3 && factor >= 1 && factor <= 65536 &&
                    (back ? shape[rank - 2] % factor == 0 && shape[rank - 1] % factor == 0
                          : shape[rank - 3] % (factor * factor) == 0);
  if (!fits)
    return builder.unsupported(fmt::format("the factor {} does not divide {} of {}", factor,
                                           back ? "height and width" : "the channels",
                                           to_string(shape)));
  const int64_t c = shape[rank - 3], h = shape[rank - 2], w = shape[rank - 1];
  const int64_t batch = element_count(Shape(shape.begin(), shape.end() - 3));
  const Shape split = back ? Shape{batch, c, h / factor, factor, w / factor, factor}
                           : Shape{batch, c / (factor * factor), factor, factor, h, w};
  Shape result(shape.begin(), shape.end() - 3);
  if (back) {
    result.insert(result.end(), {c * factor * factor, h / factor, w / factor});
  } else {
    result.insert(result.end(), {c / (factor * factor), h * factor, w * factor});
  }
  DTR_ASSIGN(x, builder.view(x, split));
  DTR_ASSIGN(x, builder.permute(x, back ? Ints{0, 1, 3, 5, 2, 4} : Ints{0, 1, 4, 2, 5, 3}));
  return builder.view(x, result);
}

Result<ValueId> channel_shuffle(GraphBuilder& builder, ValueId x, int64_t groups) {
  const Shape shape = builder.type(x).shape;
  if (shape.size() < 3 || groups < 1 || shape[1] % groups != 0)
    return builder.unsupported(
        fmt::format("{} groups do not divide the channels of {}", groups, to_string(shape)));
  const int64_t inner = element_count(Shape(shape.begin() + 2, shape.end()));
  DTR_ASSIGN(x, builder.view(x, {shape[0], groups, shape[1] / groups, inner}));
  DTR_ASSIGN(x, builder.permute(x, {0, 2, 1, 3}));
  return builder.view(x, shape);
}

}  // namespace dtr::compositions
