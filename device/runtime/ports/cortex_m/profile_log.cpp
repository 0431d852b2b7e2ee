#include "device/runtime/ports/cortex_m/profile_log.h"

#if DEUTERON_PROFILE_EVENTS > 0

#include <new>

#include "device/runtime/ports/cortex_m/counter.h"
#include "device/runtime/ports/cortex_m/host_files.h"
#include "device/runtime/ports/cortex_m/semihosting.h"

namespace dtr::port::profile {
namespace {

using npu::ProfileEvent;
using runtime::Profiler;
using runtime::Status;

[[gnu::section(".arena")]] npu::ProfileRecord records[DEUTERON_PROFILE_EVENTS];
alignas(Profiler) std::byte profiler_memory[sizeof(Profiler)];
port_file file = PORT_CLOSED;
uint64_t time = 0;
// Of the run that is recorded.
Program program = nullptr;
size_t run = Profiler::kLost, used_bytes = 0;
uint32_t cost = 0;

Profiler& profiler() { return *std::launder(reinterpret_cast<Profiler*>(profiler_memory)); }

void open() {
  file = port_open("profile.bin", PORT_WRITE);
  new (profiler_memory) Profiler(records, {[](void*) { return time; }});
}

void write(Program of, const Status& status) {
  npu::ProfileHeader header = profiler().header();
  header.unit = npu::ProfileUnit::kInstructions;
  header.error = static_cast<uint8_t>(status.error);
  header.program = of->checksum;
  header.cost = cost;
  header.cost_events = cost > 0 ? of->events - 1 : 0;
  header.planned_bytes = of->planned_bytes;
  header.used_bytes = static_cast<uint32_t>(used_bytes);
  if (port_write(file, &header, sizeof header) == 0 ||
      port_write(file, records, header.records * sizeof *records) == 0)
    print("error: profile.bin cannot be written\n");
  profiler().clear();
}

Status recorded(ProfileEvent event, Status (*part)()) {
  const size_t at = profiler().start(event);
  const Stopwatch watch;
  const Status status = part();
  time += watch.instructions();
  if (status.ok()) profiler().stop(at);
  return status;
}

}  // namespace

Status start(Program starting, Status (*)()) {
  if (file == PORT_CLOSED) open();
  Status status = recorded(ProfileEvent::kLoad, starting->load);
  if (status.ok()) status = recorded(ProfileEvent::kInit, starting->prepare);
  cost = 0;
  write(starting, status);
  return status;
}

// What recording costs is measured on as many events as the run has.
void begin_run(Program running) {
  program = running;
  used_bytes = 0;
  const Stopwatch watch;
  profiler().record_and_discard(program->steps, program->events - 1 - program->steps);
  cost = static_cast<uint32_t>(watch.instructions());
  program->record_npu(&profiler());
  run = profiler().start(ProfileEvent::kRun);
}

void end_run(const Status& status) {
  if (status.ok()) profiler().stop(run);
  program->record_npu(nullptr);
  write(program, status);
}

void before(const runtime::Method& method, uint32_t step) {
  profiler().observer().before(&profiler(), method, step);
}

void after(const runtime::Method& method, uint32_t step, uint64_t instructions) {
  const runtime::ProfiledStep ran = program->step(step);
  if (ran.touched_end > used_bytes) used_bytes = ran.touched_end;
  time += method.is_delegate(step) ? ran.npu_cycles : instructions;
  profiler().observer().after(&profiler(), method, step);
}

}  // namespace dtr::port::profile

#endif
