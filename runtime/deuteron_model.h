// What is behind deuteron.h's `dtr_model`, and how its types become C's.
#pragma once

#include <new>

#include "runtime/deuteron.h"
#include "runtime/method.h"

namespace dtr::runtime {

struct Model {
  Program program;
  Method method;
};
static_assert(sizeof(Model) <= sizeof(dtr_model) && alignof(Model) <= alignof(dtr_model));

inline Model& of(dtr_model* model) { return *std::launder(reinterpret_cast<Model*>(model)); }
inline const Model& of(const dtr_model* model) { return *std::launder(reinterpret_cast<const Model*>(model)); }

// Names end with a zero: they are strings of the program or of a table.
inline dtr_status to_c(const Status& status) {
  return {static_cast<dtr_error>(status.error), status.index, status.detail, status.name.empty() ? "" : status.name.data()};
}

inline bool before(const dtr_observer* observer, uint32_t step) {
  return observer == nullptr || observer->before == nullptr || observer->before(observer->context, step) != 0;
}
inline void after(const dtr_observer* observer, uint32_t step) {
  if (observer != nullptr && observer->after != nullptr) observer->after(observer->context, step);
}

}  // namespace dtr::runtime
