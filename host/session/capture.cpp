#include "host/session/capture.h"

#include <algorithm>
#include <vector>

#include "compiler/ir/reorder.h"
#include "compiler/program/scalar_types.h"

namespace dtr {
namespace {

// The source operator whose result a tensor is: the last source of its origin. Parts of split
// operators have no counterpart.
std::optional<uint32_t> last_source(const pte::DebugOrigin* origin) {
  if (origin == nullptr || origin->sources() == nullptr || origin->sources()->size() == 0 ||
      origin->parts() != 1)
    return std::nullopt;
  return *std::max_element(origin->sources()->begin(), origin->sources()->end());
}

struct TensorLayout {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<int64_t> strides;  // in elements, by logical dimension
  size_t bytes = 0;
};

std::optional<TensorLayout> layout_of(const pte::DebugTensor& tensor) {
  const std::optional<DType> dtype = dtype_of(static_cast<ScalarType>(tensor.scalar_type()));
  if (!dtype || tensor.sizes() == nullptr || tensor.dim_order() == nullptr ||
      tensor.sizes()->size() != tensor.dim_order()->size())
    return std::nullopt;
  TensorLayout layout{.dtype = *dtype};
  layout.shape.assign(tensor.sizes()->begin(), tensor.sizes()->end());
  if (!checked_element_count(layout.shape)) return std::nullopt;
  layout.bytes = static_cast<size_t>(element_count(layout.shape)) * byte_size(layout.dtype);
  layout.strides.resize(layout.shape.size());
  int64_t stride = 1;
  for (size_t i = layout.shape.size(); i-- > 0;) {
    const size_t dim = tensor.dim_order()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (dim >= layout.shape.size()) return std::nullopt;
    layout.strides[dim] = stride;
    stride *= layout.shape[dim];
  }
  return layout;
}

Tensor taken(const TensorLayout& layout, const std::byte* data) {
  Tensor tensor(layout.dtype, layout.shape);
  reorder(layout.shape, byte_size(layout.dtype), data, layout.strides, tensor.view().data,
          strides(layout.shape, Layout::kContiguous));
  return tensor;
}

}  // namespace

Capture::Capture(const pte::DebugMap& map) {
  if (map.tensors() == nullptr) return;
  // Tensors of one call are in the order of execution, but all inside of delegates come before the
  // others. The first ones of an operator may be its input, quantized for it.
  for (const pte::DebugTensor* tensor : *map.tensors()) {
    const auto source = last_source(tensor->origin());
    if (!source) continue;
    const pte::DebugTensor*& entry = wanted_[*source];
    if (entry == nullptr || tensor->call() >= entry->call()) entry = tensor;
  }
}

void Capture::watch(RunHooks& hooks) {
  values_.clear();
  steps_.clear();
  hooks.after_event = [this](uint32_t instruction, const npu::Event& event,
                             std::span<const std::byte> arena) {
    after_event(instruction, event, arena);
  };
  hooks.after_instruction = [this](uint32_t instruction, const runtime::Method& method) {
    after_instruction(instruction, method);
  };
}

const pte::DebugTensor* Capture::described(uint32_t source) const {
  const auto found = wanted_.find(source);
  return found == wanted_.end() ? nullptr : found->second;
}

const Tensor* Capture::stored(uint32_t source) const {
  const auto found = values_.find(source);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<Tensor> Capture::real(uint32_t source) const {
  const Tensor* tensor = stored(source);
  if (tensor == nullptr) return std::nullopt;
  if (tensor->dtype() == DType::kFloat32)
    return Tensor::copy_of(DType::kFloat32, tensor->shape(), tensor->bytes());
  const pte::DebugTensor& tells = *described(source);
  const bool one_scale = tells.scales() != nullptr && tells.scales()->size() == 1 &&
                         tells.zero_points() != nullptr && tells.zero_points()->size() == 1;
  if (tensor->dtype() != DType::kInt8 || !one_scale) return std::nullopt;
  Tensor real(DType::kFloat32, tensor->shape());
  std::ranges::transform(tensor->values<int8_t>(), real.values<float>().begin(), [&](int8_t q) {
    return static_cast<float>(q - tells.zero_points()->Get(0)) * tells.scales()->Get(0);
  });
  return real;
}

void Capture::after_event(uint32_t instruction, const npu::Event& event,
                          std::span<const std::byte> arena) {
  if (event.kind != npu::EventKind::kCall) return;
  const uint32_t step = steps_[instruction]++;
  for (const auto& [source, tensor] : wanted_) {
    if (!tensor->in_delegate() || tensor->call() != static_cast<int32_t>(instruction) ||
        tensor->step() != step)
      continue;
    const std::optional<TensorLayout> layout = layout_of(*tensor);
    if (!layout || tensor->offset() > arena.size() ||
        layout->bytes > arena.size() - tensor->offset())
      continue;
    values_[source] = taken(*layout, arena.data() + tensor->offset());
  }
}

void Capture::after_instruction(uint32_t instruction, const runtime::Method& method) {
  for (const auto& [source, tensor] : wanted_) {
    if (tensor->value() < 0 || tensor->call() != static_cast<int32_t>(instruction)) continue;
    const runtime::Value* value = method.value(static_cast<size_t>(tensor->value()));
    const std::optional<TensorLayout> layout = layout_of(*tensor);
    if (!layout || value == nullptr || value->kind != runtime::ValueKind::kTensor ||
        value->tensor.data == nullptr)
      continue;
    if (value->tensor.bytes() == layout->bytes)
      values_[source] = taken(*layout, value->tensor.data);
  }
}

}  // namespace dtr
