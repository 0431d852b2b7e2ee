// Loader and executor: what a program computes, which memory it asks for, and what is refused.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "compiler/ir/npz.h"
#include "device/npu/microcode.h"
#include "device/numerics/crc32.h"
#include "device/pte/program_generated.h"
#include "device/runtime/delegate_deuteron.h"
#include "test/unit/plan_builder.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using runtime::Error;
using runtime::InputTensor;
using runtime::Method;
using runtime::Program;
using runtime::Status;
using test::AlignedCopy;
using test::PreparedMethod;

struct Loaded {
  AlignedCopy bytes{test::small_program()};
  Program program;
  Loaded() { EXPECT_TRUE(test::load(bytes.bytes(), &program).ok()); }
};

std::vector<float> ramp() {
  std::vector<float> x(60);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(i * 7 % 60) - 30) * 0.11f;
  return x;
}

// What small_plan computes, written down once more.
std::vector<float> expected(const std::vector<float>& x) {
  std::vector<float> max(12, -1e9f);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t row = 0; row < 4; ++row) {
      for (size_t column = 0; column < 4; ++column) {  // column 4 is in no window
        const float sum = x[(c * 4 + row) * 5 + column] + static_cast<float>(c + 1);
        const float q =
            std::min(127.0f, std::max(-128.0f, std::nearbyint(sum * (1.0f / 0.05f)) + 3.0f));
        float& at = max[c * 4 + row / 2 * 2 + column / 2];
        at = std::max(at, (q - 3.0f) * 0.05f);
      }
    }
  }
  std::vector<float> y(12);
  for (size_t i = 0; i < 4; ++i) {
    double sum = 0;
    for (size_t c = 0; c < 3; ++c) sum += std::exp(static_cast<double>(max[c * 4 + i]));
    for (size_t c = 0; c < 3; ++c)
      y[c * 4 + i] = static_cast<float>(std::exp(static_cast<double>(max[c * 4 + i])) / sum);
  }
  return y;
}

Status set_input(Method& method, const std::vector<float>& x) {
  return method.set_input(0,
                          test::input_like(*method.input_tensor(0), std::as_bytes(std::span(x))));
}

TEST(Runtime, RunsAProgramOfKernels) {
  Loaded loaded;
  PreparedMethod method;
  ASSERT_TRUE(method.prepare(loaded.program).ok());
  EXPECT_EQ(method->input_count(), 1u);
  EXPECT_EQ(method->output_count(), 1u);
  for (const float offset : {0.0f, 0.5f}) {  // twice, in the same memory
    std::vector<float> x = ramp();
    for (float& value : x) value += offset;
    ASSERT_TRUE(set_input(*method, x).ok());
    ASSERT_TRUE(method->run().ok());
    const std::vector<float> y = expected(x);
    const runtime::Tensor& got = *method->output_tensor(0);
    ASSERT_EQ(got.elements(), y.size());
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(got.values<float>()[i], y[i], 1e-6f) << i;
  }
}

TEST(Runtime, ObserverSeesEveryInstruction) {
  Loaded loaded;
  PreparedMethod method;
  ASSERT_TRUE(method.prepare(loaded.program).ok());
  ASSERT_TRUE(set_input(*method, ramp()).ok());
  std::vector<int> seen;
  const runtime::Observer observer{
      .context = &seen,
      .before =
          [](void* context, const Method&, uint32_t i) {
            static_cast<std::vector<int>*>(context)->push_back(static_cast<int>(i));
            return true;
          },
      .after =
          [](void* context, const Method&, uint32_t i) {
            static_cast<std::vector<int>*>(context)->push_back(-static_cast<int>(i));
          }};
  ASSERT_TRUE(method->run(&observer).ok());
  EXPECT_EQ(seen, (std::vector<int>{0, 0, 1, -1, 2, -2, 3, -3, 4, -4}));
}

TEST(Runtime, AsksForExactlyTheMemoryItUses) {
  Loaded loaded;
  Method::Requirements need;
  ASSERT_TRUE(Method::requirements(loaded.program, "forward", &need).ok());
  ASSERT_EQ(need.memories, 1u);
  MethodPlan plan = test::small_plan();
  ASSERT_TRUE(plan_memory(plan));
  EXPECT_EQ(need.memory_bytes(0), static_cast<size_t>(plan.arena_bytes));

  const AlignedCopy state(need.state_bytes + 16);
  const AlignedCopy arena(need.memory_bytes(0) + 16);
  Method method;
  const auto prepare = [&](size_t state_at, size_t state_bytes, size_t arena_at,
                           size_t arena_bytes) {
    const std::span<std::byte> memory = arena.bytes().subspan(arena_at, arena_bytes);
    return method.prepare(loaded.program, "forward", state.bytes().subspan(state_at, state_bytes),
                          {&memory, 1});
  };
  EXPECT_TRUE(prepare(0, need.state_bytes, 0, need.memory_bytes(0)).ok());
  Status status = prepare(0, need.state_bytes - 1, 0, need.memory_bytes(0));
  EXPECT_EQ(status.error, Error::kArenaTooSmall);
  EXPECT_EQ(status.index, UINT32_MAX);
  EXPECT_EQ(status.detail, need.state_bytes);
  status = prepare(0, need.state_bytes, 0, need.memory_bytes(0) - 1);
  EXPECT_EQ(status.error, Error::kArenaTooSmall);
  EXPECT_EQ(status.index, 0u);
  EXPECT_EQ(prepare(8, need.state_bytes, 0, need.memory_bytes(0)).error, Error::kArenaMisaligned);
  EXPECT_EQ(prepare(0, need.state_bytes, 4, need.memory_bytes(0)).error, Error::kArenaMisaligned);
  EXPECT_EQ(method.prepare(loaded.program, "forward", state.bytes(), {}).error,
            Error::kArenaTooSmall);
  EXPECT_EQ(method.prepare(loaded.program, "backward", state.bytes(), {}).error,
            Error::kMissingMethod);
  EXPECT_EQ(method.run().error, Error::kNotPrepared);
}

// A tensor of no elements is planned in a memory of no bytes: the list must have it all the same.
TEST(Runtime, MemoriesOfNoBytesAreAskedForToo) {
  MethodPlan plan{.target = "none", .tool = "test"};
  const TensorRef x = plan.add_tensor({"x", {.shape = {0}}});
  const TensorRef y = plan.add_tensor({"y", {.shape = {0}}});
  plan.calls.emplace_back(KernelCallPlan{"aten::relu.out", {x}, {y}, {}});
  plan.inputs = {x};
  plan.outputs = {y};
  ASSERT_TRUE(plan_memory(plan));
  const auto written = serialize_program(plan);
  ASSERT_TRUE(written);
  const AlignedCopy bytes(written->bytes);
  Program program;
  ASSERT_TRUE(test::load(bytes.bytes(), &program).ok());
  Method::Requirements need;
  ASSERT_TRUE(Method::requirements(program, "forward", &need).ok());
  ASSERT_EQ(need.memories, 1u);
  ASSERT_EQ(need.memory_bytes(0), 0u);

  const AlignedCopy state(need.state_bytes);
  Method method;
  const Status status = method.prepare(program, "forward", state.bytes(), {});
  EXPECT_EQ(status.error, Error::kArenaTooSmall);
  EXPECT_EQ(status.index, 0u);
  const std::span<std::byte> none;
  EXPECT_TRUE(method.prepare(program, "forward", state.bytes(), {&none, 1}).ok());
}

TEST(Runtime, RefusesInputsThatDiffer) {
  Loaded loaded;
  PreparedMethod method;
  ASSERT_TRUE(method.prepare(loaded.program).ok());
  const std::vector<float> x = ramp();
  const InputTensor good = test::input_like(*method->input_tensor(0), std::as_bytes(std::span(x)));
  const auto refused = [&](auto change) {
    InputTensor input = good;
    change(input);
    return method->set_input(0, input).error;
  };
  const int32_t transposed[] = {1, 4, 3, 5};
  const int32_t flat[] = {60};
  const uint8_t channels_last[] = {0, 2, 3, 1};
  const uint8_t flat_order[] = {0};
  const uint8_t outside[] = {0, 1, 2, 9}, behind[] = {0, 1, 2, 4};
  EXPECT_EQ(refused([](InputTensor&) {}), Error::kOk);
  EXPECT_EQ(refused([](InputTensor& input) { input.dtype = ScalarType::kInt; }),
            Error::kInputDtype);
  EXPECT_EQ(refused([&](InputTensor& input) { input.sizes = transposed; }), Error::kInputShape);
  EXPECT_EQ(refused([&](InputTensor& input) { input.sizes = flat, input.dim_order = flat_order; }),
            Error::kInputShape);
  EXPECT_EQ(refused([&](InputTensor& input) { input.dim_order = channels_last; }),
            Error::kInputDimOrder);
  EXPECT_EQ(refused([&](InputTensor& input) { input.dim_order = flat_order; }),
            Error::kInputDimOrder);
  EXPECT_EQ(refused([&](InputTensor& input) { input.dim_order = outside; }), Error::kInputDimOrder);
  EXPECT_EQ(refused([&](InputTensor& input) { input.dim_order = behind; }), Error::kInputDimOrder);
  EXPECT_EQ(refused([](InputTensor& input) { input.bytes -= 1; }), Error::kInputSize);
  EXPECT_EQ(refused([](InputTensor& input) { input.bytes += 4; }),
            Error::kInputSize);  // would be copied over what is behind it
  EXPECT_EQ(method->set_input(1, good).error, Error::kNoSuchTensor);
  EXPECT_EQ(method->set_output_memory(0, {}).error, Error::kNoSuchTensor);  // the program plans it
  EXPECT_EQ(method->output_tensor(1), nullptr);
}

TEST(Runtime, InputsAreConsumedByEachRun) {
  Loaded loaded;
  PreparedMethod method;
  ASSERT_TRUE(method.prepare(loaded.program).ok());
  EXPECT_EQ(method->run().error, Error::kInputNotSet);
  ASSERT_TRUE(set_input(*method, ramp()).ok());
  EXPECT_TRUE(method->run().ok());
  EXPECT_EQ(method->run().error, Error::kInputNotSet);
}

TEST(Runtime, NamesAllThatIsMissing) {
  const AlignedCopy bytes(test::small_program());
  std::vector<std::string> missing;
  const auto note = [](void* context, Error, std::string_view name, std::string_view overload) {
    static_cast<std::vector<std::string>*>(context)->push_back(std::string(name) + "." +
                                                               std::string(overload));
  };
  Program program;
  std::vector<runtime::Kernel> known;
  for (const runtime::Kernel& kernel : runtime::portable::kernels())
    if (kernel.name == "aten::_softmax.out" || kernel.name == "aten::add.out")
      known.push_back(kernel);
  const runtime::LoadOptions options{.kernels = known, .on_missing = note, .context = &missing};
  const Status status = Program::load(bytes.bytes(), options, &program);
  EXPECT_EQ(status.error, Error::kMissingKernel);
  EXPECT_EQ(missing, (std::vector<std::string>{"quantized_decomposed::quantize_per_tensor.out",
                                               "quantized_decomposed::dequantize_per_tensor.out",
                                               "aten::max_pool2d_with_indices.out"}));
}

// ---- Delegates ----

struct FakeDelegate {
  int prepared = 0, released = 0, runs = 0;
  Error refuse = Error::kOk;
  npu::Status fail = npu::Status::kOk;

  runtime::Delegate entry() {
    return {
        .id = "Fake",
        .context = this,
        .state_bytes = 24,
        .prepare = [](void* context, void* state, std::span<const std::byte> payload) -> Status {
          auto& self = *static_cast<FakeDelegate*>(context);
          if (self.refuse != Error::kOk) return {self.refuse, 0, 77};
          ++self.prepared;
          std::memset(state, static_cast<int>(payload[0]), 24);
          return {};
        },
        .run = [](void* context, void* state,
                  std::span<runtime::Value* const> arguments) -> Status {
          auto& self = *static_cast<FakeDelegate*>(context);
          if (self.fail != npu::Status::kOk)
            return {Error::kDelegateFailed, 0, static_cast<uint32_t>(self.fail)};
          ++self.runs;
          const runtime::Tensor& y = arguments[1]->tensor;
          std::memset(y.data, *static_cast<const char*>(state), y.bytes());
          return {};
        },
        .release = [](void* context, void*) { ++static_cast<FakeDelegate*>(context)->released; }};
  }
};

// A driver that takes every payload and counts its runs.
struct FakeDriver {
  int runs = 0;
  npu::Driver driver() {
    return {.context = this,
            .prepare = [](void*, const void*, size_t, uint32_t*) { return npu::Status::kOk; },
            .run = [](void* context, uint32_t, const npu::Buffer*, uint32_t, npu::Buffer,
                      void (*)(void*, const npu::Event&), void*) -> npu::Report {
              ++static_cast<FakeDriver*>(context)->runs;
              return {};
            },
            .unprepare = [](void*, uint32_t) {}};
  }
};

// Outputs and scratch are tensors that may be written, inputs need not be; what is no tensor is no
// operand.
TEST(DeuteronDelegate, WritesOnlyWhereItMay) {
  FakeDriver fake;
  runtime::DeuteronContext context{.driver = fake.driver()};
  const runtime::Delegate delegate = runtime::deuteron_delegate(context);
  struct alignas(16) Payload {
    npu::Header header{};
    npu::Operand table[2] = {{npu::OperandKind::kInput, 16}, {npu::OperandKind::kOutput, 16}};
  } payload;
  payload.header.operand_count = 2;
  alignas(16) std::byte state[runtime::kDeuteronStateBytes], memory[16];
  ASSERT_TRUE(
      delegate.prepare(delegate.context, state, std::as_bytes(std::span(&payload, 1))).ok());
  const auto run = [&](std::array<bool, 3> writable,
                       runtime::ValueKind kind = runtime::ValueKind::kTensor) {
    runtime::Value values[3];
    runtime::Value* arguments[3];
    for (size_t i = 0; i < 3; ++i) {
      values[i].kind = kind;
      values[i].tensor = {};
      values[i].tensor.data = memory;
      values[i].tensor.writable = writable[i];
      arguments[i] = &values[i];
    }
    return delegate.run(delegate.context, state, std::span<runtime::Value* const>(arguments));
  };
  EXPECT_TRUE(run({false, true, true}).ok());
  EXPECT_TRUE(run({true, true, true}).ok());
  EXPECT_EQ(fake.runs, 2);
  for (const Status& refused : {run({true, false, true}), run({true, true, false}),
                                run({true, true, true}, runtime::ValueKind::kInt)}) {
    EXPECT_EQ(refused.error, Error::kDelegateFailed);
    EXPECT_EQ(refused.detail, static_cast<uint32_t>(npu::Status::kBadOperand));
  }
  EXPECT_EQ(fake.runs, 2);
}

// The payload names one input and one output; the scratch makes three operands.
TEST(DeuteronDelegate, TakesTheOperandsOfItsPayloadAligned) {
  FakeDriver fake;
  runtime::DeuteronContext context{.driver = fake.driver()};
  const runtime::Delegate delegate = runtime::deuteron_delegate(context);
  struct alignas(16) Payload {
    npu::Header header{};
    npu::Operand table[2] = {{npu::OperandKind::kInput, 16}, {npu::OperandKind::kOutput, 16}};
  } payload;
  payload.header.operand_count = 2;
  alignas(16) std::byte state[runtime::kDeuteronStateBytes], memory[32];
  ASSERT_TRUE(
      delegate.prepare(delegate.context, state, std::as_bytes(std::span(&payload, 1))).ok());
  const auto run = [&](size_t count, size_t at = 0) {
    runtime::Value values[4];
    runtime::Value* arguments[4];
    for (size_t i = 0; i < 4; ++i) {
      values[i].kind = runtime::ValueKind::kTensor;
      values[i].tensor = {};
      values[i].tensor.data = memory + at;
      values[i].tensor.writable = true;
      arguments[i] = &values[i];
    }
    return delegate.run(delegate.context, state,
                        std::span<runtime::Value* const>(arguments).first(count));
  };
  EXPECT_TRUE(run(3).ok());
  for (const size_t count : {size_t{0}, size_t{2}, size_t{4}}) {
    EXPECT_EQ(run(count).error, Error::kDelegateFailed) << count;
    EXPECT_EQ(run(count).detail, static_cast<uint32_t>(npu::Status::kBadOperand)) << count;
  }
  EXPECT_EQ(run(3, 8).error, Error::kDelegateFailed);
  EXPECT_EQ(run(3, 8).detail, static_cast<uint32_t>(npu::Status::kMisaligned));
  EXPECT_EQ(fake.runs, 1);
}

std::vector<std::byte> delegate_program(std::string id, std::vector<std::byte> payload,
                                        uint32_t target_hash) {
  MethodPlan plan{.target = "somewhere", .target_hash = target_hash};
  const Type type{.dtype = DType::kInt8, .shape = {2, 3}};
  const TensorRef x = plan.add_tensor({"x", type});
  const TensorRef y = plan.add_tensor({"y", type});
  plan.inputs = {x};
  plan.outputs = {y};
  plan.calls.emplace_back(DelegateCallPlan{
      .delegate_id = std::move(id), .inputs = {x}, .outputs = {y}, .payload = std::move(payload)});
  EXPECT_TRUE(plan_memory(plan));
  return serialize_program(plan)->bytes;
}

TEST(Runtime, DelegatesArePreparedRunAndReleased) {
  const AlignedCopy bytes(delegate_program("Fake", {std::byte{5}}, 0));
  FakeDelegate fake;
  const runtime::Delegate table[] = {fake.entry()};
  Program program;
  EXPECT_EQ(test::load(bytes.bytes(), &program).error, Error::kMissingDelegate);
  ASSERT_TRUE(Program::load(bytes.bytes(), {.delegates = table}, &program).ok());
  {
    PreparedMethod method;
    ASSERT_TRUE(method.prepare(program).ok());
    const int8_t x[6] = {};
    ASSERT_TRUE(
        method
            ->set_input(0, test::input_like(*method->input_tensor(0), std::as_bytes(std::span(x))))
            .ok());
    ASSERT_TRUE(method->run().ok());
    EXPECT_EQ(method->output_tensor(0)->values<int8_t>()[5], 5);
    EXPECT_EQ(fake.released, 0);
  }
  EXPECT_EQ(fake.prepared, 1);
  EXPECT_EQ(fake.runs, 1);
  EXPECT_EQ(fake.released, 1);

  fake.refuse = Error::kDelegateRefused;
  PreparedMethod method;
  const Status status = method.prepare(program);
  EXPECT_EQ(status.error, Error::kDelegateRefused);
  EXPECT_EQ(status.detail, 77u);
  EXPECT_EQ(status.name, "Fake");
  EXPECT_EQ(fake.released, 1);
}

TEST(Runtime, ADelegateThatTimesOutRunsAgain) {
  const AlignedCopy bytes(delegate_program("Fake", {std::byte{5}}, 0));
  FakeDelegate fake;
  const runtime::Delegate table[] = {fake.entry()};
  Program program;
  ASSERT_TRUE(Program::load(bytes.bytes(), {.delegates = table}, &program).ok());
  PreparedMethod method;
  ASSERT_TRUE(method.prepare(program).ok());
  const int8_t x[6] = {};
  const auto run = [&] {
    EXPECT_TRUE(
        method
            ->set_input(0, test::input_like(*method->input_tensor(0), std::as_bytes(std::span(x))))
            .ok());
    return method->run();
  };
  fake.fail = npu::Status::kTimeout;
  const Status status = run();
  EXPECT_EQ(status.error, Error::kDelegateFailed);
  EXPECT_EQ(status.detail, static_cast<uint32_t>(npu::Status::kTimeout));
  EXPECT_EQ(status.name, "Fake");
  EXPECT_EQ(method->run().error, Error::kInputNotSet);
  fake.fail = npu::Status::kOk;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(method->output_tensor(0)->values<int8_t>()[5], 5);
}

TEST(Runtime, RefusesAnotherTarget) {
  const AlignedCopy bytes(delegate_program("Fake", {std::byte{5}}, 0xABCD));
  FakeDelegate fake;
  const runtime::Delegate table[] = {fake.entry()};
  Program program;
  const Status status =
      Program::load(bytes.bytes(), {.delegates = table, .target_hash = 0xABCE}, &program);
  EXPECT_EQ(status.error, Error::kWrongTarget);
  EXPECT_EQ(status.detail, 0xABCDu);
  EXPECT_EQ(status.name, "somewhere");
  EXPECT_TRUE(
      Program::load(bytes.bytes(), {.delegates = table, .target_hash = 0xABCD}, &program).ok());
}

// ---- ExecuTorch's own files ----

// A program that ExecuTorch's exporter wrote (test/data/pte/make_upstream.py), against what its
// runtime computed.
TEST(Runtime, RunsWhatExecuTorchWrites) {
  const std::string folder = test::source_path("test/data/pte/").string();
  const auto file = FileContents::read(folder + "upstream.pte");
  const auto tensors = read_npz(folder + "upstream.npz");
  ASSERT_TRUE(file && tensors);
  Program program;
  ASSERT_TRUE(test::load(file->bytes(), &program).ok());
  EXPECT_EQ(program.file().checksum(), pte::VerifiedFile::Checksum::kAbsent);
  EXPECT_EQ(program.file().manifest(), nullptr);
  PreparedMethod method;
  ASSERT_TRUE(method.prepare(program).ok());
  const size_t inputs = method->input_count();
  ASSERT_EQ(inputs + method->output_count(), tensors->size());
  for (size_t i = 0; i < inputs; ++i) {
    const runtime::InputTensor input =
        test::input_like(*method->input_tensor(i), (*tensors)[i].tensor.bytes());
    ASSERT_TRUE(method->set_input(i, input).ok()) << (*tensors)[i].name;
  }
  const Status status = method->run();
  ASSERT_TRUE(status.ok()) << pte::text(status.error) << " " << status.name;
  for (size_t i = 0; i < method->output_count(); ++i) {
    const auto wanted = (*tensors)[inputs + i].tensor.values<float>();
    const runtime::Tensor& got = *method->output_tensor(i);
    ASSERT_EQ(got.elements(), wanted.size());
    for (size_t k = 0; k < wanted.size(); ++k)
      EXPECT_NEAR(got.values<float>()[k], wanted[k], 1e-6f) << i << " " << k;
  }
}

// ---- Bad files ----

TEST(Runtime, RefusesMisalignedPrograms) {
  const std::vector<std::byte> bytes = test::small_program();
  const AlignedCopy room(bytes.size() + 16);
  std::ranges::copy(bytes, room.bytes().begin() + 4);
  Program program;
  EXPECT_EQ(test::load(room.bytes().subspan(4, bytes.size()), &program).error, Error::kMisaligned);
}

// Runs a program that may be damaged; the bytes of its first output if everything succeeds.
std::optional<std::vector<std::byte>> try_run(std::span<const std::byte> bytes,
                                              bool check_checksum) {
  Program program;
  if (!Program::load(bytes,
                     {.kernels = runtime::portable::kernels(),
                      .checksum = check_checksum ? crc32_with_hole : nullptr},
                     &program)
           .ok())
    return std::nullopt;
  if (program.method_count() == 0) return std::nullopt;
  Method::Requirements need;
  if (!Method::requirements(program, program.method_name(0), &need).ok()) return std::nullopt;
  for (uint32_t i = 0; i < need.memories; ++i) {
    if (need.memory_bytes(i) > (1u << 20)) return std::nullopt;  // the caller refuses
  }
  PreparedMethod method;
  if (!method.prepare(program, program.method_name(0)).ok()) return std::nullopt;
  const std::vector<float> x = ramp();
  const runtime::Tensor* input = method->input_tensor(0);
  if (input == nullptr ||
      !method->set_input(0, test::input_like(*input, std::as_bytes(std::span(x)))).ok())
    return std::nullopt;
  if (!method->run().ok()) return std::nullopt;
  const runtime::Tensor* y = method->output_tensor(0);
  if (y == nullptr) return std::nullopt;
  return std::vector<std::byte>(y->data, y->data + y->bytes());
}

TEST(Runtime, EveryFlippedBitIsFoundOrHarmless) {
  MethodPlan plan = test::small_plan();
  ASSERT_TRUE(plan_memory(plan));
  const std::vector<std::byte> good = serialize_program(plan, {.debug_map = false})->bytes;
  const AlignedCopy bytes(good);
  const auto wanted = try_run(bytes.bytes(), true);
  ASSERT_TRUE(wanted);
  size_t harmless = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes.bytes()[i] ^= static_cast<std::byte>(1 << bit);
      // With the checksum: refused, unless the flip hides the checksum itself, which changes
      // nothing else.
      if (const auto got = try_run(bytes.bytes(), true)) {
        EXPECT_EQ(*got, *wanted) << "byte " << i << " bit " << bit;
        ++harmless;
      }
      // Without: whatever comes, nothing is touched that should not be (the sanitizers watch).
      (void)try_run(bytes.bytes(), false);
      bytes.bytes()[i] = good[i];
    }
  }
  EXPECT_LT(harmless, good.size() * 8 / 20);
}

// A good program of which one number of each tensor is changed; no checksum finds it. `change`
// returns whether it did.
template <class Change>
std::vector<Error> errors_of_changed_tensors(Change change) {
  std::vector<Error> errors;
  const std::vector<std::byte> good = test::small_program();
  for (uint32_t index = 0;; ++index) {
    const AlignedCopy bytes(good);
    const auto& plan =
        *flatbuffers::GetRoot<pte::Program>(bytes.bytes().data())->execution_plan()->Get(0);
    if (index == plan.values()->size()) return errors;
    const auto* tensor = plan.values()->Get(index)->val_as_Tensor();
    if (tensor == nullptr || !change(plan, *tensor)) continue;
    Program program;
    errors.push_back(Program::load(bytes.bytes(),
                                   {.kernels = runtime::portable::kernels(), .checksum = nullptr},
                                   &program)
                         .error);
  }
}
template <class T>
T* entries(const flatbuffers::Vector<T>* vector) {
  return const_cast<T*>(vector->data());
}

TEST(Runtime, RefusesTensorsThatReachBeyondTheirMemory) {
  // As large as its memory allows at offset 0, four bytes more than that at its own.
  const auto planned = errors_of_changed_tensors([](const pte::ExecutionPlan& plan,
                                                    const pte::Tensor& tensor) {
    const pte::AllocationDetails* at = tensor.allocation_info();
    if (at == nullptr || at->memory_offset_low() < 4 ||
        tensor.scalar_type() != pte::ScalarType::Float)
      return false;
    int32_t* sizes = entries(tensor.sizes());
    std::fill_n(sizes, tensor.sizes()->size(), 1);
    sizes[0] = static_cast<int32_t>(
        (plan.non_const_buffer_sizes()->Get(at->memory_id()) - at->memory_offset_low()) / 4 + 1);
    return true;
  });
  EXPECT_GE(planned.size(), 2U);
  for (const Error error : planned) EXPECT_EQ(error, Error::kMalformed);
  const auto constants =
      errors_of_changed_tensors([](const pte::ExecutionPlan&, const pte::Tensor& tensor) {
        if (tensor.data_buffer_idx() == 0) return false;
        entries(tensor.sizes())[0] = 1'000'000;
        return true;
      });
  EXPECT_EQ(constants, std::vector{Error::kMalformed});
}

TEST(Runtime, RefusesDimOrdersThatNameADimensionTwice) {
  const auto errors =
      errors_of_changed_tensors([](const pte::ExecutionPlan&, const pte::Tensor& tensor) {
        uint8_t* order = entries(tensor.dim_order());
        order[0] = order[1];
        return true;
      });
  EXPECT_EQ(errors.size(), 8U);
  for (const Error error : errors) EXPECT_EQ(error, Error::kMalformed);
}

// States may share an initial value: here `sharing` of 64, each of 16,384 bytes, and the others of
// 256. What is copied is at most 16 times the file.
TEST(Runtime, InitialValuesAreBoundedByTheFile) {
  constexpr size_t kStates = 64, kBytes = 256;
  const auto prepared = [&](size_t sharing, size_t& file_bytes) {
    const std::vector<std::byte> initial(kBytes, std::byte{1});
    MethodPlan plan = test::small_plan();
    for (size_t i = 0; i < kStates; ++i)
      plan.outputs.push_back(
          plan.add_tensor({.name = "state" + std::to_string(i),
                           .type = {.dtype = DType::kInt8, .shape = {int64_t{kBytes}}},
                           .initial_state = initial}));
    EXPECT_TRUE(plan_memory(plan));
    plan.state_bytes = int64_t{1} << 20;  // room for the larger ones
    std::vector<std::byte> bytes = serialize_program(plan)->bytes;
    file_bytes = bytes.size();
    const pte::Program& written = *pte::GetProgram(bytes.data());
    const auto replace = [&](const void* at, const auto& value) {
      std::memcpy(bytes.data() + (static_cast<const std::byte*>(at) - bytes.data()), &value,
                  sizeof value);
    };
    const auto& offsets = *written.mutable_data_segments()->Get(0)->offsets();
    size_t found = 0;
    for (const pte::EValue* value : *written.execution_plan()->Get(0)->values()) {
      const pte::Tensor* tensor = value->val_as_Tensor();
      if (tensor == nullptr || tensor->allocation_info() == nullptr ||
          tensor->data_buffer_idx() == 0 || found++ >= sharing)
        continue;
      replace(tensor->sizes()->data(), static_cast<int32_t>(kStates * kBytes));
      replace(offsets.data() + tensor->data_buffer_idx(), uint64_t{0});
    }
    EXPECT_GE(found, sharing);
    const AlignedCopy copy(bytes);
    Program program;
    EXPECT_TRUE(Program::load(copy.bytes(),
                              {.kernels = runtime::portable::kernels(), .checksum = nullptr},
                              &program)
                    .ok());
    return PreparedMethod().prepare(program).error;
  };
  size_t bytes = 0;
  EXPECT_EQ(prepared(0, bytes), Error::kOk);
  EXPECT_EQ(prepared(8, bytes), Error::kOk);
  const size_t most = 16 * bytes / (kStates * kBytes);
  ASSERT_LT(most, kStates - 2);
  EXPECT_EQ(prepared(most - 1, bytes), Error::kOk);
  EXPECT_EQ(prepared(most + 1, bytes), Error::kMalformed);
  EXPECT_EQ(prepared(kStates, bytes), Error::kMalformed);
}

TEST(Runtime, EveryTruncationIsRefused) {
  const std::vector<std::byte> good = test::small_program();
  for (size_t size = 0; size < good.size(); ++size) {
    const std::span<const std::byte> all(good);
    const AlignedCopy bytes(all.first(size));
    Program program;
    EXPECT_FALSE(Program::load(bytes.bytes(),
                               {.kernels = runtime::portable::kernels(), .checksum = nullptr},
                               &program)
                     .ok())
        << size;
  }
}

// The shapes that files may have and this runtime does not do.
TEST(Runtime, RefusesControlFlowAndForeignMemory) {
  using namespace pte;  // NOLINT(google-build-using-namespace): the schema's words
  const auto file_with = [](auto add_instruction, uint32_t buffer, bool planned) {
    flatbuffers::FlatBufferBuilder b;
    const std::vector<int32_t> sizes{2};
    const std::vector<uint8_t> order{0};
    const std::vector<int32_t> none;
    const auto tensor = CreateTensorDirect(b, pte::ScalarType::Float, 0, &sizes, &order, buffer,
                                           planned ? CreateAllocationDetails(b, 1, 0, 0) : 0);
    const std::vector values{CreateEValue(b, KernelTypes::Tensor, tensor.Union())};
    const std::vector instructions{add_instruction(b)};
    const std::vector chains{CreateChainDirect(b, &none, &none, &instructions)};
    const std::vector operators{CreateOperatorDirect(b, "aten::relu", "out")};
    const std::vector<int64_t> memories{0, 64};
    const std::vector plans{CreateExecutionPlanDirect(b, "forward", 0, &values, &none, &none,
                                                      &chains, &operators, nullptr, &memories)};
    FinishProgramBuffer(b, CreateProgramDirect(b, 0, &plans));
    const AlignedCopy bytes(
        {reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()});
    runtime::Program program;
    return test::load(bytes.bytes(), &program).error;
  };
  const auto kernel = [](flatbuffers::FlatBufferBuilder& b) {
    const std::vector<int32_t> args{0, 0, 0};
    return CreateInstruction(b, InstructionArguments::KernelCall,
                             CreateKernelCallDirect(b, 0, &args).Union());
  };
  const auto bad_index = [](flatbuffers::FlatBufferBuilder& b) {
    const std::vector<int32_t> args{0, 7};
    return CreateInstruction(b, InstructionArguments::KernelCall,
                             CreateKernelCallDirect(b, 0, &args).Union());
  };
  const auto jump = [](flatbuffers::FlatBufferBuilder& b) {
    return CreateInstruction(b, InstructionArguments::JumpFalseCall,
                             CreateJumpFalseCall(b).Union());
  };
  EXPECT_EQ(file_with(kernel, 0, true), Error::kOk);
  EXPECT_EQ(file_with(jump, 0, true), Error::kUnsupported);
  EXPECT_EQ(file_with(bad_index, 0, true), Error::kMalformed);
  EXPECT_EQ(file_with(kernel, 0, false), Error::kUnsupported);  // memory that nobody gives
  EXPECT_EQ(file_with(kernel, 3, false), Error::kMalformed);    // a constant that is not there
  // A state, whose initial value is looked for when the method is prepared.
  EXPECT_EQ(file_with(kernel, 3, true), Error::kOk);
}

}  // namespace
}  // namespace dtr
