// Helpers of the tests that write and run programs: aligned memory, a loaded program with its
// arenas, a small plan.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "compiler/program/memory_planner.h"
#include "compiler/program/writer.h"
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/method.h"

namespace dtr::test {

// Bytes on a 16-byte boundary that end (but for rounding to 16) where an unreadable page begins,
// with another one before; what lies between the pages and the bytes must keep its pattern. Under
// ASan memory of the allocator, which is exact to the byte.
class AlignedCopy {
 public:
  explicit AlignedCopy(size_t bytes) : size_(bytes), room_((bytes + 15) / 16 * 16) {
#ifdef __SANITIZE_ADDRESS__
    base_ = data_ = static_cast<std::byte*>(std::aligned_alloc(16, room_));
#else
    whole_ = (room_ + kPage - 1) / kPage * kPage + 2 * kPage;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, whole_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    mprotect(base_, kPage, PROT_NONE);
    mprotect(base_ + whole_ - kPage, kPage, PROT_NONE);
    data_ = base_ + whole_ - kPage - room_;
    std::fill(base_ + kPage, data_, kGuard);
    std::fill(data_ + size_, data_ + room_, kGuard);
#endif
  }
  explicit AlignedCopy(std::span<const std::byte> bytes) : AlignedCopy(bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), data_);
  }
  AlignedCopy(AlignedCopy&& from) noexcept
      : size_(from.size_),
        room_(from.room_),
        whole_(from.whole_),
        base_(std::exchange(from.base_, nullptr)),
        data_(from.data_) {}
  AlignedCopy& operator=(AlignedCopy&&) = delete;
  ~AlignedCopy() {
    if (base_ == nullptr) return;
#ifdef __SANITIZE_ADDRESS__
    std::free(base_);
#else
    const auto untouched = [](std::byte value) { return value == kGuard; };
    EXPECT_TRUE(std::all_of(base_ + kPage, data_, untouched) &&
                std::all_of(data_ + size_, data_ + room_, untouched));
    munmap(base_, whole_);
#endif
  }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  static constexpr size_t kPage = 4096;
  static constexpr std::byte kGuard{0xEE};
  size_t size_, room_, whole_ = 0;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
};

// A method in memory of exactly the size that it asks for.
class PreparedMethod {
 public:
  runtime::Status prepare(const runtime::Program& program, std::string_view name = "forward") {
    runtime::Method::Requirements need;
    if (const runtime::Status status = runtime::Method::requirements(program, name, &need);
        !status.ok())
      return status;
    state_.emplace(need.state_bytes);
    for (uint32_t i = 0; i < need.memories; ++i) arenas_.emplace_back(need.memory_bytes(i));
    for (const AlignedCopy& arena : arenas_) {
      memories_.push_back(arena.bytes());
      std::ranges::fill(arena.bytes(), std::byte{0xA5});
    }
    return method_.prepare(program, name, state_->bytes(), memories_);
  }
  runtime::Method& operator*() { return method_; }
  runtime::Method* operator->() { return &method_; }

 private:
  std::optional<AlignedCopy> state_;
  std::vector<AlignedCopy> arenas_;
  std::vector<std::span<std::byte>> memories_;
  runtime::Method method_;  // released before its memory
};

inline runtime::Status load(std::span<const std::byte> bytes, runtime::Program* program) {
  return runtime::Program::load(bytes, {.kernels = runtime::portable::kernels()}, program);
}

inline runtime::InputTensor input_like(const runtime::Tensor& tensor,
                                       std::span<const std::byte> data) {
  return {data.data(), data.size(), tensor.dtype, tensor.shape(), tensor.order()};
}

// x [1, 3, 4, 5] + bias → quantize → dequantize → max_pool2d → softmax: constants, scalars, lists,
// two outputs of one kernel.
inline MethodPlan small_plan() {
  static constexpr float kBias[] = {1, 2, 3};
  MethodPlan plan{.target = "none", .tool = "test"};
  const Type image{.shape = {1, 3, 4, 5}};
  const Type pooled{.shape = {1, 3, 2, 2}};
  Type integer = image;
  integer.dtype = DType::kInt8;
  integer.quantization = Quantization::per_tensor(0.05f, 3);
  const TensorRef x = plan.add_tensor({"x", image});
  const TensorRef bias =
      plan.add_tensor({"bias", {.shape = {3, 1, 1}}, std::as_bytes(std::span(kBias))});
  const TensorRef sum = plan.add_tensor({"sum", image});
  const TensorRef quantized = plan.add_tensor({"quantized", integer});
  const TensorRef real = plan.add_tensor({"real", image});
  const TensorRef max = plan.add_tensor({"max", pooled});
  const TensorRef where =
      plan.add_tensor({"where", {.dtype = DType::kInt64, .shape = {1, 3, 2, 2}}});
  const TensorRef y = plan.add_tensor({"y", pooled});
  const double scale = 0.05f;
  const int64_t zero = 3;
  const int64_t low = -128;
  const int64_t high = 127;
  const int64_t dtype = 1;
  plan.calls.emplace_back(KernelCallPlan{"aten::add.out", {x, bias, int64_t{1}}, {sum}, {}});
  plan.calls.emplace_back(KernelCallPlan{"quantized_decomposed::quantize_per_tensor.out",
                                         {sum, scale, zero, low, high, dtype},
                                         {quantized},
                                         {}});
  plan.calls.emplace_back(
      KernelCallPlan{"quantized_decomposed::dequantize_per_tensor.out",
                     {quantized, scale, zero, low, high, dtype, std::monostate{}},
                     {real},
                     {}});
  plan.calls.emplace_back(
      KernelCallPlan{"aten::max_pool2d_with_indices.out",
                     {real, Ints{2, 2}, Ints{2, 2}, Ints{0, 0}, Ints{1, 1}, false},
                     {max, where},
                     {}});
  plan.calls.emplace_back(KernelCallPlan{"aten::_softmax.out", {max, int64_t{1}, false}, {y}, {}});
  plan.inputs = {x};
  plan.outputs = {y};
  return plan;
}

inline std::vector<std::byte> small_program() {
  MethodPlan plan = small_plan();
  EXPECT_TRUE(plan_memory(plan));
  auto written = serialize_program(plan);
  EXPECT_TRUE(written);
  return written->bytes;
}

}  // namespace dtr::test
