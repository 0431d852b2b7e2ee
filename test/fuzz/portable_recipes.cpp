// A valid call of every portable kernel, with random shapes and parameters. Schemas: the head of
// each file in device/runtime/kernels/portable.
#include "test/fuzz/recipe_draws.h"

namespace dtr::fuzz {
namespace {

struct PortableKernel {
  std::string_view name, file;
};
constexpr PortableKernel kPortableKernels[] = {
#define DTR_KERNEL(function, name, file) {name, #file},
#include "device/runtime/kernels/portable/kernels.inc"
#undef DTR_KERNEL
};

// ---- elementwise

// (self, numbers…, out).
Recipe unary(std::vector<std::pair<double, double>> ranges = {}) {
  return [ranges](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    Arguments made{draw.floats(sizes)};
    for (const auto& [low, high] : ranges) made.emplace_back(draw.real(low, high));
    made.emplace_back(draw.out(sizes));
    return made;
  };
}

Arguments binary_of(const RecipeDraws& draw, ScalarType from, ScalarType to, bool alpha) {
  const Sizes sizes = draw.shape(0, 5);
  Arguments made{draw.tensor(from, draw.broadcast(sizes)),
                 draw.tensor(from, draw.broadcast(sizes))};
  if (alpha)
    made.emplace_back(draw.flag() ? Argument(draw.number(-2, 2)) : Argument(draw.real(-2, 2)));
  made.emplace_back(draw.out(to, sizes));
  return made;
}
Recipe binary(bool alpha = false) {
  return [alpha](const RecipeDraws& draw) { return binary_of(draw, kFloat, kFloat, alpha); };
}

void add_elementwise(Recipes& recipes) {
  for (const auto& [name, file] :
       kPortableKernels)  // of which those with numbers get another recipe below
    if (file == "unary") recipes[std::string(name)] = unary();
  for (const char* name : {"abs", "hardswish", "relu", "sigmoid", "tanh"})
    recipes[std::string("aten::") + name + ".out"] = unary();
  recipes["aten::elu.out"] = unary({{0, 2}, {0, 2}, {0, 2}});
  recipes["aten::clamp.out"] = unary({{-2, 0}, {0, 2}});
  recipes["aten::hardtanh.out"] = unary({{-2, 0}, {0, 2}});
  recipes["aten::leaky_relu.out"] = unary({{-1, 1}});
  recipes["aten::pow.Tensor_Scalar_out"] = unary({{-2, 3}});
  recipes["aten::softplus.out"] = unary({{0, 2}, {0, 20}});
  recipes["aten::threshold.out"] = unary({{-1, 1}, {-1, 1}});
  recipes["aten::hardshrink.out"] = unary({{0, 1}});
  recipes["aten::softshrink.out"] = unary({{0, 1}});
  recipes["aten::mul.Scalar_out"] = unary({{-2, 2}});
  recipes["aten::div.Scalar_out"] = unary({{-2, 2}});
  for (const char* name : {"add", "sub", "rsub"})
    recipes[std::string("aten::") + name + ".Scalar_out"] = unary({{-2, 2}, {-2, 2}});
  recipes["aten::gelu.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    return Arguments{draw.floats(sizes), std::string(draw.flag() ? "tanh" : "none"),
                     draw.out(sizes)};
  };
  recipes["aten::add.out"] = recipes["aten::sub.out"] = binary(true);
  for (const char* name : {"mul", "div", "maximum", "minimum", "prelu"})
    recipes[std::string("aten::") + name + ".out"] = binary();
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    recipes[std::string("aten::") + name + ".Tensor_out"] = [](const RecipeDraws& draw) {
      return binary_of(draw, draw.any_type(), kBool, false);
    };
    recipes[std::string("aten::") + name + ".Scalar_out"] = [](const RecipeDraws& draw) {
      const Sizes sizes = draw.shape(0, 5);
      return Arguments{draw.tensor(draw.any_type(), sizes),
                       draw.flag() ? Argument(draw.number(-3, 3)) : Argument(draw.real(-3, 3)),
                       draw.out(kBool, sizes)};
    };
  }
  for (const char* name : {"and", "or", "xor"})
    recipes[std::string("aten::logical_") + name + ".out"] = [](const RecipeDraws& draw) {
      return binary_of(draw, kBool, kBool, false);
    };
  recipes["aten::logical_not.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    return Arguments{draw.tensor(kBool, sizes), draw.out(kBool, sizes)};
  };
  recipes["aten::where.self_out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(kBool, draw.broadcast(sizes)),
                     draw.tensor(type, draw.broadcast(sizes)),
                     draw.tensor(type, draw.broadcast(sizes)), draw.out(type, sizes)};
  };
  recipes["aten::masked_fill.Scalar_out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    return Arguments{draw.floats(draw.broadcast(sizes)), draw.tensor(kBool, draw.broadcast(sizes)),
                     draw.real(-2, 2), draw.out(sizes)};
  };
}

// ---- moving

Arguments copy_of(const RecipeDraws& draw, size_t others, bool converts) {
  const Sizes sizes = draw.shape(0, 5);
  const ScalarType type = draw.any_type();
  Arguments made{draw.tensor(type, sizes)};
  made.resize(1 + others);
  made.emplace_back(draw.out(converts ? draw.any_type() : type, sizes));
  return made;
}

Arguments reshape(const RecipeDraws& draw) {
  const Sizes sizes = draw.shape(0, 4);
  Sizes result = sizes;
  if (draw.flag()) std::ranges::reverse(result);
  if (draw.flag())
    result.insert(result.begin() + static_cast<ptrdiff_t>(draw.draws.below(result.size() + 1)), 1);
  if (draw.draws.chance(20)) result = {static_cast<int32_t>(elements(sizes))};
  const ScalarType type = draw.any_type();
  return {draw.tensor(type, sizes), numbers(result), draw.out(type, result)};
}

void add_joining(Recipes& recipes) {
  recipes["aten::cat.out"] = [](const RecipeDraws& draw) {
    Sizes sizes = draw.shape(1, 4);
    const ScalarType type = draw.any_type();
    const int64_t dim = draw.dim(sizes.size());
    const size_t axis = RecipeDraws::wrapped(dim, sizes.size());
    TensorList list;
    int32_t total = 0;
    for (size_t left = draw.draws.below(4); left > 0; --left) {
      sizes[axis] = draw.extent(0, 4);
      total += sizes[axis];
      list.emplace_back(draw.tensor(type, sizes));
    }
    sizes[axis] = total;
    return Arguments{list, dim, draw.out(type, sizes)};
  };
  recipes["aten::stack.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 3);
    const ScalarType type = draw.any_type();
    const int64_t dim = draw.dim(sizes.size() + 1);
    TensorList list;
    for (size_t left = 1 + draw.draws.below(3); left > 0; --left)
      list.emplace_back(draw.tensor(type, sizes));
    Sizes result = sizes;
    result.insert(
        result.begin() + static_cast<ptrdiff_t>(RecipeDraws::wrapped(dim, sizes.size() + 1)),
        static_cast<int32_t>(list.size()));
    return Arguments{list, dim, draw.out(type, result)};
  };
  recipes["aten::index_select.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(1, 4);
    const ScalarType type = draw.any_type();
    const int64_t dim = draw.dim(sizes.size());
    const size_t axis = RecipeDraws::wrapped(dim, sizes.size());
    const Sizes index = draw.shape(1, 2);
    Sizes result = sizes;
    result.erase(result.begin() + static_cast<ptrdiff_t>(axis));
    result.insert(result.begin() + static_cast<ptrdiff_t>(axis), index.begin(), index.end());
    TensorSpec which = draw.tensor(draw.flag() ? kLong : kInt, index, Fill::kBelow);
    which.below = sizes[axis];
    return Arguments{draw.tensor(type, sizes), dim, which, draw.out(type, result)};
  };
  recipes["aten::embedding.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(2, 2), index = draw.shape(0, 2);
    Sizes result = index;
    result.push_back(sizes[1]);
    TensorSpec which = draw.tensor(draw.flag() ? kLong : kInt, index, Fill::kBelow);
    which.below = sizes[0];
    return Arguments{draw.floats(sizes), which, int64_t{-1}, false, false, draw.out(result)};
  };
}

void add_moving(Recipes& recipes) {
  recipes["aten::_to_copy.out"] = recipes["dim_order_ops::_to_dim_order_copy.out"] =
      [](const RecipeDraws& draw) { return copy_of(draw, 2, true); };
  recipes["dim_order_ops::_clone_dim_order.out"] = [](const RecipeDraws& draw) {
    return copy_of(draw, 2, false);
  };
  recipes["aten::clone.out"] = [](const RecipeDraws& draw) { return copy_of(draw, 1, false); };
  for (const char* name : {"alias", "detach", "lift_fresh"})
    recipes[std::string("aten::") + name + "_copy.out"] = [](const RecipeDraws& draw) {
      return copy_of(draw, 0, false);
    };
  for (const char* name :
       {"view_copy.out", "squeeze_copy.dim_out", "squeeze_copy.dims_out", "unsqueeze_copy.out"})
    recipes[std::string("aten::") + name] = reshape;
  recipes["aten::permute_copy.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    Numbers dims(sizes.size());
    for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(i);
    for (size_t i = dims.size(); i > 1; --i) std::swap(dims[i - 1], dims[draw.draws.below(i)]);
    Sizes result;
    for (const int64_t dim : dims) result.push_back(sizes[static_cast<size_t>(dim)]);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), dims, draw.out(type, result)};
  };
  recipes["aten::transpose_copy.int_out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(1, 5);
    const int64_t a = draw.dim(sizes.size()), b = draw.dim(sizes.size());
    Sizes result = sizes;
    std::swap(result[RecipeDraws::wrapped(a, sizes.size())],
              result[RecipeDraws::wrapped(b, sizes.size())]);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), a, b, draw.out(type, result)};
  };
  recipes["aten::t_copy.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 2);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), draw.out(type, {sizes.rbegin(), sizes.rend()})};
  };
  recipes["aten::flip.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(1, 5);
    Numbers dims;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (draw.flag()) dims.push_back(static_cast<int64_t>(i));
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), dims, draw.out(type, sizes)};
  };
  recipes["aten::expand_copy.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, draw.broadcast(sizes)), numbers(sizes), false,
                     draw.out(type, sizes)};
  };
  recipes["aten::repeat.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 3);
    const size_t more = draw.draws.below(2);
    Numbers repeats;
    Sizes result;
    for (size_t i = 0; i < sizes.size() + more; ++i) {
      repeats.push_back(draw.number(draw.draws.chance(10) ? 0 : 1, 2));
      result.push_back(static_cast<int32_t>(repeats.back()) * (i < more ? 1 : sizes[i - more]));
    }
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), repeats, draw.out(type, result)};
  };
  recipes["aten::select_copy.int_out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(1, 5);
    const int64_t dim = draw.dim(sizes.size());
    const size_t axis = RecipeDraws::wrapped(dim, sizes.size());
    Sizes result = sizes;
    result.erase(result.begin() + static_cast<ptrdiff_t>(axis));
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes), dim, draw.number(-sizes[axis], sizes[axis] - 1),
                     draw.out(type, result)};
  };
  recipes["aten::slice_copy.Tensor_out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(1, 5);
    const int64_t dim = draw.dim(sizes.size());
    const size_t axis = RecipeDraws::wrapped(dim, sizes.size());
    const int64_t start = draw.number(0, sizes[axis]), end = draw.number(start, sizes[axis]),
                  step = draw.number(1, 3);
    Sizes result = sizes;
    result[axis] = static_cast<int32_t>((end - start + step - 1) / step);
    const ScalarType type = draw.any_type();
    return Arguments{draw.tensor(type, sizes),
                     dim,
                     draw.flag() ? start : start - sizes[axis] * (start < sizes[axis] ? 1 : 0),
                     end,
                     step,
                     draw.out(type, result)};
  };
  recipes["aten::constant_pad_nd.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    Numbers pad;
    Sizes result = sizes;
    for (size_t i = draw.draws.below(sizes.size() + 1); i > 0; --i) {
      const size_t axis = sizes.size() - 1 - pad.size() / 2;
      const int64_t before = draw.number(-sizes[axis] / 2, 2),
                    after = draw.number(-sizes[axis] / 2, 2);
      pad.insert(pad.end(), {before, after});
      result[axis] += static_cast<int32_t>(before + after);
    }
    const ScalarType type = draw.draws.pick({kFloat, kChar});
    return Arguments{draw.tensor(type, sizes), pad, draw.number(-128, 127), draw.out(type, result)};
  };
  add_joining(recipes);
}

void add_filling(Recipes& recipes) {
  const auto value = [](const RecipeDraws& draw, ScalarType type) {
    return draw.real(type == kByte ? 0 : -3, 100);
  };
  recipes["aten::full.out"] = [value](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    const ScalarType type = draw.any_type();
    return Arguments{numbers(sizes), value(draw, type), draw.out(type, sizes)};
  };
  recipes["aten::full_like.out"] = [value](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    const ScalarType type = draw.any_type();
    return Arguments{draw.floats(sizes), value(draw, type), kNone, draw.out(type, sizes)};
  };
  recipes["aten::scalar_tensor.out"] = [value](const RecipeDraws& draw) {
    const ScalarType type = draw.any_type();
    return Arguments{value(draw, type), draw.out(type, {})};
  };
  recipes["aten::arange.start_out"] = [](const RecipeDraws& draw) {
    const int64_t start = draw.number(0, 5), step = draw.number(1, 3), count = draw.number(0, 30);
    return Arguments{start, start + count * step, step,
                     draw.out(draw.any_type(), {static_cast<int32_t>(count)})};
  };
}

// ---- reductions, normalization

Sizes reduced(const Sizes& sizes, const Numbers& dims, bool keepdim) {
  Sizes result;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool gone =
        dims.empty() || std::ranges::find(dims, static_cast<int64_t>(i)) != dims.end();
    if (!gone) result.push_back(sizes[i]);
    if (gone && keepdim) result.push_back(1);
  }
  return result;
}

Numbers some_dims(const RecipeDraws& draw, size_t rank) {
  Numbers dims;
  for (size_t i = 0; i < rank; ++i)
    if (draw.flag()) dims.push_back(static_cast<int64_t>(i));
  return dims;
}

Recipe reduction(bool of_codes, bool dtype) {
  return [=](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    const Numbers dims = some_dims(draw, sizes.size());
    const bool keepdim = draw.flag();
    const ScalarType type = of_codes && draw.flag() ? kChar : kFloat;
    Arguments made{draw.tensor(type, sizes),
                   dims.empty() && draw.flag() ? Argument(kNone) : Argument(dims), keepdim};
    if (dtype) made.emplace_back(kNone);
    made.emplace_back(draw.out(type, reduced(sizes, dims, keepdim)));
    return made;
  };
}

Arguments extreme_index(const RecipeDraws& draw) {
  const Sizes sizes = draw.shape(1, 5);
  const bool all = draw.draws.chance(20), keepdim = draw.flag();
  const int64_t dim = draw.dim(sizes.size());
  const Numbers dims =
      all ? Numbers{} : Numbers{static_cast<int64_t>(RecipeDraws::wrapped(dim, sizes.size()))};
  return {draw.tensor(draw.draws.pick({kFloat, kChar}), sizes),
          all ? Argument(kNone) : Argument(dim), keepdim,
          draw.out(draw.draws.pick({kLong, kInt}), reduced(sizes, dims, keepdim))};
}

// (self, [mask,] dim, [false,] out).
Arguments softmax(const RecipeDraws& draw, bool masked) {
  const Sizes sizes = draw.shape(0, 4);
  Arguments made{draw.floats(sizes)};
  if (masked) made.emplace_back(draw.tensor(kBool, draw.broadcast(sizes)));
  made.emplace_back(draw.dim(sizes.size()));
  if (!masked) made.emplace_back(false);
  made.emplace_back(draw.out(sizes));
  return made;
}

Arguments lookup(const RecipeDraws& draw) {
  constexpr ScalarType kBytes[] = {kChar, kByte, kBool};
  const TensorSpec in = draw.tensor(kBytes[draw.draws.below(3)], draw.shape(0, 4));
  return {in, draw.tensor(kChar, {256}), draw.out(draw.draws.chance(50) ? kChar : kByte, in.sizes)};
}

void add_reductions(Recipes& recipes) {
  recipes["aten::mean.out"] = recipes["aten::sum.IntList_out"] = reduction(false, true);
  recipes["aten::amax.out"] = recipes["aten::amin.out"] = reduction(true, false);
  recipes["aten::argmax.out"] = recipes["aten::argmin.out"] = extreme_index;
  recipes["aten::_softmax.out"] = recipes["aten::_log_softmax.out"] = [](const RecipeDraws& draw) {
    return softmax(draw, false);
  };
  recipes["deuteron::lookup.out"] = lookup;
  recipes["deuteron::masked_softmax.out"] = [](const RecipeDraws& draw) {
    return softmax(draw, true);
  };
  const auto last = [](const RecipeDraws& draw, bool center) {
    const Sizes sizes = draw.shape(1, 4);
    const size_t outer = draw.draws.below(sizes.size());
    const Sizes shape(sizes.begin() + static_cast<ptrdiff_t>(outer), sizes.end());
    Sizes moments(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(outer));
    moments.resize(sizes.size(), 1);
    Arguments made{draw.floats(sizes), numbers(shape), draw.maybe(draw.floats(shape))};
    if (center) made.emplace_back(draw.maybe(draw.floats(shape)));
    made.emplace_back(1e-5);
    made.emplace_back(draw.out(sizes));
    if (center) made.insert(made.end(), {draw.out(moments), draw.out(moments)});
    return made;
  };
  recipes["aten::native_layer_norm.out"] = [last](const RecipeDraws& draw) {
    return last(draw, true);
  };
  recipes["aten::rms_norm.out"] = [last](const RecipeDraws& draw) { return last(draw, false); };
  recipes["aten::native_group_norm.out"] = [](const RecipeDraws& draw) {
    const int32_t groups = draw.extent(1, 3);
    Sizes sizes = draw.shape(2, 4);
    sizes[1] = groups * draw.extent(1, 3);
    int64_t pixels = 1;
    for (size_t i = 2; i < sizes.size(); ++i) pixels *= sizes[i];
    const Sizes moments{sizes[0], groups};
    return Arguments{draw.floats(sizes),
                     draw.maybe(draw.floats({sizes[1]})),
                     draw.maybe(draw.floats({sizes[1]})),
                     int64_t{sizes[0]},
                     int64_t{sizes[1]},
                     pixels,
                     int64_t{groups},
                     1e-5,
                     draw.out(sizes),
                     draw.out(moments),
                     draw.out(moments)};
  };
  recipes["aten::_native_batch_norm_legit_no_training.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(2, 5), list{sizes[1]};
    return Arguments{draw.floats(sizes),
                     draw.maybe(draw.floats(list)),
                     draw.maybe(draw.floats(list)),
                     draw.floats(list),
                     draw.tensor(kFloat, list, Fill::kPositive),
                     0.1,
                     1e-5,
                     draw.out(sizes),
                     draw.out({0}),
                     draw.out({0})};
  };
}

// ---- products, windows

void add_products(Recipes& recipes) {
  recipes["aten::linear.out"] = [](const RecipeDraws& draw) {
    Sizes sizes = draw.shape(1, 3);
    const int32_t outputs = draw.extent(1, 9);
    Sizes result = sizes;
    result.back() = outputs;
    return Arguments{draw.floats(sizes), draw.floats({outputs, sizes.back()}),
                     draw.maybe(draw.floats({outputs})), draw.out(result)};
  };
  recipes["aten::addmm.out"] = [](const RecipeDraws& draw) {
    const int32_t rows = draw.extent(1, 6), inner = draw.extent(0, 9), columns = draw.extent(1, 6);
    const Sizes result{rows, columns};
    return Arguments{draw.floats(draw.broadcast(result)),
                     draw.floats({rows, inner}),
                     draw.floats({inner, columns}),
                     draw.real(0, 1),
                     draw.real(0, 1),
                     draw.out(result)};
  };
  recipes["aten::mm.out"] = recipes["aten::bmm.out"] =
      recipes["aten::matmul.out"] = [](const RecipeDraws& draw) {
        Sizes batch = draw.shape(0, 2);
        const int32_t rows = draw.extent(1, 6), inner = draw.extent(0, 9),
                      columns = draw.extent(1, 6);
        Sizes a = draw.flag() ? batch : draw.broadcast(batch), b = batch, result = batch;
        a.insert(a.end(), {rows, inner});
        b.insert(b.end(), {inner, columns});
        result.insert(result.end(), {rows, columns});
        return Arguments{draw.floats(a), draw.floats(b), draw.out(result)};
      };
}

void add_windows(Recipes& recipes) {
  recipes["aten::convolution.out"] = [](const RecipeDraws& draw) {
    const Windows at(draw, false);
    const bool transposed = draw.draws.chance(30), line = draw.draws.chance(20);
    const int32_t groups = draw.extent(1, 2), ci = groups * draw.extent(1, 4),
                  co = groups * draw.extent(1, 4), n = draw.extent(1, 2);
    const auto extent = [&](const Window& w) {
      return transposed ? (w.in - 1) * w.stride - 2 * w.padding + w.dilation * (w.kernel - 1) + 1
                        : w.out();
    };
    Sizes in{n, ci, at.h.in, at.w.in},
        weight{transposed ? ci : co, (transposed ? co : ci) / groups, at.h.kernel, at.w.kernel};
    Sizes out{n, co, std::max(extent(at.h), 0), std::max(extent(at.w), 0)};
    Numbers stride = at.stride, padding = at.padding, dilation = at.dilation, more{0, 0};
    if (line) {
      for (Sizes* sizes : {&in, &weight, &out}) sizes->erase(sizes->begin() + 2);
      for (Numbers* list : {&stride, &padding, &dilation, &more}) list->erase(list->begin());
    }
    return Arguments{draw.floats(in),
                     draw.floats(weight),
                     draw.maybe(draw.floats({co})),
                     stride,
                     padding,
                     dilation,
                     transposed,
                     more,
                     int64_t{groups},
                     draw.out(out)};
  };
  recipes["aten::avg_pool2d.out"] = [](const RecipeDraws& draw) {
    const Windows at(draw, true);
    const int32_t n = draw.extent(1, 2), c = draw.extent(1, 5);
    return Arguments{draw.floats({n, c, at.h.in, at.w.in}),
                     at.kernel,
                     at.stride,
                     at.padding,
                     at.h.ceil,
                     draw.flag(),
                     draw.flag() ? Argument(kNone) : Argument(draw.number(1, 5)),
                     draw.out({n, c, at.h.out(false), at.w.out(false)})};
  };
  recipes["aten::max_pool2d_with_indices.out"] = [](const RecipeDraws& draw) {
    const Windows at(draw, true);
    const TensorSpec out = draw.out({draw.extent(1, 2), draw.extent(1, 5), at.h.out(), at.w.out()});
    return Arguments{draw.floats({out.sizes[0], out.sizes[1], at.h.in, at.w.in}),
                     at.kernel,
                     at.stride,
                     at.padding,
                     at.dilation,
                     at.h.ceil,
                     out,
                     draw.out_like(out, kLong)};
  };
  recipes["aten::_adaptive_avg_pool2d.out"] = [](const RecipeDraws& draw) {
    const int32_t n = draw.extent(1, 2), c = draw.extent(1, 5), h = draw.extent(0, 4),
                  w = draw.extent(1, 4);
    return Arguments{draw.floats({n, c, draw.extent(1, 6), draw.extent(1, 6)}), Numbers{h, w},
                     draw.out({n, c, h, w})};
  };
  recipes["aten::adaptive_max_pool2d.out"] = [](const RecipeDraws& draw) {
    const int32_t n = draw.extent(1, 2), c = draw.extent(1, 5), h = draw.extent(0, 4),
                  w = draw.extent(1, 4);
    const TensorSpec out = draw.out({n, c, h, w});
    return Arguments{draw.floats({n, c, draw.extent(1, 6), draw.extent(1, 6)}), Numbers{h, w}, out,
                     draw.out_like(out, kLong)};
  };
  // (self, output_size, [align_corners,] factors or a list of them, out).
  const auto resize = [](const RecipeDraws& draw, bool align, bool list) {
    const int32_t n = draw.extent(1, 2), c = draw.extent(1, 4), factor = draw.extent(1, 3);
    const Sizes in{n, c, draw.extent(1, 5), draw.extent(1, 5)},
        out{n, c, in[2] * factor, in[3] * factor};
    const bool by_factor = draw.flag();
    const Argument real = by_factor ? Argument(static_cast<double>(factor)) : Argument(kNone);
    Arguments made{draw.floats(in),
                   list && by_factor ? Argument(kNone) : Argument(Numbers{out[2], out[3]})};
    if (align) made.emplace_back(draw.flag());
    if (list) {
      made.emplace_back(
          by_factor ? Argument(Reals{static_cast<double>(factor), static_cast<double>(factor)})
                    : Argument(kNone));
    } else {
      made.insert(made.end(), {real, real});
    }
    made.emplace_back(draw.out(out));
    return made;
  };
  recipes["aten::upsample_nearest2d.out"] = [resize](const RecipeDraws& draw) {
    return resize(draw, false, false);
  };
  recipes["aten::upsample_nearest2d.vec_out"] = [resize](const RecipeDraws& draw) {
    return resize(draw, false, true);
  };
  recipes["aten::upsample_bilinear2d.out"] = [resize](const RecipeDraws& draw) {
    return resize(draw, true, false);
  };
  recipes["aten::upsample_bilinear2d.vec_out"] = [resize](const RecipeDraws& draw) {
    return resize(draw, true, true);
  };
}

// ---- quantization

std::pair<int64_t, int64_t> limits(ScalarType type) {
  return type == kByte   ? std::pair<int64_t, int64_t>{0, 255}
         : type == kChar ? std::pair<int64_t, int64_t>{-128, 127}
                         : std::pair<int64_t, int64_t>{-32768, 32767};
}

void add_quantization(Recipes& recipes) {
  recipes["quantized_decomposed::quantize_per_tensor.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    const ScalarType type = draw.draws.pick({kByte, kChar, kShort});
    const auto [low, high] = limits(type);
    return Arguments{draw.floats(sizes), draw.real(0.001, 1),  draw.number(low, high), low, high,
                     int64_t{1},         draw.out(type, sizes)};
  };
  recipes["quantized_decomposed::dequantize_per_tensor.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    return Arguments{draw.tensor(draw.draws.pick({kByte, kChar, kShort, kInt}), sizes),
                     draw.real(0.001, 1),
                     draw.number(-128, 127),
                     int64_t{-128},
                     int64_t{127},
                     int64_t{1},
                     kNone,
                     draw.out(sizes)};
  };
  const auto per_channel = [](const RecipeDraws& draw, bool quantize) {
    const Sizes sizes = draw.shape(1, 4);
    const ScalarType type = draw.draws.pick({kByte, kChar, kShort});
    const auto [low, high] = limits(type);
    const int64_t dim = draw.dim(sizes.size());
    const Sizes list{sizes[RecipeDraws::wrapped(dim, sizes.size())]};
    TensorSpec zeros = draw.tensor(draw.draws.pick({kChar, kInt, kLong}), list, Fill::kBelow);
    zeros.below = 100;
    Arguments made{quantize ? draw.floats(sizes) : draw.tensor(type, sizes),
                   draw.tensor(draw.draws.pick({kFloat, kDouble}), list, Fill::kPositive),
                   draw.maybe(zeros),
                   dim,
                   low,
                   high,
                   int64_t{1}};
    if (!quantize) made.emplace_back(kNone);
    made.emplace_back(quantize ? draw.out(type, sizes) : draw.out(sizes));
    return made;
  };
  recipes["quantized_decomposed::quantize_per_channel.out"] =
      [per_channel](const RecipeDraws& draw) { return per_channel(draw, true); };
  recipes["quantized_decomposed::dequantize_per_channel.out"] =
      [per_channel](const RecipeDraws& draw) { return per_channel(draw, false); };
}

// ---- integers, rounded divisions, functions that few models have

void add_numbers(Recipes& recipes) {
  for (const char* name : {"acos", "acosh", "asin", "asinh", "atanh", "cosh", "expm1", "log10",
                           "log1p", "log2", "sinh", "tan", "trunc"})
    recipes[std::string("aten::") + name + ".out"] = unary();
  recipes["aten::logit.out"] = unary({{0, 0.5}});
  recipes["aten::atan2.out"] = binary();
  recipes["aten::pow.Tensor_Tensor_out"] = binary();
  recipes["aten::pow.Scalar_out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    return Arguments{draw.real(-3, 3), draw.floats(sizes), draw.out(sizes)};
  };
  for (const char* name : {"isinf", "isnan"})
    recipes[std::string("aten::") + name + ".out"] = [](const RecipeDraws& draw) {
      const Sizes sizes = draw.shape(0, 5);
      return Arguments{draw.floats(sizes), draw.out(kBool, sizes)};
    };
  const auto any_type = [](const RecipeDraws& draw) {
    return draw.draws.pick({kBool, kByte, kChar, kShort, kInt, kLong});
  };
  for (const char* name : {"and", "or", "xor"}) {
    recipes[std::string("aten::bitwise_") + name + ".Tensor_out"] =
        [any_type](const RecipeDraws& draw) {
          const ScalarType type = any_type(draw);
          return binary_of(draw, type, type, false);
        };
    recipes[std::string("aten::bitwise_") + name + ".Scalar_out"] =
        [any_type](const RecipeDraws& draw) {
          const Sizes sizes = draw.shape(0, 5);
          const ScalarType type = any_type(draw);
          return Arguments{draw.tensor(type, sizes), draw.number(-9, 9), draw.out(type, sizes)};
        };
  }
  recipes["aten::bitwise_not.out"] = [any_type](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    const ScalarType type = any_type(draw);
    return Arguments{draw.tensor(type, sizes), draw.out(type, sizes)};
  };
  const auto tensors = [](const RecipeDraws& draw) {
    const ScalarType type = draw.draws.pick({kFloat, kChar, kInt, kLong});
    return binary_of(draw, type, type, false);
  };
  const auto number = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    const ScalarType type = draw.draws.pick({kFloat, kChar, kInt, kLong});
    return Arguments{draw.tensor(type, sizes), draw.number(-3, 3), draw.out(type, sizes)};
  };
  for (const char* name :
       {"aten::floor_divide.out", "aten::fmod.Tensor_out", "aten::remainder.Tensor_out"})
    recipes[name] = tensors;
  for (const char* name : {"aten::fmod.Scalar_out", "aten::remainder.Scalar_out"})
    recipes[name] = number;
  const auto with_mode = [](const RecipeDraws& draw, Arguments made) {
    made.insert(made.end() - 1, Argument(std::string(draw.flag() ? "floor" : "trunc")));
    return made;
  };
  recipes["aten::div.out_mode"] = [=](const RecipeDraws& draw) {
    return with_mode(draw, tensors(draw));
  };
  recipes["aten::div.Scalar_mode_out"] = [=](const RecipeDraws& draw) {
    return with_mode(draw, number(draw));
  };
  recipes["aten::cumsum.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(1, 5);
    const bool real = draw.flag();
    return Arguments{draw.tensor(real ? kFloat : kInt, sizes), draw.dim(sizes.size()), kNone,
                     draw.out(real ? kFloat : kLong, sizes)};
  };
}

}  // namespace

std::string_view portable_file(std::string_view kernel) {
  const auto* at = std::ranges::find(kPortableKernels, kernel, &PortableKernel::name);
  return at == std::end(kPortableKernels) ? std::string_view{} : at->file;
}

void add_portable_recipes(Recipes& recipes) {
  add_elementwise(recipes);
  add_moving(recipes);
  add_filling(recipes);
  add_reductions(recipes);
  add_products(recipes);
  add_windows(recipes);
  add_quantization(recipes);
  add_numbers(recipes);
}

}  // namespace dtr::fuzz
