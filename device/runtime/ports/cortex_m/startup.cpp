// From reset to main on a Cortex-M33 or M55: vectors, memory, floating point, a limit of the stack.
// Faults end the program with a message instead of hanging.
#include <cstdint>
#include <cstring>

#include "device/runtime/ports/cortex_m/counter.h"
#include "device/runtime/ports/cortex_m/semihosting.h"

extern "C" {
// Of the linker script.
extern uint32_t port_stack_top[], port_stack_limit[], port_data_load[], port_data_begin[],
    port_data_end[], port_bss_begin[], port_bss_end[], port_program_load[], port_program_begin[],
    port_program_end[];
int main();
[[noreturn]] void port_reset();
[[noreturn]] void port_fault();
}

namespace {

using Vector = void (*)();

volatile uint32_t& at(uint32_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }
constexpr uint32_t kVectorTable = 0xE000ED08, kCoprocessorAccess = 0xE000ED88,
                   kFaultStatus = 0xE000ED28;

}  // namespace

__attribute__((section(".vectors"), used)) const Vector port_vectors[16] = {
    reinterpret_cast<Vector>(port_stack_top),
    port_reset,
    port_fault,  // NMI
    port_fault,  // hard fault
    port_fault,  // memory management
    port_fault,  // bus
    port_fault,  // usage
    port_fault,  // secure
    nullptr,
    nullptr,
    nullptr,
    port_fault,  // SVC
    port_fault,  // debug monitor
    nullptr,
    port_fault,              // PendSV
    dtr::port::counter_tick  // SysTick
};

void port_reset() {
  at(kVectorTable) = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(port_vectors));
  asm volatile("msr msplim, %0" : : "r"(port_stack_limit));
  at(kCoprocessorAccess) = at(kCoprocessorAccess) | 0xFU << 20;  // floating point and MVE
  asm volatile("dsb\n isb" : : : "memory");
  std::memcpy(port_data_begin, port_data_load,
              static_cast<size_t>(port_data_end - port_data_begin) * sizeof(uint32_t));
  std::memcpy(port_program_begin, port_program_load,
              static_cast<size_t>(port_program_end - port_program_begin) * sizeof(uint32_t));
  std::memset(port_bss_begin, 0,
              static_cast<size_t>(port_bss_end - port_bss_begin) * sizeof(uint32_t));
  dtr::port::counter_start();
  dtr::port::exit(static_cast<uint32_t>(main()));
}

void port_fault() {
  constexpr uint32_t kFaulted = 3;
  dtr::port::print("\nfault: the core stopped, configurable fault status ");
  dtr::port::print(at(kFaultStatus));
  dtr::port::print("\n");
  dtr::port::exit(kFaulted);
}
