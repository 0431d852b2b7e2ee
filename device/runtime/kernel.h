// Kernels: functions with ExecuTorch's out-variant convention, found by name in a table of the
// caller. On a device the table has only the kernels of the program; there is no registration.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "device/pte/status.h"
#include "device/runtime/value.h"

namespace dtr::runtime {

using pte::Error;
using pte::Status;

// Arguments are in the order of the operator's schema, with the out tensors last; repeated results
// may follow and are ignored. Errors: kKernelArguments, kKernelDtype, kKernelIndex.
using KernelFunction = Error (*)(std::span<Value* const> arguments);

struct Kernel {
  std::string_view name;  // with overload: "aten::add.out"
  KernelFunction function;
};
using KernelTable = std::span<const Kernel>;

// Reads the arguments of a kernel by kind. A missing argument or one of another kind clears
// `good()` and yields a harmless value, so that a kernel reads all arguments and checks `good()`
// once.
class Arguments {
 public:
  explicit Arguments(std::span<Value* const> values) : values_(values) {}
  bool good() const { return good_; }

  const Tensor& tensor(size_t index) {
    const Value* value = get(index, ValueKind::kTensor);
    return value == nullptr ? kNothing : value->tensor;
  }
  // A tensor that the kernel writes.
  const Tensor& output(size_t index) {
    const Tensor& found = tensor(index);
    good_ &= found.writable;
    return found;
  }
  const Tensor* optional_tensor(size_t index) { return is_none(index) ? nullptr : &tensor(index); }
  int64_t integer(size_t index) {
    const Value* value = get(index, ValueKind::kInt);
    return value == nullptr ? 0 : value->integer;
  }
  bool flag(size_t index) {
    const Value* value = get(index, ValueKind::kBool);
    return value != nullptr && value->flag;
  }
  // A Scalar: integer, flag or floating point.
  double number(size_t index) {
    if (index < values_.size() && values_[index]->kind == ValueKind::kInt)
      return static_cast<double>(values_[index]->integer);
    if (index < values_.size() && values_[index]->kind == ValueKind::kBool)
      return values_[index]->flag ? 1.0 : 0.0;
    const Value* value = get(index, ValueKind::kDouble);
    return value == nullptr ? 0.0 : value->number;
  }
  double number_or(size_t index, double fallback) {
    return is_none(index) ? fallback : number(index);
  }
  std::string_view text(size_t index) {
    const Value* value = get(index, ValueKind::kString);
    return value == nullptr ? std::string_view()
                            : std::string_view(value->string.items, value->string.count);
  }
  std::span<const int64_t> ints(size_t index) {
    const Value* value = get(index, ValueKind::kInts);
    return value == nullptr ? std::span<const int64_t>()
                            : std::span(value->ints.items, value->ints.count);
  }
  std::span<const double> doubles(size_t index) {
    const Value* value = get(index, ValueKind::kDoubles);
    return value == nullptr ? std::span<const double>()
                            : std::span(value->doubles.items, value->doubles.count);
  }
  std::span<Value* const> tensors(size_t index) {
    const Value* value = get(index, ValueKind::kTensors);
    return value == nullptr ? std::span<Value* const>()
                            : std::span(value->tensors.items, value->tensors.count);
  }
  bool is_none(size_t index) const {
    return index < values_.size() && values_[index]->kind == ValueKind::kNone;
  }

 private:
  static constexpr Tensor kNothing{};

  const Value* get(size_t index, ValueKind kind) {
    if (index < values_.size() && values_[index]->kind == kind) return values_[index];
    good_ = false;
    return nullptr;
  }

  std::span<Value* const> values_;
  bool good_ = true;
};

}  // namespace dtr::runtime
