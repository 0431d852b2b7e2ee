// A valid call of every portable kernel, with random shapes and parameters. Schemas: the head of
// each file in device/runtime/kernels/portable.
#include "test/fuzz/recipe_kit.h"

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
  return [ranges](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    Arguments made{kit.floats(sizes)};
    for (const auto& [low, high] : ranges) made.emplace_back(kit.real(low, high));
    made.emplace_back(kit.out(sizes));
    return made;
  };
}

Arguments binary_of(const Kit& kit, ScalarType from, ScalarType to, bool alpha) {
  const Sizes sizes = kit.shape(0, 5);
  Arguments made{kit.tensor(from, kit.broadcast(sizes)), kit.tensor(from, kit.broadcast(sizes))};
  if (alpha)
    made.emplace_back(kit.flag() ? Argument(kit.number(-2, 2)) : Argument(kit.real(-2, 2)));
  made.emplace_back(kit.out(to, sizes));
  return made;
}
Recipe binary(bool alpha = false) {
  return [alpha](const Kit& kit) { return binary_of(kit, kFloat, kFloat, alpha); };
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
  recipes["aten::gelu.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    return Arguments{kit.floats(sizes), std::string(kit.flag() ? "tanh" : "none"), kit.out(sizes)};
  };
  recipes["aten::add.out"] = recipes["aten::sub.out"] = binary(true);
  for (const char* name : {"mul", "div", "maximum", "minimum", "prelu"})
    recipes[std::string("aten::") + name + ".out"] = binary();
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    recipes[std::string("aten::") + name + ".Tensor_out"] = [](const Kit& kit) {
      return binary_of(kit, kit.any_type(), kBool, false);
    };
    recipes[std::string("aten::") + name + ".Scalar_out"] = [](const Kit& kit) {
      const Sizes sizes = kit.shape(0, 5);
      return Arguments{kit.tensor(kit.any_type(), sizes),
                       kit.flag() ? Argument(kit.number(-3, 3)) : Argument(kit.real(-3, 3)),
                       kit.out(kBool, sizes)};
    };
  }
  for (const char* name : {"and", "or", "xor"})
    recipes[std::string("aten::logical_") + name + ".out"] = [](const Kit& kit) {
      return binary_of(kit, kBool, kBool, false);
    };
  recipes["aten::logical_not.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    return Arguments{kit.tensor(kBool, sizes), kit.out(kBool, sizes)};
  };
  recipes["aten::where.self_out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    const ScalarType type = kit.any_type();
    return Arguments{kit.tensor(kBool, kit.broadcast(sizes)),
                     kit.tensor(type, kit.broadcast(sizes)), kit.tensor(type, kit.broadcast(sizes)),
                     kit.out(type, sizes)};
  };
  recipes["aten::masked_fill.Scalar_out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    return Arguments{kit.floats(kit.broadcast(sizes)), kit.tensor(kBool, kit.broadcast(sizes)),
                     kit.real(-2, 2), kit.out(sizes)};
  };
}

// ---- moving

Arguments copy_of(const Kit& kit, size_t others, bool converts) {
  const Sizes sizes = kit.shape(0, 5);
  const ScalarType type = kit.any_type();
  Arguments made{kit.tensor(type, sizes)};
  made.resize(1 + others);
  made.emplace_back(kit.out(converts ? kit.any_type() : type, sizes));
  return made;
}

Arguments reshape(const Kit& kit) {
  const Sizes sizes = kit.shape(0, 4);
  Sizes result = sizes;
  if (kit.flag()) std::ranges::reverse(result);
  if (kit.flag())
    result.insert(result.begin() + static_cast<ptrdiff_t>(kit.draws.below(result.size() + 1)), 1);
  if (kit.draws.chance(20)) result = {static_cast<int32_t>(elements(sizes))};
  const ScalarType type = kit.any_type();
  return {kit.tensor(type, sizes), numbers(result), kit.out(type, result)};
}

void add_joining(Recipes& recipes) {
  recipes["aten::cat.out"] = [](const Kit& kit) {
    Sizes sizes = kit.shape(1, 4);
    const ScalarType type = kit.any_type();
    const int64_t dim = kit.dim(sizes.size());
    const size_t axis = Kit::wrapped(dim, sizes.size());
    TensorList list;
    int32_t total = 0;
    for (size_t left = kit.draws.below(4); left > 0; --left) {
      sizes[axis] = kit.extent(0, 4);
      total += sizes[axis];
      list.emplace_back(kit.tensor(type, sizes));
    }
    sizes[axis] = total;
    return Arguments{list, dim, kit.out(type, sizes)};
  };
  recipes["aten::stack.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 3);
    const ScalarType type = kit.any_type();
    const int64_t dim = kit.dim(sizes.size() + 1);
    TensorList list;
    for (size_t left = 1 + kit.draws.below(3); left > 0; --left)
      list.emplace_back(kit.tensor(type, sizes));
    Sizes result = sizes;
    result.insert(result.begin() + static_cast<ptrdiff_t>(Kit::wrapped(dim, sizes.size() + 1)),
                  static_cast<int32_t>(list.size()));
    return Arguments{list, dim, kit.out(type, result)};
  };
  recipes["aten::index_select.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(1, 4);
    const ScalarType type = kit.any_type();
    const int64_t dim = kit.dim(sizes.size());
    const size_t axis = Kit::wrapped(dim, sizes.size());
    const Sizes index = kit.shape(1, 2);
    Sizes result = sizes;
    result.erase(result.begin() + static_cast<ptrdiff_t>(axis));
    result.insert(result.begin() + static_cast<ptrdiff_t>(axis), index.begin(), index.end());
    TensorSpec which = kit.tensor(kit.flag() ? kLong : kInt, index, Fill::kBelow);
    which.below = sizes[axis];
    return Arguments{kit.tensor(type, sizes), dim, which, kit.out(type, result)};
  };
  recipes["aten::embedding.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(2, 2), index = kit.shape(0, 2);
    Sizes result = index;
    result.push_back(sizes[1]);
    TensorSpec which = kit.tensor(kit.flag() ? kLong : kInt, index, Fill::kBelow);
    which.below = sizes[0];
    return Arguments{kit.floats(sizes), which, int64_t{-1}, false, false, kit.out(result)};
  };
}

void add_moving(Recipes& recipes) {
  recipes["aten::_to_copy.out"] = recipes["dim_order_ops::_to_dim_order_copy.out"] =
      [](const Kit& kit) { return copy_of(kit, 2, true); };
  recipes["dim_order_ops::_clone_dim_order.out"] = [](const Kit& kit) {
    return copy_of(kit, 2, false);
  };
  recipes["aten::clone.out"] = [](const Kit& kit) { return copy_of(kit, 1, false); };
  for (const char* name : {"alias", "detach", "lift_fresh"})
    recipes[std::string("aten::") + name + "_copy.out"] = [](const Kit& kit) {
      return copy_of(kit, 0, false);
    };
  for (const char* name :
       {"view_copy.out", "squeeze_copy.dim_out", "squeeze_copy.dims_out", "unsqueeze_copy.out"})
    recipes[std::string("aten::") + name] = reshape;
  recipes["aten::permute_copy.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    Numbers dims(sizes.size());
    for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(i);
    for (size_t i = dims.size(); i > 1; --i) std::swap(dims[i - 1], dims[kit.draws.below(i)]);
    Sizes result;
    for (const int64_t dim : dims) result.push_back(sizes[static_cast<size_t>(dim)]);
    const ScalarType type = kit.any_type();
    return Arguments{kit.tensor(type, sizes), dims, kit.out(type, result)};
  };
  recipes["aten::transpose_copy.int_out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(1, 5);
    const int64_t a = kit.dim(sizes.size()), b = kit.dim(sizes.size());
    Sizes result = sizes;
    std::swap(result[Kit::wrapped(a, sizes.size())], result[Kit::wrapped(b, sizes.size())]);
    const ScalarType type = kit.any_type();
    return Arguments{kit.tensor(type, sizes), a, b, kit.out(type, result)};
  };
  recipes["aten::t_copy.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 2);
    const ScalarType type = kit.any_type();
    return Arguments{kit.tensor(type, sizes), kit.out(type, {sizes.rbegin(), sizes.rend()})};
  };
  recipes["aten::flip.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(1, 5);
    Numbers dims;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (kit.flag()) dims.push_back(static_cast<int64_t>(i));
    const ScalarType type = kit.any_type();
    return Arguments{kit.tensor(type, sizes), dims, kit.out(type, sizes)};
  };
  recipes["aten::expand_copy.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    const ScalarType type = kit.any_type();
    return Arguments{kit.tensor(type, kit.broadcast(sizes)), numbers(sizes), false,
                     kit.out(type, sizes)};
  };
  recipes["aten::repeat.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 3);
    const size_t more = kit.draws.below(2);
    Numbers repeats;
    Sizes result;
    for (size_t i = 0; i < sizes.size() + more; ++i) {
      repeats.push_back(kit.number(kit.draws.chance(10) ? 0 : 1, 2));
      result.push_back(static_cast<int32_t>(repeats.back()) * (i < more ? 1 : sizes[i - more]));
    }
    const ScalarType type = kit.any_type();
    return Arguments{kit.tensor(type, sizes), repeats, kit.out(type, result)};
  };
  recipes["aten::select_copy.int_out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(1, 5);
    const int64_t dim = kit.dim(sizes.size());
    const size_t axis = Kit::wrapped(dim, sizes.size());
    Sizes result = sizes;
    result.erase(result.begin() + static_cast<ptrdiff_t>(axis));
    const ScalarType type = kit.any_type();
    return Arguments{kit.tensor(type, sizes), dim, kit.number(-sizes[axis], sizes[axis] - 1),
                     kit.out(type, result)};
  };
  recipes["aten::slice_copy.Tensor_out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(1, 5);
    const int64_t dim = kit.dim(sizes.size());
    const size_t axis = Kit::wrapped(dim, sizes.size());
    const int64_t start = kit.number(0, sizes[axis]), end = kit.number(start, sizes[axis]),
                  step = kit.number(1, 3);
    Sizes result = sizes;
    result[axis] = static_cast<int32_t>((end - start + step - 1) / step);
    const ScalarType type = kit.any_type();
    return Arguments{kit.tensor(type, sizes),
                     dim,
                     kit.flag() ? start : start - sizes[axis] * (start < sizes[axis] ? 1 : 0),
                     end,
                     step,
                     kit.out(type, result)};
  };
  recipes["aten::constant_pad_nd.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    Numbers pad;
    Sizes result = sizes;
    for (size_t i = kit.draws.below(sizes.size() + 1); i > 0; --i) {
      const size_t axis = sizes.size() - 1 - pad.size() / 2;
      const int64_t before = kit.number(-sizes[axis] / 2, 2),
                    after = kit.number(-sizes[axis] / 2, 2);
      pad.insert(pad.end(), {before, after});
      result[axis] += static_cast<int32_t>(before + after);
    }
    const ScalarType type = kit.draws.pick({kFloat, kChar});
    return Arguments{kit.tensor(type, sizes), pad, kit.number(-128, 127), kit.out(type, result)};
  };
  add_joining(recipes);
}

void add_filling(Recipes& recipes) {
  const auto value = [](const Kit& kit, ScalarType type) {
    return kit.real(type == kByte ? 0 : -3, 100);
  };
  recipes["aten::full.out"] = [value](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    const ScalarType type = kit.any_type();
    return Arguments{numbers(sizes), value(kit, type), kit.out(type, sizes)};
  };
  recipes["aten::full_like.out"] = [value](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    const ScalarType type = kit.any_type();
    return Arguments{kit.floats(sizes), value(kit, type), kNone, kit.out(type, sizes)};
  };
  recipes["aten::scalar_tensor.out"] = [value](const Kit& kit) {
    const ScalarType type = kit.any_type();
    return Arguments{value(kit, type), kit.out(type, {})};
  };
  recipes["aten::arange.start_out"] = [](const Kit& kit) {
    const int64_t start = kit.number(0, 5), step = kit.number(1, 3), count = kit.number(0, 30);
    return Arguments{start, start + count * step, step,
                     kit.out(kit.any_type(), {static_cast<int32_t>(count)})};
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

Numbers some_dims(const Kit& kit, size_t rank) {
  Numbers dims;
  for (size_t i = 0; i < rank; ++i)
    if (kit.flag()) dims.push_back(static_cast<int64_t>(i));
  return dims;
}

Recipe reduction(bool of_codes, bool dtype) {
  return [=](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    const Numbers dims = some_dims(kit, sizes.size());
    const bool keepdim = kit.flag();
    const ScalarType type = of_codes && kit.flag() ? kChar : kFloat;
    Arguments made{kit.tensor(type, sizes),
                   dims.empty() && kit.flag() ? Argument(kNone) : Argument(dims), keepdim};
    if (dtype) made.emplace_back(kNone);
    made.emplace_back(kit.out(type, reduced(sizes, dims, keepdim)));
    return made;
  };
}

Arguments extreme_index(const Kit& kit) {
  const Sizes sizes = kit.shape(1, 5);
  const bool all = kit.draws.chance(20), keepdim = kit.flag();
  const int64_t dim = kit.dim(sizes.size());
  const Numbers dims =
      all ? Numbers{} : Numbers{static_cast<int64_t>(Kit::wrapped(dim, sizes.size()))};
  return {kit.tensor(kit.draws.pick({kFloat, kChar}), sizes), all ? Argument(kNone) : Argument(dim),
          keepdim, kit.out(kit.draws.pick({kLong, kInt}), reduced(sizes, dims, keepdim))};
}

// (self, [mask,] dim, [false,] out).
Arguments softmax(const Kit& kit, bool masked) {
  const Sizes sizes = kit.shape(0, 4);
  Arguments made{kit.floats(sizes)};
  if (masked) made.emplace_back(kit.tensor(kBool, kit.broadcast(sizes)));
  made.emplace_back(kit.dim(sizes.size()));
  if (!masked) made.emplace_back(false);
  made.emplace_back(kit.out(sizes));
  return made;
}

void add_reductions(Recipes& recipes) {
  recipes["aten::mean.out"] = recipes["aten::sum.IntList_out"] = reduction(false, true);
  recipes["aten::amax.out"] = recipes["aten::amin.out"] = reduction(true, false);
  recipes["aten::argmax.out"] = recipes["aten::argmin.out"] = extreme_index;
  recipes["aten::_softmax.out"] =
      recipes["aten::_log_softmax.out"] = [](const Kit& kit) { return softmax(kit, false); };
  recipes["deuteron::masked_softmax.out"] = [](const Kit& kit) { return softmax(kit, true); };
  const auto last = [](const Kit& kit, bool center) {
    const Sizes sizes = kit.shape(1, 4);
    const size_t outer = kit.draws.below(sizes.size());
    const Sizes shape(sizes.begin() + static_cast<ptrdiff_t>(outer), sizes.end());
    Sizes moments(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(outer));
    moments.resize(sizes.size(), 1);
    Arguments made{kit.floats(sizes), numbers(shape), kit.maybe(kit.floats(shape))};
    if (center) made.emplace_back(kit.maybe(kit.floats(shape)));
    made.emplace_back(1e-5);
    made.emplace_back(kit.out(sizes));
    if (center) made.insert(made.end(), {kit.out(moments), kit.out(moments)});
    return made;
  };
  recipes["aten::native_layer_norm.out"] = [last](const Kit& kit) { return last(kit, true); };
  recipes["aten::rms_norm.out"] = [last](const Kit& kit) { return last(kit, false); };
  recipes["aten::native_group_norm.out"] = [](const Kit& kit) {
    const int32_t groups = kit.extent(1, 3);
    Sizes sizes = kit.shape(2, 4);
    sizes[1] = groups * kit.extent(1, 3);
    int64_t pixels = 1;
    for (size_t i = 2; i < sizes.size(); ++i) pixels *= sizes[i];
    const Sizes moments{sizes[0], groups};
    return Arguments{kit.floats(sizes),
                     kit.maybe(kit.floats({sizes[1]})),
                     kit.maybe(kit.floats({sizes[1]})),
                     int64_t{sizes[0]},
                     int64_t{sizes[1]},
                     pixels,
                     int64_t{groups},
                     1e-5,
                     kit.out(sizes),
                     kit.out(moments),
                     kit.out(moments)};
  };
  recipes["aten::_native_batch_norm_legit_no_training.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(2, 5), list{sizes[1]};
    return Arguments{kit.floats(sizes),
                     kit.maybe(kit.floats(list)),
                     kit.maybe(kit.floats(list)),
                     kit.floats(list),
                     kit.tensor(kFloat, list, Fill::kPositive),
                     0.1,
                     1e-5,
                     kit.out(sizes),
                     kit.out({0}),
                     kit.out({0})};
  };
}

// ---- products, windows

void add_products(Recipes& recipes) {
  recipes["aten::linear.out"] = [](const Kit& kit) {
    Sizes sizes = kit.shape(1, 3);
    const int32_t outputs = kit.extent(1, 9);
    Sizes result = sizes;
    result.back() = outputs;
    return Arguments{kit.floats(sizes), kit.floats({outputs, sizes.back()}),
                     kit.maybe(kit.floats({outputs})), kit.out(result)};
  };
  recipes["aten::addmm.out"] = [](const Kit& kit) {
    const int32_t rows = kit.extent(1, 6), inner = kit.extent(0, 9), columns = kit.extent(1, 6);
    const Sizes result{rows, columns};
    return Arguments{kit.floats(kit.broadcast(result)),
                     kit.floats({rows, inner}),
                     kit.floats({inner, columns}),
                     kit.real(0, 1),
                     kit.real(0, 1),
                     kit.out(result)};
  };
  recipes["aten::mm.out"] = recipes["aten::bmm.out"] =
      recipes["aten::matmul.out"] = [](const Kit& kit) {
        Sizes batch = kit.shape(0, 2);
        const int32_t rows = kit.extent(1, 6), inner = kit.extent(0, 9), columns = kit.extent(1, 6);
        Sizes a = kit.flag() ? batch : kit.broadcast(batch), b = batch, result = batch;
        a.insert(a.end(), {rows, inner});
        b.insert(b.end(), {inner, columns});
        result.insert(result.end(), {rows, columns});
        return Arguments{kit.floats(a), kit.floats(b), kit.out(result)};
      };
}

void add_windows(Recipes& recipes) {
  recipes["aten::convolution.out"] = [](const Kit& kit) {
    const Windows at(kit, false);
    const bool transposed = kit.draws.chance(30), line = kit.draws.chance(20);
    const int32_t groups = kit.extent(1, 2), ci = groups * kit.extent(1, 4),
                  co = groups * kit.extent(1, 4), n = kit.extent(1, 2);
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
    return Arguments{kit.floats(in),
                     kit.floats(weight),
                     kit.maybe(kit.floats({co})),
                     stride,
                     padding,
                     dilation,
                     transposed,
                     more,
                     int64_t{groups},
                     kit.out(out)};
  };
  recipes["aten::avg_pool2d.out"] = [](const Kit& kit) {
    const Windows at(kit, true);
    const int32_t n = kit.extent(1, 2), c = kit.extent(1, 5);
    return Arguments{kit.floats({n, c, at.h.in, at.w.in}),
                     at.kernel,
                     at.stride,
                     at.padding,
                     at.h.ceil,
                     kit.flag(),
                     kit.flag() ? Argument(kNone) : Argument(kit.number(1, 5)),
                     kit.out({n, c, at.h.out(false), at.w.out(false)})};
  };
  recipes["aten::max_pool2d_with_indices.out"] = [](const Kit& kit) {
    const Windows at(kit, true);
    const TensorSpec out = kit.out({kit.extent(1, 2), kit.extent(1, 5), at.h.out(), at.w.out()});
    return Arguments{kit.floats({out.sizes[0], out.sizes[1], at.h.in, at.w.in}),
                     at.kernel,
                     at.stride,
                     at.padding,
                     at.dilation,
                     at.h.ceil,
                     out,
                     kit.out_like(out, kLong)};
  };
  recipes["aten::_adaptive_avg_pool2d.out"] = [](const Kit& kit) {
    const int32_t n = kit.extent(1, 2), c = kit.extent(1, 5), h = kit.extent(0, 4),
                  w = kit.extent(1, 4);
    return Arguments{kit.floats({n, c, kit.extent(1, 6), kit.extent(1, 6)}), Numbers{h, w},
                     kit.out({n, c, h, w})};
  };
  recipes["aten::adaptive_max_pool2d.out"] = [](const Kit& kit) {
    const int32_t n = kit.extent(1, 2), c = kit.extent(1, 5), h = kit.extent(0, 4),
                  w = kit.extent(1, 4);
    const TensorSpec out = kit.out({n, c, h, w});
    return Arguments{kit.floats({n, c, kit.extent(1, 6), kit.extent(1, 6)}), Numbers{h, w}, out,
                     kit.out_like(out, kLong)};
  };
  // (self, output_size, [align_corners,] factors or a list of them, out).
  const auto resize = [](const Kit& kit, bool align, bool list) {
    const int32_t n = kit.extent(1, 2), c = kit.extent(1, 4), factor = kit.extent(1, 3);
    const Sizes in{n, c, kit.extent(1, 5), kit.extent(1, 5)},
        out{n, c, in[2] * factor, in[3] * factor};
    const bool by_factor = kit.flag();
    const Argument real = by_factor ? Argument(static_cast<double>(factor)) : Argument(kNone);
    Arguments made{kit.floats(in),
                   list && by_factor ? Argument(kNone) : Argument(Numbers{out[2], out[3]})};
    if (align) made.emplace_back(kit.flag());
    if (list) {
      made.emplace_back(
          by_factor ? Argument(Reals{static_cast<double>(factor), static_cast<double>(factor)})
                    : Argument(kNone));
    } else {
      made.insert(made.end(), {real, real});
    }
    made.emplace_back(kit.out(out));
    return made;
  };
  recipes["aten::upsample_nearest2d.out"] = [resize](const Kit& kit) {
    return resize(kit, false, false);
  };
  recipes["aten::upsample_nearest2d.vec_out"] = [resize](const Kit& kit) {
    return resize(kit, false, true);
  };
  recipes["aten::upsample_bilinear2d.out"] = [resize](const Kit& kit) {
    return resize(kit, true, false);
  };
  recipes["aten::upsample_bilinear2d.vec_out"] = [resize](const Kit& kit) {
    return resize(kit, true, true);
  };
}

// ---- quantization

std::pair<int64_t, int64_t> limits(ScalarType type) {
  return type == kByte   ? std::pair<int64_t, int64_t>{0, 255}
         : type == kChar ? std::pair<int64_t, int64_t>{-128, 127}
                         : std::pair<int64_t, int64_t>{-32768, 32767};
}

void add_quantization(Recipes& recipes) {
  recipes["quantized_decomposed::quantize_per_tensor.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    const ScalarType type = kit.draws.pick({kByte, kChar, kShort});
    const auto [low, high] = limits(type);
    return Arguments{kit.floats(sizes), kit.real(0.001, 1),  kit.number(low, high), low, high,
                     int64_t{1},        kit.out(type, sizes)};
  };
  recipes["quantized_decomposed::dequantize_per_tensor.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    return Arguments{kit.tensor(kit.draws.pick({kByte, kChar, kShort, kInt}), sizes),
                     kit.real(0.001, 1),
                     kit.number(-128, 127),
                     int64_t{-128},
                     int64_t{127},
                     int64_t{1},
                     kNone,
                     kit.out(sizes)};
  };
  const auto per_channel = [](const Kit& kit, bool quantize) {
    const Sizes sizes = kit.shape(1, 4);
    const ScalarType type = kit.draws.pick({kByte, kChar, kShort});
    const auto [low, high] = limits(type);
    const int64_t dim = kit.dim(sizes.size());
    const Sizes list{sizes[Kit::wrapped(dim, sizes.size())]};
    TensorSpec zeros = kit.tensor(kit.draws.pick({kChar, kInt, kLong}), list, Fill::kBelow);
    zeros.below = 100;
    Arguments made{quantize ? kit.floats(sizes) : kit.tensor(type, sizes),
                   kit.tensor(kit.draws.pick({kFloat, kDouble}), list, Fill::kPositive),
                   kit.maybe(zeros),
                   dim,
                   low,
                   high,
                   int64_t{1}};
    if (!quantize) made.emplace_back(kNone);
    made.emplace_back(quantize ? kit.out(type, sizes) : kit.out(sizes));
    return made;
  };
  recipes["quantized_decomposed::quantize_per_channel.out"] = [per_channel](const Kit& kit) {
    return per_channel(kit, true);
  };
  recipes["quantized_decomposed::dequantize_per_channel.out"] = [per_channel](const Kit& kit) {
    return per_channel(kit, false);
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
}

}  // namespace dtr::fuzz
