// What starts and runs of an image cost, written to `profile.bin` of the host: a header and its
// records for each program's start and each run (device/npu/profile.h). `deuteron profile
// profile.bin --program M.pte` shows them. Without the option DEUTERON_PROFILE all of this is
// nothing.
//
// Times are NPU cycles for what the NPU runs and executed instructions for the rest; recording is
// not in them.
#pragma once

#include "device/runtime/profiler.h"

namespace dtr::port::profile {

#if DEUTERON_PROFILE_EVENTS > 0

using Program = const runtime::ProfiledProgram*;
constexpr Program of(const runtime::ProfiledProgram& program) { return &program; }

// Loads and prepares a program.
runtime::Status start(Program program, runtime::Status (*start)());
// Around Method::run; `end` writes what was recorded, also of a run that failed.
void begin_run(Program program);
void end_run(const runtime::Status& status);
// Around each of its steps; `after` before the NPU is asked for its cycles.
void before(const runtime::Method& method, uint32_t step);
void after(const runtime::Method& method, uint32_t step, uint64_t instructions);

#else

struct Program {};
constexpr Program of(const runtime::ProfiledProgram&) { return {}; }
inline runtime::Status start(Program, runtime::Status (*start)()) { return start(); }
inline void begin_run(Program) {}
inline void end_run(const runtime::Status&) {}
inline void before(const runtime::Method&, uint32_t) {}
inline void after(const runtime::Method&, uint32_t, uint64_t) {}

#endif

}  // namespace dtr::port::profile
