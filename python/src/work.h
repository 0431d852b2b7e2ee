// Long work for Python: it runs on a thread of its own without the interpreter's lock, while the
// thread that called looks for signals and shows progress.
#pragma once

#include <nanobind/nanobind.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "compiler/support/cancellation.h"
#include "compiler/support/result.h"

namespace dtr::python {

namespace nb = nanobind;

// A diagnostic on its way to Python, where it becomes deuteron.Error.
struct DiagnosticError final : std::exception {
  explicit DiagnosticError(Diagnostic what) : diagnostic(std::move(what)) {}
  const char* what() const noexcept override { return diagnostic.reason.c_str(); }
  Diagnostic diagnostic;
};

// A check of the library's own code that failed. The message stands on stderr too.
struct CheckFailed final : std::exception {
  explicit CheckFailed(std::string text) : message(std::move(text)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};
// A forked child has none of the threads that work for its parent, and need not wait for them.
void forget_in_children();
// Lets failed checks throw CheckFailed, which becomes RuntimeError, in place of ending the process.
void throw_failed_checks();

// The value of a result, or throws its diagnostic.
template <class T>
T take(Result<T> result) {
  if (!result) throw DiagnosticError(std::move(result.error()));
  return std::move(*result);
}
inline void take(Result<void> status) {
  if (!status) throw DiagnosticError(std::move(status.error()));
}

class Work {
 public:
  // Runs `body` on a thread of its own and returns when it is done. Called with the interpreter's
  // lock, which is given away meanwhile. Throws what the body throws, and nb::python_error for what
  // a signal handler or a call raised (KeyboardInterrupt for ^C): the body is cancelled then. The
  // first ^C in a search ends that search alone (InterruptScope), and raises nothing.
  void run(const std::function<void()>& body);

  // For the body: runs `call` on the thread that called, with the interpreter's lock. `post` does
  // not wait for it. `call_and_wait` does, and throws Cancelled if the call raised an error.
  void post(std::function<void()> call);
  void call_and_wait(std::function<void()> call);

  // The interpreter ends: cancels all work that runs, waits until it has ended, at most as long as
  // this, and refuses what comes after. Called with the interpreter's lock.
  static void close(double seconds);

 private:
  struct Call {
    std::function<void()> function;
    bool* done = nullptr;  // set under the mutex, for those who wait
  };
  void serve();
  void keep_error();

  Cancellation cancellation_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;
  bool finished_ = false;
  std::exception_ptr raised_;  // by Python
};

// The value that `body` returns, by Work::run.
template <class Body>
auto work(const Body& body) -> decltype(body(std::declval<Work&>())) {
  Work running;
  if constexpr (std::is_void_v<decltype(body(running))>) {
    running.run([&] { body(running); });
  } else {
    std::optional<decltype(body(running))> value;
    running.run([&] { value.emplace(body(running)); });
    return *std::move(value);
  }
}

}  // namespace dtr::python
