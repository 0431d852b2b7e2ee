// A valid call of every kernel of the Cortex-M, with random shapes and parameters. Schemas: the
// head of each file in device/runtime/kernels/cortex_m. Scratch has the size that a core with the
// DSP extension wants, or one with MVE (`scratch_core`).
#include "device/numerics/cortex_m_scratch.h"
#include "test/fuzz/recipe_kit.h"

namespace dtr::fuzz {

dtr::cortex_m::Core scratch_core = dtr::cortex_m::Core::kDsp;

namespace {

void push(Arguments& arguments, Arguments more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
}
void push_range(const Kit& kit, Arguments& arguments) {
  const auto [low, high] = kit.range();
  push(arguments, {low, high});
}

// ---- elementwise

// (self, other, …) with the arguments of `make` between and behind them.
template <class F>
Arguments pair(const Kit& kit, F make) {
  const Sizes sizes = kit.shape(0, 5);
  Arguments made = make(kit.codes(kit.broadcast(sizes)), kit.codes(kit.broadcast(sizes)));
  made.emplace_back(kit.out_codes(sizes));
  return made;
}

Arguments operand(const Kit& kit, TensorSpec tensor) {
  return {std::move(tensor), kit.code(), kit.multiplier(), kit.shift()};
}

void add_elementwise(Recipes& recipes) {
  recipes["cortex_m::quantize_per_tensor.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    return Arguments{kit.floats(sizes), kit.real(0.001, 1), kit.code(),          int64_t{-128},
                     int64_t{127},      int64_t{1},         kit.out_codes(sizes)};
  };
  recipes["cortex_m::dequantize_per_tensor.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    return Arguments{kit.codes(sizes), kit.real(0.001, 1), kit.code(),    int64_t{-128},
                     int64_t{127},     int64_t{1},         kit.out(sizes)};
  };
  recipes["cortex_m::quantized_activation.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    return Arguments{kit.codes(sizes), kit.dense(kit.codes({256})), kit.out_codes(sizes)};
  };
  recipes["cortex_m::maximum.out"] = recipes["cortex_m::minimum.out"] = [](const Kit& kit) {
    return pair(kit, [](TensorSpec a, TensorSpec b) {
      return Arguments{std::move(a), std::move(b)};
    });
  };
  recipes["cortex_m::quantized_add.out"] =
      recipes["deuteron::quantized_sub.out"] = [](const Kit& kit) {
        return pair(kit, [&](TensorSpec a, TensorSpec b) {
          Arguments made = operand(kit, std::move(a));
          push(made, operand(kit, std::move(b)));
          push(made, {kit.code(), kit.multiplier(), kit.shift()});
          push_range(kit, made);
          return made;
        });
      };
  recipes["deuteron::quantized_maximum.out"] = recipes["deuteron::quantized_minimum.out"] =
      recipes["deuteron::quantized_prelu.out"] = [](const Kit& kit) {
        return pair(kit, [&](TensorSpec a, TensorSpec b) {
          Arguments made = operand(kit, std::move(a));
          push(made, operand(kit, std::move(b)));
          made.emplace_back(kit.code());
          push_range(kit, made);
          return made;
        });
      };
  const auto product = [](const Kit& kit, bool activation) {
    return pair(kit, [&](TensorSpec a, TensorSpec b) {
      Arguments made{std::move(a), kit.code(),       std::move(b), kit.code(),
                     kit.code(),   kit.multiplier(), kit.shift()};
      if (activation) push_range(kit, made);
      return made;
    });
  };
  recipes["cortex_m::quantized_mul.out"] = [product](const Kit& kit) {
    return product(kit, false);
  };
  recipes["deuteron::quantized_mul.out"] = [product](const Kit& kit) { return product(kit, true); };
  recipes["deuteron::quantized_div.out"] = [](const Kit& kit) {
    return pair(kit, [&](TensorSpec a, TensorSpec b) {
      Arguments made{std::move(a),      kit.real(0.01, 1), kit.code(),        std::move(b),
                     kit.real(0.01, 1), kit.code(),        kit.real(0.01, 1), kit.code()};
      push_range(kit, made);
      return made;
    });
  };
}

// ---- rows

void add_rows(Recipes& recipes) {
  const auto rows = [](const Kit& kit) { return kit.shape(1, 4); };
  recipes["cortex_m::softmax.out"] = [rows](const Kit& kit) {
    const TensorSpec in = kit.codes(rows(kit));
    return Arguments{in,
                     kit.dim(in.sizes.size()),
                     kit.code(),
                     int64_t{-128},
                     kit.multiplier(),
                     kit.number(0, 30),
                     kit.number(-256, 0),
                     kit.out_like(in)};
  };
  recipes["deuteron::quantized_softmax.out"] = [rows](const Kit& kit) {
    const TensorSpec in = kit.codes(rows(kit));
    return Arguments{in,
                     kit.dim(in.sizes.size()),
                     kit.maybe(kit.dense(kit.tensor(kBool, in.sizes))),
                     kit.multiplier(),
                     kit.number(0, 30),
                     kit.number(-256, 0),
                     kit.multiplier(),
                     kit.shift(),
                     kit.code(),
                     kit.out_like(in)};
  };
  recipes["deuteron::quantized_log_softmax.out"] = [rows](const Kit& kit) {
    const TensorSpec in = kit.codes(rows(kit));
    return Arguments{in,
                     kit.dim(in.sizes.size()),
                     kit.multiplier(),
                     kit.number(0, 30),
                     kit.number(-256, 0),
                     kit.multiplier(),
                     kit.shift(),
                     kit.multiplier(),
                     kit.shift(),
                     kit.code(),
                     kit.out_like(in)};
  };
  recipes["deuteron::quantized_sum.out"] = [](const Kit& kit) {
    const Sizes sizes = kit.shape(0, 5);
    Numbers dims;
    Sizes result;
    const bool keepdim = kit.flag();
    for (size_t i = 0; i < sizes.size(); ++i)
      if (kit.flag()) dims.push_back(static_cast<int64_t>(i));
    for (size_t i = 0; i < sizes.size(); ++i) {
      const bool gone =
          dims.empty() || std::ranges::find(dims, static_cast<int64_t>(i)) != dims.end();
      if (!gone || keepdim) result.push_back(gone ? 1 : sizes[i]);
    }
    Arguments made{kit.codes(sizes), dims,        keepdim,   kit.draws.chance(20), kit.code(),
                   kit.multiplier(), kit.shift(), kit.code()};
    push_range(kit, made);
    made.emplace_back(kit.out_codes(result));
    return made;
  };
  recipes["deuteron::quantized_normalize.out"] = [](const Kit& kit) {
    const int64_t a = kit.number(1, 3), b = kit.number(1, 3), c = kit.number(1, 5),
                  d = kit.number(1, 5), step = kit.flag() ? c : 0;
    const Sizes sizes{static_cast<int32_t>(a), static_cast<int32_t>(b * c),
                      static_cast<int32_t>(d)};
    const auto entries = static_cast<int32_t>((b - 1) * step + c);
    Arguments made{kit.dense(kit.codes(sizes)),
                   Numbers{a, b, c, d, step},
                   kit.flag(),
                   kit.code(),
                   kit.number(0, 1000000),
                   kit.biases(entries),
                   kit.biases(entries),
                   kit.number(0, 40),
                   kit.code()};
    push_range(kit, made);
    made.emplace_back(kit.dense(kit.out_codes(sizes)));
    return made;
  };
}

// ---- products

void add_products(Recipes& recipes) {
  recipes["cortex_m::quantized_linear.out"] = [](const Kit& kit) {
    Sizes sizes = kit.shape(1, 3), result = sizes;
    const int32_t outputs = kit.extent(1, 13);
    result.back() = outputs;
    const bool summed = kit.draws.chance(30), each = kit.flag();
    Numbers multipliers, shifts;
    for (int32_t i = 0; i < (each ? outputs : 1); ++i)
      multipliers.push_back(kit.multiplier()), shifts.push_back(kit.shift());
    return Arguments{kit.dense(kit.codes(sizes)),
                     kit.dense(kit.codes({outputs, sizes.back()})),
                     summed ? Argument(kNone) : kit.maybe(kit.biases(outputs)),
                     summed ? Argument(kit.biases(outputs)) : Argument(kNone),
                     kit.number(-127, 128),
                     int64_t{0},
                     kit.code(),
                     multipliers,
                     shifts,
                     int64_t{127},
                     int64_t{-128},
                     kit.dense(kit.out_codes(result))};
  };
  recipes["deuteron::quantized_linear.out"] = [](const Kit& kit) {
    Sizes sizes = kit.shape(1, 3), result = sizes;
    const int32_t outputs = kit.extent(1, 13);
    result.back() = outputs;
    Arguments made{kit.dense(kit.codes(sizes)),
                   kit.dense(kit.codes({outputs, sizes.back()})),
                   kit.maybe(kit.biases(outputs)),
                   kit.number(-127, 128),
                   kit.code(),
                   kit.multipliers(outputs),
                   kit.shifts(outputs),
                   kit.flag()};
    push_range(kit, made);
    made.emplace_back(kit.dense(kit.out_codes(result)));
    return made;
  };
  const auto matmul = [](const Kit& kit, bool transposed) {
    const Sizes batch = kit.shape(0, 2);
    const int32_t rows = kit.extent(1, 6), inner = kit.extent(0, 20), columns = kit.extent(1, 9);
    Sizes a = kit.broadcast(batch), b = kit.broadcast(batch), result = batch;
    a.insert(a.end(), {rows, inner});
    b.insert(b.end(), {transposed ? columns : inner, transposed ? inner : columns});
    result.insert(result.end(), {rows, columns});
    const int64_t left_zero = kit.code();
    return Arguments{kit.dense(kit.codes(a)),
                     left_zero,
                     kit.dense(kit.codes(b)),
                     kit.flag() ? int64_t{0} : kit.code(),
                     kit.code(),
                     kit.multiplier(),
                     kit.shift(),
                     kit.scratch(dtr::cortex_m::matmul_scratch_bytes(scratch_core, inner, columns,
                                                                     transposed, left_zero != 0)),
                     kit.dense(kit.out_codes(result))};
  };
  recipes["cortex_m::quantized_batch_matmul.out"] = [matmul](const Kit& kit) {
    return matmul(kit, true);
  };
  recipes["deuteron::quantized_matmul.out"] = [matmul](const Kit& kit) {
    return matmul(kit, false);
  };
}

// ---- windows

// input_offset, output_offset, multipliers, shifts, activation_min, activation_max.
void push_output(const Kit& kit, Arguments& made, int64_t offset, int32_t channels) {
  push(made, {offset, kit.code(), kit.multipliers(channels), kit.shifts(channels)});
  push_range(kit, made);
}

void add_convolutions(Recipes& recipes) {
  recipes["cortex_m::quantized_conv2d.out"] = [](const Kit& kit) {
    Windows at(kit, false);
    const bool point = kit.draws.chance(25);
    if (point) {
      for (Window* window : {&at.h, &at.w}) *window = {.in = window->in, .stride = window->stride};
      at.padding = {0, 0}, at.dilation = {1, 1};
    }
    const int32_t groups = kit.draws.chance(70) ? 1 : kit.extent(2, 3),
                  group_in = kit.flag() ? 4 * kit.extent(1, 3) : kit.extent(1, 9),
                  co = groups * kit.extent(1, 6), n = kit.extent(1, 2);
    const Sizes out{n, co, at.h.out(), at.w.out()};
    const int64_t offset = kit.number(-127, 128);
    const dtr::cortex_m::ConvolutionForm form{int64_t{at.h.kernel} * at.w.kernel * group_in,
                                              group_in,
                                              co,
                                              int64_t{out[2]} * out[3],
                                              point,
                                              offset != 0};
    Arguments made{kit.image(kit.codes({n, groups * group_in, at.h.in, at.w.in})),
                   kit.dense(kit.codes({co, at.h.kernel, at.w.kernel, group_in})),
                   kit.maybe(kit.biases(co)),
                   at.stride,
                   at.padding,
                   at.dilation};
    push_output(kit, made, offset, co);
    push(made, {kit.scratch(dtr::cortex_m::convolution_scratch_bytes(scratch_core, form)),
                kit.image(kit.out_codes(out))});
    return made;
  };
  recipes["cortex_m::quantized_depthwise_conv2d.out"] = [](const Kit& kit) {
    const Windows at(kit, false);
    const int32_t ci = kit.extent(1, 20), multiplier = kit.draws.chance(70) ? 1 : kit.extent(2, 3),
                  co = ci * multiplier, n = kit.extent(1, 2);
    Arguments made{kit.image(kit.codes({n, ci, at.h.in, at.w.in})),
                   kit.dense(kit.codes({1, at.h.kernel, at.w.kernel, co})),
                   kit.maybe(kit.biases(co)),
                   at.stride,
                   at.padding,
                   at.dilation,
                   int64_t{multiplier}};
    push_output(kit, made, kit.number(-127, 128), co);
    push(made, {kit.scratch(dtr::cortex_m::depthwise_scratch_bytes(
                    scratch_core, int64_t{at.h.kernel} * at.w.kernel, ci, multiplier)),
                kit.image(kit.out_codes({n, co, at.h.out(), at.w.out()}))});
    return made;
  };
  recipes["cortex_m::quantized_transpose_conv2d.out"] = [](const Kit& kit) {
    const Windows at(kit, true);
    const int32_t groups = kit.extent(1, 2), group_in = kit.extent(1, 9),
                  co = groups * kit.extent(1, 6), n = kit.extent(1, 2);
    const auto extent = [](const Window& w) {
      return std::max((w.in - 1) * w.stride - 2 * w.padding + w.dilation * (w.kernel - 1) + 1, 0);
    };
    Arguments made{kit.image(kit.codes({n, groups * group_in, at.h.in, at.w.in})),
                   kit.dense(kit.codes({co, at.h.kernel, at.w.kernel, group_in})),
                   kit.maybe(kit.biases(co)),
                   at.stride,
                   at.padding,
                   Numbers{0, 0},
                   at.dilation};
    push_output(kit, made, kit.number(-127, 128), co);
    push(made, {kit.scratch(dtr::cortex_m::transposed_scratch_bytes(co)), kit.scratch(0),
                kit.image(kit.out_codes({n, co, extent(at.h), extent(at.w)}))});
    return made;
  };
}

void add_pools(Recipes& recipes) {
  const auto scratch = [](const Kit& kit, int32_t channels) {
    return kit.scratch(dtr::cortex_m::average_pool_scratch_bytes(channels));
  };
  recipes["cortex_m::quantized_avg_pool2d.out"] = [scratch](const Kit& kit) {
    const Windows at(kit, true);
    const int32_t n = kit.extent(1, 2), c = kit.extent(1, 9);
    return Arguments{kit.image(kit.codes({n, c, at.h.in, at.w.in})),
                     at.kernel,
                     at.stride,
                     at.padding,
                     kit.code(),
                     kit.multiplier(),
                     kit.shift(),
                     scratch(kit, c),
                     kit.image(kit.out_codes({n, c, at.h.out(false), at.w.out(false)}))};
  };
  recipes["deuteron::quantized_avg_pool2d.out"] = [scratch](const Kit& kit) {
    const Windows at(kit, true);
    const int32_t n = kit.extent(1, 2), c = kit.extent(1, 9);
    Arguments made{kit.image(kit.codes({n, c, at.h.in, at.w.in})),
                   at.kernel,
                   at.stride,
                   at.padding,
                   at.padding,
                   kit.flag(),
                   kit.flag() ? int64_t{0} : kit.number(1, 9),
                   kit.code(),
                   kit.flag() ? int64_t{0} : kit.multiplier(),
                   kit.shift(),
                   kit.code()};
    push_range(kit, made);
    push(made,
         {scratch(kit, c), kit.image(kit.out_codes({n, c, at.h.out(false), at.w.out(false)}))});
    return made;
  };
  recipes["deuteron::quantized_adaptive_avg_pool2d.out"] = [scratch](const Kit& kit) {
    const int32_t n = kit.extent(1, 2), c = kit.extent(1, 9), h = kit.extent(1, 4),
                  w = kit.extent(1, 4);
    Arguments made{kit.image(kit.codes({n, c, kit.extent(1, 6), kit.extent(1, 6)})),
                   Numbers{h, w},
                   kit.code(),
                   kit.multiplier(),
                   kit.shift(),
                   kit.code()};
    push_range(kit, made);
    push(made, {scratch(kit, c), kit.image(kit.out_codes({n, c, h, w}))});
    return made;
  };
  recipes["cortex_m::quantized_max_pool2d.out"] = [](const Kit& kit) {
    const Windows at(kit, true);
    const int32_t n = kit.extent(1, 2), c = kit.extent(1, 20);
    const int64_t zero_point = kit.code();
    Arguments made{kit.image(kit.codes({n, c, at.h.in, at.w.in})),
                   at.kernel,
                   at.stride,
                   at.padding,
                   at.dilation,
                   at.h.ceil,
                   zero_point,
                   zero_point};
    push_range(kit, made);
    made.emplace_back(kit.image(kit.out_codes({n, c, at.h.out(), at.w.out()})));
    return made;
  };
  recipes["deuteron::adaptive_max_pool2d.out"] = [](const Kit& kit) {
    const int32_t n = kit.extent(1, 2), c = kit.extent(1, 20), h = kit.extent(1, 4),
                  w = kit.extent(1, 4);
    return Arguments{kit.image(kit.codes({n, c, kit.extent(1, 6), kit.extent(1, 6)})),
                     Numbers{h, w}, kit.image(kit.out_codes({n, c, h, w}))};
  };
  // output o lies at (o · step + start) / 2^bits.
  recipes["deuteron::quantized_upsample_nearest2d.out"] =
      recipes["deuteron::quantized_upsample_bilinear2d.out"] = [](const Kit& kit) {
        const int32_t n = kit.extent(1, 2), c = kit.extent(1, 9);
        const auto axis = [&] {
          const int64_t bits = kit.number(10, 20);
          return Numbers{kit.number(0, int64_t{2} << bits),
                         kit.number(-(int64_t{1} << bits), int64_t{1} << bits), bits};
        };
        return Arguments{kit.image(kit.codes({n, c, kit.extent(1, 5), kit.extent(1, 5)})), axis(),
                         axis(),
                         kit.image(kit.out_codes({n, c, kit.extent(1, 7), kit.extent(1, 7)}))};
      };
}

}  // namespace

void add_cortex_m_recipes(Recipes& recipes) {
  add_elementwise(recipes);
  add_rows(recipes);
  add_products(recipes);
  add_convolutions(recipes);
  add_pools(recipes);
}

}  // namespace dtr::fuzz
