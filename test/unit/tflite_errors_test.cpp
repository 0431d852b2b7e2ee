// What the .tflite reader refuses: id, place and reason of every kind. Models are built by hand,
// one rule broken in each.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "compiler/executors/executor.h"
#include "compiler/frontends/tflite/tflite.h"
#include "compiler/frontends/tflite/tflite_generated.h"
#include "compiler/ir/verifier.h"
#include "compiler/ops/ops.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

namespace fb = tflite::fb;

struct TensorSpec {
  std::vector<int32_t> shape{1, 4};
  fb::TensorType type = fb::TensorType::FLOAT32;
  uint32_t buffer = 0;
  std::vector<float> scales = {};
  std::vector<int64_t> zero_points = {};
  int32_t quantized_dimension = 0;
  bool is_variable = false;
};

// A model of one RELU from tensor 0 (`x`) to tensor 1 (`y`), to be changed before `bytes`.
struct Spec {
  std::vector<TensorSpec> tensors{{}, {}};
  std::vector<std::vector<uint8_t>> buffers{{}};
  std::vector<int32_t> inputs{0};
  std::vector<int32_t> outputs{1};
  struct Op {
    uint32_t code = 0;
    std::vector<int32_t> inputs{0};
    std::vector<int32_t> outputs{1};
  };
  std::vector<Op> ops{{}};
  std::vector<fb::BuiltinOperator> codes{fb::BuiltinOperator::RELU};
  std::string custom;
  uint32_t version = 3;
  size_t subgraphs = 1;
  fb::OptionsType options_type = fb::OptionsType::NONE;
  // The options table of all operators.
  std::function<flatbuffers::uoffset_t(flatbuffers::FlatBufferBuilder&)> options;

  std::vector<std::byte> bytes() const {
    flatbuffers::FlatBufferBuilder builder;
    std::vector<flatbuffers::Offset<fb::Buffer>> made_buffers;
    for (const auto& data : buffers)
      made_buffers.push_back(data.empty() ? fb::CreateBuffer(builder)
                                          : fb::CreateBufferDirect(builder, &data));
    std::vector<flatbuffers::Offset<fb::Tensor>> made_tensors;
    for (const TensorSpec& spec : tensors) {
      const std::string name = made_tensors.empty()       ? "x"
                               : made_tensors.size() == 1 ? "y"
                                                          : fmt::format("t{}", made_tensors.size());
      flatbuffers::Offset<fb::QuantizationParameters> quantization;
      if (!spec.scales.empty())
        quantization = fb::CreateQuantizationParametersDirect(builder, nullptr, nullptr,
                                                              &spec.scales, &spec.zero_points, 0, 0,
                                                              spec.quantized_dimension);
      made_tensors.push_back(fb::CreateTensorDirect(builder, &spec.shape, spec.type, spec.buffer,
                                                    name.c_str(), quantization, spec.is_variable));
    }
    std::vector<flatbuffers::Offset<fb::OperatorCode>> made_codes;
    for (const fb::BuiltinOperator code : codes)
      made_codes.push_back(fb::CreateOperatorCodeDirect(
          builder, static_cast<int8_t>(std::min<int>(static_cast<int>(code), 127)),
          custom.empty() ? nullptr : custom.c_str(), 1, code));
    std::vector<flatbuffers::Offset<fb::SubGraph>> made_graphs;
    for (size_t i = 0; i < subgraphs; ++i) {
      std::vector<flatbuffers::Offset<fb::Operator>> made_ops;
      for (const Op& op : ops) {
        const flatbuffers::Offset<fb::AnyOptions> table(options ? options(builder) : 0);
        made_ops.push_back(fb::CreateOperatorDirect(builder, op.code, &op.inputs, &op.outputs,
                                                    options_type, table));
      }
      made_graphs.push_back(
          fb::CreateSubGraphDirect(builder, &made_tensors, &inputs, &outputs, &made_ops, "main"));
    }
    fb::FinishModelBuffer(builder, fb::CreateModelDirect(builder, version, &made_codes,
                                                         &made_graphs, "test", &made_buffers));
    const auto all = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
    return {all.begin(), all.end()};
  }
};

std::string refusal(const std::vector<std::byte>& bytes) {
  const auto import = tflite::parse_tflite(bytes, "model.tflite");
  return import ? "accepted" : to_text(import.error());
}

struct Case {
  const char* what;
  std::function<void(Spec&)> change;
  std::string id;
  std::string says;  // the whole text behind the file's name
};

template <class Create>
std::function<void(Spec&)> operator_with_options(fb::BuiltinOperator code, fb::OptionsType type,
                                                 Create create) {
  return [=](Spec& spec) {
    spec.codes = {code};
    spec.options_type = type;
    spec.options = [=](flatbuffers::FlatBufferBuilder& builder) { return create(builder).o; };
  };
}

// y is the spectrum of x, a row of four numbers.
void make_spectrum(Spec& s) {
  s.codes = {fb::BuiltinOperator::RFFT2D};
  s.tensors[1] = {.shape = {1, 3}, .type = fb::TensorType::COMPLEX64};
  s.tensors.push_back({.shape = {2}, .type = fb::TensorType::INT32, .buffer = 1});
  s.buffers.push_back({1, 0, 0, 0, 4, 0, 0, 0});
  s.ops = {{.inputs = {0, 2}}};
}

TEST(TfliteErrors, EveryRuleHasItsMessage) {
  const auto conv = operator_with_options(
      fb::BuiltinOperator::CONV_2D, fb::OptionsType::Conv2DOptions,
      [](auto& b) { return fb::CreateConv2DOptions(b, fb::Padding::SAME, 1, 1); });
  const auto conv_on = [&](Spec& spec) {  // 1×4×4×2, weight 3×1×1×2
    conv(spec);
    spec.tensors = {
        {.shape = {1, 4, 4, 2}}, {.shape = {1, 4, 4, 3}}, {.shape = {3, 1, 1, 2}, .buffer = 1}};
    spec.buffers.emplace_back(24);
    spec.ops[0].inputs = {0, 2};
  };
  const auto constant = [](Spec& spec, std::vector<int32_t> shape, size_t bytes,
                           fb::TensorType type = fb::TensorType::INT32) {
    spec.buffers.emplace_back(bytes);
    spec.tensors.push_back({.shape = std::move(shape),
                            .type = type,
                            .buffer = static_cast<uint32_t>(spec.buffers.size() - 1)});
    spec.ops[0].inputs.push_back(static_cast<int32_t>(spec.tensors.size() - 1));
  };
  const auto transposed_on =
      [&](Spec& spec, int32_t channels) {  // 1×3×3×2, weight 4×3×3×2, stride 2; extents 1×7×7×4
        operator_with_options(fb::BuiltinOperator::TRANSPOSE_CONV,
                              fb::OptionsType::TransposeConvOptions, [](auto& b) {
                                return fb::CreateTransposeConvOptions(b, fb::Padding::VALID, 2, 2);
                              })(spec);
        spec.tensors = {{.shape = {1, 3, 3, 2}},
                        {.shape = {1, 7, 7, channels}},
                        {.shape = {4, 3, 3, 2}, .buffer = 1}};
        spec.buffers.emplace_back(288);
        spec.ops[0].inputs.clear();
        constant(spec, {4}, 16);
        spec.buffers.back() = {1, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0};
        spec.ops[0].inputs.insert(spec.ops[0].inputs.end(), {2, 0});
      };
  const Case cases[] = {
      {"version", [](Spec& s) { s.version = 2; }, "tflite-invalid",
       "it has version 2 of the format, expected 3\n  fix: Convert or download the model again."},
      {"no subgraph", [](Spec& s) { s.subgraphs = 0; }, "tflite-invalid",
       "it has no subgraph\n  fix: Convert or download the model again."},
      {"operator code", [](Spec& s) { s.ops[0].code = 7; }, "tflite-invalid",
       "`operator 0`: operator code 7 does not exist\n  fix: Convert or download the model again."},
      {"operand index", [](Spec& s) { s.ops[0].inputs = {9}; }, "tflite-invalid",
       "`operator 0`: it refers to tensor 9, the file has 2\n  fix: Convert or download the model "
       "again."},
      {"result index", [](Spec& s) { s.ops[0].outputs = {-1}; }, "tflite-invalid",
       "`operator 0`: it refers to tensor -1, the file has 2\n  fix: Convert or download the model "
       "again."},
      {"input index", [](Spec& s) { s.inputs = {-2}; }, "tflite-invalid",
       "`inputs`: it refers to tensor -2, the file has 2\n  fix: Convert or download the model "
       "again."},
      {"output index", [](Spec& s) { s.outputs = {2}; }, "tflite-invalid",
       "`outputs`: it refers to tensor 2, the file has 2\n  fix: Convert or download the model "
       "again."},
      {"buffer index", [](Spec& s) { s.tensors[0].buffer = 5; }, "tflite-invalid",
       "`x`: buffer 5 does not exist, the file has 1\n  fix: Convert or download the model again."},
      {"absent operand", [](Spec& s) { s.ops[0].inputs = {-1}; }, "tflite-invalid",
       "`y`: RELU: input 0 is absent\n  fix: Convert or download the model again."},
      {"too many operands",
       [](Spec& s) {
         s.ops[0].inputs = {0, 0};
       },
       "tflite-invalid", "`y`: RELU: it has 2 inputs\n  fix: Convert or download the model again."},
      {"two results",
       [](Spec& s) {
         s.ops[0].outputs = {1, 1};
       },
       "tflite-invalid",
       "`y`: RELU: it has 2 outputs, expected 1\n  fix: Convert or download the model again."},
      {"data size",
       [](Spec& s) {
         s.buffers.emplace_back(7);
         s.tensors[0].buffer = 1;
         s.inputs = {};
       },
       "tflite-invalid",
       "`x`: it has 7 bytes of data, its shape 1x4 needs 16\n  fix: Convert or download the model "
       "again."},
      {"negative extent",
       [](Spec& s) {
         s.tensors[0].shape = {1, -1};
       },
       "tflite-invalid",
       "`x`: the shape 1x-1 is impossible\n  fix: Convert or download the model again."},
      {"absurd extent",
       [](Spec& s) {
         s.tensors[0].shape = {1 << 30, 1 << 30, 1 << 30};
       },
       "tflite-invalid",
       "`x`: the shape 1073741824x1073741824x1073741824 is impossible\n  fix: Convert or download "
       "the model again."},
      {"rank", [](Spec& s) { s.tensors[0].shape.assign(9, 1); }, "tflite-invalid",
       "`x`: it has 9 dimensions\n  fix: Convert or download the model again."},
      {"scale", [](Spec& s) { s.tensors[0].scales = {0.0F}; }, "tflite-invalid",
       "`x`: the scale 0 is not a positive number\n  fix: Convert or download the model again."},
      {"scale NaN", [](Spec& s) { s.tensors[0].scales = {NAN}; }, "tflite-invalid",
       "`x`: the scale nan is not a positive number\n  fix: Convert or download the model again."},
      {"scales",
       [](Spec& s) {
         s.tensors[0].scales = {1.0F, 2.0F};
         s.tensors[0].quantized_dimension = 3;
       },
       "tflite-invalid",
       "`x`: 2 scales along dimension 3 of the shape 1x4\n  fix: Convert or download the model "
       "again."},
      {"zero points",
       [](Spec& s) {
         s.tensors[0].scales = {1.0F};
         s.tensors[0].zero_points = {1, 2};
       },
       "tflite-invalid",
       "`x`: 1 scales and 2 zero points\n  fix: Convert or download the model again."},
      {"zero point",
       [](Spec& s) {
         s.tensors[0].scales = {1.0F};
         s.tensors[0].zero_points = {int64_t{1} << 40};
       },
       "tflite-invalid",
       "`x`: the zero point 1099511627776 is out of range\n  fix: Convert or download the model "
       "again."},
      {"zero point of int8",
       [](Spec& s) {
         for (TensorSpec& tensor : s.tensors)
           tensor = {.type = fb::TensorType::INT8, .scales = {1.0F}, .zero_points = {300}};
       },
       "tflite-invalid",
       "`y`: RELU: aten.relu: operand 0 is i8, expected float or i8 quantized per tensor\n  fix: "
       "Convert or download the model again."},
      {"cycle", [](Spec& s) { s.ops[0].inputs = {1}; }, "tflite-invalid",
       "`y`: RELU: it reads `y` before any operator makes it (a cycle, or out of order)\n  fix: "
       "Convert or download the model again."},
      {"made twice", [](Spec& s) { s.ops.push_back({}); }, "tflite-invalid",
       "`y`: RELU: its output is an input of the model, a constant, or made by another operator "
       "too\n  fix: Convert or download the model "
       "again."},
      {"overwrites its input", [](Spec& s) { s.ops[0].outputs = {0}; }, "tflite-invalid",
       "`x`: RELU: its output is an input of the model, a constant, or made by another operator "
       "too\n  fix: Convert or download the model "
       "again."},
      {"input twice",
       [](Spec& s) {
         s.inputs = {0, 0};
       },
       "tflite-invalid", "`x`: it is an input of the model twice, or constant"},
      {"output never made",
       [](Spec& s) {
         s.tensors.push_back({});
         s.outputs = {2};
       },
       "tflite-invalid", "`t2`: it is an output of the model, but no operator makes it"},
      {"shape",
       [](Spec& s) {
         s.tensors[1].shape = {1, 5};
       },
       "tflite-invalid",
       "`y`: RELU: it makes f32 of shape 1x4, the file says f32 of shape 1x5 (logical order)\n  "
       "fix: Convert or download the model again."},
      {"variable",
       [](Spec& s) {
         s.inputs = {};
         s.tensors[0].is_variable = true;
       },
       "tflite-unsupported-option",
       "`y`: RELU: `x` is a variable, whose content changes from run to run\n  fix: Change the "
       "operator before the export."},
      {"dtype", [](Spec& s) { s.tensors[0].type = fb::TensorType::COMPLEX64; },
       "tflite-unsupported-dtype",
       "`x`: it is COMPLEX64, supported are floats, quantized INT8, integers and BOOL\n  fix: "
       "Quantize the model to int8, or not at all."},
      {"complex output", [](Spec& s) { make_spectrum(s); }, "tflite-unsupported-dtype",
       "`y`: it is an output of COMPLEX64\n  fix: Let the model return real and imaginary part, or "
       "the absolute value."},
      {"complex operand",
       [](Spec& s) {
         make_spectrum(s);
         s.tensors.push_back({.shape = {1, 3}});
         s.codes.push_back(fb::BuiltinOperator::RELU);
         s.ops.push_back({.code = 1, .inputs = {1}, .outputs = {3}});
         s.outputs = {3};
       },
       "tflite-unsupported-option",
       "`t3`: RELU: it reads the complex numbers `y`\n  fix: Change the operator before the "
       "export."},
      {"real operand", [](Spec& s) { s.codes = {fb::BuiltinOperator::COMPLEX_ABS}; },
       "tflite-invalid",
       "`y`: COMPLEX_ABS: `x` is FLOAT32, expected COMPLEX64\n  fix: Convert or download the model "
       "again."},
      {"spectrum of another shape",
       [](Spec& s) {
         make_spectrum(s);
         s.tensors[1].shape = {1, 4};
       },
       "tflite-invalid",
       "`y`: RFFT2D: it makes f32 of shape 1x3x2, the file says COMPLEX64 of shape 1x4\n  fix: "
       "Convert or download the model again."},
      {"uint16",
       [](Spec& s) {
         s.tensors[0].type = fb::TensorType::UINT16;
         s.tensors[0].scales = {1.0F};
       },
       "tflite-unsupported-dtype",
       "`x`: it is quantized UINT16, supported are floats, quantized INT8, integers and BOOL\n  "
       "fix: Quantize the model to int8, or not at all."},
      {"operators",
       [](Spec& s) {
         s.codes = {fb::BuiltinOperator::CALL, fb::BuiltinOperator::UNIQUE};
         s.ops = {{.code = 1}, {.code = 0}, {.code = 1}};
       },
       "tflite-unsupported-operator",
       "the model has operators that are not supported: CALL (control flow), UNIQUE (a shape "
       "that depends on the data)\n  fix: End the model before it, and select elements or boxes in "
       "the application."},
      {"custom operator",
       [](Spec& s) {
         s.codes = {fb::BuiltinOperator::CUSTOM};
         s.custom = "Magic";
       },
       "tflite-unsupported-operator",
       "the model has operators that are not supported: CUSTOM(Magic) (a kernel that the file does "
       "not hold)\n  fix: Give a plug-in that has the kernel `custom::Magic`: --plugin KERNEL.c, a "
       "C "
       "source with device/runtime/deuteron_kernel.h, or --plugin LIBRARY.so (docs/plugins.md)"},
      {"options of detections",
       [](Spec& s) {
         s.codes = {fb::BuiltinOperator::CUSTOM};
         s.custom = "TFLite_Detection_PostProcess";
         s.tensors.resize(3);
         s.inputs = {0, 2};
         s.ops[0].inputs = {0, 0, 2};
       },
       "tflite-invalid",
       "`y`: CUSTOM(TFLite_Detection_PostProcess): its options are no map of a FlexBuffer\n  "
       "fix: Convert or download the model again."},
      {"threshold of boxes",
       [](Spec& s) {
         s.codes = {fb::BuiltinOperator::NON_MAX_SUPPRESSION_V4};
         s.tensors.resize(5);
         s.tensors[2] = {.shape = {}, .type = fb::TensorType::INT32, .buffer = 1};
         s.buffers.push_back({4, 0, 0, 0});
         s.tensors[3].shape = {4};
         s.tensors[4].shape = {};
         s.inputs = {0, 3, 4};
         s.ops[0].inputs = {0, 3, 2, 4, 4};
       },
       "tflite-unsupported-option",
       "`y`: NON_MAX_SUPPRESSION_V4: `t4` is computed by the model, only constants are supported "
       "here\n  fix: Change the operator before the export."},
      {"unknown operator", [](Spec& s) { s.codes = {static_cast<fb::BuiltinOperator>(4000)}; },
       "tflite-unsupported-operator",
       "the model has operators that are not supported: BUILTIN_4000\n  fix: Replace them before "
       "the export."},
      {"no options", [](Spec& s) { s.codes = {fb::BuiltinOperator::SOFTMAX}; }, "tflite-invalid",
       "`y`: SOFTMAX: its options are missing or of another operator\n  fix: Convert or download "
       "the model again."},
      {"wrong options",
       operator_with_options(fb::BuiltinOperator::SOFTMAX, fb::OptionsType::Pool2DOptions,
                             [](auto& b) { return fb::CreatePool2DOptions(b); }),
       "tflite-invalid",
       "`y`: SOFTMAX: its options are missing or of another operator\n  fix: Convert or download "
       "the model again."},
      {"batched gather",
       [](Spec& s) {
         operator_with_options(fb::BuiltinOperator::GATHER, fb::OptionsType::GatherOptions,
                               [](auto& b) { return fb::CreateGatherOptions(b, 1, 2); })(s);
         s.ops[0].inputs = {0, 0};
       },
       "tflite-invalid",
       "`y`: GATHER: batch_dims 2 of axis 1\n  fix: Convert or download the model again."},
      {"activation",
       [](Spec& s) {
         operator_with_options(fb::BuiltinOperator::ADD, fb::OptionsType::AddOptions, [](auto& b) {
           return fb::CreateAddOptions(b, fb::ActivationFunctionType::TANH);
         })(s);
         s.ops[0].inputs = {0, 0};
       },
       "tflite-unsupported-option",
       "`y`: ADD: the fused activation TANH is not supported\n  fix: Change the operator before "
       "the export."},
      {"convolution of a vector",
       [&](Spec& s) {
         conv(s);
         s.ops[0].inputs = {0, 0};
       },
       "tflite-invalid",
       "`y`: CONV_2D: input 0 has shape 1x4, expected 4 dimensions\n  fix: Convert or download the "
       "model again."},
      {"stride",
       [&](Spec& s) {
         conv_on(s);
         s.options = [](auto& b) { return fb::CreateConv2DOptions(b, fb::Padding::SAME, 0, 1).o; };
       },
       "tflite-invalid",
       "`y`: CONV_2D: kernel, stride or dilation is 0\n  fix: Convert or download the model "
       "again."},
      {"channels",
       [&](Spec& s) {
         conv_on(s);
         s.tensors[0].shape = {1, 4, 4, 3};
       },
       "tflite-invalid",
       "`y`: CONV_2D: aten.convolution: operand 1x3x4x4 and weight 3x2x1x1 do not make 1 groups\n  "
       "fix: Convert or download the model "
       "again."},
      {"computed weight",
       [&](Spec& s) {
         conv_on(s);
         s.tensors[2].buffer = 0;
         s.inputs = {0, 2};
       },
       "tflite-unsupported-option",
       "`y`: CONV_2D: `t2` is computed by the model, only constants are supported here\n  fix: "
       "Change the operator before the export."},
      {"bias",
       [&](Spec& s) {
         conv_on(s);
         constant(s, {2}, 8, fb::TensorType::FLOAT32);
       },
       "tflite-invalid",
       "`y`: CONV_2D: its bias has shape 2, expected 3\n  fix: Convert or download the model "
       "again."},
      {"extents of a transposed convolution", [&](Spec& s) { transposed_on(s, 3); },
       "tflite-invalid",
       "`y`: TRANSPOSE_CONV: its output has shape 1x7x7x3, its first input says 1x7x7x4\n  fix: "
       "Convert or download the model again."},
      {"axis of the scales of a transposed convolution",
       [&](Spec& s) {
         transposed_on(s, 4);
         s.tensors[2].scales = {1, 1}, s.tensors[2].zero_points = {0, 0},
         s.tensors[2].quantized_dimension = 3;
         s.tensors[2].type = fb::TensorType::INT8, s.buffers[1].resize(72);
         s.tensors[1].type = fb::TensorType::INT8, s.tensors[1].scales = {1};
       },
       "tflite-unsupported-option",
       "`y`: TRANSPOSE_CONV: its weight is quantized along dimension 3, expected 0\n  fix: Change "
       "the operator before the export."},
      {"rank of a transposed convolution",
       [&](Spec& s) {
         transposed_on(s, 4);
         s.tensors[0].shape = {1, 3, 6};
       },
       "tflite-invalid",
       "`y`: TRANSPOSE_CONV: a shape is 1x3x6, expected 4 dimensions\n  fix: Convert or download "
       "the model again."},
      {"computed padding",
       [](Spec& s) {
         s.codes = {fb::BuiltinOperator::PAD};
         s.tensors.push_back({.shape = {2, 2}, .type = fb::TensorType::INT32});
         s.inputs = {0, 2};
         s.ops[0].inputs = {0, 2};
       },
       "tflite-unsupported-option",
       "`y`: PAD: `t2` is computed by the model, only constants are supported here\n  fix: Change "
       "the operator before the export."},
      {"paddings",
       [&](Spec& s) {
         s.codes = {fb::BuiltinOperator::PAD};
         constant(s, {1, 2}, 8);
       },
       "tflite-invalid",
       "`y`: PAD: 2 paddings for rank 2\n  fix: Convert or download the model again."},
      {"axes",
       [&](Spec& s) {
         operator_with_options(fb::BuiltinOperator::MEAN, fb::OptionsType::ReducerOptions,
                               [](auto& b) { return fb::CreateReducerOptions(b); })(s);
         constant(s, {1}, 4);
         s.buffers.back() = {7, 0, 0, 0};
       },
       "tflite-invalid",
       "`y`: MEAN: axis 7 is out of range for rank 2\n  fix: Convert or download the model again."},
      {"permutation",
       [&](Spec& s) {
         s.codes = {fb::BuiltinOperator::TRANSPOSE};
         constant(s, {3}, 12);
       },
       "tflite-invalid",
       "`y`: TRANSPOSE: 3 dimensions are permuted, its input has 2\n  fix: Convert or download the "
       "model again."},
      {"matrix",
       [&](Spec& s) {
         operator_with_options(fb::BuiltinOperator::FULLY_CONNECTED,
                               fb::OptionsType::FullyConnectedOptions,
                               [](auto& b) { return fb::CreateFullyConnectedOptions(b); })(s);
         constant(s, {2, 3}, 24, fb::TensorType::FLOAT32);
       },
       "tflite-invalid",
       "`y`: FULLY_CONNECTED: input 1x4 and weight 2x3 do not multiply\n  fix: Convert or download "
       "the model again."},
      {"shuffled weights",
       [&](Spec& s) {
         operator_with_options(fb::BuiltinOperator::FULLY_CONNECTED,
                               fb::OptionsType::FullyConnectedOptions, [](auto& b) {
                                 return fb::CreateFullyConnectedOptions(
                                     b, fb::ActivationFunctionType::NONE,
                                     fb::FullyConnectedOptionsWeightsFormat::SHUFFLED4x16INT8);
                               })(s);
         constant(s, {4, 4}, 64, fb::TensorType::FLOAT32);
       },
       "tflite-unsupported-option",
       "`y`: FULLY_CONNECTED: its weights are shuffled\n  fix: Change the operator before the "
       "export."},
      {"reshape",
       [](Spec& s) {
         s.codes = {fb::BuiltinOperator::RESHAPE};
         s.tensors[1].shape = {1, 2, 3, 4};
       },
       "tflite-invalid",
       "`y`: RESHAPE: aten.view: `size` [1, 2, 3, 4] does not hold the elements of the operand "
       "1x4\n  fix: Convert or download the model "
       "again."},
  };
  ASSERT_EQ(refusal(Spec{}.bytes()), "accepted");
  for (const Case& one : cases) {
    Spec spec;
    one.change(spec);
    const std::string text = refusal(spec.bytes());
    EXPECT_EQ(text, "error[" + one.id + "]: model.tflite: " + one.says) << one.what;
  }
}

// Of a slice of tensor 0: begin, end and step, each a constant of one element.
void add_bounds(Spec& spec, std::array<int32_t, 3> bounds) {
  spec.ops = {{.inputs = {0, 2, 3, 4}}};
  for (const int32_t number : bounds) {
    spec.tensors.push_back({.shape = {1},
                            .type = fb::TensorType::INT32,
                            .buffer = static_cast<uint32_t>(spec.buffers.size())});
    const auto bytes = std::bit_cast<std::array<uint8_t, 4>>(number);
    spec.buffers.emplace_back(bytes.begin(), bytes.end());
  }
}

// x[begin:end:step] of x = 0 … 5, bounds left out by masks, ends counted from begins by `offset`.
TEST(Tflite, StridedSlicesAreThoseOfPython) {
  struct Slice {
    int32_t begin, end, step;
    std::vector<float> wanted;
    bool no_begin = false, no_end = false, offset = false;
  };
  const Slice slices[] = {{1, -1, 1, {1, 2, 3, 4}},
                          {0, 6, 2, {0, 2, 4}},
                          {-4, -1, 1, {2, 3, 4}},
                          {2, 99, 3, {2, 5}},
                          {4, 0, -1, {4, 3, 2, 1}},
                          {-1, -7, -2, {5, 3, 1}},
                          {9, 2, -1, {5, 4, 3}},
                          {3, 5, 1, {0, 1, 2, 3, 4}, true},
                          {3, 0, 1, {3, 4, 5}, false, true},
                          {2, 3, -1, {5, 4}, true},
                          {2, 9, -1, {2, 1, 0}, false, true},
                          {2, 4, 2, {2, 4}, false, false, true},
                          {5, -3, -1, {5, 4, 3}, false, false, true}};
  for (const Slice& slice : slices) {
    Spec spec;
    operator_with_options(fb::BuiltinOperator::STRIDED_SLICE, fb::OptionsType::StridedSliceOptions,
                          [&](auto& builder) {
                            return fb::CreateStridedSliceOptions(builder, slice.no_begin ? 1 : 0,
                                                                 slice.no_end ? 1 : 0, 0, 0, 0,
                                                                 slice.offset);
                          })(spec);
    spec.tensors = {{.shape = {6}}, {.shape = {static_cast<int32_t>(slice.wanted.size())}}};
    add_bounds(spec, {slice.begin, slice.end, slice.step});
    const auto import = tflite::parse_tflite(spec.bytes(), "slice.tflite");
    ASSERT_TRUE(import) << to_text(import.error());
    Tensor x(DType::kFloat32, {6});
    std::iota(x.values<float>().begin(), x.values<float>().end(), 0.0F);
    const auto outputs = make_reference_executor(import->module, import->module.forward())
                             ->run(std::vector{x.view()});
    ASSERT_TRUE(outputs) << to_text(outputs.error());
    const auto y = outputs->front().values<float>();
    EXPECT_EQ(std::vector<float>(y.begin(), y.end()), slice.wanted)
        << slice.begin << ":" << slice.end << ":" << slice.step;
  }
}

// x[index] of six elements, whose dimension is left out.
TEST(Tflite, IndicesLieInTheirDimension) {
  for (const int32_t index : {-1, 0, 5, 6, 7}) {
    Spec spec;
    operator_with_options(
        fb::BuiltinOperator::STRIDED_SLICE, fb::OptionsType::StridedSliceOptions,
        [](auto& builder) { return fb::CreateStridedSliceOptions(builder, 0, 0, 0, 0, 1); })(spec);
    spec.tensors = {{.shape = {6}}, {.shape = {}}};
    add_bounds(spec, {index, index + 1, 1});
    const auto says = index < 6 ? "accepted" : fmt::format("index {} of 6 elements", index);
    EXPECT_NE(refusal(spec.bytes()).find(says), std::string::npos) << index;
  }
}

// What no operator calls is another signature of the file.
TEST(Tflite, ReadsTheFirstOfSeveralSignatures) {
  Spec spec;
  spec.subgraphs = 2;
  const auto import = tflite::parse_tflite(spec.bytes(), "two.tflite");
  ASSERT_TRUE(import) << to_text(import.error());
  ASSERT_EQ(import->module.notes.size(), 1U);
  EXPECT_EQ(import->module.notes[0].reason, "the file has 2 subgraphs, the first one is read");
}

TEST(TfliteErrors, TruncatedFilesAreRefused) {
  const auto whole = test::read_bytes(test::source_path("test/data/litert/several.tflite"));
  for (size_t size = 0; size < whole.size(); size += size < 200 ? 1 : 97) {
    const auto import = tflite::parse_tflite(std::span(whole).first(size), "short.tflite");
    ASSERT_FALSE(import) << size;
    EXPECT_EQ(import.error().id, DiagnosticId::kTfliteInvalid) << size;
  }
  EXPECT_EQ(test::error_id(tflite::read_tflite("/nowhere/model.tflite")), "file-not-found");
  EXPECT_EQ(test::error_id(tflite::describe_tflite(test::source_path("README.md").string())),
            "tflite-invalid");
}

// Loops of test/data/litert/make_control.py that cannot be unrolled, or are damaged.
TEST(TfliteErrors, CalledSubgraphsAreChecked) {
  constexpr std::pair<const char*, const char*> kFiles[] = {
      {"steps", "WHILE: how often it repeats depends on an input of the model"},
      {"endless", "WHILE: it takes more than 4096 steps"},
      {"itself", "WHILE: its subgraph 2 calls itself"},
      {"number", "WHILE: it calls subgraph 7, the file has 2"},
      {"shape", "WHILE: its body takes and makes different numbers of tensors"},
  };
  for (const auto& [name, reason] : kFiles) {
    const auto module = tflite::read_tflite(
        test::source_path(std::string("test/data/litert/refused_") + name + ".tflite").string());
    ASSERT_FALSE(module) << name;
    EXPECT_EQ(module.error().reason, reason) << name;
  }
}

TEST(TfliteErrors, OpenExtentsAreChecked) {
  const auto refused = [](const char* model, std::pair<std::string, int64_t> size) {
    auto file = FileContents::read(test::source_path(model).string());
    const auto module =
        tflite::read_tflite(std::move(*file), "open.tflite", {.given = {std::move(size)}});
    return module ? "read" : module.error().reason;
  };
  constexpr const char* kOpen = "test/data/litert/open.tflite";
  EXPECT_EQ(refused(kOpen, {"image.1", 3}),
            "`image.1` is no open dimension of the model, which has image.0, batch, image.2, "
            "image.3");
  EXPECT_EQ(refused(kOpen, {"batch", INT32_MAX}), "its shape would be [2147483647, 4, 4, 3]");
  EXPECT_EQ(refused("test/data/litert/control.tflite", {"batch", 2}),
            "`batch` is no open dimension of the model: the shapes of this .tflite file are fixed");
}

// Ten thousand tensors that share one vector of scales would be 40 GB, each with a copy.
TEST(TfliteErrors, SharedDataDoNotMultiply) {
  flatbuffers::FlatBufferBuilder builder;
  const std::vector<float> many(1 << 20, 1.0F);
  const auto scales = builder.CreateVector(many);
  fb::QuantizationParametersBuilder parameters(builder);
  parameters.add_scale(scales);
  const auto quantization = parameters.Finish();
  const std::vector<int32_t> shape{1 << 20};
  const auto made_shape = builder.CreateVector(shape);
  const auto name = builder.CreateString("t");
  std::vector<flatbuffers::Offset<fb::Tensor>> tensors;
  for (int i = 0; i < 10000; ++i)
    tensors.push_back(
        fb::CreateTensor(builder, made_shape, fb::TensorType::INT8, 0, name, quantization));
  const std::vector graphs{fb::CreateSubGraphDirect(builder, &tensors)};
  fb::FinishModelBuffer(builder, fb::CreateModelDirect(builder, 3, nullptr, &graphs));
  const auto before = std::chrono::steady_clock::now();
  const std::string text = refusal([&] {
    const auto all = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
    return std::vector<std::byte>(all.begin(), all.end());
  }());
  EXPECT_NE(text.find("absurdly often"), std::string::npos) << text;
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
}

TEST(Tflite, ImportNamesLayoutsAndOrigins) {
  const auto import =
      tflite::import_tflite(test::source_path("models/mlperf_tiny/kws_dscnn_int8.tflite").string());
  ASSERT_TRUE(import) << test::error_text(import);
  const Graph& graph = import->module.forward();
  EXPECT_TRUE(verify(import->module));
  const Type& input = graph.type(graph.inputs()[0]);
  EXPECT_EQ(input.shape, (Shape{1, 1, 49, 10}));
  EXPECT_EQ(input.layout, Layout::kChannelsLast);
  EXPECT_EQ(graph.value(graph.inputs()[0]).name, "input_1");
  EXPECT_EQ(import->module.sources.size(), 13U);
  EXPECT_EQ(import->module.sources[1].target, "DEPTHWISE_CONV_2D");
  int linear = 0;
  for (const OpId op : graph.ops())
    linear +=
        graph.op(op).def == &ops::kLinear ? graph.op(op).attributes.get<bool>("one_rounding") : 0;
  EXPECT_EQ(linear, 1);
}

// make_described.py: what MediaPipe's writer of metadata was told.
TEST(Tflite, DescribeShowsMetadataAndSignatures) {
  const auto text =
      tflite::describe_tflite(test::source_path("test/data/litert/described.tflite").string());
  ASSERT_TRUE(text) << test::error_text(text);
  for (const char* part :
       {"  name: ImageClassifier\n", "  input 0 image: Input image to be processed.\n",
        "    is (x - mean) / std: mean 127.5 127 126.5, std 127.5 128 128.5\n",
        "    values from -1 -0.9921875 -0.9844358 to 1 1 1\n",
        "    3 labels labels.txt: sun, rain, snow\n", "signature classify of subgraph 0\n",
        "  input image is tensor 0\n", "  output score is tensor 2\n"})
    EXPECT_NE(text->find(part), std::string::npos) << part << "\n" << *text;
}

// The file has tensors 0 to 2; the signature's output is told to be tensor 3.
TEST(TfliteErrors, SignaturesNameTensorsThatThereAre) {
  const auto file =
      FileContents::read(test::source_path("test/data/litert/described.tflite").string());
  ASSERT_TRUE(file);
  std::vector<std::byte> bytes(file->bytes().begin(), file->bytes().end());
  const void* const output =
      fb::GetModel(bytes.data())->signature_defs()->Get(0)->outputs()->Get(0);
  const uint32_t behind_the_last = 3;
  std::memcpy(const_cast<uint8_t*>(static_cast<const flatbuffers::Table*>(output)->GetAddressOf(
                  fb::TensorMap::VT_TENSOR_INDEX)),
              &behind_the_last, sizeof behind_the_last);
  const auto text = tflite::describe_tflite(bytes, "described.tflite");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().id, DiagnosticId::kTfliteInvalid);
  EXPECT_EQ(text.error().reason, "it refers to tensor 3, its subgraph has 3");
}

// A model is what it is without them, so that damaged ones are said and refuse nothing.
TEST(Tflite, DamagedMetadataAreSaid) {
  const auto file =
      FileContents::read(test::source_path("test/data/litert/described.tflite").string());
  ASSERT_TRUE(file);
  const std::vector<std::byte> whole(file->bytes().begin(), file->bytes().end());
  const auto described = [](const std::vector<std::byte>& bytes) {
    return tflite::describe_tflite(bytes, "described.tflite");
  };
  const auto place_of = [&](std::string_view text) {
    const std::string_view all(reinterpret_cast<const char*>(whole.data()), whole.size());
    return all.find(text);
  };
  std::vector<std::byte> other = whole;
  other[place_of("M001")] = std::byte{'N'};
  auto text = described(other);
  ASSERT_TRUE(text) << test::error_text(text);
  EXPECT_NE(text->find("metadata that cannot be read: its metadata are damaged\n"),
            std::string::npos)
      << *text;
  // The attached file is cut off.
  other = whole;
  other.resize(place_of("PK\x03\x04"));
  text = described(other);
  ASSERT_TRUE(text) << test::error_text(text);
  EXPECT_NE(text->find("metadata that cannot be read: "), std::string::npos) << *text;
  // It has another name.
  other = whole;
  for (size_t at = place_of("PK\x03\x04"); at + 10 < other.size(); ++at)
    if (std::memcmp(&other[at], "labels.txt", 10) == 0) other[at] = std::byte{'n'};
  text = described(other);
  ASSERT_TRUE(text) << test::error_text(text);
  EXPECT_NE(text->find("    labels labels.txt: not in the file\n"), std::string::npos) << *text;
  for (size_t i = 0; i < whole.size(); ++i)
    for (const int bit : {0, 7}) {
      other = whole;
      other[i] ^= std::byte{1} << bit;
      (void)described(other);
    }
}

TEST(Tflite, DescribeListsTensorsAndOperators) {
  const auto text = tflite::describe_tflite(
      test::source_path("models/mlperf_tiny/kws_dscnn_int8.tflite").string());
  ASSERT_TRUE(text) << test::error_text(text);
  for (const char* part :
       {"53936 bytes, 13 operators", "tensor 0: input_1 INT8[1,49,10,1] scale 0.58",
        "operator 0 CONV_2D", "64 scales along dimension 0", "operator 12 SOFTMAX",
        "makes 34: Identity INT8[1,12] scale 0.00390625 zero_point -128"})
    EXPECT_NE(text->find(part), std::string::npos) << part << "\n" << *text;
}

}  // namespace
}  // namespace dtr
