// Programs that no compiler makes: their kernels refuse arguments, or run inside of their memory
// and soon. The fuzzer of kernels (test/fuzz/fuzz_kernels.cpp) looks for more of them.
#include <ctime>

#include "device/numerics/mean.h"
#include "device/runtime/environment.h"
#include "test/unit/plan_builder.h"

namespace dtr {
namespace {

using runtime::Error;

constexpr int64_t kCodes = 1;  // PyTorch's number of int8, an argument that the kernels do not read

// One call of a kernel; inputs hold zeros.
class Hostile {
 public:
  explicit Hostile(std::string kernel) : call_{.kernel = std::move(kernel)} {
    plan_.target = "none";
  }

  TensorRef tensor(Shape shape, DType dtype = DType::kInt8, Layout layout = Layout::kContiguous) {
    return plan_.add_tensor({"t" + std::to_string(plan_.tensors.size()),
                             {.dtype = dtype, .shape = std::move(shape), .layout = layout}});
  }
  TensorRef image(Shape shape) {
    return tensor(std::move(shape), DType::kInt8, Layout::kChannelsLast);
  }
  TensorRef input(TensorRef ref) {
    plan_.inputs.push_back(ref);
    return ref;
  }
  template <class T>
  TensorRef constant(Shape shape, DType dtype, const std::vector<T>& values) {
    const TensorRef ref = tensor(std::move(shape), dtype);
    plan_.tensors[ref.index].constant = std::as_bytes(std::span(values));
    return ref;
  }
  TensorRef integers(size_t count, int32_t value) {
    integers_.push_back(std::make_unique<std::vector<int32_t>>(count, value));
    return constant({static_cast<int64_t>(count)}, DType::kInt32, *integers_.back());
  }
  TensorRef bytes(Shape shape) {
    bytes_.push_back(std::make_unique<std::vector<int8_t>>(
        static_cast<size_t>(element_count(shape)), int8_t{1}));
    return constant(std::move(shape), DType::kInt8, *bytes_.back());
  }
  void arguments(std::vector<PlanArgument> arguments) { call_.arguments = std::move(arguments); }
  void outputs(std::vector<TensorRef> outputs) { call_.outputs = std::move(outputs); }

  // `move` changes places in the arena.
  template <class Move>
  Error run(Move move) {
    plan_.outputs = {call_.outputs.back()};
    plan_.calls = {call_};
    EXPECT_TRUE(plan_memory(plan_));
    plan_.arena_bytes += 64;
    move(plan_);
    auto written = serialize_program(plan_);
    EXPECT_TRUE(written);
    if (!written) return Error::kMalformed;
    const test::AlignedCopy program_bytes(written->bytes);
    runtime::Program program;
    runtime::Status status =
        runtime::Program::load(program_bytes.bytes(), dtr_host_environment()->options, &program);
    if (!status.ok()) return status.error;
    test::PreparedMethod method;
    status = method.prepare(program);
    EXPECT_TRUE(status.ok());
    for (size_t i = 0; i < method->input_count(); ++i) {
      const runtime::Tensor& tensor = *method->input_tensor(i);
      const std::vector<std::byte> zeros(tensor.bytes());
      EXPECT_TRUE(method->set_input(i, test::input_like(tensor, zeros)).ok());
    }
    return method->run().error;
  }
  Error run() {
    return run([](MethodPlan&) {});
  }

 private:
  MethodPlan plan_;
  KernelCallPlan call_;
  std::vector<std::unique_ptr<std::vector<int32_t>>> integers_;
  std::vector<std::unique_ptr<std::vector<int8_t>>> bytes_;
};

TEST(HostileKernels, RepeatsWhoseProductWraps) {
  Hostile hostile("aten::repeat.out");
  const TensorRef x = hostile.input(hostile.tensor({3}, DType::kFloat32));
  hostile.arguments({x, Ints{6148914691236517206}});
  hostile.outputs({hostile.tensor({2}, DType::kFloat32)});
  EXPECT_EQ(hostile.run(), Error::kKernelArguments);
}

// Every kernel of windows, on a 3x3 image of four channels: where scratch lies, how it is aligned.
struct Windows {
  Hostile hostile;
  TensorRef in, scratch, out;

  explicit Windows(const std::string& kernel)
      : hostile(kernel), in(hostile.input(hostile.image({1, 4, 3, 3}))) {}

  static Windows convolution() {
    Windows made("cortex_m::quantized_conv2d.out");
    made.scratch = made.hostile.tensor({2 * 2 * 16});
    made.out = made.hostile.image({1, 2, 2, 2});
    made.hostile.arguments({made.in, made.hostile.bytes({2, 2, 2, 4}), std::monostate{}, Ints{1, 1},
                            Ints{0, 0}, Ints{1, 1}, int64_t{3}, int64_t{0},
                            made.hostile.integers(2, 1 << 30), made.hostile.integers(2, -3),
                            int64_t{-128}, int64_t{127}});
    made.hostile.outputs({made.scratch, made.out});
    return made;
  }
  static Windows depthwise(int64_t multiplier = 1) {
    Windows made("cortex_m::quantized_depthwise_conv2d.out");
    made.scratch = made.hostile.tensor({2 * 24});
    made.out = made.hostile.image({1, 4, 2, 2});
    made.hostile.arguments({made.in, made.hostile.bytes({1, 2, 2, 4}), std::monostate{}, Ints{1, 1},
                            Ints{0, 0}, Ints{1, 1}, multiplier, int64_t{3}, int64_t{0},
                            made.hostile.integers(4, 1 << 30), made.hostile.integers(4, -3),
                            int64_t{-128}, int64_t{127}});
    made.hostile.outputs({made.scratch, made.out});
    return made;
  }
  static Windows transposed() {
    Windows made("cortex_m::quantized_transpose_conv2d.out");
    made.scratch = made.hostile.tensor({4 * 2});
    made.out = made.hostile.image({1, 2, 4, 4});
    made.hostile.arguments({made.in, made.hostile.bytes({2, 2, 2, 4}), std::monostate{}, Ints{1, 1},
                            Ints{0, 0}, Ints{0, 0}, Ints{1, 1}, int64_t{3}, int64_t{0},
                            made.hostile.integers(2, 1 << 30), made.hostile.integers(2, -3),
                            int64_t{-128}, int64_t{127}});
    made.hostile.outputs({made.scratch, made.hostile.tensor({0}), made.out});
    return made;
  }
  static Windows pool() {
    Windows made("cortex_m::quantized_avg_pool2d.out");
    made.scratch = made.hostile.tensor({4 * 4});
    made.out = made.hostile.image({1, 4, 2, 2});
    made.hostile.arguments(
        {made.in, Ints{2, 2}, Ints{1, 1}, Ints{0, 0}, int64_t{0}, int64_t{1} << 30, int64_t{0}});
    made.hostile.outputs({made.scratch, made.out});
    return made;
  }
};

constexpr Windows (*kWindows[])() = {Windows::convolution, [] { return Windows::depthwise(); },
                                     Windows::transposed, Windows::pool};

TEST(HostileKernels, ScratchIsAligned) {
  for (const auto make : kWindows) {
    EXPECT_EQ(make().hostile.run(), Error::kOk);
    Windows windows = make();
    // Behind everything else, at an odd place.
    const auto move = [&](MethodPlan& plan) {
      plan.tensors[windows.scratch.index].offset = plan.arena_bytes + 1;
      plan.arena_bytes += 256;
    };
    EXPECT_NE(windows.hostile.run(move), Error::kOk);
  }
}

TEST(HostileKernels, ScratchIsNoOtherTensor) {
  for (const auto make : kWindows) {
    for (const bool is_output : {false, true}) {
      Windows windows = make();
      const auto move = [&](MethodPlan& plan) {
        const int64_t place = (plan.arena_bytes + 15) / 16 * 16;
        plan.tensors[windows.scratch.index].offset = place;
        plan.tensors[(is_output ? windows.out : windows.in).index].offset = place + 4;
        plan.arena_bytes = place + 256;
      };
      EXPECT_EQ(windows.hostile.run(move), Error::kKernelArguments) << is_output;
    }
  }
}

// Multipliers and shifts are checked before the result is written: it may not change them
// afterwards.
TEST(HostileKernels, ResultIsNotItsShifts) {
  Hostile hostile("deuteron::quantized_linear.out");
  const TensorRef x = hostile.input(hostile.tensor({1, 4})),
                  shifts = hostile.input(hostile.tensor({8}, DType::kInt32)),
                  out = hostile.tensor({1, 8});
  hostile.arguments({x, hostile.bytes({8, 4}), std::monostate{}, int64_t{3}, int64_t{0},
                     hostile.integers(8, 1 << 30), shifts, false, int64_t{-128}, int64_t{127}});
  hostile.outputs({out});
  EXPECT_EQ(hostile.run([&](MethodPlan& plan) {
    plan.tensors[out.index].offset = plan.tensors[shifts.index].offset + 8;
  }),
            Error::kKernelArguments);
}

TEST(HostileKernels, DepthMultiplierThatWraps) {
  EXPECT_EQ(Windows::depthwise((int64_t{1} << 62) + 1).hostile.run(), Error::kKernelArguments);
  EXPECT_EQ(Windows::depthwise(0).hostile.run(), Error::kKernelArguments);
}

TEST(HostileKernels, WeightsWithoutOutputs) {
  Hostile hostile("cortex_m::quantized_conv2d.out");
  const TensorRef x = hostile.input(hostile.image({1, 16, 1, 1})),
                  weights = hostile.input(hostile.tensor({0, 16384, 16384, 16}));
  const TensorRef multipliers = hostile.input(hostile.tensor({0}, DType::kInt32)),
                  shifts = hostile.input(hostile.tensor({0}, DType::kInt32));
  hostile.arguments({x, weights, std::monostate{}, Ints{1, 1}, Ints{0, 0}, Ints{1, 1}, int64_t{3},
                     int64_t{0}, multipliers, shifts, int64_t{-128}, int64_t{127}});
  const TensorRef scratch = hostile.tensor({0});
  hostile.outputs({scratch, hostile.image({1, 0, 1, 1})});
  // Refused when it is loaded, or by the kernel, or nothing is computed.
  const Error error = hostile.run();
  EXPECT_TRUE(error == Error::kOk || error == Error::kMalformed ||
              error == Error::kKernelArguments);
}

TEST(HostileKernels, ScaleOfAResizeBeyondIntegers) {
  for (const double scale : {1e-12, 1e-300}) {
    for (const bool bilinear : {false, true}) {
      Hostile hostile(bilinear ? "aten::upsample_bilinear2d.out" : "aten::upsample_nearest2d.out");
      const TensorRef x = hostile.input(hostile.tensor({1, 1, 2, 2}, DType::kFloat32));
      std::vector<PlanArgument> arguments{x, Ints{4, 4}};
      if (bilinear) arguments.emplace_back(false);
      arguments.insert(arguments.end(), {scale, scale});
      hostile.arguments(arguments);
      hostile.outputs({hostile.tensor({1, 1, 4, 4}, DType::kFloat32)});
      EXPECT_EQ(hostile.run(), Error::kOk) << scale;
    }
  }
}

TEST(HostileKernels, PoolOfAnImageWithoutRows) {
  Hostile hostile("deuteron::quantized_adaptive_avg_pool2d.out");
  const TensorRef x = hostile.input(hostile.image({1, 4, 0, 3}));
  hostile.arguments({x, Ints{2, 2}, int64_t{0}, int64_t{1} << 30, int64_t{0}, int64_t{0},
                     int64_t{-128}, int64_t{127}});
  hostile.outputs({hostile.tensor({16}), hostile.image({1, 4, 2, 2})});
  EXPECT_EQ(hostile.run(), Error::kKernelArguments);
}

TEST(HostileKernels, ZeroPointBeyond32Bits) {
  Hostile hostile("quantized_decomposed::dequantize_per_channel.out");
  const TensorRef x = hostile.input(hostile.tensor({2, 3}));
  const std::vector<float> scales{1, 1};
  const std::vector<int64_t> zero_points{0, INT64_MIN};
  hostile.arguments({x, hostile.constant({2}, DType::kFloat32, scales),
                     hostile.constant({2}, DType::kInt64, zero_points), int64_t{0}, int64_t{-128},
                     int64_t{127}, kCodes, std::monostate{}});
  hostile.outputs({hostile.tensor({2, 3}, DType::kFloat32)});
  EXPECT_EQ(hostile.run(), Error::kKernelArguments);
}

TEST(HostileKernels, GroupsOfChannelsThatAreNone) {
  Hostile hostile("aten::native_group_norm.out");
  const TensorRef x = hostile.input(hostile.tensor({4, 0, 3}, DType::kFloat32));
  hostile.arguments({x, std::monostate{}, std::monostate{}, int64_t{4}, int64_t{0}, int64_t{3},
                     int64_t{1} << 62, 1e-5});
  const TensorRef out = hostile.tensor({4, 0, 3}, DType::kFloat32),
                  mean = hostile.tensor({0}, DType::kFloat32);
  hostile.outputs({out, mean, hostile.tensor({0}, DType::kFloat32)});
  EXPECT_EQ(hostile.run(), Error::kKernelArguments);
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TEST(HostileKernels, NothingTakesNoTime) {
  const double start = processor_seconds();
  const int64_t many = 1 << 30;
  {
    Hostile hostile("cortex_m::softmax.out");
    const TensorRef x = hostile.input(hostile.tensor({many, 0}));
    hostile.arguments(
        {x, int64_t{1}, int64_t{0}, int64_t{-128}, int64_t{1} << 30, int64_t{20}, int64_t{-100}});
    hostile.outputs({hostile.tensor({many, 0})});
    EXPECT_EQ(hostile.run(), Error::kOk);
  }
  {
    Hostile hostile("cortex_m::quantized_max_pool2d.out");
    const TensorRef x = hostile.input(hostile.image({many, 0, 1, 1}));
    hostile.arguments({x, Ints{1, 1}, Ints{1, 1}, Ints{0, 0}, Ints{1, 1}, false, int64_t{0},
                       int64_t{0}, int64_t{-128}, int64_t{127}});
    hostile.outputs({hostile.image({many, 0, 1, 1})});
    EXPECT_EQ(hostile.run(), Error::kOk);
  }
  {
    Hostile hostile("aten::mm.out");
    const TensorRef a = hostile.input(hostile.tensor({many / 4, 0}, DType::kFloat32)),
                    b = hostile.input(hostile.tensor({0, 0}, DType::kFloat32));
    hostile.arguments({a, b});
    hostile.outputs({hostile.tensor({many / 4, 0}, DType::kFloat32)});
    EXPECT_EQ(hostile.run(), Error::kOk);
  }
  EXPECT_LT(processor_seconds() - start, 0.5);
}

TEST(HostileKernels, MeanOfTheSmallestMultiplier) {
  for (const int32_t shift : {-31, -30, 0, 30}) {
    for (const int64_t count : {1, 3, 1 << 23}) {
      const numerics::Requantization by =
          numerics::mean_requantization(numerics::Requantization{1 << 29, shift}, count);
      EXPECT_GE(by.shift, -31);
      EXPECT_LE(by.shift, 30);
      EXPECT_GE(by.multiplier, 0);
    }
  }
}

TEST(HostileKernels, StridesOfAnyShapeAreDefined) {
  const int32_t sizes[] = {0, INT32_MAX, INT32_MAX, 5};
  const uint8_t order[] = {0, 1, 2, 3};
  const runtime::Tensor tensor{.sizes = sizes, .dim_order = order, .rank = 4};
  int32_t strides[4] = {};
  runtime::fill_strides(tensor, strides);
  EXPECT_EQ(strides[3], 1);
  EXPECT_EQ(strides[2], 5);
}

}  // namespace
}  // namespace dtr
