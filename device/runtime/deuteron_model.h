// The implementation of deuteron.h's `dtr_model`, and conversions to C types.
#pragma once

#include <new>

#include "device/runtime/deuteron.h"
#include "device/runtime/method.h"

namespace dtr::runtime {

// `mark` identifies a model at its address, to detect uninitialized memory and copies.
struct Model {
  Program program;
  Method method;
  std::string_view chosen = {};  // the method's name, a string of the program
  uintptr_t mark = 0;
};
inline uintptr_t mark_of(const dtr_model* model) {
  return reinterpret_cast<uintptr_t>(model) ^ 0x44545250u;
}
static_assert(sizeof(Model) <= sizeof(dtr_model) && alignof(Model) <= alignof(dtr_model));

// Null if dtr_load did not initialize the model at this address.
inline const Model* opened(const dtr_model* model) {
  if (model == nullptr) return nullptr;
  const Model* found = std::launder(reinterpret_cast<const Model*>(model));
  return found->mark == mark_of(model) ? found : nullptr;
}
inline Model* opened(dtr_model* model) {
  return const_cast<Model*>(opened(static_cast<const dtr_model*>(model)));
}

// Names are zero-terminated: they are strings of the program or of a table.
inline dtr_status to_c(const Status& status) {
  return {static_cast<dtr_error>(status.error), status.index, status.detail,
          status.name.empty() ? "" : status.name.data()};
}

inline bool before(const dtr_observer* observer, uint32_t step) {
  return observer == nullptr || observer->before == nullptr ||
         observer->before(observer->context, step) != 0;
}
inline void after(const dtr_observer* observer, uint32_t step) {
  if (observer != nullptr && observer->after != nullptr) observer->after(observer->context, step);
}

}  // namespace dtr::runtime
