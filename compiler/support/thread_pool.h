// Runs independent pieces of work on several threads. Results are deterministic if piece `i` writes
// only to slot `i`.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "compiler/support/cancellation.h"

namespace dtr {

// The hardware threads of this machine, at least 1.
inline unsigned default_threads() { return std::max(1U, std::thread::hardware_concurrency()); }

// More are refused where a user asks for them: a few thousand are all that a machine can start, for
// all its programs together.
inline constexpr unsigned kMostThreads = 1024;

// Calls body(i) for every i in [0, count), on up to `threads` threads (0: default_threads()), and
// returns when all are done. The caller's thread takes part, so one thread means a plain loop. If
// threads cannot be created, fewer are used. An exception of a body (std::bad_alloc of the standard
// library) stops the others and is rethrown on the caller's thread.
template <class Body>
void parallel_for(size_t count, unsigned threads, const Body& body) {
  std::atomic<size_t> next{0};
  std::once_flag failed;
  std::exception_ptr failure;
  const Cancellation* const cancellation = Cancellation::current();
  const auto work = [&]() noexcept {
    const CancellationScope scope(cancellation);
    try {
      for (size_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
           i = next.fetch_add(1, std::memory_order_relaxed))
        body(i);
    } catch (...) {
      std::call_once(failed, [&] { failure = std::current_exception(); });
      next.store(count, std::memory_order_relaxed);
    }
  };
  const size_t wanted = std::min<size_t>(threads == 0 ? default_threads() : threads, count);
  {
    std::vector<std::jthread> helpers;
    helpers.reserve(wanted);
    try {
      for (size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
    } catch (const std::system_error&) {  // no further thread
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace dtr
