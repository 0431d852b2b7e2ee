#include "runtime/deuteron.h"

#include <array>
#include <new>

#include "runtime/deuteron_model.h"
#include "runtime/environment.h"

namespace {

using dtr::runtime::Error;
using dtr::runtime::Method;
using dtr::runtime::Model;
using dtr::runtime::of;
using dtr::runtime::Program;
using dtr::runtime::Status;
using dtr::runtime::Tensor;
using dtr::runtime::to_c;

static_assert(DTR_ALIGNMENT == dtr::runtime::kArenaAlignment);
static_assert(static_cast<int>(DTR_STOPPED) == static_cast<int>(Error::kStopped) &&
              static_cast<int>(DTR_NO_SUCH_TENSOR) == static_cast<int>(Error::kNoSuchTensor) &&
              static_cast<int>(DTR_DELEGATE_FAILED) == static_cast<int>(Error::kDelegateFailed));
static_assert(static_cast<int>(DTR_INT8) == static_cast<int>(dtr::ScalarType::kChar) &&
              static_cast<int>(DTR_FLOAT32) == static_cast<int>(dtr::ScalarType::kFloat) &&
              static_cast<int>(DTR_BOOL) == static_cast<int>(dtr::ScalarType::kBool));

std::string_view first_method(const Program& program) { return program.method_count() > 0 ? program.method_name(0) : std::string_view(); }

dtr_status describe(const Tensor* tensor, uint32_t index, dtr_tensor* out) {
  if (tensor == nullptr) return to_c({Error::kNoSuchTensor, index});
  *out = {tensor->data, tensor->bytes(), static_cast<dtr_dtype>(tensor->dtype), tensor->rank, tensor->sizes, tensor->dim_order};
  return to_c({});
}

}  // namespace

const char* dtr_error_text(dtr_error error) { return dtr::pte::text(static_cast<Error>(error)); }

dtr_status dtr_load(dtr_model* model, const void* program, size_t bytes, const dtr_environment* environment) {
  new (model) Model;
  return to_c(Program::load({static_cast<const std::byte*>(program), bytes}, environment->options, &of(model).program));
}

dtr_status dtr_requirements_of(const dtr_model* model, dtr_requirements* requirements) {
  Method::Requirements need;
  const Status status = Method::requirements(of(model).program, first_method(of(model).program), &need);
  if (status.ok()) *requirements = {need.state_bytes, need.memories, need.sizes};
  return to_c(status);
}

dtr_status dtr_prepare(dtr_model* model, dtr_memory state, const dtr_memory* memories, uint32_t memory_count) {
  constexpr uint32_t kMostMemories = 8;
  if (memory_count > kMostMemories) return to_c({Error::kUnsupported, memory_count});
  std::array<std::span<std::byte>, kMostMemories> spans{};
  for (uint32_t i = 0; i < memory_count; ++i) spans[i] = {static_cast<std::byte*>(memories[i].data), memories[i].bytes};
  return to_c(of(model).method.prepare(of(model).program, first_method(of(model).program),
                                       {static_cast<std::byte*>(state.data), state.bytes}, std::span(spans).first(memory_count)));
}

void dtr_release(dtr_model* model) { of(model).method.release(); }

uint32_t dtr_input_count(const dtr_model* model) { return static_cast<uint32_t>(of(model).method.input_count()); }
uint32_t dtr_output_count(const dtr_model* model) { return static_cast<uint32_t>(of(model).method.output_count()); }

dtr_status dtr_input(const dtr_model* model, uint32_t index, dtr_tensor* tensor) {
  return describe(of(model).method.input_tensor(index), index, tensor);
}

dtr_status dtr_output(const dtr_model* model, uint32_t index, dtr_tensor* tensor) {
  return describe(of(model).method.output_tensor(index), index, tensor);
}

dtr_status dtr_set_input(dtr_model* model, uint32_t index, const dtr_tensor* tensor) {
  return to_c(of(model).method.set_input(index, {.data = tensor->data,
                                                 .bytes = tensor->bytes,
                                                 .dtype = static_cast<dtr::ScalarType>(tensor->dtype),
                                                 .sizes = {tensor->sizes, tensor->rank},
                                                 .dim_order = {tensor->dim_order, tensor->rank}}));
}

dtr_status dtr_set_output_memory(dtr_model* model, uint32_t index, dtr_memory memory) {
  return to_c(of(model).method.set_output_memory(index, {static_cast<std::byte*>(memory.data), memory.bytes}));
}

dtr_status dtr_run(dtr_model* model, const dtr_observer* observer) {
  if (observer == nullptr) return to_c(of(model).method.run());
  const dtr::runtime::Observer forward{
      .context = const_cast<dtr_observer*>(observer),
      .before = [](void* context, const Method&, uint32_t step) { return dtr::runtime::before(static_cast<dtr_observer*>(context), step); },
      .after = [](void* context, const Method&, uint32_t step) { dtr::runtime::after(static_cast<dtr_observer*>(context), step); }};
  return to_c(of(model).method.run(&forward));
}

uint32_t dtr_step_count(const dtr_model* model) { return static_cast<uint32_t>(of(model).method.instruction_count()); }

const char* dtr_step_name(const dtr_model* model, uint32_t step) {
  const std::string_view name = of(model).method.name(step);
  return name.empty() ? "" : name.data();
}

int dtr_step_is_delegate(const dtr_model* model, uint32_t step) {
  return static_cast<int>(step < of(model).method.instruction_count() && of(model).method.is_delegate(step));
}
