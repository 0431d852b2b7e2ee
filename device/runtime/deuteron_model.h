// What is behind deuteron.h's `dtr_model`, and how its types become C's.
#pragma once

#include <new>

#include "device/runtime/deuteron.h"
#include "device/runtime/method.h"

namespace dtr::runtime {

// `mark` tells a model at its place from memory that holds none, or a copy of one.
struct Model {
  Program program;
  Method method;
  uintptr_t mark = 0;
};
inline uintptr_t mark_of(const dtr_model* model) {
  return reinterpret_cast<uintptr_t>(model) ^ 0x44545250u;
}
static_assert(sizeof(Model) <= sizeof(dtr_model) && alignof(Model) <= alignof(dtr_model));

// Null if dtr_load has not seen it.
inline const Model* opened(const dtr_model* model) {
  if (model == nullptr) return nullptr;
  const Model* found = std::launder(reinterpret_cast<const Model*>(model));
  return found->mark == mark_of(model) ? found : nullptr;
}
inline Model* opened(dtr_model* model) {
  return const_cast<Model*>(opened(static_cast<const dtr_model*>(model)));
}

// Names end with a zero: they are strings of the program or of a table.
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
