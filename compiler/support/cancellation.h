// Work that its caller may end early. A caller with something else to watch, such as an interpreter
// whose user presses ^C, binds a Cancellation to the thread that does the work. Functions that run
// long look at it between their steps.
#pragma once

#include <atomic>
#include <exception>

namespace dtr {

class Cancellation {
 public:
  // From any thread.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // Of the work on this thread; null: it cannot be cancelled.
  static const Cancellation* current();

 private:
  std::atomic<bool> cancelled_{false};
};

// Binds a cancellation to this thread for as long as the object lives; `parallel_for` binds it to
// its threads too.
class CancellationScope {
 public:
  explicit CancellationScope(const Cancellation* cancellation);
  ~CancellationScope();
  CancellationScope(const CancellationScope&) = delete;
  CancellationScope& operator=(const CancellationScope&) = delete;

 private:
  const Cancellation* outer_;
};

// Leaves cancelled work. It is no diagnostic, because nothing is wrong with the input, and passes
// through the libraries as std::bad_alloc does: the code that binds the cancellation catches it.
struct Cancelled final : std::exception {
  const char* what() const noexcept override { return "the work was cancelled"; }
};

// Throws Cancelled once the work on this thread is cancelled.
void check_cancelled();

}  // namespace dtr
