// What the codes of int8 inputs and outputs mean: told by constant methods with ExecuTorch's names,
// read by the reader and in C, and used where values in float32 are given.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "compiler/ir/builder.h"
#include "compiler/ir/quantized_values.h"
#include "compiler/ir/samples.h"
#include "compiler/program/describe.h"
#include "compiler/program/reader.h"
#include "device/numerics/crc32.h"
#include "device/pte/io_quantization.h"
#include "device/pte/program_generated.h"
#include "device/runtime/deuteron.h"
#include "host/session/session.h"
#include "test/unit/plan_builder.h"

namespace dtr {
namespace {

constexpr float kScale = 0.11f, kOutputScale = 0.25f;
constexpr int32_t kZero = -7, kLow = -101, kHigh = 99;

// int8 x → dequantize → quantize → int8 y: another scale, zero point and range.
MethodPlan codes_plan(const std::string& method = "forward") {
  MethodPlan plan{.method = method, .target = "none", .tool = "test"};
  Type from{.dtype = DType::kInt8, .shape = {1, 6}}, to = from;
  from.quantization = Quantization::per_tensor(kScale, kZero, kLow, kHigh);
  to.quantization = Quantization::per_tensor(kOutputScale, 0);
  const TensorRef x = plan.add_tensor({"x", from});
  const TensorRef real = plan.add_tensor({"real", {.shape = {1, 6}}});
  const TensorRef y = plan.add_tensor({"y", to});
  plan.calls.emplace_back(KernelCallPlan{"quantized_decomposed::dequantize_per_tensor.out",
                                         {x, double{kScale}, int64_t{kZero}, int64_t{kLow},
                                          int64_t{kHigh}, int64_t{1}, std::monostate{}},
                                         {real},
                                         {}});
  plan.calls.emplace_back(KernelCallPlan{
      "quantized_decomposed::quantize_per_tensor.out",
      {real, double{kOutputScale}, int64_t{0}, int64_t{-128}, int64_t{127}, int64_t{1}},
      {y},
      {}});
  plan.inputs = {x};
  plan.outputs = {y};
  return plan;
}

std::vector<std::byte> program_of(std::vector<MethodPlan> plans, const WriteOptions& options = {}) {
  std::vector<MethodToWrite> methods;
  for (MethodPlan& plan : plans) {
    EXPECT_TRUE(plan_memory(plan));
    methods.push_back({&plan});
  }
  auto written = serialize_program(methods, options);
  EXPECT_TRUE(written);
  return written->bytes;
}

std::vector<std::string> method_names(const PteFile& file) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < file.method_count(); ++i) names.push_back(file.plan(i).name()->str());
  return names;
}

const pte::ExecutionPlan& plan_of(const std::vector<std::byte>& bytes, std::string_view name) {
  for (const pte::ExecutionPlan* plan : *pte::GetProgram(bytes.data())->execution_plan())
    if (plan->name()->string_view() == name) return *plan;
  throw std::runtime_error("no method " + std::string(name));
}

std::vector<std::byte> with_checksum(std::vector<std::byte> bytes) {
  const uint32_t crc = crc32_with_hole(bytes, bytes.size() - 4);
  std::memcpy(bytes.data() + bytes.size() - 4, &crc, 4);
  return bytes;
}

// The program with another number in a constant method; the bytes of a table are the field's.
template <class T>
std::vector<std::byte> with_number(std::vector<std::byte> bytes, const void* of,
                                   flatbuffers::voffset_t field, T number) {
  const auto* table = static_cast<const flatbuffers::Table*>(of);
  std::memcpy(const_cast<uint8_t*>(table->GetAddressOf(field)), &number, sizeof number);
  return with_checksum(std::move(bytes));
}
std::vector<std::byte> with_scale(std::vector<std::byte> bytes, std::string_view method,
                                  double scale) {
  const auto* table = plan_of(bytes, method).values()->Get(0)->val_as_Double();
  return with_number(std::move(bytes), table, pte::Double::VT_DOUBLE_VAL, scale);
}
std::vector<std::byte> with_int(std::vector<std::byte> bytes, std::string_view method,
                                int64_t number) {
  const auto* table = plan_of(bytes, method).values()->Get(0)->val_as_Int();
  return with_number(std::move(bytes), table, pte::Int::VT_INT_VAL, number);
}

Tensor row_of(const std::vector<float>& values) {
  Tensor row(DType::kFloat32, {1, static_cast<int64_t>(values.size())});
  std::ranges::copy(values, row.values<float>().begin());
  return row;
}
Tensor row_of(const std::vector<int8_t>& codes) {
  Tensor row(DType::kInt8, {1, static_cast<int64_t>(codes.size())});
  std::ranges::copy(codes, row.values<int8_t>().begin());
  return row;
}

TEST(IoQuantization, NamesAreThoseOfExecuTorch) {
  const auto file = PteFile::parse(program_of({codes_plan()}), "test.pte");
  ASSERT_TRUE(file) << to_text(file.error());
  EXPECT_EQ(
      method_names(*file),
      (std::vector<std::string>{"forward", "input0_scale", "input0_zp", "input0_quant_min",
                                "input0_quant_max", "input0_dtype", "output0_scale", "output0_zp",
                                "output0_quant_min", "output0_quant_max", "output0_dtype"}));
  EXPECT_FALSE(file->is_io_constant(0));
  for (uint32_t i = 1; i < file->method_count(); ++i) EXPECT_TRUE(file->is_io_constant(i)) << i;
  EXPECT_EQ(file->io_quantization(0, false, 0),
            Quantization::per_tensor(kScale, kZero, kLow, kHigh));
  EXPECT_EQ(file->io_quantization(0, true, 0), Quantization::per_tensor(kOutputScale, 0));
  EXPECT_EQ(file->io_quantization(0, false, 1), std::nullopt);
  // A scale is the double of the float32 that the kernels use; int8 is ScalarType 1.
  EXPECT_EQ(file->plan(1).values()->Get(0)->val_as_Double()->double_val(), double{kScale});
  EXPECT_EQ(file->plan(5).values()->Get(0)->val_as_Int()->int_val(), 1);

  const std::string text = describe_program(*file);
  EXPECT_NE(
      text.find("input 0: %0 `x` i8[1,6], value = 0.109999999 * (code + 7), codes -101 to 99"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("`y` i8[1,6], value = 0.25 * code\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("method input0"), std::string::npos) << text;

  const auto without =
      PteFile::parse(program_of({codes_plan()}, {.io_constants = false}), "test.pte");
  ASSERT_TRUE(without);
  EXPECT_EQ(method_names(*without), (std::vector<std::string>{"forward"}));
  EXPECT_EQ(without->io_quantization(0, false, 0), std::nullopt);
}

TEST(IoQuantization, EveryMethodHasItsOwn) {
  MethodPlan plain = test::small_plan();
  plain.method = "plain";
  const auto file = PteFile::parse(
      program_of({codes_plan("decode"), codes_plan(), std::move(plain)}), "test.pte");
  ASSERT_TRUE(file) << to_text(file.error());
  ASSERT_EQ(file->method_count(), 3u + 20u);
  EXPECT_EQ(file->plan(3).name()->str(), "decode_input0_scale");
  EXPECT_EQ(file->plan(13).name()->str(), "input0_scale");
  for (const uint32_t method : {0u, 1u})
    EXPECT_EQ(file->io_quantization(method, false, 0),
              Quantization::per_tensor(kScale, kZero, kLow, kHigh));
  EXPECT_EQ(file->io_quantization(2, false, 0), std::nullopt);
  PteFile other =
      *PteFile::parse(program_of({codes_plan("decode"), codes_plan("encode")}), "b.pte");
  EXPECT_EQ(other.select({}).error().fix, "give one of them with --method: decode, encode");
  PteFile one = *PteFile::parse(program_of({codes_plan("decode")}), "b.pte");
  ASSERT_TRUE(one.select({}));  // the only one that computes something
  EXPECT_EQ(one.method(), "decode");
}

// What computes something is no constant, whatever its name: `inspect` must not hide it.
TEST(IoQuantization, AMethodThatComputesIsNoConstant) {
  const auto file =
      PteFile::parse(program_of({codes_plan("forward_input0_zp"), codes_plan()}), "test.pte");
  ASSERT_TRUE(file) << to_text(file.error());
  EXPECT_FALSE(file->is_io_constant(0));
  EXPECT_EQ(file->io_quantization(1, false, 0), std::nullopt) << "its value is no constant";
}

TEST(IoQuantization, Names) {
  pte::IoName name{};
  ASSERT_TRUE(pte::parse_io_name("output12_quant_max", &name));
  EXPECT_TRUE(name.output && name.index == 12 && name.key == pte::kIoMaximum);
  ASSERT_TRUE(pte::parse_io_name("input0_zp", &name));
  EXPECT_FALSE(name.output);
  for (const char* other : {"", "input", "input_zp", "input0", "input0_", "input0zp", "input00_zp",
                            "input01_zp", "input0_zps", "Input0_zp", "input-1_zp",
                            "input1234567890_zp", "output0_scale_", " input0_zp"})
    EXPECT_FALSE(pte::parse_io_name(other, &name)) << other;
  EXPECT_EQ(pte::io_method_of("input3_scale"), "forward");
  EXPECT_EQ(pte::io_method_of("forward_input3_scale"), "forward");
  EXPECT_EQ(pte::io_method_of("a_output_b_input3_dtype"), "a_output_b");
  for (const char* other :
       {"", "_input3_scale", "decode", "get_max_seq_len", "a_input3", "ainput3_zp"})
    EXPECT_EQ(pte::io_method_of(other), "") << other;
}

// What a file tells is believed only if it is whole and makes sense; without it the program runs.
TEST(IoQuantization, WhatMakesNoSenseIsNotTold) {
  const std::vector<std::byte> good = program_of({codes_plan()});
  const auto told = [](const std::vector<std::byte>& bytes) {
    const auto file = PteFile::parse(bytes, "test.pte");
    EXPECT_TRUE(file) << to_text(file.error());
    if (!file) return true;
    (void)describe_program(*file);
    const auto session = Session::load(bytes, "test.pte");
    EXPECT_TRUE(session) << to_text(session.error());
    const std::vector<int8_t> x(6, 3);
    const Tensor codes = row_of(x);
    const TensorView& input = codes.view();
    EXPECT_TRUE(session && (*session)->run({&input, 1}));
    return file->io_quantization(0, false, 0).has_value();
  };
  const auto scale = [&](double value) { return with_scale(good, "input0_scale", value); };
  const auto number = [&](const char* method, int64_t value) {
    return with_int(good, method, value);
  };
  EXPECT_TRUE(told(good));
  EXPECT_TRUE(told(scale(0.5)));
  EXPECT_TRUE(told(number("input0_zp", kHigh)));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {-0.5, 0.0, std::nan(""), kInfinity, 1e39, 1e-39, 5e-324})
    EXPECT_FALSE(told(scale(value))) << value;
  EXPECT_FALSE(told(number("input0_zp", kHigh + 1)));
  EXPECT_FALSE(told(number("input0_zp", kLow - 1)));
  EXPECT_FALSE(told(number("input0_quant_min", INT64_MIN)));
  EXPECT_FALSE(told(number("input0_quant_max", INT64_MAX)));
  EXPECT_FALSE(told(number("input0_quant_max", kZero - 1)));
  for (const std::string key : {"scale", "zp", "quant_min", "quant_max"}) {
    std::vector<std::byte> bytes = good;
    auto* name = const_cast<uint8_t*>(plan_of(bytes, "input0_" + key).name()->Data());
    name[0] = 'x';
    EXPECT_FALSE(told(with_checksum(std::move(bytes)))) << key;
  }
}

// Codes beyond int8 are of another dtype than the input: values are not taken for them.
TEST(IoQuantization, ARangeBeyondInt8GivesNoCodes) {
  const std::vector<std::byte> bytes =
      with_int(program_of({codes_plan()}), "input0_quant_max", 255);
  const auto session = Session::load(bytes, "test.pte");
  ASSERT_TRUE(session);
  const std::vector<float> x(6, 1.0f);
  const Tensor values = row_of(x);
  const TensorView& input = values.view();
  const auto run = (*session)->run({&input, 1});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().id, DiagnosticId::kRunInput);
}

// Values in float32 become the codes that the formula of deuteron.h gives, halves to even.
TEST(IoQuantization, ValuesBecomeCodes) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Quantization q = Quantization::per_tensor(0.5f, kZero, kLow, kHigh);
  const std::vector<float> x = {0,         0.25f,      0.75f, -0.25f, -0.75f, 0.26f,  1e30f, -1e30f,
                                kInfinity, -kInfinity, kNan,  53.0f,  53.5f,  -47.0f, -47.5f};
  const std::vector<int8_t> want = {-7, -7,   -5, -7, -9, -6,   99,  -101,
                                    99, -101, -7, 99, 99, -101, -101};
  std::vector<int8_t> got(x.size());
  quantize_values<float>(q, x, got);
  EXPECT_EQ(got, want);
  EXPECT_EQ(codes_text(q), "value = 0.5 * (code + 7), codes -101 to 99");
  EXPECT_EQ(codes_text(Quantization::per_tensor(0.5f, 12)), "value = 0.5 * (code - 12)");
}

TEST(IoQuantization, SessionsTakeValuesAndCodes) {
  const auto session = Session::load(program_of({codes_plan()}), "test.pte");
  ASSERT_TRUE(session) << to_text(session.error());
  const std::vector<float> x = {0, 1, -1, 5.5f, 100, -100};
  // nearbyint(x / 0.11) − 7, in −101 … 99
  const std::vector<int8_t> codes = {-7, 2, -16, 43, 99, -101};
  // nearbyint(0.11 · (code + 7) / 0.25)
  const std::vector<int8_t> want = {0, 4, -4, 22, 47, -41};
  for (const Tensor& given : {row_of(x), row_of(codes)}) {
    const TensorView& input = given.view();
    const auto outputs = (*session)->run({&input, 1});
    ASSERT_TRUE(outputs) << to_text(outputs.error());
    const auto got = outputs->front().view().values<int8_t>();
    EXPECT_EQ(std::vector<int8_t>(got.begin(), got.end()), want);
  }
  EXPECT_EQ((*session)->output_type(0).quantization, Quantization::per_tensor(kOutputScale, 0));

  Tensor file(DType::kFloat32, {3, 6});
  for (size_t i = 0; i < 18; ++i) file.values<float>()[i] = x[i % 6];
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", std::move(file)});
  const auto samples = Samples::bind((*session)->signature(), arrays, "x.npz");
  ASSERT_TRUE(samples) << to_text(samples.error());
  ASSERT_EQ(samples->size(), 3u);
  const auto got = samples->inputs(2).front().values<int8_t>();
  EXPECT_EQ(std::vector<int8_t>(got.begin(), got.end()), codes);
}

TEST(IoQuantization, InC) {
  const test::AlignedCopy bytes(program_of({codes_plan("decode"), test::small_plan()}));
  dtr_model model;
  dtr_quantization told{1, 2, 3, 4};
  ASSERT_EQ(
      dtr_load(&model, bytes.bytes().data(), bytes.bytes().size(), dtr_host_environment()).error,
      DTR_OK);
  EXPECT_EQ(dtr_input_quantization(&model, 0, nullptr), 0);
  ASSERT_EQ(dtr_choose_method(&model, "forward").error, DTR_OK);
  EXPECT_EQ(dtr_input_quantization(&model, 0, &told), 0);
  ASSERT_EQ(dtr_choose_method(&model, "decode").error, DTR_OK);
  EXPECT_EQ(dtr_input_quantization(&model, 1, &told), 0);
  EXPECT_EQ(told.zero_point, 2) << "written although nothing is told";
  ASSERT_EQ(dtr_input_quantization(&model, 0, &told), 1);
  EXPECT_EQ(told.scale, kScale);
  EXPECT_EQ(told.zero_point, kZero);
  EXPECT_EQ(told.minimum, kLow);
  EXPECT_EQ(told.maximum, kHigh);
  ASSERT_EQ(dtr_output_quantization(&model, 0, &told), 1);
  EXPECT_EQ(told.scale, kOutputScale);
  EXPECT_EQ(told.maximum, 127);
  dtr_release(&model);
  EXPECT_EQ(dtr_output_quantization(nullptr, 0, &told), 0);
}

}  // namespace
}  // namespace dtr
