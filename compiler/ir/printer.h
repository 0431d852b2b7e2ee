// The text form of modules, used by golden models, lit tests and `--print-after`. `parse_module`
// (compiler/ir/parser.h) reads it back to the same module.
//
//   sources {
//     0: "conv2d" "aten.conv2d.default" "stem.conv" "model.py:12"
//        (name, target, module path, source line; then types of the modules)
//   }
//   graph @forward(%x: f32[1,3,8,8]) {
//     %w: f32[4,3,3,3] = constant seeded<7>
//     %y: f32[1,4,6,6] = aten.convolution(%x, %w, _) {groups = 1, stride = [1, 1]} loc(0)
//     return %y
//   }
//
// Types: dtype[shape] [channels_last] [quant<…>]; a scalar is `f32[]`.
// quant<…>: per tensor `quant<scale:zero_point>`; per channel `quant<axis=0, scale,
// scale:zero_point, …>`. A zero point of 0 is left out. `range=qmin..qmax` comes first if it is not
// the range of the dtype. `quant<bias>` is s_in·s_w of the first op that takes the constant as
// operand 2 (`bias_quantization`).
// Constants: `dense<v, …>`, elements in logical order; `splat<v>`; `hex<…>`, bytes, little-endian;
// `seeded<n>`, pseudo-random contents that the parser makes (`seeded_values`), so that big weights
// need no bytes in a test. A constant is printed before its first use, an unused one not at all.
// Floats: the shortest decimal form that reads back to the same bits; `inf`, `-inf`, `nan`; other
// NaNs as `nan:0x<bits>`.
// Operands: `%name`, or `_` where an optional operand is absent.
// loc: the sources of the op's origin; `loc(3, part 1 of 4)` where the op is one part of them.
// Comments run from `//` to the end of the line.
#pragma once

#include <string>

#include "compiler/ir/graph.h"

namespace dtr {

struct PrintOptions {
  size_t inline_elements = 16;  // constants of up to so many elements are written as dense<…>
  // writes larger constants as seeded<hash of the contents> instead of hex<…>: short text, but
  // other contents
  bool elide_constants = false;
  bool locations = true;  // writes the table of sources and loc(…)
};

std::string print(const Module& module, const PrintOptions& options = {});
// One graph without the table of sources.
std::string print(const Module& module, const Graph& graph, const PrintOptions& options = {});
std::string print(const Type& type);
std::string print(const AttributeValue& value);

}  // namespace dtr
