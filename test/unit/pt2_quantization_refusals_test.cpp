// What the importer says to quantized programs.
#include <gtest/gtest.h>

#include "compiler/frontends/pt2/pt2.h"
#include "test/unit/pt2_refusals.h"

namespace dtr {
namespace {

using test::expect_refused;
using test::program_of;
using test::Refusal;

TEST(Pt2Refusals, Quantization) {
  const Refusal refusals[] = {
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.5 zero_point=0 quant_min=-32768 quant_max=32767 dtype=dtype:3",
       "quantization to i16; programs compute in int8",
       "quantize activations to int8"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.5 zero_point=0 quant_min=-200 quant_max=127 dtype=dtype:2",
       "the range -200…127 is not one of i8"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=-0.5 zero_point=0 dtype=dtype:2",
       "the scale -0.5 is not positive and finite",
       "calibrate with data that reach the operator"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.5 zero_point=128 dtype=dtype:2",
       "the zero point 128 is outside -128…127",
       "quantize the model again; a zero point is a code"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.5 zero_point=0.5 dtype=dtype:2",
       "the zero point 0.5 is not an integer",
       "quantize the model again; a zero point is a code"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.5 zero_point=NaN dtype=dtype:2",
       "the zero point nan is not an integer",
       "quantize the model again; a zero point is a code"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.0 zero_point=0 dtype=dtype:2",
       "the scale 0 is not positive and finite",
       "calibrate with data that reach the operator"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=NaN zero_point=0 dtype=dtype:2",
       "the scale nan is not positive and finite",
       "calibrate with data that reach the operator"},
      {"quantized_decomposed.quantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=Infinity zero_point=0 dtype=dtype:2",
       "the scale inf is not positive and finite",
       "calibrate with data that reach the operator"},
      {"aten.fake_quantize_per_tensor_affine.default",
       {"2x3"},
       "self=%0 scale=0.5 zero_point=300 quant_min=0 quant_max=255",
       "the zero point 300 is outside 0…255",
       "quantize the model again; a zero point is a code"},
      {"quantized_decomposed.quantize_per_tensor.tensor",
       {"2x3", "1"},
       "input=%0 scale=%1 zero_point=0 dtype=dtype:2",
       "`scale` is not constant"},
      {"quantized_decomposed.dequantize_per_tensor.default",
       {"2x3"},
       "input=%0 scale=0.5 zero_point=0 dtype=dtype:7",
       "quantized values of f32"},
      {"quantized_decomposed.dequantize_per_tensor.default",
       {"i8:2x3"},
       "input=%0 scale=0.5 zero_point=0 dtype=dtype:1",
       "a value of i8 is read as u8"},
      {"quantized_decomposed.dequantize_per_tensor.default",
       {"u8:2x3"},
       "input=%0 scale=0.5 zero_point=0 dtype=dtype:1",
       "`x0`, an input of the model, is uint8",
       "let the model take float32 or int8"},
      {"aten.fake_quantize_per_tensor_affine.default",
       {"i32:2x3"},
       "self=%0 scale=0.5 zero_point=0 quant_min=-128 quant_max=127",
       "fake quantization of i32",
       "quantize float32 values"},
      {"aten.fake_quantize_per_tensor_affine.default",
       {"2x3"},
       "self=%0 scale=0.5 zero_point=0 quant_min=-1 quant_max=255",
       "codes in -1…255",
       "train with quantization to int8"},
      {"quantized_decomposed.dequantize_per_tensor.default",
       {"i8:2x3"},
       "input=%0 scale=0.5 zero_point=0 dtype=dtype:2 out_dtype=dtype:8",
       "dequantization to f64"},
      {"quantized_decomposed.dequantize_per_channel.default",
       {"i8:2x3", "2"},
       "input=%0 scales=%1 axis=0 dtype=dtype:2",
       "`scales` is not constant"},
      {"quantized_decomposed.dequantize_per_channel.default",
       {"i8:2x3", "2"},
       "input=%0 scales=%1 axis=2 dtype=dtype:2",
       "quantization per channel of axis 2, of shape 2x3",
       "quantize the model again, along one of the axes 0…1"},
      {"aten.fake_quantize_per_channel_affine.default",
       {"2x3", "2", "2"},
       "self=%0 scale=%1 zero_point=%2 axis=-3 quant_min=-127 quant_max=127",
       "quantization per channel of axis -3, of shape 2x3",
       "quantize the model again, along one of the axes 0…1"},
  };
  expect_refused(refusals);
}

// Two readers of one int8 value that do not agree on its scale.
TEST(Pt2Refusals, ContradictingAnnotations) {
  const Refusal second{
      "quantized_decomposed.dequantize_per_tensor.default",
      {"i8:2x3"},
      "input=%0 scale=0.25 zero_point=0 quant_min=-128 quant_max=127 dtype=dtype:2",
      ""};
  const auto program = pt2::parse_pt2(
      program_of(second,
                 "input=%0 scale=0.5 zero_point=0 quant_min=-128 quant_max=127 dtype=dtype:2"),
      "one.pt2");
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(to_text(program.error()),
            "error[pt2-quantization-conflict]: one.pt2: `y`: `x0` has scale 0.5, zero point 0, "
            "range -128…127, but is read with scale 0.25, "
            "zero point 0, range -128…127\n  fix: quantize the model again, so that every reader "
            "of a value agrees on its quantization");
}

}  // namespace
}  // namespace dtr
