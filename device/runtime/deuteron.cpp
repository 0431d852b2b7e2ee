#include "device/runtime/deuteron.h"

#include <array>
#include <cstring>
#include <new>

#include "device/runtime/deuteron_model.h"
#include "device/runtime/environment.h"

namespace {

using dtr::runtime::Error;
using dtr::runtime::Method;
using dtr::runtime::Model;
using dtr::runtime::opened;
using dtr::runtime::Program;
using dtr::runtime::Status;
using dtr::runtime::Tensor;
using dtr::runtime::to_c;

static_assert(DTR_ALIGNMENT == dtr::runtime::kArenaAlignment);
static_assert(static_cast<int>(DTR_KERNEL_INDEX) == static_cast<int>(dtr::pte::kLastError) &&
              static_cast<int>(DTR_NO_SUCH_TENSOR) == static_cast<int>(Error::kNoSuchTensor) &&
              static_cast<int>(DTR_DELEGATE_FAILED) == static_cast<int>(Error::kDelegateFailed));
static_assert(static_cast<int>(DTR_INT8) == static_cast<int>(dtr::ScalarType::kChar) &&
              static_cast<int>(DTR_FLOAT32) == static_cast<int>(dtr::ScalarType::kFloat) &&
              static_cast<int>(DTR_BOOL) == static_cast<int>(dtr::ScalarType::kBool));

dtr_status describe(const Tensor* tensor, uint32_t index, dtr_tensor* out) {
  if (out == nullptr) return to_c({Error::kNull, index});
  if (tensor == nullptr) return to_c({Error::kNoSuchTensor, index});
  *out = {tensor->data, tensor->bytes(), static_cast<dtr_dtype>(tensor->dtype),
          tensor->rank, tensor->sizes,   tensor->dim_order};
  return to_c({});
}

const Status kNotPrepared{Error::kNotPrepared};

}  // namespace

const char* dtr_error_text(dtr_error error) { return dtr::pte::text(static_cast<Error>(error)); }

dtr_status dtr_load(dtr_model* model, const void* program, size_t bytes,
                    const dtr_environment* environment) {
  if (model == nullptr) return to_c({Error::kNull});
  Model& made = *new (model) Model;
  made.mark = dtr::runtime::mark_of(model);
  if (environment == nullptr) return to_c({Error::kNull});
  const Status status = Program::load({static_cast<const std::byte*>(program), bytes},
                                      environment->options, &made.program);
  if (made.program.method_count() > 0) made.chosen = made.program.method_name(0);
  return to_c(status);
}

uint32_t dtr_method_count(const dtr_model* model) {
  const Model* found = opened(model);
  return found == nullptr ? 0 : static_cast<uint32_t>(found->program.method_count());
}

const char* dtr_method_name(const dtr_model* model, uint32_t index) {
  return index < dtr_method_count(model) ? opened(model)->program.method_name(index).data() : "";
}

dtr_status dtr_choose_method(dtr_model* model, const char* name) {
  Model* found = opened(model);
  if (found == nullptr) return to_c(kNotPrepared);
  if (name == nullptr) return to_c({Error::kNull});
  found->method.release();
  for (uint32_t i = 0; i < dtr_method_count(model); ++i) {
    if (found->program.method_name(i) != name) continue;
    found->chosen = found->program.method_name(i);
    return to_c({});
  }
  return to_c({Error::kMissingMethod});
}

dtr_status dtr_requirements_of(const dtr_model* model, dtr_requirements* requirements) {
  const Model* found = opened(model);
  if (found == nullptr) return to_c(kNotPrepared);
  if (requirements == nullptr) return to_c({Error::kNull});
  Method::Requirements need;
  const Status status = Method::requirements(found->program, found->chosen, &need);
  if (status.ok()) *requirements = {need.state_bytes, need.memories, need.sizes};
  return to_c(status);
}

dtr_status dtr_prepare(dtr_model* model, dtr_memory state, const dtr_memory* memories,
                       uint32_t memory_count) {
  constexpr uint32_t kMostMemories = 8;
  Model* found = opened(model);
  if (found == nullptr) return to_c(kNotPrepared);
  if (memory_count > kMostMemories) return to_c({Error::kUnsupported, memory_count});
  if (memories == nullptr && memory_count > 0) return to_c({Error::kNull});
  std::array<std::span<std::byte>, kMostMemories> spans{};
  for (uint32_t i = 0; i < memory_count; ++i)
    spans[i] = {static_cast<std::byte*>(memories[i].data), memories[i].bytes};
  return to_c(found->method.prepare(found->program, found->chosen,
                                    {static_cast<std::byte*>(state.data), state.bytes},
                                    std::span(spans).first(memory_count)));
}

dtr_status dtr_reset(dtr_model* model) {
  Model* found = opened(model);
  return to_c(found == nullptr ? kNotPrepared : found->method.reset());
}

int dtr_has_states(const dtr_model* model) {
  const Model* found = opened(model);
  return found != nullptr && found->method.has_states() ? 1 : 0;
}

void dtr_release(dtr_model* model) {
  if (Model* found = opened(model); found != nullptr) found->method.release();
}

uint32_t dtr_input_count(const dtr_model* model) {
  const Model* found = opened(model);
  return found == nullptr ? 0 : static_cast<uint32_t>(found->method.input_count());
}
uint32_t dtr_output_count(const dtr_model* model) {
  const Model* found = opened(model);
  return found == nullptr ? 0 : static_cast<uint32_t>(found->method.output_count());
}

dtr_status dtr_input(const dtr_model* model, uint32_t index, dtr_tensor* tensor) {
  const Model* found = opened(model);
  return found == nullptr ? to_c(kNotPrepared)
                          : describe(found->method.input_tensor(index), index, tensor);
}

dtr_status dtr_output(const dtr_model* model, uint32_t index, dtr_tensor* tensor) {
  const Model* found = opened(model);
  return found == nullptr ? to_c(kNotPrepared)
                          : describe(found->method.output_tensor(index), index, tensor);
}

dtr_status dtr_set_input(dtr_model* model, uint32_t index, const dtr_tensor* tensor) {
  Model* found = opened(model);
  if (found == nullptr) return to_c(kNotPrepared);
  const bool null =
      tensor == nullptr ||
      (tensor->rank > 0 && (tensor->sizes == nullptr || tensor->dim_order == nullptr));
  if (null) return to_c({Error::kNull, index});
  // C's callers may store any number in the enum, which C++ must not read as one; its size follows
  // the compiler's options.
  uint32_t dtype = 0;
  std::memcpy(&dtype, &tensor->dtype, sizeof tensor->dtype);
  if (dtype > DTR_BOOL) return to_c({Error::kInputDtype, index});
  return to_c(found->method.set_input(index, {.data = tensor->data,
                                              .bytes = tensor->bytes,
                                              .dtype = static_cast<dtr::ScalarType>(dtype),
                                              .sizes = {tensor->sizes, tensor->rank},
                                              .dim_order = {tensor->dim_order, tensor->rank}}));
}

dtr_status dtr_set_output_memory(dtr_model* model, uint32_t index, dtr_memory memory) {
  Model* found = opened(model);
  if (found == nullptr) return to_c(kNotPrepared);
  return to_c(
      found->method.set_output_memory(index, {static_cast<std::byte*>(memory.data), memory.bytes}));
}

dtr_status dtr_run(dtr_model* model, const dtr_observer* observer) {
  Model* found = opened(model);
  if (found == nullptr) return to_c(kNotPrepared);
  if (observer == nullptr) return to_c(found->method.run());
  const dtr::runtime::Observer forward{
      .context = const_cast<dtr_observer*>(observer),
      .before =
          [](void* context, const Method&, uint32_t step) {
            return dtr::runtime::before(static_cast<dtr_observer*>(context), step);
          },
      .after =
          [](void* context, const Method&, uint32_t step) {
            dtr::runtime::after(static_cast<dtr_observer*>(context), step);
          }};
  return to_c(found->method.run(&forward));
}

uint32_t dtr_step_count(const dtr_model* model) {
  const Model* found = opened(model);
  return found == nullptr ? 0 : static_cast<uint32_t>(found->method.instruction_count());
}

const char* dtr_step_name(const dtr_model* model, uint32_t step) {
  const Model* found = opened(model);
  const std::string_view name = found == nullptr ? std::string_view() : found->method.name(step);
  return name.empty() ? "" : name.data();
}

int dtr_step_is_delegate(const dtr_model* model, uint32_t step) {
  const Model* found = opened(model);
  return static_cast<int>(found != nullptr && step < found->method.instruction_count() &&
                          found->method.is_delegate(step));
}
