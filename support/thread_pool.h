// Runs independent pieces of work on several threads. Results are deterministic when piece `i` writes only to slot `i`: which thread
// runs a piece is not fixed, what it computes is.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace dtr {

// Threads of this machine, at least 1.
inline unsigned default_threads() { return std::max(1U, std::thread::hardware_concurrency()); }

// Calls body(i) for every i in [0, count), on up to `threads` threads (0: default_threads()), and returns when all are done. The
// caller's thread takes part, so one thread means a plain loop. `body` must not throw.
template <class Body>
void parallel_for(size_t count, unsigned threads, const Body& body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1, std::memory_order_relaxed); i < count; i = next.fetch_add(1, std::memory_order_relaxed)) body(i);
  };
  const size_t wanted = std::min<size_t>(threads == 0 ? default_threads() : threads, count);
  std::vector<std::jthread> helpers;
  for (size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
  work();
}

}  // namespace dtr
