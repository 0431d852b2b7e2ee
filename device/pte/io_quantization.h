// How a program says what the codes of its quantized inputs and outputs mean: by methods that
// return a constant, with the names that ExecuTorch's QuantizeInputs and QuantizeOutputs give them:
// `input0_scale` (a double), `input0_zp`, `input0_quant_min`, `input0_quant_max`, `input0_dtype`
// (integers), and `output0_…`. Those of a method that is not `forward` begin with its name and `_`;
// ExecuTorch may write `forward_` too. Freestanding.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/pte/program_generated.h"

namespace dtr::pte {

inline constexpr std::string_view kIoScale = "scale", kIoZeroPoint = "zp", kIoMinimum = "quant_min",
                                  kIoMaximum = "quant_max", kIoDtype = "dtype";

// value = scale · (code − zero_point), minimum ≤ code ≤ maximum
struct IoQuantization {
  double scale = 0;
  int32_t zero_point = 0, minimum = 0, maximum = 0;
};

// The name of such a method without that of its own method in front.
struct IoName {
  bool output;
  uint32_t index;
  std::string_view key;
};
// "output0_zp"; false if `name` is of another form.
bool parse_io_name(std::string_view name, IoName* parsed);
// "decode_output0_zp" too: whose inputs or outputs a name tells of, "forward" if no method is in
// front; empty if `name` is of another form.
std::string_view io_method_of(std::string_view name);

// The methods that tell one quantization; null where there is none.
struct IoMethods {
  const ExecutionPlan *scale = nullptr, *zero_point = nullptr, *minimum = nullptr,
                      *maximum = nullptr;
  // The one for a key; null for kIoDtype.
  const ExecutionPlan** of(std::string_view key);
};
// What they return; false if one is missing, does not return a constant of its type, or they are no
// quantization: a scale that is not a positive number of float32, a zero point outside of [minimum,
// maximum]. They are of a program that was verified.
bool io_quantization(const IoMethods& methods, IoQuantization* quantization);

// What the program says of input or output `index` of a method. Looks at every method's name.
bool io_quantization(const Program& program, std::string_view method, bool output, uint32_t index,
                     IoQuantization* quantization);

}  // namespace dtr::pte
