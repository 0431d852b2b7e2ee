#include "device/runtime/ports/cortex_m/counter.h"

#include <board.h>  // of the board: its folder is in the include path

#include "device/runtime/ports/cortex_m/host_files.h"

namespace dtr::port {
namespace {

volatile uint32_t& at(uint32_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }
constexpr uint32_t kControl = 0xE000E010, kReload = 0xE000E014, kCurrent = 0xE000E018;
constexpr uint32_t kPeriod = 1U << 24;

volatile uint32_t periods = 0;

// The timer counts down; the interrupt for its end may come between two reads.
uint64_t ticks() {
  for (;;) {
    const uint32_t before = periods;
    const uint32_t current = at(kCurrent);
    if (periods == before) return uint64_t{before} * kPeriod + (kPeriod - 1 - current);
  }
}

// Waits for the next edge; returns the iterations of a loop of four instructions until then.
uint32_t wait_for_edge() {
  uint32_t turns = 0, first = at(kCurrent), now = 0;
  asm volatile(
      "1: ldr %[now], [%[timer]]\n"
      "   adds %[turns], #1\n"
      "   cmp %[now], %[first]\n"
      "   beq 1b\n"
      : [now] "=&r"(now), [turns] "+l"(turns)
      : [timer] "r"(kCurrent), [first] "r"(first)
      : "cc", "memory");
  return turns;
}
constexpr uint32_t kInstructionsPerTurn = 4;

// The waiting for the edge is not counted.
uint64_t instructions_since(uint64_t start) {
  const uint32_t turns = wait_for_edge();
  const uint64_t passed = (ticks() - start) * board::kInstructionsPer4Ticks / 4;
  const uint64_t waited = uint64_t{turns} * kInstructionsPerTurn;
  return passed > waited ? passed - waited : 0;
}

}  // namespace

void counter_start() {
  at(kReload) = kPeriod - 1;
  at(kCurrent) = 0;
  at(kControl) = 7;  // processor clock, interrupt, on
}

void counter_tick() { periods = periods + 1; }

Stopwatch::Stopwatch() {
  wait_for_edge();
  start_ = ticks();
}

uint64_t Stopwatch::instructions() const { return instructions_since(start_); }

}  // namespace dtr::port

uint64_t port_instructions() { return dtr::port::instructions_since(0); }
