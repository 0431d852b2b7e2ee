// Valid calls of the portable kernels that take or put elements by index, copy views, pad with
// elements of the tensor itself and reduce to the most extreme. Schemas: the head of each file in
// device/runtime/kernels/portable.
#include "device/numerics/boxes.h"
#include "test/fuzz/recipe_draws.h"

namespace dtr::fuzz {
namespace {

TensorSpec index_below(const RecipeDraws& draw, const Sizes& sizes, int64_t extent) {
  TensorSpec made = draw.tensor(draw.flag() ? kLong : kInt, sizes, Fill::kBelow);
  made.below = std::max<int64_t>(extent, 1);
  return made;
}

// A shape with at least one element in every dimension.
Sizes full_shape(const RecipeDraws& draw, size_t least, size_t most) {
  Sizes sizes = draw.shape(least, most);
  for (int32_t& size : sizes) size = std::max(size, 1);
  return sizes;
}

ScalarType number_type(const RecipeDraws& draw) {
  return draw.draws.pick({kFloat, kChar, kInt, kLong});
}

// ---- views

void add_views(Recipes& recipes) {
  recipes["aten::narrow_copy.out"] = [](const RecipeDraws& draw) {
    Sizes sizes = draw.shape(1, 5);
    const int64_t dim = draw.dim(sizes.size());
    const size_t axis = RecipeDraws::wrapped(dim, sizes.size());
    const ScalarType type = draw.any_type();
    const TensorSpec in = draw.tensor(type, sizes);
    const int64_t start = draw.number(0, sizes[axis]);
    sizes[axis] = static_cast<int32_t>(draw.number(0, sizes[axis] - start));
    return Arguments{in, dim, start, int64_t{sizes[axis]}, draw.out(type, sizes)};
  };
  recipes["aten::diagonal_copy.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = full_shape(draw, 2, 4);
    const size_t rows = draw.draws.below(sizes.size());
    const size_t columns = (rows + 1 + draw.draws.below(sizes.size() - 1)) % sizes.size();
    const int64_t offset = draw.number(-sizes[rows], sizes[columns]);
    Sizes result;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (d != rows && d != columns) result.push_back(sizes[d]);
    result.push_back(static_cast<int32_t>(std::min(sizes[rows] + std::min<int64_t>(offset, 0),
                                                   sizes[columns] - std::max<int64_t>(offset, 0))));
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), offset, static_cast<int64_t>(rows),
                     static_cast<int64_t>(columns), draw.out(type, result)};
  };
  recipes["aten::unfold_copy.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(1, 4);
    const int64_t dim = draw.dim(sizes.size());
    const size_t axis = RecipeDraws::wrapped(dim, sizes.size());
    const int64_t size = draw.number(0, sizes[axis]), step = draw.number(1, 3);
    Sizes result = sizes;
    result[axis] = static_cast<int32_t>((sizes[axis] - size) / step + 1);
    result.push_back(static_cast<int32_t>(size));
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), dim, size, step, draw.out(type, result)};
  };
  recipes["aten::as_strided_copy.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = full_shape(draw, 1, 4);
    const Sizes result = full_shape(draw, 0, 3);
    int64_t left = elements(sizes) - 1;
    Numbers steps;
    for (const int32_t size : result) {
      steps.push_back(size < 2 ? 1 : draw.number(0, left / (size - 1)));
      if (size > 1) left -= (size - 1) * steps.back();
    }
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), numbers(result), steps, draw.number(0, left),
                     draw.out(type, result)};
  };
}

// ---- splits, and tensors with a part replaced

void add_parts(Recipes& recipes) {
  const auto parts = [](const RecipeDraws& draw, bool even) {
    Sizes sizes = draw.shape(1, 4);
    const int64_t dim = draw.dim(sizes.size());
    int32_t& extent = sizes[RecipeDraws::wrapped(dim, sizes.size())];
    const ScalarType type = draw.any_type();
    const TensorSpec in = draw.tensor(type, sizes);
    const int64_t size = draw.number(1, 4);
    TensorList outputs;
    Numbers list;
    for (int64_t left = extent; left > 0; left -= list.back()) {
      list.push_back(even ? std::min(size, left) : draw.number(0, left));
      extent = static_cast<int32_t>(list.back());
      outputs.emplace_back(draw.out(type, sizes));
      if (!even && list.size() > 8 && left > list.back()) {
        extent = static_cast<int32_t>(left - list.back());
        list.push_back(extent);
        outputs.emplace_back(draw.out(type, sizes));
        break;
      }
    }
    return Arguments{in, even ? Argument(size) : Argument(list), dim, outputs};
  };
  recipes["aten::split_copy.Tensor_out"] = [parts](const RecipeDraws& draw) {
    return parts(draw, true);
  };
  recipes["aten::split_with_sizes_copy.out"] = [parts](const RecipeDraws& draw) {
    return parts(draw, false);
  };
  recipes["aten::unbind_copy.int_out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(1, 4);
    const int64_t dim = draw.dim(sizes.size());
    const size_t axis = RecipeDraws::wrapped(dim, sizes.size());
    Sizes rest = sizes;
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(axis));
    const ScalarType type = draw.any_type();
    TensorList outputs;
    for (int32_t i = 0; i < sizes[axis]; ++i) outputs.emplace_back(draw.out(type, rest));
    return Arguments{draw.tensor(type, sizes), dim, outputs};
  };
  recipes["aten::select_scatter.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = full_shape(draw, 1, 4);
    const int64_t dim = draw.dim(sizes.size());
    const size_t axis = RecipeDraws::wrapped(dim, sizes.size());
    Sizes rest = sizes;
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(axis));
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), draw.tensor(type, rest), dim,
                     draw.number(-sizes[axis], sizes[axis] - 1), draw.out(type, sizes)};
  };
  recipes["aten::slice_scatter.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(1, 4);
    const int64_t dim = draw.dim(sizes.size());
    const size_t axis = RecipeDraws::wrapped(dim, sizes.size());
    const int64_t start = draw.number(0, sizes[axis]), end = draw.number(start, sizes[axis]),
                  step = draw.number(1, 3);
    Sizes part = sizes;
    part[axis] = static_cast<int32_t>((end - start + step - 1) / step);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), draw.tensor(type, part), dim, start, end, step,
                     draw.out(type, sizes)};
  };
  recipes["aten::copy.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), draw.tensor(draw.any_type(), draw.broadcast(sizes)),
                     false, draw.out(type, sizes)};
  };
  recipes["aten::copy_"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    return Arguments{draw.out(draw.any_type(), sizes),
                     draw.tensor(draw.any_type(), draw.broadcast(sizes)), false};
  };
}

// ---- other places

void add_places(Recipes& recipes) {
  recipes["aten::roll.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(1, 4);
    Numbers shifts, dims;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (!draw.flag()) continue;
      dims.push_back(draw.dim(sizes.size()));
      shifts.push_back(draw.number(-9, 9));
    }
    if (dims.empty()) shifts.push_back(draw.number(-9, 9));
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), shifts, dims, draw.out(type, sizes)};
  };
  recipes["aten::tril.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(2, 4);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), draw.number(-7, 7), draw.out(type, sizes)};
  };
  const auto shuffle = [](const RecipeDraws& draw, bool widens) {
    Sizes deep = draw.shape(3, 5), wide = deep;
    const int64_t factor = draw.number(1, 3);
    const auto by = static_cast<int32_t>(factor);
    const size_t channel = deep.size() - 3;
    deep[channel] *= by * by;
    wide[channel + 1] *= by;
    wide[channel + 2] *= by;
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, widens ? deep : wide), factor,
                     draw.out(type, widens ? wide : deep)};
  };
  recipes["aten::pixel_shuffle.out"] = [=](const RecipeDraws& d) { return shuffle(d, true); };
  recipes["aten::pixel_unshuffle.out"] = [=](const RecipeDraws& d) { return shuffle(d, false); };
  for (const size_t dims : {size_t{1}, size_t{2}, size_t{3}}) {
    for (const bool reflects : {true, false}) {
      recipes[std::string("aten::") + (reflects ? "reflection" : "replication") + "_pad" +
              std::to_string(dims) + "d.out"] = [=](const RecipeDraws& draw) {
        const Sizes sizes = full_shape(draw, dims, dims + 2);
        Sizes result = sizes;
        Numbers pad;
        for (size_t i = 0; i < dims; ++i) {
          int32_t& extent = result[result.size() - 1 - i];
          const int64_t most = reflects ? extent - 1 : 3;
          const int64_t before = draw.number(draw.draws.chance(20) ? -extent / 2 : 0, most),
                        after = draw.number(draw.draws.chance(20) ? -extent / 2 : 0, most);
          pad.insert(pad.end(), {before, after});
          extent += static_cast<int32_t>(before + after);
        }
        const ScalarType type = draw.any_type();
        return Arguments{draw.tensor(type, sizes), pad, draw.out(type, result)};
      };
    }
  }
  recipes["aten::masked_scatter.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 4);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), draw.tensor(kBool, draw.broadcast(sizes)),
                     draw.tensor(type, sizes), draw.out(type, sizes)};
  };
  // Nothing is repeated by lists of zeros: the number of results follows from the contents.
  recipes["aten::repeat_interleave.Tensor_out"] = [](const RecipeDraws& draw) {
    const TensorSpec repeats = index_below(draw, {draw.extent(0, 9)}, 1);
    return Arguments{repeats, kNone, draw.out(repeats.dtype, {0})};
  };
}

// ---- by index

void add_indices(Recipes& recipes) {
  // (index, a tensor with at least its extents): both at most `sizes` but along the axis.
  const auto index_of = [](const RecipeDraws& draw, Sizes sizes, size_t axis) {
    for (size_t d = 0; d < sizes.size(); ++d)
      sizes[d] = d == axis ? draw.extent(0, 5) : draw.extent(sizes[d] > 0 ? 1 : 0, sizes[d]);
    return sizes;
  };
  recipes["aten::gather.out"] = [index_of](const RecipeDraws& draw) {
    const Sizes sizes = full_shape(draw, 1, 4);
    const int64_t dim = draw.dim(sizes.size());
    const size_t axis = RecipeDraws::wrapped(dim, sizes.size());
    const TensorSpec index = index_below(draw, index_of(draw, sizes, axis), sizes[axis]);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), dim, index, false, draw.out(type, index.sizes)};
  };
  const auto scatter = [index_of](const RecipeDraws& draw, ScalarType type, bool value) {
    const Sizes sizes = full_shape(draw, 1, 4);
    const int64_t dim = draw.dim(sizes.size());
    const size_t axis = RecipeDraws::wrapped(dim, sizes.size());
    const TensorSpec index = index_below(draw, index_of(draw, sizes, axis), sizes[axis]);
    return Arguments{draw.tensor(type, sizes), dim, index,
                     value ? Argument(draw.number(0, 9)) : Argument(draw.tensor(type, index.sizes)),
                     draw.out(type, sizes)};
  };
  recipes["aten::scatter.src_out"] = [=](const RecipeDraws& draw) {
    return scatter(draw, draw.any_type(), false);
  };
  recipes["aten::scatter.value_out"] = [=](const RecipeDraws& draw) {
    return scatter(draw, draw.any_type(), true);
  };
  recipes["aten::scatter_add.out"] = [=](const RecipeDraws& draw) {
    return scatter(draw, number_type(draw), false);
  };
  // A list of indices, and the shape of what it names.
  const auto places = [](const RecipeDraws& draw, const Sizes& sizes, Sizes* part) {
    const size_t first = draw.draws.below(sizes.size());
    const size_t count = 1 + draw.draws.below(std::min<size_t>(sizes.size() - first, 2));
    const Sizes shape = full_shape(draw, 0, 2);
    TensorList list(first);
    for (size_t d = 0; d < first; ++d) part->push_back(sizes[d]);
    for (size_t d = first; d < first + count; ++d)
      list.emplace_back(index_below(draw, d == first ? shape : draw.broadcast(shape), sizes[d]));
    part->insert(part->end(), shape.begin(), shape.end());
    for (size_t d = first + count; d < sizes.size(); ++d) part->push_back(sizes[d]);
    return list;
  };
  recipes["aten::index.Tensor_out"] = [places](const RecipeDraws& draw) {
    const Sizes sizes = full_shape(draw, 1, 4);
    Sizes part;
    const TensorList list = places(draw, sizes, &part);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), list, draw.out(type, part)};
  };
  const auto put = [places](const RecipeDraws& draw, bool in_place) {
    const Sizes sizes = full_shape(draw, 1, 4);
    const bool adds = draw.flag();
    const ScalarType type = adds ? number_type(draw) : draw.any_type();
    Sizes part;
    TensorList list = places(draw, sizes, &part);
    TensorSpec source = draw.tensor(type, draw.broadcast(part));
    if (draw.draws.chance(20)) {
      list = {draw.tensor(kBool, sizes)};
      source = draw.tensor(type, {});
    }
    Arguments made{in_place ? draw.out(type, sizes) : draw.tensor(type, sizes), list, source, adds};
    if (!in_place) made.emplace_back(draw.out(type, sizes));
    return made;
  };
  recipes["aten::index_put.out"] = [=](const RecipeDraws& draw) { return put(draw, false); };
  recipes["aten::index_put_"] = [=](const RecipeDraws& draw) { return put(draw, true); };
}

// ---- extremes and reductions

Sizes without(Sizes sizes, size_t axis, bool keepdim) {
  if (keepdim) {
    sizes[axis] = 1;
  } else {
    sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(axis));
  }
  return sizes;
}

void add_extremes(Recipes& recipes) {
  for (const std::string word : {"max", "min"}) {
    recipes["aten::" + word + ".unary_out"] = [](const RecipeDraws& draw) {
      const ScalarType type = number_type(draw);
      return Arguments{draw.tensor(type, full_shape(draw, 0, 4)), draw.out(type, {})};
    };
    recipes["aten::" + word + ".dim_" + word] = [](const RecipeDraws& draw) {
      const Sizes sizes = full_shape(draw, 1, 4);
      const int64_t dim = draw.dim(sizes.size());
      const bool keepdim = draw.flag();
      const Sizes result = without(sizes, RecipeDraws::wrapped(dim, sizes.size()), keepdim);
      const ScalarType type = number_type(draw);
      return Arguments{draw.tensor(type, sizes), dim, keepdim, draw.out(type, result),
                       draw.out(kLong, result)};
    };
  }
  recipes["aten::topk.values"] = [](const RecipeDraws& draw) {
    Sizes sizes = draw.shape(1, 4);
    const int64_t dim = draw.dim(sizes.size());
    const size_t axis = RecipeDraws::wrapped(dim, sizes.size());
    const ScalarType type = number_type(draw);
    const TensorSpec in = draw.tensor(type, sizes);
    const int64_t k = draw.number(0, sizes[axis]);
    sizes[axis] = static_cast<int32_t>(k);
    return Arguments{
        in, k, dim, draw.flag(), draw.flag(), draw.out(type, sizes), draw.out(kLong, sizes)};
  };
  const auto of_all = [](const RecipeDraws& draw, ScalarType from, ScalarType to, bool dtype) {
    Arguments made{draw.tensor(from, draw.shape(0, 4))};
    if (dtype) made.emplace_back(kNone);
    made.emplace_back(draw.out(to, {}));
    return made;
  };
  const auto of_dim = [](const RecipeDraws& draw, ScalarType from, ScalarType to, bool dtype) {
    const Sizes sizes = draw.shape(1, 4);
    const int64_t dim = draw.dim(sizes.size());
    const bool keepdim = draw.flag();
    Arguments made{draw.tensor(from, sizes), dim, keepdim};
    if (dtype) made.emplace_back(kNone);
    made.emplace_back(
        draw.out(to, without(sizes, RecipeDraws::wrapped(dim, sizes.size()), keepdim)));
    return made;
  };
  recipes["aten::any.all_out"] = [=](const RecipeDraws& draw) {
    return of_all(draw, draw.any_type(), kBool, false);
  };
  recipes["aten::any.out"] = [=](const RecipeDraws& draw) {
    return of_dim(draw, draw.any_type(), kBool, false);
  };
  recipes["aten::any.dims_out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(1, 4);
    const size_t axis = draw.draws.below(sizes.size());
    return Arguments{draw.tensor(draw.any_type(), sizes), Numbers{static_cast<int64_t>(axis)}, true,
                     draw.out(kBool, without(sizes, axis, true))};
  };
  recipes["aten::prod.out"] = [=](const RecipeDraws& draw) {
    const bool real = draw.flag();
    return of_all(draw, real ? kFloat : kInt, real ? kFloat : kLong, true);
  };
  recipes["aten::prod.int_out"] = [=](const RecipeDraws& draw) {
    const bool real = draw.flag();
    return of_dim(draw, real ? kFloat : kInt, real ? kFloat : kLong, true);
  };
  recipes["aten::mean.dtype_out"] = [=](const RecipeDraws& draw) {
    return of_all(draw, kFloat, kFloat, true);
  };
  const auto moments = [](const RecipeDraws& draw, Argument correction, size_t outs) {
    const Sizes sizes = full_shape(draw, 1, 4);
    const size_t axis = draw.draws.below(sizes.size());
    const bool keepdim = draw.flag();
    Arguments made{draw.floats(sizes), Numbers{static_cast<int64_t>(axis)}, std::move(correction),
                   keepdim};
    for (; outs > 0; --outs) made.emplace_back(draw.out(without(sizes, axis, keepdim)));
    return made;
  };
  recipes["aten::var.out"] = [=](const RecipeDraws& draw) { return moments(draw, draw.flag(), 1); };
  recipes["aten::var.correction_out"] = [=](const RecipeDraws& draw) {
    return moments(draw, draw.number(0, 2), 1);
  };
  recipes["aten::var_mean.correction_out"] = [=](const RecipeDraws& draw) {
    return moments(draw, draw.real(0, 2), 2);
  };
  recipes["aten::clamp.Tensor_out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 4);
    const ScalarType type = number_type(draw);
    return Arguments{draw.tensor(type, sizes), draw.tensor(type, draw.broadcast(sizes)),
                     draw.maybe(draw.tensor(type, draw.broadcast(sizes))), draw.out(type, sizes)};
  };
  for (const std::string side : {"left", "right"}) {
    recipes["aten::bitwise_" + side + "_shift.Tensor_out"] = [](const RecipeDraws& draw) {
      const Sizes sizes = draw.shape(0, 4);
      const ScalarType type = draw.draws.pick({kByte, kChar, kShort, kInt, kLong});
      return Arguments{draw.tensor(type, draw.broadcast(sizes)),
                       draw.tensor(type, draw.broadcast(sizes)), draw.out(type, sizes)};
    };
    recipes["aten::bitwise_" + side + "_shift.Tensor_Scalar_out"] = [](const RecipeDraws& draw) {
      const Sizes sizes = draw.shape(0, 4);
      const ScalarType type = draw.draws.pick({kByte, kChar, kShort, kInt, kLong});
      return Arguments{draw.tensor(type, sizes), draw.number(-3, 70), draw.out(type, sizes)};
    };
  }
}

// ---- boxes

void add_boxes(Recipes& recipes) {
  recipes["deuteron::non_max_suppression.out"] = [](const RecipeDraws& draw) {
    const int32_t boxes = draw.extent(0, 12), most = draw.extent(0, 15);
    return Arguments{draw.floats({boxes, 4}),
                     draw.floats({boxes}),
                     int64_t{most},
                     draw.real(-0.5, 1.5),
                     draw.real(-2, 2),
                     draw.flag() ? draw.real(0, 2) : 0.0,
                     draw.scratch(numerics::suppression_bytes(boxes, most)),
                     draw.out(kInt, {most}),
                     draw.out({most}),
                     draw.out(kInt, {})};
  };
  recipes["deuteron::detection_postprocess.out"] = [](const RecipeDraws& draw) {
    numerics::Detection<float> of{.boxes = draw.extent(0, 12),
                                  .columns = draw.extent(2, 6),
                                  .most = draw.extent(1, 9),
                                  .classes_per_box = draw.extent(1, 4),
                                  .per_class = draw.extent(1, 9),
                                  .regular = draw.flag()};
    of.classes = of.columns - draw.extent(0, 1);
    const int32_t rows = of.most * of.classes_per_box;
    return Arguments{draw.floats({1, of.boxes, draw.extent(4, 6)}),
                     draw.floats({1, of.boxes, of.columns}),
                     draw.floats({of.boxes, 4}),
                     int64_t{of.most},
                     int64_t{of.classes_per_box},
                     int64_t{of.per_class},
                     of.regular,
                     draw.real(-2, 2),
                     draw.real(0.001, 1),
                     int64_t{of.classes},
                     Reals{draw.real(1, 10), draw.real(1, 10), draw.real(1, 10), draw.real(1, 10)},
                     draw.scratch(numerics::detection_bytes(of)),
                     draw.out({1, rows, 4}),
                     draw.out({1, rows}),
                     draw.out({1, rows}),
                     draw.out({1})};
  };
}

// ---- constants, and functions of floats

void add_others(Recipes& recipes) {
  for (const char* name : {"aten::zeros.out", "aten::ones.out"})
    recipes[name] = [](const RecipeDraws& draw) {
      const Sizes sizes = draw.shape(0, 4);
      return Arguments{numbers(sizes), draw.out(draw.any_type(), sizes)};
    };
  for (const char* name : {"aten::empty.out", "dim_order_ops::_empty_dim_order.out"})
    recipes[name] = [](const RecipeDraws& draw) {
      const Sizes sizes = draw.shape(0, 4);
      return Arguments{numbers(sizes), kNone, draw.out(draw.any_type(), sizes)};
    };
  recipes["aten::arange.out"] = [](const RecipeDraws& draw) {
    const int64_t end = draw.number(0, 30);
    return Arguments{end, draw.out(draw.any_type(), {static_cast<int32_t>(end)})};
  };
  recipes["aten::fill.Scalar_out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 4);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), draw.number(0, 100), draw.out(type, sizes)};
  };
  recipes["aten::fill.Tensor_out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 4);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), draw.tensor(draw.any_type(), {}),
                     draw.out(type, sizes)};
  };
  recipes["aten::glu.out"] = [](const RecipeDraws& draw) {
    Sizes sizes = draw.shape(1, 4);
    const int64_t dim = draw.dim(sizes.size());
    const TensorSpec out = draw.out(sizes);
    sizes[RecipeDraws::wrapped(dim, sizes.size())] *= 2;
    return Arguments{draw.floats(sizes), dim, out};
  };
  recipes["aten::_cdist_forward.out"] = [](const RecipeDraws& draw) {
    const Sizes batch = draw.shape(0, 2);
    const int32_t p = draw.extent(0, 4), r = draw.extent(1, 4), m = draw.extent(0, 5);
    Sizes a = draw.broadcast(batch), b = draw.broadcast(batch), out = batch;
    a.insert(a.end(), {p, m});
    b.insert(b.end(), {r, m});
    out.insert(out.end(), {p, r});
    return Arguments{draw.floats(a), draw.floats(b), draw.draws.pick<double>({0, 1, 2}), int64_t{2},
                     draw.out(out)};
  };
  recipes["aten::_pdist_forward.out"] = [](const RecipeDraws& draw) {
    const int32_t n = draw.extent(0, 6), m = draw.extent(0, 5);
    return Arguments{draw.floats({n, m}), draw.draws.pick<double>({0, 1, 2}),
                     draw.out({n < 2 ? 0 : n * (n - 1) / 2})};
  };
  recipes["aten::grid_sampler_2d.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = full_shape(draw, 4, 4);
    const int32_t h = draw.extent(0, 4), w = draw.extent(0, 4);
    return Arguments{draw.floats(sizes), draw.floats({sizes[0], h, w, 2}),
                     draw.number(0, 2),  draw.number(0, 2),
                     draw.flag(),        draw.out({sizes[0], sizes[1], h, w})};
  };
  recipes["aten::_upsample_bilinear2d_aa.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = full_shape(draw, 4, 4);
    const int32_t h = draw.extent(1, 7), w = draw.extent(1, 7);
    return Arguments{draw.floats(sizes),
                     Numbers{h, w},
                     draw.flag(),
                     kNone,
                     kNone,
                     draw.out({sizes[0], sizes[1], h, w})};
  };
  recipes["aten::_native_batch_norm_legit.no_stats_out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = full_shape(draw, 2, 4);
    const Sizes list{sizes[1]};
    return Arguments{draw.floats(sizes),
                     draw.maybe(draw.floats(list)),
                     draw.maybe(draw.floats(list)),
                     true,
                     0.1,
                     draw.real(0.001, 1),
                     draw.out(sizes),
                     draw.out(list),
                     draw.out(list)};
  };
}

}  // namespace

void add_place_recipes(Recipes& recipes) {
  add_views(recipes);
  add_parts(recipes);
  add_places(recipes);
  add_indices(recipes);
  add_boxes(recipes);
  add_extremes(recipes);
  add_others(recipes);
}

}  // namespace dtr::fuzz
