// A valid call of every kernel of the Cortex-M, with random shapes and parameters. Schemas: the
// head of each file in device/runtime/kernels/cortex_m. Scratch has the size that a core with the
// DSP extension wants, or one with MVE (`scratch_core`).
#include "device/numerics/cortex_m_scratch.h"
#include "test/fuzz/recipe_draws.h"

namespace dtr::fuzz {

dtr::cortex_m::Core scratch_core = dtr::cortex_m::Core::kDsp;

namespace {

void push(Arguments& arguments, Arguments more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
}
void push_range(const RecipeDraws& draw, Arguments& arguments) {
  const auto [low, high] = draw.range();
  push(arguments, {low, high});
}

// ---- elementwise

// (self, other, …) with the arguments of `make` between and behind them.
template <class F>
Arguments pair(const RecipeDraws& draw, F make) {
  const Sizes sizes = draw.shape(0, 5);
  Arguments made = make(draw.codes(draw.broadcast(sizes)), draw.codes(draw.broadcast(sizes)));
  made.emplace_back(draw.out_codes(sizes));
  return made;
}

Arguments operand(const RecipeDraws& draw, TensorSpec tensor) {
  return {std::move(tensor), draw.code(), draw.multiplier(), draw.shift()};
}

void add_elementwise(Recipes& recipes) {
  recipes["cortex_m::quantize_per_tensor.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    return Arguments{draw.floats(sizes), draw.real(0.001, 1), draw.code(),          int64_t{-128},
                     int64_t{127},       int64_t{1},          draw.out_codes(sizes)};
  };
  recipes["cortex_m::dequantize_per_tensor.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    return Arguments{draw.codes(sizes), draw.real(0.001, 1), draw.code(),    int64_t{-128},
                     int64_t{127},      int64_t{1},          draw.out(sizes)};
  };
  recipes["cortex_m::quantized_activation.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    return Arguments{draw.codes(sizes), draw.dense(draw.codes({256})), draw.out_codes(sizes)};
  };
  recipes["cortex_m::maximum.out"] =
      recipes["cortex_m::minimum.out"] = [](const RecipeDraws& draw) {
        return pair(draw, [](TensorSpec a, TensorSpec b) {
          return Arguments{std::move(a), std::move(b)};
        });
      };
  recipes["cortex_m::quantized_add.out"] =
      recipes["deuteron::quantized_sub.out"] = [](const RecipeDraws& draw) {
        return pair(draw, [&](TensorSpec a, TensorSpec b) {
          Arguments made = operand(draw, std::move(a));
          push(made, operand(draw, std::move(b)));
          push(made, {draw.code(), draw.multiplier(), draw.shift()});
          push_range(draw, made);
          return made;
        });
      };
  recipes["deuteron::quantized_maximum.out"] = recipes["deuteron::quantized_minimum.out"] =
      recipes["deuteron::quantized_prelu.out"] = [](const RecipeDraws& draw) {
        return pair(draw, [&](TensorSpec a, TensorSpec b) {
          Arguments made = operand(draw, std::move(a));
          push(made, operand(draw, std::move(b)));
          made.emplace_back(draw.code());
          push_range(draw, made);
          return made;
        });
      };
  const auto product = [](const RecipeDraws& draw, bool activation) {
    return pair(draw, [&](TensorSpec a, TensorSpec b) {
      Arguments made{std::move(a), draw.code(),       std::move(b), draw.code(),
                     draw.code(),  draw.multiplier(), draw.shift()};
      if (activation) push_range(draw, made);
      return made;
    });
  };
  recipes["cortex_m::quantized_mul.out"] = [product](const RecipeDraws& draw) {
    return product(draw, false);
  };
  recipes["deuteron::quantized_mul.out"] = [product](const RecipeDraws& draw) {
    return product(draw, true);
  };
  recipes["deuteron::quantized_div.out"] = [](const RecipeDraws& draw) {
    return pair(draw, [&](TensorSpec a, TensorSpec b) {
      Arguments made{std::move(a),       draw.real(0.01, 1), draw.code(),        std::move(b),
                     draw.real(0.01, 1), draw.code(),        draw.real(0.01, 1), draw.code()};
      push_range(draw, made);
      return made;
    });
  };
}

// ---- rows

void add_rows(Recipes& recipes) {
  const auto rows = [](const RecipeDraws& draw) { return draw.shape(1, 4); };
  recipes["cortex_m::softmax.out"] = [rows](const RecipeDraws& draw) {
    const TensorSpec in = draw.codes(rows(draw));
    return Arguments{in,
                     draw.dim(in.sizes.size()),
                     draw.code(),
                     int64_t{-128},
                     draw.multiplier(),
                     draw.number(0, 30),
                     draw.number(-256, 0),
                     draw.out_like(in)};
  };
  recipes["deuteron::quantized_softmax.out"] = [rows](const RecipeDraws& draw) {
    const TensorSpec in = draw.codes(rows(draw));
    return Arguments{in,
                     draw.dim(in.sizes.size()),
                     draw.maybe(draw.dense(draw.tensor(kBool, in.sizes))),
                     draw.multiplier(),
                     draw.number(0, 30),
                     draw.number(-256, 0),
                     draw.multiplier(),
                     draw.shift(),
                     draw.code(),
                     draw.out_like(in)};
  };
  recipes["deuteron::quantized_log_softmax.out"] = [rows](const RecipeDraws& draw) {
    const TensorSpec in = draw.codes(rows(draw));
    return Arguments{in,
                     draw.dim(in.sizes.size()),
                     draw.multiplier(),
                     draw.number(0, 30),
                     draw.number(-256, 0),
                     draw.multiplier(),
                     draw.shift(),
                     draw.multiplier(),
                     draw.shift(),
                     draw.code(),
                     draw.out_like(in)};
  };
  recipes["deuteron::quantized_sum.out"] = [](const RecipeDraws& draw) {
    const Sizes sizes = draw.shape(0, 5);
    Numbers dims;
    Sizes result;
    const bool keepdim = draw.flag();
    for (size_t i = 0; i < sizes.size(); ++i)
      if (draw.flag()) dims.push_back(static_cast<int64_t>(i));
    for (size_t i = 0; i < sizes.size(); ++i) {
      const bool gone =
          dims.empty() || std::ranges::find(dims, static_cast<int64_t>(i)) != dims.end();
      if (!gone || keepdim) result.push_back(gone ? 1 : sizes[i]);
    }
    Arguments made{draw.codes(sizes), dims,         keepdim,    draw.draws.chance(20), draw.code(),
                   draw.multiplier(), draw.shift(), draw.code()};
    push_range(draw, made);
    made.emplace_back(draw.out_codes(result));
    return made;
  };
  recipes["deuteron::quantized_normalize.out"] = [](const RecipeDraws& draw) {
    const int64_t a = draw.number(1, 3), b = draw.number(1, 3), c = draw.number(1, 5),
                  d = draw.number(1, 5), step = draw.flag() ? c : 0;
    const Sizes sizes{static_cast<int32_t>(a), static_cast<int32_t>(b * c),
                      static_cast<int32_t>(d)};
    const auto entries = static_cast<int32_t>((b - 1) * step + c);
    Arguments made{draw.dense(draw.codes(sizes)),
                   Numbers{a, b, c, d, step},
                   draw.flag(),
                   draw.code(),
                   draw.number(0, 1000000),
                   draw.biases(entries),
                   draw.biases(entries),
                   draw.number(0, 40),
                   draw.code()};
    push_range(draw, made);
    made.emplace_back(draw.dense(draw.out_codes(sizes)));
    return made;
  };
}

// ---- products

void add_products(Recipes& recipes) {
  recipes["cortex_m::quantized_linear.out"] = [](const RecipeDraws& draw) {
    Sizes sizes = draw.shape(1, 3), result = sizes;
    const int32_t outputs = draw.extent(1, 13);
    result.back() = outputs;
    const bool summed = draw.draws.chance(30), each = draw.flag();
    Numbers multipliers, shifts;
    for (int32_t i = 0; i < (each ? outputs : 1); ++i)
      multipliers.push_back(draw.multiplier()), shifts.push_back(draw.shift());
    return Arguments{draw.dense(draw.codes(sizes)),
                     draw.dense(draw.codes({outputs, sizes.back()})),
                     summed ? Argument(kNone) : draw.maybe(draw.biases(outputs)),
                     summed ? Argument(draw.biases(outputs)) : Argument(kNone),
                     draw.number(-127, 128),
                     int64_t{0},
                     draw.code(),
                     multipliers,
                     shifts,
                     int64_t{127},
                     int64_t{-128},
                     draw.dense(draw.out_codes(result))};
  };
  recipes["deuteron::quantized_linear.out"] = [](const RecipeDraws& draw) {
    Sizes sizes = draw.shape(1, 3), result = sizes;
    const int32_t outputs = draw.extent(1, 13);
    result.back() = outputs;
    Arguments made{draw.dense(draw.codes(sizes)),
                   draw.dense(draw.codes({outputs, sizes.back()})),
                   draw.maybe(draw.biases(outputs)),
                   draw.number(-127, 128),
                   draw.code(),
                   draw.multipliers(outputs),
                   draw.shifts(outputs),
                   draw.flag()};
    push_range(draw, made);
    made.emplace_back(draw.dense(draw.out_codes(result)));
    return made;
  };
  const auto matmul = [](const RecipeDraws& draw, bool transposed) {
    const Sizes batch = draw.shape(0, 2);
    const int32_t rows = draw.extent(1, 6), inner = draw.extent(0, 20), columns = draw.extent(1, 9);
    Sizes a = draw.broadcast(batch), b = draw.broadcast(batch), result = batch;
    a.insert(a.end(), {rows, inner});
    b.insert(b.end(), {transposed ? columns : inner, transposed ? inner : columns});
    result.insert(result.end(), {rows, columns});
    const int64_t left_zero = draw.code();
    return Arguments{draw.dense(draw.codes(a)),
                     left_zero,
                     draw.dense(draw.codes(b)),
                     draw.flag() ? int64_t{0} : draw.code(),
                     draw.code(),
                     draw.multiplier(),
                     draw.shift(),
                     draw.scratch(dtr::cortex_m::matmul_scratch_bytes(scratch_core, inner, columns,
                                                                      transposed, left_zero != 0)),
                     draw.dense(draw.out_codes(result))};
  };
  recipes["cortex_m::quantized_batch_matmul.out"] = [matmul](const RecipeDraws& draw) {
    return matmul(draw, true);
  };
  recipes["deuteron::quantized_matmul.out"] = [matmul](const RecipeDraws& draw) {
    return matmul(draw, false);
  };
}

// ---- windows

// input_offset, output_offset, multipliers, shifts, activation_min, activation_max.
void push_output(const RecipeDraws& draw, Arguments& made, int64_t offset, int32_t channels) {
  push(made, {offset, draw.code(), draw.multipliers(channels), draw.shifts(channels)});
  push_range(draw, made);
}

void add_convolutions(Recipes& recipes) {
  recipes["cortex_m::quantized_conv2d.out"] = [](const RecipeDraws& draw) {
    Windows at(draw, false);
    const bool point = draw.draws.chance(25);
    if (point) {
      for (Window* window : {&at.h, &at.w}) *window = {.in = window->in, .stride = window->stride};
      at.padding = {0, 0}, at.dilation = {1, 1};
    }
    const int32_t groups = draw.draws.chance(70) ? 1 : draw.extent(2, 3),
                  group_in = draw.flag() ? 4 * draw.extent(1, 3) : draw.extent(1, 9),
                  co = groups * draw.extent(1, 6), n = draw.extent(1, 2);
    const Sizes out{n, co, at.h.out(), at.w.out()};
    const int64_t offset = draw.number(-127, 128);
    const dtr::cortex_m::ConvolutionForm form{int64_t{at.h.kernel} * at.w.kernel * group_in,
                                              group_in,
                                              co,
                                              int64_t{out[2]} * out[3],
                                              point,
                                              offset != 0};
    Arguments made{draw.image(draw.codes({n, groups * group_in, at.h.in, at.w.in})),
                   draw.dense(draw.codes({co, at.h.kernel, at.w.kernel, group_in})),
                   draw.maybe(draw.biases(co)),
                   at.stride,
                   at.padding,
                   at.dilation};
    push_output(draw, made, offset, co);
    push(made, {draw.scratch(dtr::cortex_m::convolution_scratch_bytes(scratch_core, form)),
                draw.image(draw.out_codes(out))});
    return made;
  };
  recipes["cortex_m::quantized_depthwise_conv2d.out"] = [](const RecipeDraws& draw) {
    const Windows at(draw, false);
    const int32_t ci = draw.extent(1, 20),
                  multiplier = draw.draws.chance(70) ? 1 : draw.extent(2, 3), co = ci * multiplier,
                  n = draw.extent(1, 2);
    Arguments made{draw.image(draw.codes({n, ci, at.h.in, at.w.in})),
                   draw.dense(draw.codes({1, at.h.kernel, at.w.kernel, co})),
                   draw.maybe(draw.biases(co)),
                   at.stride,
                   at.padding,
                   at.dilation,
                   int64_t{multiplier}};
    push_output(draw, made, draw.number(-127, 128), co);
    push(made, {draw.scratch(dtr::cortex_m::depthwise_scratch_bytes(
                    scratch_core, int64_t{at.h.kernel} * at.w.kernel, ci, multiplier)),
                draw.image(draw.out_codes({n, co, at.h.out(), at.w.out()}))});
    return made;
  };
  recipes["cortex_m::quantized_transpose_conv2d.out"] = [](const RecipeDraws& draw) {
    const Windows at(draw, true);
    const int32_t groups = draw.extent(1, 2), group_in = draw.extent(1, 9),
                  co = groups * draw.extent(1, 6), n = draw.extent(1, 2);
    const auto extent = [](const Window& w) {
      return std::max((w.in - 1) * w.stride - 2 * w.padding + w.dilation * (w.kernel - 1) + 1, 0);
    };
    Arguments made{draw.image(draw.codes({n, groups * group_in, at.h.in, at.w.in})),
                   draw.dense(draw.codes({co, at.h.kernel, at.w.kernel, group_in})),
                   draw.maybe(draw.biases(co)),
                   at.stride,
                   at.padding,
                   Numbers{0, 0},
                   at.dilation};
    push_output(draw, made, draw.number(-127, 128), co);
    push(made, {draw.scratch(dtr::cortex_m::transposed_scratch_bytes(co)), draw.scratch(0),
                draw.image(draw.out_codes({n, co, extent(at.h), extent(at.w)}))});
    return made;
  };
}

void add_pools(Recipes& recipes) {
  const auto scratch = [](const RecipeDraws& draw, int32_t channels) {
    return draw.scratch(dtr::cortex_m::average_pool_scratch_bytes(channels));
  };
  recipes["cortex_m::quantized_avg_pool2d.out"] = [scratch](const RecipeDraws& draw) {
    const Windows at(draw, true);
    const int32_t n = draw.extent(1, 2), c = draw.extent(1, 9);
    return Arguments{draw.image(draw.codes({n, c, at.h.in, at.w.in})),
                     at.kernel,
                     at.stride,
                     at.padding,
                     draw.code(),
                     draw.multiplier(),
                     draw.shift(),
                     scratch(draw, c),
                     draw.image(draw.out_codes({n, c, at.h.out(false), at.w.out(false)}))};
  };
  recipes["deuteron::quantized_avg_pool2d.out"] = [scratch](const RecipeDraws& draw) {
    const Windows at(draw, true);
    const int32_t n = draw.extent(1, 2), c = draw.extent(1, 9);
    Arguments made{draw.image(draw.codes({n, c, at.h.in, at.w.in})),
                   at.kernel,
                   at.stride,
                   at.padding,
                   at.padding,
                   draw.flag(),
                   draw.flag() ? int64_t{0} : draw.number(1, 9),
                   draw.code(),
                   draw.flag() ? int64_t{0} : draw.multiplier(),
                   draw.shift(),
                   draw.code()};
    push_range(draw, made);
    push(made,
         {scratch(draw, c), draw.image(draw.out_codes({n, c, at.h.out(false), at.w.out(false)}))});
    return made;
  };
  recipes["deuteron::quantized_adaptive_avg_pool2d.out"] = [scratch](const RecipeDraws& draw) {
    const int32_t n = draw.extent(1, 2), c = draw.extent(1, 9), h = draw.extent(1, 4),
                  w = draw.extent(1, 4);
    Arguments made{draw.image(draw.codes({n, c, draw.extent(1, 6), draw.extent(1, 6)})),
                   Numbers{h, w},
                   draw.code(),
                   draw.multiplier(),
                   draw.shift(),
                   draw.code()};
    push_range(draw, made);
    push(made, {scratch(draw, c), draw.image(draw.out_codes({n, c, h, w}))});
    return made;
  };
  recipes["cortex_m::quantized_max_pool2d.out"] = [](const RecipeDraws& draw) {
    const Windows at(draw, true);
    const int32_t n = draw.extent(1, 2), c = draw.extent(1, 20);
    const int64_t zero_point = draw.code();
    Arguments made{draw.image(draw.codes({n, c, at.h.in, at.w.in})),
                   at.kernel,
                   at.stride,
                   at.padding,
                   at.dilation,
                   at.h.ceil,
                   zero_point,
                   zero_point};
    push_range(draw, made);
    made.emplace_back(draw.image(draw.out_codes({n, c, at.h.out(), at.w.out()})));
    return made;
  };
  recipes["deuteron::adaptive_max_pool2d.out"] = [](const RecipeDraws& draw) {
    const int32_t n = draw.extent(1, 2), c = draw.extent(1, 20), h = draw.extent(1, 4),
                  w = draw.extent(1, 4);
    return Arguments{draw.image(draw.codes({n, c, draw.extent(1, 6), draw.extent(1, 6)})),
                     Numbers{h, w}, draw.image(draw.out_codes({n, c, h, w}))};
  };
  // output o lies at (o · step + start) / 2^bits.
  recipes["deuteron::quantized_upsample_nearest2d.out"] =
      recipes["deuteron::quantized_upsample_bilinear2d.out"] = [](const RecipeDraws& draw) {
        const int32_t n = draw.extent(1, 2), c = draw.extent(1, 9);
        const auto axis = [&] {
          const int64_t bits = draw.number(10, 20);
          return Numbers{draw.number(0, int64_t{2} << bits),
                         draw.number(-(int64_t{1} << bits), int64_t{1} << bits), bits};
        };
        return Arguments{draw.image(draw.codes({n, c, draw.extent(1, 5), draw.extent(1, 5)})),
                         axis(), axis(),
                         draw.image(draw.out_codes({n, c, draw.extent(1, 7), draw.extent(1, 7)}))};
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
