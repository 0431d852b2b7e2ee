#include "python/src/work.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <pthread.h>

#include <chrono>
#include <set>

#include "compiler/support/check_handler.h"
#include "compiler/support/interruption.h"

namespace dtr::python {
namespace {

// How often the thread that called looks for signals: well below the 0.2 s in which ^C ends work.
constexpr std::chrono::milliseconds kLook{20};

// Work that runs. The interpreter's lock guards both.
std::set<Work*> running;
bool closed = false;

// For a thread that comes back after the interpreter has ended: unwinding C++ frames there would
// end the process as a crash.
[[noreturn]] void wait_for_the_end() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Gives the interpreter's lock away for as long as the object lives.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() {
    if (_Py_IsFinalizing() != 0) wait_for_the_end();
    PyEval_RestoreThread(state_);
  }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace

void forget_in_children() {
  pthread_atfork(nullptr, nullptr, [] { running.clear(); });
}

void throw_failed_checks() {
  set_check_handler([](const char* condition, const char* file, int line) {
    throw CheckFailed(fmt::format(
        "internal error: {}:{}: check `{}` failed; this is a bug in Deuteron, please report it",
        file, line, condition));
  });
}

// Called where an error is handled. ^C in a search ends the search alone.
void Work::keep_error() {
  try {
    throw;
  } catch (const nb::python_error& error) {
    if (error.matches(PyExc_KeyboardInterrupt) && interrupt(&cancellation_)) return;
  } catch (...) {  // as below
  }
  const std::scoped_lock lock(mutex_);
  if (!raised_) raised_ = std::current_exception();
  cancellation_.cancel();
}

// Runs the calls that came, or drops them once one has raised.
void Work::serve() {
  for (;;) {
    Call call;
    bool dropped = false;
    {
      const std::scoped_lock lock(mutex_);
      if (calls_.empty()) return;
      call = std::move(calls_.front());
      calls_.pop_front();
      dropped = raised_ != nullptr;
    }
    if (!dropped) {
      try {
        call.function();
      } catch (const abi::__forced_unwind&) {
        // Python code that asked for the lock after the end: the interpreter ends its thread.
        wait_for_the_end();
      } catch (...) {
        keep_error();
      }
    }
    if (call.done != nullptr) {
      const std::scoped_lock lock(mutex_);
      *call.done = true;
      changed_.notify_all();
    }
  }
}

void Work::run(const std::function<void()>& body) {
  if (closed) {
    PyErr_SetString(PyExc_RuntimeError, "the interpreter is shutting down");
    throw nb::python_error();
  }
  running.insert(this);
  std::exception_ptr failure;
  std::thread worker([&] {
    const CancellationScope scope(&cancellation_);
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
    }
    const std::scoped_lock lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  });
  for (bool finished = false; !finished;) {
    {
      const WithoutLock without;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kLook, [&] { return finished_ || !calls_.empty(); });
      finished = finished_;
    }
    serve();
    if (!cancellation_.cancelled() && PyErr_CheckSignals() != 0) {
      try {
        throw nb::python_error();
      } catch (...) {
        keep_error();
      }
    }
  }
  worker.join();
  running.erase(this);
  if (raised_) std::rethrow_exception(raised_);
  if (failure) std::rethrow_exception(failure);
}

void Work::post(std::function<void()> call) {
  const std::scoped_lock lock(mutex_);
  calls_.push_back({.function = std::move(call)});
  changed_.notify_all();
}

void Work::call_and_wait(std::function<void()> call) {
  bool done = false;
  std::unique_lock lock(mutex_);
  calls_.push_back({.function = std::move(call), .done = &done});
  changed_.notify_all();
  changed_.wait(lock, [&] { return done; });
  if (raised_) throw Cancelled();
}

void Work::close(double seconds) {
  closed = true;
  for (Work* each : running) each->cancellation_.cancel();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!running.empty() && std::chrono::steady_clock::now() < end) {
    const WithoutLock without;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace dtr::python
