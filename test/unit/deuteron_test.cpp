// The C API: the same answers as the C++ API, what it refuses, and that a model can be used after
// every error. Two models in one memory.
#include "device/runtime/deuteron.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <optional>
#include <string>

#include "compiler/ir/npz.h"
#include "compiler/support/file_contents.h"
#include "device/npu/profile.h"
#include "device/runtime/environment.h"
#include "test/unit/plan_builder.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using test::AlignedCopy;

dtr_memory memory_of(std::span<std::byte> bytes) { return {bytes.data(), bytes.size()}; }

std::vector<float> ramp(float offset) {
  std::vector<float> x(60);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(i * 7 % 60) - 30) * 0.11f + offset;
  return x;
}

// A small program in its own memory, or in that of another model.
class InC : public testing::Test {
 protected:
  struct Model {
    explicit Model(const std::vector<std::byte>& program) : bytes(program) {
      EXPECT_EQ(
          dtr_load(&handle, bytes.bytes().data(), bytes.bytes().size(), dtr_host_environment())
              .error,
          DTR_OK);
      EXPECT_EQ(dtr_requirements_of(&handle, &need).error, DTR_OK);
      EXPECT_EQ(need.memory_count, 1u);
      state.emplace(need.state_bytes);
    }
    ~Model() { dtr_release(&handle); }

    size_t arena_bytes() const { return static_cast<size_t>(need.memory_bytes[0]); }
    dtr_status prepare(std::span<std::byte> arena) {
      const dtr_memory memory = memory_of(arena);
      return dtr_prepare(&handle, memory_of(state->bytes()), &memory, 1);
    }
    dtr_tensor input() const {
      dtr_tensor tensor{};
      EXPECT_EQ(dtr_input(&handle, 0, &tensor).error, DTR_OK);
      return tensor;
    }
    dtr_status set(const std::vector<float>& x) {
      dtr_tensor tensor = input();
      tensor.data = const_cast<float*>(x.data());
      return dtr_set_input(&handle, 0, &tensor);
    }
    std::vector<float> output() const {
      dtr_tensor tensor{};
      EXPECT_EQ(dtr_output(&handle, 0, &tensor).error, DTR_OK);
      const auto* values = static_cast<const float*>(tensor.data);
      return {values, values + tensor.bytes / sizeof(float)};
    }
    std::vector<float> run(float offset) {
      EXPECT_EQ(set(ramp(offset)).error, DTR_OK);
      EXPECT_EQ(dtr_run(&handle, nullptr).error, DTR_OK);
      return output();
    }

    AlignedCopy bytes;
    dtr_model handle;
    dtr_requirements need{};
    std::optional<AlignedCopy> state;
  };

  // What the C++ API computes.
  static std::vector<float> judge(const std::vector<std::byte>& program_bytes, float offset) {
    const AlignedCopy bytes(program_bytes);
    runtime::Program program;
    EXPECT_TRUE(test::load(bytes.bytes(), &program).ok());
    test::PreparedMethod method;
    EXPECT_TRUE(method.prepare(program).ok());
    const std::vector<float> x = ramp(offset);
    EXPECT_TRUE(
        method
            ->set_input(0, test::input_like(*method->input_tensor(0), std::as_bytes(std::span(x))))
            .ok());
    EXPECT_TRUE(method->run().ok());
    const runtime::Tensor& y = *method->output_tensor(0);
    return {y.values<float>(), y.values<float>() + y.elements()};
  }

  // Another program of the same signature: softmax(x + bias) over rows, in less memory.
  static std::vector<std::byte> other_program() {
    MethodPlan plan{.target = "none", .tool = "test"};
    const Type image{.shape = {1, 3, 4, 5}};
    const TensorRef x = plan.add_tensor({"x", image});
    const TensorRef y = plan.add_tensor({"y", image});
    plan.calls.emplace_back(KernelCallPlan{"aten::_softmax.out", {x, int64_t{3}, false}, {y}, {}});
    plan.inputs = {x};
    plan.outputs = {y};
    EXPECT_TRUE(plan_memory(plan));
    return serialize_program(plan)->bytes;
  }

  const std::vector<std::byte> program_ = test::small_program();
};

TEST_F(InC, ComputesWhatTheCppApiDoes) {
  Model model(program_);
  const AlignedCopy arena(model.arena_bytes());
  ASSERT_EQ(model.prepare(arena.bytes()).error, DTR_OK);
  EXPECT_EQ(dtr_input_count(&model.handle), 1u);
  EXPECT_EQ(dtr_output_count(&model.handle), 1u);
  const dtr_tensor x = model.input();
  EXPECT_EQ(x.dtype, DTR_FLOAT32);
  EXPECT_EQ(x.bytes, 240u);
  EXPECT_EQ(std::vector<int32_t>(x.sizes, x.sizes + x.rank), (std::vector<int32_t>{1, 3, 4, 5}));
  EXPECT_EQ(std::vector<uint8_t>(x.dim_order, x.dim_order + x.rank),
            (std::vector<uint8_t>{0, 1, 2, 3}));
  for (const float offset : {0.0f, 0.5f}) EXPECT_EQ(model.run(offset), judge(program_, offset));
  EXPECT_EQ(dtr_step_count(&model.handle), 5u);
  EXPECT_STREQ(dtr_step_name(&model.handle, 4), "aten::_softmax");
  EXPECT_STREQ(dtr_step_name(&model.handle, 5), "");
  for (const uint32_t step : {0u, 4u, 5u})  // kernels, and no step
    EXPECT_EQ(dtr_step_is_delegate(&model.handle, step), 0) << step;
}

// Written to where it lies and read where it lies: the runtime copies nothing.
TEST_F(InC, InputsAndOutputsNeedNoCopies) {
  Model model(program_);
  const AlignedCopy arena(model.arena_bytes());
  ASSERT_EQ(model.prepare(arena.bytes()).error, DTR_OK);
  const std::vector<float> x = ramp(0.25f);
  const dtr_tensor place = model.input();
  EXPECT_TRUE(place.data >= arena.bytes().data() &&
              place.data < arena.bytes().data() + arena.bytes().size());
  std::memcpy(place.data, x.data(), place.bytes);
  ASSERT_EQ(dtr_set_input(&model.handle, 0, &place).error, DTR_OK);
  ASSERT_EQ(dtr_run(&model.handle, nullptr).error, DTR_OK);
  EXPECT_EQ(model.output(), judge(program_, 0.25f));
}

TEST_F(InC, MismatchedInputsAreRefusedAndTheNextRunIsRight) {
  Model model(program_);
  const AlignedCopy arena(model.arena_bytes());
  ASSERT_EQ(model.prepare(arena.bytes()).error, DTR_OK);
  const int32_t transposed[] = {1, 4, 3, 5};
  const uint8_t channels_last[] = {0, 2, 3, 1}, outside[] = {0, 1, 2, 9};
  const std::vector<float> x = ramp(0);
  const auto refused = [&](auto change) {
    dtr_tensor tensor = model.input();
    tensor.data = const_cast<float*>(x.data());
    change(tensor);
    const dtr_status status = dtr_set_input(&model.handle, 0, &tensor);
    EXPECT_EQ(dtr_run(&model.handle, nullptr).error, DTR_INPUT_NOT_SET);
    EXPECT_EQ(model.run(0.5f), judge(program_, 0.5f));
    return status.error;
  };
  EXPECT_EQ(refused([](dtr_tensor& tensor) { tensor.dtype = DTR_INT32; }), DTR_INPUT_DTYPE);
  EXPECT_EQ(refused([&](dtr_tensor& tensor) { tensor.sizes = transposed; }), DTR_INPUT_SHAPE);
  EXPECT_EQ(refused([](dtr_tensor& tensor) { tensor.rank = 3; }), DTR_INPUT_SHAPE);
  EXPECT_EQ(refused([](dtr_tensor& tensor) { tensor.rank = 260; }), DTR_INPUT_SHAPE);
  EXPECT_EQ(refused([&](dtr_tensor& tensor) { tensor.dim_order = channels_last; }),
            DTR_INPUT_DIM_ORDER);
  EXPECT_EQ(refused([&](dtr_tensor& tensor) { tensor.dim_order = outside; }), DTR_INPUT_DIM_ORDER);
  EXPECT_EQ(refused([](dtr_tensor& tensor) { --tensor.bytes; }), DTR_INPUT_SIZE);
  dtr_tensor tensor = model.input();
  EXPECT_EQ(dtr_set_input(&model.handle, 1, &tensor).error, DTR_NO_SUCH_TENSOR);
  EXPECT_EQ(dtr_output(&model.handle, 1, &tensor).error, DTR_NO_SUCH_TENSOR);
  EXPECT_EQ(dtr_set_output_memory(&model.handle, 0, {}).error, DTR_NO_SUCH_TENSOR);
}

// At each step; then the model runs again as if nothing had been.
TEST_F(InC, AnObserverEndsARunAndTheNextIsRight) {
  Model model(program_);
  const AlignedCopy arena(model.arena_bytes());
  ASSERT_EQ(model.prepare(arena.bytes()).error, DTR_OK);
  struct Watch {
    uint32_t stop_at, finished = 0;
  };
  for (uint32_t stop_at = 0; stop_at < dtr_step_count(&model.handle); ++stop_at) {
    Watch watch{.stop_at = stop_at};
    const dtr_observer observer{
        .context = &watch,
        .before =
            [](void* context, uint32_t step) {
              return static_cast<int>(step != static_cast<Watch*>(context)->stop_at);
            },
        .after = [](void* context, uint32_t) { ++static_cast<Watch*>(context)->finished; }};
    ASSERT_EQ(model.set(ramp(1)).error, DTR_OK);
    const dtr_status status = dtr_run(&model.handle, &observer);
    EXPECT_EQ(status.error, DTR_STOPPED);
    EXPECT_EQ(status.index, stop_at);
    EXPECT_STREQ(status.name, dtr_step_name(&model.handle, stop_at));
    EXPECT_EQ(watch.finished, stop_at);
    EXPECT_EQ(model.run(0.5f), judge(program_, 0.5f));
  }
}

TEST_F(InC, TwoModelsTakeTurnsInOneMemory) {
  const std::vector<std::byte> other = other_program();
  Model a(program_), b(other);
  const AlignedCopy arena(std::max(a.arena_bytes(), b.arena_bytes()));
  ASSERT_EQ(a.prepare(arena.bytes()).error, DTR_OK);
  ASSERT_EQ(b.prepare(arena.bytes()).error, DTR_OK);
  for (const float offset : {0.0f, 0.5f, -0.25f}) {
    EXPECT_EQ(a.run(offset), judge(program_, offset));
    EXPECT_EQ(b.run(offset), judge(other, offset));
  }
  // One that was stopped in the middle, the other in between.
  const dtr_observer stop{.context = nullptr,
                          .before = [](void*, uint32_t step) { return static_cast<int>(step < 2); },
                          .after = nullptr};
  ASSERT_EQ(a.set(ramp(1)).error, DTR_OK);
  EXPECT_EQ(dtr_run(&a.handle, &stop).error, DTR_STOPPED);
  EXPECT_EQ(b.run(0.5f), judge(other, 0.5f));
  EXPECT_EQ(a.run(0.5f), judge(program_, 0.5f));
}

// Two methods of ExecuTorch in handles of their own, against PyTorch's outputs.
TEST(MethodsInC, RunBesideEachOther) {
  const auto file = FileContents::read(test::source_path("test/data/pte/methods.pte").string());
  ASSERT_TRUE(file);
  AlignedCopy bytes(std::vector<std::byte>(file->bytes().begin(), file->bytes().end()));
  struct Run {
    dtr_model handle;
    std::optional<AlignedCopy> state, arena;
  };
  const char* names[] = {"prefill", "decode"};
  Run runs[2];
  for (size_t i = 0; i < 2; ++i) {
    dtr_model* handle = &runs[i].handle;
    EXPECT_EQ(
        dtr_load(handle, bytes.bytes().data(), bytes.bytes().size(), dtr_host_environment()).error,
        DTR_OK);
    EXPECT_EQ(dtr_method_count(handle), 3u);
    EXPECT_STREQ(dtr_method_name(handle, 0), "decode");
    EXPECT_STREQ(dtr_method_name(handle, 3), "");
    EXPECT_EQ(dtr_choose_method(handle, names[i]).error, DTR_OK);
    EXPECT_EQ(dtr_choose_method(handle, "nothing").error, DTR_MISSING_METHOD);
    EXPECT_EQ(dtr_choose_method(handle, nullptr).error, DTR_NULL);
    dtr_requirements need{};
    ASSERT_EQ(dtr_requirements_of(handle, &need).error, DTR_OK);
    ASSERT_EQ(need.memory_count, 1u);
    runs[i].state.emplace(need.state_bytes);
    runs[i].arena.emplace(static_cast<size_t>(need.memory_bytes[0]));
    const dtr_memory memory = memory_of(runs[i].arena->bytes());
    ASSERT_EQ(dtr_prepare(handle, memory_of(runs[i].state->bytes()), &memory, 1).error, DTR_OK);
    EXPECT_EQ(dtr_input_count(handle), i + 1);
  }
  for (size_t i = 0; i < 2; ++i) {
    dtr_model* handle = &runs[i].handle;
    const auto stored = [&](const std::string& end) {
      return *read_npz(test::source_path("test/data/pte/" + (names[i] + end)).string());
    };
    const auto inputs = stored(".npz"), outputs = stored("_outputs.npz");
    for (uint32_t k = 0; k < inputs.size(); ++k) {
      dtr_tensor tensor{};
      ASSERT_EQ(dtr_input(handle, k, &tensor).error, DTR_OK);
      ASSERT_EQ(tensor.bytes, inputs[k].tensor.bytes().size());
      tensor.data = const_cast<std::byte*>(inputs[k].tensor.bytes().data());
      EXPECT_EQ(dtr_set_input(handle, k, &tensor).error, DTR_OK);
    }
    EXPECT_EQ(dtr_run(handle, nullptr).error, DTR_OK);
    dtr_tensor output{};
    ASSERT_EQ(dtr_output(handle, 0, &output).error, DTR_OK);
    const auto want = outputs.front().tensor.view().values<float>();
    ASSERT_EQ(output.bytes, want.size_bytes());
    for (size_t at = 0; at < want.size(); ++at)
      EXPECT_NEAR(static_cast<const float*>(output.data)[at], want[at], 1e-6) << names[i] << at;
    EXPECT_EQ(dtr_choose_method(handle, names[i]).error, DTR_OK);  // releases what was prepared
    EXPECT_EQ(dtr_run(handle, nullptr).error, DTR_NOT_PREPARED);
  }
  EXPECT_EQ(dtr_method_count(nullptr), 0u);
  EXPECT_EQ(dtr_choose_method(nullptr, "decode").error, DTR_NOT_PREPARED);
}

TEST_F(InC, AModelIsUsableAfterEveryError) {
  AlignedCopy bytes(program_);
  dtr_model model;
  dtr_requirements need{};
  bytes.bytes()[program_.size() / 2] ^= std::byte{1};
  EXPECT_EQ(
      dtr_load(&model, bytes.bytes().data(), bytes.bytes().size(), dtr_host_environment()).error,
      DTR_BAD_CHECKSUM);
  const int64_t before = 7;
  need = {5, 3, &before};
  EXPECT_EQ(dtr_requirements_of(&model, &need).error, DTR_MISSING_METHOD);
  EXPECT_EQ(need.state_bytes, 5u);  // as they were
  EXPECT_EQ(need.memory_count, 3u);
  EXPECT_EQ(need.memory_bytes, &before);
  EXPECT_EQ(dtr_input_count(&model), 0u);
  bytes.bytes()[program_.size() / 2] ^= std::byte{1};
  const dtr_environment nothing{};
  const dtr_status missing = dtr_load(&model, bytes.bytes().data(), bytes.bytes().size(), &nothing);
  EXPECT_EQ(missing.error, DTR_MISSING_KERNEL);
  EXPECT_STREQ(missing.name, "aten::add");
  ASSERT_EQ(
      dtr_load(&model, bytes.bytes().data(), bytes.bytes().size(), dtr_host_environment()).error,
      DTR_OK);
  ASSERT_EQ(dtr_requirements_of(&model, &need).error, DTR_OK);

  const auto arena_bytes = static_cast<size_t>(need.memory_bytes[0]);
  const AlignedCopy state(need.state_bytes + 16), arena(arena_bytes + 16);
  const auto prepare = [&](size_t state_at, size_t state_bytes, size_t arena_at,
                           size_t bytes_of_arena, uint32_t count = 1) {
    const dtr_memory memory = memory_of(arena.bytes().subspan(arena_at, bytes_of_arena));
    return dtr_prepare(&model, memory_of(state.bytes().subspan(state_at, state_bytes)), &memory,
                       count);
  };
  const dtr_status small = prepare(0, need.state_bytes - 1, 0, arena_bytes);
  EXPECT_EQ(small.error, DTR_ARENA_TOO_SMALL);
  EXPECT_EQ(small.index, DTR_STATE);
  EXPECT_EQ(small.detail, need.state_bytes);
  EXPECT_EQ(prepare(0, need.state_bytes, 0, arena_bytes - 1).error, DTR_ARENA_TOO_SMALL);
  EXPECT_EQ(prepare(0, need.state_bytes, 0, arena_bytes, 0).error, DTR_ARENA_TOO_SMALL);
  EXPECT_EQ(prepare(4, need.state_bytes, 0, arena_bytes).error, DTR_ARENA_MISALIGNED);
  EXPECT_EQ(prepare(0, need.state_bytes, 8, arena_bytes).error, DTR_ARENA_MISALIGNED);
  EXPECT_EQ(prepare(0, need.state_bytes, 0, arena_bytes, 9).error,
            DTR_UNSUPPORTED);  // more memories than the API takes
  ASSERT_EQ(prepare(0, need.state_bytes, 0, arena_bytes).error, DTR_OK);
  EXPECT_EQ(dtr_run(&model, nullptr).error, DTR_INPUT_NOT_SET);
  dtr_tensor tensor{};
  ASSERT_EQ(dtr_input(&model, 0, &tensor).error, DTR_OK);
  const std::vector<float> x = ramp(0);
  std::memcpy(tensor.data, x.data(), tensor.bytes);
  ASSERT_EQ(dtr_set_input(&model, 0, &tensor).error, DTR_OK);
  EXPECT_EQ(dtr_run(&model, nullptr).error, DTR_OK);
  dtr_release(&model);
  EXPECT_EQ(dtr_output_count(&model), 0u);
}

// A model that was never loaded, whose load or prepare failed, that was released, or that is a copy
// of one: nothing runs, and that is said.
TEST_F(InC, WhatIsNotPreparedIsAnError) {
  const auto refuses_all = [](dtr_model* model) {
    dtr_tensor tensor{};
    dtr_requirements need{};
    EXPECT_EQ(dtr_run(model, nullptr).error, DTR_NOT_PREPARED);
    EXPECT_EQ(dtr_requirements_of(model, &need).error, DTR_NOT_PREPARED);
    EXPECT_EQ(dtr_prepare(model, {}, nullptr, 0).error, DTR_NOT_PREPARED);
    EXPECT_EQ(dtr_input(model, 0, &tensor).error, DTR_NOT_PREPARED);
    EXPECT_EQ(dtr_output(model, 0, &tensor).error, DTR_NOT_PREPARED);
    EXPECT_EQ(dtr_set_input(model, 0, &tensor).error, DTR_NOT_PREPARED);
    EXPECT_EQ(dtr_set_output_memory(model, 0, {}).error, DTR_NOT_PREPARED);
    EXPECT_EQ(dtr_input_count(model) + dtr_output_count(model) + dtr_step_count(model), 0u);
    EXPECT_STREQ(dtr_step_name(model, 0), "");
    EXPECT_EQ(dtr_step_is_delegate(model, 0), 0);
    dtr_release(model);
    std::vector<dtr_profile_record> records(8);
    dtr_profile profile;
    dtr_profile_begin(&profile, records.data(), 8,
                      {[](void*) { return uint64_t{1}; }, nullptr, 32});
    EXPECT_EQ(dtr_run_profiled(model, nullptr, &profile).error, DTR_NOT_PREPARED);
  };
  refuses_all(nullptr);
  for (const int fill : {0, 0xA5, 0xFF}) {
    dtr_model never;
    std::memset(&never, fill, sizeof never);
    refuses_all(&never);
  }
  const AlignedCopy bytes(program_);
  dtr_model failed;
  EXPECT_EQ(dtr_load(&failed, bytes.bytes().data(), 8, dtr_host_environment()).error,
            DTR_TRUNCATED);
  EXPECT_EQ(dtr_run(&failed, nullptr).error, DTR_NOT_PREPARED);
  Model model(program_);
  EXPECT_EQ(dtr_run(&model.handle, nullptr).error, DTR_NOT_PREPARED);
  const AlignedCopy arena(model.arena_bytes());
  EXPECT_EQ(model.prepare(arena.bytes().first(16)).error, DTR_ARENA_TOO_SMALL);
  EXPECT_EQ(dtr_run(&model.handle, nullptr).error, DTR_NOT_PREPARED);
  ASSERT_EQ(model.prepare(arena.bytes()).error, DTR_OK);
  EXPECT_EQ(model.run(0.5f), judge(program_, 0.5f));
  dtr_model copy = model.handle;
  refuses_all(&copy);
  dtr_release(&model.handle);
  EXPECT_EQ(dtr_run(&model.handle, nullptr).error, DTR_NOT_PREPARED);
  dtr_release(&model.handle);
  ASSERT_EQ(model.prepare(arena.bytes()).error, DTR_OK);
  EXPECT_EQ(model.run(0.5f), judge(program_, 0.5f));
}

TEST_F(InC, NullWithBytesIsAnError) {
  dtr_model unused;
  EXPECT_EQ(dtr_load(&unused, nullptr, 100, dtr_host_environment()).error, DTR_NULL);
  EXPECT_EQ(dtr_load(&unused, nullptr, 0, dtr_host_environment()).error, DTR_TRUNCATED);
  EXPECT_EQ(dtr_load(&unused, program_.data(), program_.size(), nullptr).error, DTR_NULL);
  EXPECT_EQ(dtr_load(nullptr, program_.data(), program_.size(), dtr_host_environment()).error,
            DTR_NULL);
  Model model(program_);
  const AlignedCopy arena(model.arena_bytes());
  EXPECT_EQ(dtr_requirements_of(&model.handle, nullptr).error, DTR_NULL);
  const dtr_memory null_memory = {nullptr, model.arena_bytes()}, memory = memory_of(arena.bytes());
  const dtr_status no_arena =
      dtr_prepare(&model.handle, memory_of(model.state->bytes()), &null_memory, 1);
  EXPECT_EQ(no_arena.error, DTR_NULL);
  EXPECT_EQ(no_arena.index, 0u);
  const dtr_status no_state =
      dtr_prepare(&model.handle, {nullptr, model.need.state_bytes}, &memory, 1);
  EXPECT_EQ(no_state.error, DTR_NULL);
  EXPECT_EQ(no_state.index, DTR_STATE);
  EXPECT_EQ(dtr_prepare(&model.handle, memory_of(model.state->bytes()), nullptr, 1).error,
            DTR_NULL);
  ASSERT_EQ(model.prepare(arena.bytes()).error, DTR_OK);
  EXPECT_EQ(dtr_input(&model.handle, 0, nullptr).error, DTR_NULL);
  EXPECT_EQ(dtr_set_input(&model.handle, 0, nullptr).error, DTR_NULL);
  for (auto change : {+[](dtr_tensor& tensor) { tensor.data = nullptr; },
                      +[](dtr_tensor& tensor) { tensor.sizes = nullptr; },
                      +[](dtr_tensor& tensor) { tensor.dim_order = nullptr; }}) {
    dtr_tensor tensor = model.input();
    change(tensor);
    EXPECT_EQ(dtr_set_input(&model.handle, 0, &tensor).error, DTR_NULL);
    EXPECT_EQ(dtr_run(&model.handle, nullptr).error, DTR_INPUT_NOT_SET);
  }
  EXPECT_EQ(model.run(0.5f), judge(program_, 0.5f));
}

// A dtype is as many bits as C gives it: one that is right but for 256s is another.
TEST_F(InC, DtypesAreNotCut) {
  Model model(program_);
  const AlignedCopy arena(model.arena_bytes());
  ASSERT_EQ(model.prepare(arena.bytes()).error, DTR_OK);
  for (const int64_t wrong : {256 + 6, 512 + 6, 0x10006, -250, 12, 255}) {
    dtr_tensor tensor = model.input();
    const auto number = static_cast<uint32_t>(wrong);
    std::memcpy(&tensor.dtype, &number, sizeof number);
    EXPECT_EQ(dtr_set_input(&model.handle, 0, &tensor).error, DTR_INPUT_DTYPE) << wrong;
  }
  EXPECT_EQ(model.run(0.5f), judge(program_, 0.5f));
}

// From 16 bytes behind its place, and from 16 before: as if the data had been copied elsewhere
// first.
TEST_F(InC, InputsMayOverlapWithTheirPlace) {
  Model model(program_);
  const AlignedCopy arena(model.arena_bytes());
  ASSERT_EQ(model.prepare(arena.bytes()).error, DTR_OK);
  const dtr_tensor place = model.input();
  const std::vector<float> x = ramp(0.25f);
  auto* begin = static_cast<std::byte*>(place.data);
  for (const std::ptrdiff_t distance : {16, -16}) {
    std::byte* from = begin + distance;
    if (from < arena.bytes().data() ||
        from + place.bytes > arena.bytes().data() + arena.bytes().size())
      continue;
    std::memcpy(from, x.data(), place.bytes);
    dtr_tensor tensor = place;
    tensor.data = from;
    ASSERT_EQ(dtr_set_input(&model.handle, 0, &tensor).error, DTR_OK);
    EXPECT_EQ(std::memcmp(begin, x.data(), place.bytes), 0) << distance;
    ASSERT_EQ(dtr_run(&model.handle, nullptr).error, DTR_OK);
    EXPECT_EQ(model.output(), judge(program_, 0.25f));
  }
}

TEST(CApi, AStopOfNoStartWritesNothing) {
  std::vector<dtr_profile_record> records(4);
  dtr_profile profile;
  uint64_t time = 0;
  const dtr_clock clock{[](void* context) { return ++*static_cast<uint64_t*>(context); }, &time,
                        32};
  dtr_profile_begin(&profile, records.data(), 3, clock);
  const size_t first = dtr_profile_start(&profile, DTR_PROFILE_LOAD);
  dtr_profile_stop(&profile, first);
  const std::vector<dtr_profile_record> before = records;
  for (const size_t wrong : {first, size_t{1}, size_t{3}, size_t{1000}, SIZE_MAX - 1, SIZE_MAX})
    dtr_profile_stop(&profile, wrong);
  EXPECT_EQ(std::memcmp(records.data(), before.data(), records.size() * sizeof records[0]), 0);
  const size_t second = dtr_profile_start(&profile, DTR_PROFILE_INIT);
  dtr_profile_clear(&profile);
  dtr_profile_stop(&profile, second);
  EXPECT_EQ(dtr_profile_count(&profile), 0u);
  EXPECT_EQ(records[1].words[2], 0u);  // not stopped
  dtr_profile_begin(&profile, nullptr, 3, clock);
  dtr_profile_stop(&profile, dtr_profile_start(&profile, DTR_PROFILE_LOAD));
  EXPECT_EQ(dtr_profile_lost(&profile), 1u);
}

// A run that an observer ends has a start and no end; the next one has both.
TEST_F(InC, ARunThatIsEndedHasNoEndInItsProfile) {
  Model model(program_);
  const AlignedCopy arena(model.arena_bytes());
  ASSERT_EQ(model.prepare(arena.bytes()).error, DTR_OK);
  uint64_t time = 0;
  const dtr_clock clock{[](void* context) { return ++*static_cast<uint64_t*>(context); }, &time,
                        32};
  const dtr_observer stop{.context = nullptr,
                          .before = [](void*, uint32_t step) { return static_cast<int>(step < 2); },
                          .after = nullptr};
  for (const bool ended : {true, false}) {
    std::vector<dtr_profile_record> records(16);
    dtr_profile profile;
    dtr_profile_begin(&profile, records.data(), 16, clock);
    ASSERT_EQ(model.set(ramp(1)).error, DTR_OK);
    const dtr_status status = dtr_run_profiled(&model.handle, ended ? &stop : nullptr, &profile);
    EXPECT_EQ(status.error, ended ? DTR_STOPPED : DTR_OK);
    EXPECT_EQ(dtr_profile_count(&profile), ended ? 4u : 6u);  // the run, and its steps
    EXPECT_EQ(records[0].words[2] == 0, ended);
    const dtr_profile_header header =
        dtr_profile_header_of(&profile, 7, status, DTR_PROFILE_CYCLES);
    const auto read = std::bit_cast<npu::ProfileHeader>(header);
    EXPECT_EQ(read.error, static_cast<uint8_t>(status.error));
    EXPECT_EQ(read.program, 7u);
    EXPECT_EQ(read.unit, npu::ProfileUnit::kCycles);
  }
}

TEST(CApi, ErrorsHaveTexts) {
  for (int error = DTR_OK; error <= DTR_NULL; ++error)
    EXPECT_STREQ(dtr_error_text(static_cast<dtr_error>(error)),
                 pte::text(static_cast<pte::Error>(error)));
  EXPECT_STREQ(dtr_error_text(DTR_STOPPED), "the observer ended the run");
}

}  // namespace
}  // namespace dtr
