#include "host/simulator/crew.h"

#include <system_error>
#include <utility>

namespace dtr::simulator {
namespace {

constexpr uint64_t kOpen = uint64_t{1} << 31, kJoined = kOpen - 1, kRound = uint64_t{1} << 32;
constexpr int kSpins = 2000;  // some 20 µs

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A page has one thread, and a library without these functions.
void sleep_while(const std::atomic<uint64_t>& gate, uint64_t value) {
#if defined(__EMSCRIPTEN__)
  (void)gate, (void)value;
#else
  gate.wait(value);
#endif
}
void wake_all(std::atomic<uint64_t>& gate) {
#if defined(__EMSCRIPTEN__)
  (void)gate;
#else
  gate.notify_all();
#endif
}

}  // namespace

Crew::Crew(unsigned members) {
  try {
    for (unsigned member = 1; member < members; ++member)
      helpers_.emplace_back([this, member] { help(member); });
  } catch (const std::system_error&) {  // no further thread
  }
}

Crew::~Crew() {
  ended_.store(true);
  gate_.fetch_add(kRound);
  wake_all(gate_);
}

void Crew::take_parts(size_t member) {
  try {
    for (uint32_t part = next_.fetch_add(1, std::memory_order_relaxed); part < parts_;
         part = next_.fetch_add(1, std::memory_order_relaxed))
      (*work_)(member, part);
  } catch (...) {  // std::bad_alloc of the standard library
    if (!failed_.test_and_set()) failure_ = std::current_exception();
    next_.store(parts_, std::memory_order_relaxed);
  }
}

void Crew::help(size_t member) {
  uint64_t seen = 0;  // the last round that this helper knows
  for (int spins = 0;;) {
    uint64_t gate = gate_.load(std::memory_order_acquire);
    if (ended_.load(std::memory_order_relaxed)) return;
    if (gate / kRound == seen || (gate & kOpen) == 0) {
      if (++spins < kSpins) {
        pause();
      } else {
        sleep_while(gate_, gate);
        spins = 0;
      }
      continue;
    }
    if (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) continue;
    seen = gate / kRound;
    take_parts(member);
    left_.fetch_add(1, std::memory_order_release);
    spins = 0;
  }
}

void Crew::run(uint32_t parts, const Work& work) {
  work_ = &work;
  parts_ = parts;
  next_.store(0, std::memory_order_relaxed);
  left_.store(0, std::memory_order_relaxed);
  const uint64_t round = gate_.load(std::memory_order_relaxed) / kRound + 1;
  gate_.store(round * kRound | kOpen, std::memory_order_release);
  wake_all(gate_);
  take_parts(0);
  const uint64_t joined = gate_.fetch_and(~kOpen, std::memory_order_acq_rel) & kJoined;
  for (int spins = 0; left_.load(std::memory_order_acquire) != joined; ++spins) {
    if (spins < kSpins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
  if (!failed_.test()) return;
  failed_.clear();
  std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace dtr::simulator
