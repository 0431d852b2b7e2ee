// How many instructions a piece of code executes, by the SysTick timer: exact to a few under QEMU
// with `-icount shift=0`, where every instruction takes a nanosecond. On silicon it counts
// processor cycles, in steps of one tick.
#pragma once

#include <cstdint>

namespace dtr::port {

void counter_start();
extern "C" void counter_tick();  // the interrupt: 2^24 ticks have passed

class Stopwatch {
 public:
  Stopwatch();                    // waits for the edge of a tick, then starts
  uint64_t instructions() const;  // since then; waits for the next edge and takes that off

 private:
  uint64_t start_;  // ticks
};

}  // namespace dtr::port
