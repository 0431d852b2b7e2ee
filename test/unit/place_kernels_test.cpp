// Kernels that take or put elements by index: what they refuse, and results that PyTorch leaves
// open. The kernels are called as a program calls them, without a program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <list>
#include <numeric>

#include "device/runtime/kernels/portable/kernels.h"

namespace dtr {
namespace {

using runtime::Error;

using runtime::Value;
using runtime::ValueKind;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Call {
 public:
  template <class T>
  Call& tensor(ScalarType dtype, std::vector<int32_t> sizes, std::vector<T> data = {}) {
    Memory& memory = memory_.emplace_back();
    const auto count = static_cast<size_t>(
        std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()));
    memory.bytes.resize(count * sizeof(T));
    if (!data.empty()) {
      EXPECT_EQ(data.size(), count);
      std::ranges::copy(std::as_bytes(std::span(data)), memory.bytes.begin());
    }
    memory.sizes = std::move(sizes);
    memory.order.resize(memory.sizes.size());
    std::iota(memory.order.begin(), memory.order.end(), uint8_t{0});
    Value& value = add(ValueKind::kTensor);
    value.tensor = {.data = memory.bytes.data(),
                    .sizes = memory.sizes.data(),
                    .dim_order = memory.order.data(),
                    .dtype = dtype,
                    .rank = static_cast<uint8_t>(memory.sizes.size()),
                    .writable = true};
    return *this;
  }
  Call& floats(std::vector<int32_t> sizes, std::vector<float> data = {}) {
    return tensor<float>(ScalarType::kFloat, std::move(sizes), std::move(data));
  }
  Call& longs(std::vector<int32_t> sizes, std::vector<int64_t> data = {}) {
    return tensor<int64_t>(ScalarType::kLong, std::move(sizes), std::move(data));
  }
  Call& integer(int64_t number) {
    add(ValueKind::kInt).integer = number;
    return *this;
  }
  Call& flag(bool flag) {
    add(ValueKind::kBool).flag = flag;
    return *this;
  }
  Call& ints(std::vector<int64_t> list) {
    const auto& kept = ints_.emplace_back(std::move(list));
    add(ValueKind::kInts).ints = {kept.data(), static_cast<uint32_t>(kept.size())};
    return *this;
  }
  // The last `count` arguments as one list.
  Call& listed(size_t count) {
    auto& kept =
        lists_.emplace_back(arguments_.end() - static_cast<ptrdiff_t>(count), arguments_.end());
    arguments_.resize(arguments_.size() - count);
    add(ValueKind::kTensors).tensors = {kept.data(), static_cast<uint32_t>(kept.size())};
    return *this;
  }

  Error run(std::string_view name) {
    for (const runtime::Kernel& kernel : runtime::portable::kernels())
      if (kernel.name == name) return kernel.function(arguments_);
    ADD_FAILURE() << "no kernel " << name;
    return Error::kMissingKernel;
  }
  template <class T>
  std::vector<T> result(size_t argument) const {
    const runtime::Tensor& tensor = arguments_[argument]->tensor;
    return {tensor.values<T>(), tensor.values<T>() + tensor.elements()};
  }

 private:
  struct Memory {
    std::vector<std::byte> bytes;
    std::vector<int32_t> sizes;
    std::vector<uint8_t> order;
  };
  Value& add(ValueKind kind) {
    Value& value = values_.emplace_back();
    value.kind = kind;
    arguments_.push_back(&value);
    return value;
  }

  std::list<Memory> memory_;
  std::list<Value> values_;
  std::list<std::vector<int64_t>> ints_;
  std::list<std::vector<Value*>> lists_;
  std::vector<Value*> arguments_;
};

// Of equal elements the first comes first, and NaN is the greatest.
TEST(PlaceKernels, TopkOrdersTiesByIndexAndNanAsTheGreatest) {
  for (const bool largest : {true, false}) {
    Call call;
    call.floats({7}, {1, 2, kNan, 2, 1, 0, 2}).integer(4).integer(0).flag(largest).flag(true);
    call.floats({4}).longs({4});
    ASSERT_EQ(call.run("aten::topk.values"), Error::kOk);
    EXPECT_EQ(call.result<int64_t>(6),
              largest ? (std::vector<int64_t>{2, 1, 3, 6}) : (std::vector<int64_t>{5, 0, 4, 1}));
    EXPECT_EQ(std::isnan(call.result<float>(5)[0]), largest);
  }
}

// The index is that of the first NaN, and of the first of equal elements.
TEST(PlaceKernels, ExtremesAreTheFirst) {
  Call call;
  call.floats({3, 4}, {1, kNan, 5, kNan, 3, 1, 3, 1, -1, -1, -2, -2}).integer(1).flag(false);
  call.floats({3}).longs({3});
  ASSERT_EQ(call.run("aten::max.dim_max"), Error::kOk);
  EXPECT_EQ(call.result<int64_t>(4), (std::vector<int64_t>{1, 0, 0}));
  ASSERT_EQ(call.run("aten::min.dim_min"), Error::kOk);
  EXPECT_EQ(call.result<int64_t>(4), (std::vector<int64_t>{1, 1, 2}));
  Call empty;
  EXPECT_EQ(empty.floats({0}).floats({}).run("aten::max.unary_out"), Error::kKernelArguments);
}

Error as_strided(std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t first) {
  Call call;
  const std::vector<int32_t> out(sizes.begin(), sizes.end());
  return call.floats({12})
      .ints(std::move(sizes))
      .ints(std::move(strides))
      .integer(first)
      .floats(out)
      .run("aten::as_strided_copy.out");
}

TEST(PlaceKernels, StridesStayInsideOfTheTensor) {
  EXPECT_EQ(as_strided({3, 4}, {4, 1}, 0), Error::kOk);
  EXPECT_EQ(as_strided({2}, {11}, 0), Error::kOk);
  EXPECT_EQ(as_strided({2}, {11}, 1), Error::kKernelArguments);
  EXPECT_EQ(as_strided({2}, {12}, 0), Error::kKernelArguments);
  EXPECT_EQ(as_strided({2}, {-1}, 1), Error::kKernelArguments);
  EXPECT_EQ(as_strided({1}, {1}, 12), Error::kKernelArguments);
  EXPECT_EQ(as_strided({1}, {1}, INT64_MAX), Error::kKernelArguments);
  EXPECT_EQ(as_strided({2, 2}, {INT64_MAX, 1}, 0), Error::kKernelArguments);
}

TEST(PlaceKernels, SplitsAddUpToTheExtent) {
  for (const int32_t last : {2, 3, 4}) {
    Call call;
    call.floats({5, 2}).ints({2, last}).integer(0).floats({2, 2}).floats({last, 2}).listed(2);
    EXPECT_EQ(call.run("aten::split_with_sizes_copy.out"),
              last == 3 ? Error::kOk : Error::kKernelArguments);
  }
}

TEST(PlaceKernels, ReflectionsExist) {
  const auto pad = [](int64_t before, std::string_view kernel) {
    Call call;
    return call.floats({2, 4})
        .ints({before, 0})
        .floats({2, static_cast<int32_t>(std::max<int64_t>(4 + before, 0))})
        .run(kernel);
  };
  EXPECT_EQ(pad(3, "aten::reflection_pad1d.out"), Error::kOk);
  EXPECT_EQ(pad(4, "aten::reflection_pad1d.out"), Error::kKernelArguments);
  EXPECT_EQ(pad(4, "aten::replication_pad1d.out"), Error::kOk);
  EXPECT_EQ(pad(-4, "aten::replication_pad1d.out"), Error::kOk);
  EXPECT_EQ(pad(-5, "aten::replication_pad1d.out"), Error::kKernelArguments);
}

// Two short lists name every pair of their elements; one value for all of them would keep the
// kernel busy for minutes.
TEST(PlaceKernels, PlacesAreNoMoreThanATensorHolds) {
  constexpr int32_t kCount = 50'000;
  Call call;
  call.floats({3, 3}).longs({kCount, 1}).longs({1, kCount}).listed(2).floats({}).flag(true);
  EXPECT_EQ(call.floats({3, 3}).run("aten::index_put.out"), Error::kKernelArguments);
}

// Neighbors stay where they are; indices with a slice between them go to the front.
TEST(PlaceKernels, IndicesOutsideAreRefusedBeforeAnythingIsRead) {
  for (const int64_t index : {int64_t{-3}, int64_t{2}, int64_t{3}, int64_t{-4}, INT64_MIN}) {
    Call call;
    call.floats({3}, {5, 6, 7}).longs({1}, {index}).listed(1).floats({1});
    const bool inside = index >= -3 && index < 3;
    EXPECT_EQ(call.run("aten::index.Tensor_out"), inside ? Error::kOk : Error::kKernelIndex);
    if (inside) {
      EXPECT_EQ(call.result<float>(2)[0], index == 2 ? 7.0F : 5.0F);
    }
  }
}

// Unlike those of index and index_put, indices along a dimension do not count from the end.
TEST(PlaceKernels, IndicesAlongADimensionCountFromTheFront) {
  for (const int64_t index : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2}, INT64_MIN}) {
    const Error expected = index == 0 || index == 1 ? Error::kOk : Error::kKernelIndex;
    const auto call = [&] {
      Call made;
      made.floats({2, 3}, {1, 2, 3, 4, 5, 6}).integer(0).longs({1, 1}, {index});
      return made;
    };
    EXPECT_EQ(call().flag(false).floats({1, 1}).run("aten::gather.out"), expected);
    EXPECT_EQ(call().floats({1, 1}).floats({2, 3}).run("aten::scatter.src_out"), expected);
    EXPECT_EQ(call().integer(7).floats({2, 3}).run("aten::scatter.value_out"), expected);
    EXPECT_EQ(call().floats({1, 1}).floats({2, 3}).run("aten::scatter_add.out"), expected);
  }
}

TEST(PlaceKernels, MaskedScatterNeedsAnElementForEveryPlace) {
  for (const int32_t count : {1, 2}) {
    Call call;
    call.floats({3}, {1, 2, 3});
    call.tensor<uint8_t>(ScalarType::kBool, {3}, {1, 0, 1}).floats({count}).floats({3});
    EXPECT_EQ(call.run("aten::masked_scatter.out"),
              count == 2 ? Error::kOk : Error::kKernelArguments);
  }
}

// Two dimensions more than the tensor's are walked.
TEST(PlaceKernels, PixelShuffleHasDimensionsToSpare) {
  for (const size_t rank : {size_t{14}, size_t{15}}) {
    std::vector<int32_t> deep(rank, 1), wide(rank, 1);
    deep[rank - 3] = 4;
    wide[rank - 2] = wide[rank - 1] = 2;
    Call call;
    EXPECT_EQ(call.floats(deep).integer(2).floats(wide).run("aten::pixel_shuffle.out"),
              rank == 14 ? Error::kOk : Error::kKernelArguments);
  }
}

}  // namespace
}  // namespace dtr
