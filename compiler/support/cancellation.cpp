#include "compiler/support/cancellation.h"

namespace dtr {
namespace {

thread_local const Cancellation* bound = nullptr;

}  // namespace

const Cancellation* Cancellation::current() { return bound; }

CancellationScope::CancellationScope(const Cancellation* cancellation) : outer_(bound) {
  bound = cancellation;
}

CancellationScope::~CancellationScope() { bound = outer_; }

void check_cancelled() {
  if (bound != nullptr && bound->cancelled()) throw Cancelled();
}

}  // namespace dtr
