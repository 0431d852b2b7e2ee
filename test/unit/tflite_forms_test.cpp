// Forms in which a .tflite file stores weights and activations: each model is one fully connected
// layer y = x · Wᵀ, whose outputs are computed by hand.
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <numeric>
#include <optional>

#include "compiler/executors/executor.h"
#include "compiler/frontends/tflite/tflite.h"
#include "compiler/frontends/tflite/tflite_generated.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

namespace fb = tflite::fb;
using Bytes = std::vector<uint8_t>;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

struct Stored {
  std::vector<int32_t> shape;
  fb::TensorType type = fb::TensorType::FLOAT32;
  Bytes data = {};
  std::vector<float> scales = {};
  std::vector<int64_t> zero_points = {};
  std::vector<int32_t> signature = {};
  std::function<Offset<fb::SparsityParameters>(FlatBufferBuilder&)> sparsity = {};
};

// x is tensor 0, the weight 1, y 2. `conversion` makes a float tensor 3 of the weight, which the
// layer reads then.
struct Layer {
  Stored x{{1, 3}}, weight, y{{1, 2}};
  std::optional<fb::BuiltinOperator> conversion = {};
  std::vector<int32_t> results{2};

  std::vector<std::byte> bytes() const {
    FlatBufferBuilder builder;
    std::vector<Offset<fb::Buffer>> buffers{fb::CreateBuffer(builder)};
    std::vector<Offset<fb::Tensor>> tensors;
    std::vector<Stored> all{x, weight, y};
    if (conversion) all.push_back({weight.shape});
    for (const Stored& stored : all) {
      uint32_t buffer = 0;
      if (!stored.data.empty()) {
        buffer = static_cast<uint32_t>(buffers.size());
        buffers.push_back(fb::CreateBufferDirect(builder, &stored.data));
      }
      Offset<fb::QuantizationParameters> quantization;
      if (!stored.scales.empty())
        quantization = fb::CreateQuantizationParametersDirect(builder, nullptr, nullptr,
                                                              &stored.scales, &stored.zero_points);
      Offset<fb::SparsityParameters> sparsity;
      if (stored.sparsity) sparsity = stored.sparsity(builder);
      const std::string name = "t" + std::to_string(tensors.size());
      tensors.push_back(fb::CreateTensorDirect(
          builder, &stored.shape, stored.type, buffer, name.c_str(), quantization, false, sparsity,
          stored.signature.empty() ? nullptr : &stored.signature));
    }
    std::vector<Offset<fb::OperatorCode>> codes;
    std::vector<Offset<fb::Operator>> ops;
    const auto add = [&](fb::BuiltinOperator code, const std::vector<int32_t>& inputs,
                         const std::vector<int32_t>& outputs,
                         Offset<fb::FullyConnectedOptions> options) {
      codes.push_back(
          fb::CreateOperatorCodeDirect(builder, static_cast<int8_t>(code), nullptr, 1, code));
      ops.push_back(fb::CreateOperatorDirect(
          builder, static_cast<uint32_t>(codes.size() - 1), &inputs, &outputs,
          options.IsNull() ? fb::OptionsType::NONE : fb::OptionsType::FullyConnectedOptions,
          Offset<fb::AnyOptions>(options.o)));
    };
    if (conversion) add(*conversion, {1}, {3}, {});
    add(fb::BuiltinOperator::FULLY_CONNECTED, {0, conversion ? 3 : 1}, {2},
        fb::CreateFullyConnectedOptions(builder));
    const std::vector<int32_t> inputs{0};
    const std::vector graphs{
        fb::CreateSubGraphDirect(builder, &tensors, &inputs, &results, &ops, "main")};
    fb::FinishModelBuffer(builder,
                          fb::CreateModelDirect(builder, 3, &codes, &graphs, "test", &buffers));
    const auto made = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
    return {made.begin(), made.end()};
  }
};

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto raw = std::as_bytes(std::span(values));
  Bytes result;
  for (const std::byte byte : raw) result.push_back(std::to_integer<uint8_t>(byte));
  return result;
}

// y for x = 1, 10, 100, and what the import noted.
struct Outcome {
  std::vector<float> y;
  std::string notes;
};
Outcome run(const Layer& layer) {
  const auto import = tflite::parse_tflite(layer.bytes(), "layer.tflite");
  if (!import) {
    ADD_FAILURE() << to_text(import.error());
    return {};
  }
  Tensor x(DType::kFloat32, {1, 3});
  x.values<float>()[0] = 1;
  x.values<float>()[1] = 10;
  x.values<float>()[2] = 100;
  const auto outputs =
      make_reference_executor(import->module, import->module.forward())->run(std::vector{x.view()});
  if (!outputs) {
    ADD_FAILURE() << to_text(outputs.error());
    return {};
  }
  Outcome outcome;
  const auto y = outputs->front().values<float>();
  outcome.y.assign(y.begin(), y.end());
  for (const Diagnostic& note : import->module.notes) outcome.notes += to_text(note) + "\n";
  return outcome;
}

TEST(TfliteForms, HalfPrecision) {
  // 1, −2, 0.5; 0, 2^−24 (subnormal), −0.099976
  const std::vector<uint16_t> halves{0x3C00, 0xC000, 0x3800, 0x0000, 0x0001, 0xAE66};
  Layer layer{.weight = {{2, 3}, fb::TensorType::FLOAT16, bytes_of(halves)}};
  const std::vector<float> wanted{1 - 20 + 50, 10 * 0x1p-24F + 100 * -0.0999755859375F};
  EXPECT_EQ(run(layer).y, wanted);
  layer.conversion = fb::BuiltinOperator::DEQUANTIZE;
  EXPECT_EQ(run(layer).y, wanted);
  layer.conversion.reset();
  layer.weight = {{2, 3},
                  fb::TensorType::BFLOAT16,
                  bytes_of(std::vector<uint16_t>{0x3F80, 0xC000, 0x3F00, 0, 0, 0x4040})};
  EXPECT_EQ(run(layer).y, (std::vector<float>{31, 300}));
  layer.weight = {
      {2, 3}, fb::TensorType::FLOAT64, bytes_of(std::vector<double>{1, -2, 0.5, 0, 0, 3})};
  EXPECT_EQ(run(layer).y, (std::vector<float>{31, 300}));
}

TEST(TfliteForms, AConstantIsAnOutput) {
  const std::vector<float> weight{1, 2, 3, 4, 5, 6};
  const Stored stored{{2, 3}, fb::TensorType::FLOAT32, bytes_of(weight)};
  EXPECT_EQ(run({.weight = stored, .results = {1, 2}}).y, weight);
  EXPECT_EQ(run({.weight = stored, .results = {2, 1}}).y, (std::vector<float>{321, 654}));
}

// What makes codes of bytes and bytes of codes goes through real numbers, of any scale.
TEST(TfliteForms, EveryByteIsReturnedAsItIs) {
  std::vector<uint8_t> every(256);
  std::iota(every.begin(), every.end(), uint8_t{0});
  for (const auto& [scale, zero_point] :
       {std::pair{0.1F, 0}, {1 / 255.F, 255}, {0.0235F, 128}, {0.75F, 7}, {1 / 3.F, 100}}) {
    Layer layer{.x = {{1, 256}, fb::TensorType::UINT8, {}, {scale}, {zero_point}},
                .weight = {{1, 256}, fb::TensorType::UINT8, every, {1}, {0}},
                .y = {{1, 1}, fb::TensorType::UINT8, {}, {1000}, {0}},
                .results = {0, 2}};
    const auto import = tflite::parse_tflite(layer.bytes(), "bytes.tflite");
    ASSERT_TRUE(import) << to_text(import.error());
    const TensorView x{DType::kUint8, {1, 256}, reinterpret_cast<std::byte*>(every.data())};
    const auto outputs =
        make_reference_executor(import->module, import->module.forward())->run(std::vector{x});
    ASSERT_TRUE(outputs) << to_text(outputs.error());
    const auto bytes = outputs->front().values<uint8_t>();
    EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.end()), every) << scale;
  }
}

TEST(TfliteForms, QuantizedWeightsOfFloatLayers) {
  const std::vector<int8_t> codes{2, -4, 1, 0, 3, -2};
  Layer layer{.weight = {{2, 3}, fb::TensorType::INT8, bytes_of(codes), {0.5F}, {0}}};
  const Outcome dynamic = run(layer);
  EXPECT_EQ(dynamic.y, (std::vector<float>{1 - 20 + 50, 15 - 100}));
  EXPECT_NE(dynamic.notes.find("1 weight is quantized, and read as float"), std::string::npos)
      << dynamic.notes;
  layer.conversion = fb::BuiltinOperator::DEQUANTIZE;
  EXPECT_EQ(run(layer).y, dynamic.y);
  layer.conversion.reset();
  layer.weight.scales = {0.5F, 2};
  layer.weight.zero_points = {0, 0};
  EXPECT_EQ(run(layer).y, (std::vector<float>{31, 60 - 400}));
  layer.weight = {{2, 3}, fb::TensorType::UINT8, {130, 124, 129, 128, 131, 126}, {0.5F}, {128}};
  EXPECT_EQ(run(layer).y, dynamic.y);
  // Two codes a byte, the first in the low bits: 2, −4, 1, 0, 3, −2.
  layer.weight = {{2, 3}, fb::TensorType::INT4, {0xC2, 0x01, 0xE3}, {0.5F}, {0}};
  EXPECT_EQ(run(layer).y, dynamic.y);
}

TEST(TfliteForms, Int16ActivationsAreFloat) {
  Layer layer{.weight = {{2, 3},
                         fb::TensorType::INT8,
                         bytes_of(std::vector<int8_t>{2, -4, 1, 0, 3, -2}),
                         {0.5F},
                         {0}}};
  layer.x = {{1, 3}, fb::TensorType::INT16, {}, {0.01F}, {0}};
  layer.y = {{1, 2}, fb::TensorType::INT16, {}, {0.02F}, {0}};
  const Outcome outcome = run(layer);
  EXPECT_EQ(outcome.y, (std::vector<float>{31, -85}));
  EXPECT_NE(outcome.notes.find("its activations are int16"), std::string::npos) << outcome.notes;
}

// Compressed rows: each has the columns of its stored elements.
Offset<fb::SparsityParameters> by_rows(FlatBufferBuilder& builder) {
  const std::vector<uint8_t> segments{0, 2, 3}, indices{0, 2, 1};
  const auto made_segments = fb::CreateUint8VectorDirect(builder, &segments);
  const auto made_indices = fb::CreateUint8VectorDirect(builder, &indices);
  const std::vector levels{fb::CreateDimensionMetadata(builder, fb::DimensionType::DENSE, 2),
                           fb::CreateDimensionMetadata(builder, fb::DimensionType::SPARSE_CSR, 0,
                                                       fb::IndicesType::Uint8Vector,
                                                       Offset<fb::AnyOptions>(made_segments.o),
                                                       fb::IndicesType::Uint8Vector,
                                                       Offset<fb::AnyOptions>(made_indices.o))};
  const std::vector<int32_t> order{0, 1};
  return fb::CreateSparsityParametersDirect(builder, &order, nullptr, &levels);
}

// Blocks of one row and two columns of a weight of 2 × 4; of each two blocks the second is stored.
Offset<fb::SparsityParameters> by_blocks(FlatBufferBuilder& builder) {
  const std::vector<int32_t> segments{0, 1, 2}, indices{1, 1};
  const auto made_segments = fb::CreateInt32VectorDirect(builder, &segments);
  const auto made_indices = fb::CreateInt32VectorDirect(builder, &indices);
  const std::vector levels{fb::CreateDimensionMetadata(builder, fb::DimensionType::DENSE, 2),
                           fb::CreateDimensionMetadata(builder, fb::DimensionType::SPARSE_CSR, 0,
                                                       fb::IndicesType::Int32Vector,
                                                       Offset<fb::AnyOptions>(made_segments.o),
                                                       fb::IndicesType::Int32Vector,
                                                       Offset<fb::AnyOptions>(made_indices.o)),
                           fb::CreateDimensionMetadata(builder, fb::DimensionType::DENSE, 2)};
  const std::vector<int32_t> order{0, 1, 2}, blocks{1};
  return fb::CreateSparsityParametersDirect(builder, &order, &blocks, &levels);
}

TEST(TfliteForms, SparseWeightsAreDense) {
  Layer layer{.weight = {{2, 3}, fb::TensorType::FLOAT32, bytes_of(std::vector<float>{1, 2, 3})}};
  layer.weight.sparsity = by_rows;  // 1 0 2, 0 3 0
  EXPECT_EQ(run(layer).y, (std::vector<float>{201, 30}));
  layer.conversion = fb::BuiltinOperator::DENSIFY;
  EXPECT_EQ(run(layer).y, (std::vector<float>{201, 30}));
  layer.weight.data = bytes_of(std::vector<float>{1, 2});  // one element too few
  EXPECT_EQ(test::error_id(tflite::parse_tflite(layer.bytes(), "layer.tflite")), "tflite-invalid");

  Layer blocks{
      .weight = {{2, 4}, fb::TensorType::FLOAT32, bytes_of(std::vector<float>{1, 2, 3, 4})}};
  blocks.x.shape = {1, 4};
  blocks.weight.sparsity = by_blocks;  // 0 0 1 2, 0 0 3 4
  const auto import = tflite::parse_tflite(blocks.bytes(), "layer.tflite");
  ASSERT_TRUE(import) << to_text(import.error());
  Tensor x(DType::kFloat32, {1, 4});
  for (size_t i = 0; i < 4; ++i) x.values<float>()[i] = static_cast<float>(i + 1);
  const auto outputs =
      make_reference_executor(import->module, import->module.forward())->run(std::vector{x.view()});
  ASSERT_TRUE(outputs) << to_text(outputs.error());
  const auto y = outputs->front().values<float>();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), (std::vector<float>{11, 25}));
}

// x of 2 × 1 pixels, a kernel of 3 × 2, strides of 2 and 3: each pixel spreads over its window.
TEST(TfliteForms, MediaPipesTransposedConvolution) {
  FlatBufferBuilder builder;
  const std::vector<uint8_t> weight = bytes_of(std::vector<float>{1, 2, 3, 4, 5, 6});
  const std::vector<uint8_t> bias = bytes_of(std::vector<float>{100});
  const std::vector buffers{fb::CreateBuffer(builder), fb::CreateBufferDirect(builder, &weight),
                            fb::CreateBufferDirect(builder, &bias)};
  const std::vector<std::vector<int32_t>> shapes{{1, 2, 1, 1}, {1, 3, 2, 1}, {1}, {1, 5, 2, 1}};
  std::vector<Offset<fb::Tensor>> tensors;
  for (uint32_t i = 0; i < 4; ++i)
    tensors.push_back(fb::CreateTensorDirect(builder, &shapes[i], fb::TensorType::FLOAT32, i % 3,
                                             ("t" + std::to_string(i)).c_str()));
  const std::vector codes{fb::CreateOperatorCodeDirect(builder, 32, "Convolution2DTransposeBias", 1,
                                                       fb::BuiltinOperator::CUSTOM)};
  const std::vector<int32_t> operands{0, 1, 2}, results{3}, inputs{0};
  const std::vector<uint8_t> options = bytes_of(std::vector<int32_t>{2, 3, 2});
  const std::vector ops{fb::CreateOperatorDirect(builder, 0, &operands, &results,
                                                 fb::OptionsType::NONE, 0, &options)};
  const std::vector graphs{
      fb::CreateSubGraphDirect(builder, &tensors, &inputs, &results, &ops, "main")};
  fb::FinishModelBuffer(builder,
                        fb::CreateModelDirect(builder, 3, &codes, &graphs, "test", &buffers));
  const auto import = tflite::parse_tflite(
      std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())), "custom.tflite");
  ASSERT_TRUE(import) << to_text(import.error());
  Tensor x(DType::kFloat32, {1, 1, 2, 1});
  x.values<float>()[0] = 1;
  x.values<float>()[1] = 10;
  const auto outputs =
      make_reference_executor(import->module, import->module.forward())->run(std::vector{x.view()});
  ASSERT_TRUE(outputs) << to_text(outputs.error());
  const auto y = outputs->front().values<float>();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()),
            (std::vector<float>{101, 102, 103, 104, 115, 126, 130, 140, 150, 160}));
}

TEST(TfliteForms, OpenBatchIsBound) {
  Layer layer{
      .weight = {{2, 3}, fb::TensorType::FLOAT32, bytes_of(std::vector<float>{1, 0, 0, 0, 1, 0})}};
  layer.x.signature = {-1, 3};
  layer.y.signature = {-1, 2};
  const Outcome outcome = run(layer);
  EXPECT_EQ(outcome.y, (std::vector<float>{1, 10}));
  EXPECT_NE(outcome.notes.find("its shape is open ([-1, 3]) and read as [1, 3]"), std::string::npos)
      << outcome.notes;
}

}  // namespace
}  // namespace dtr
