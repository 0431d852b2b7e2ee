// What a violated DTR_CHECK does. A command ends; an interpreter, which holds the work of others,
// must not.
#pragma once

namespace dtr {

// Called behind the message of a violated check, on the thread that found it. It may throw; if it
// returns, the process ends.
using CheckHandler = void (*)(const char* condition, const char* file, int line);

// For the whole process, before other threads start; null: the process ends with exit code 3. The
// handler interrupts the work, and the caller discards every object that took part in it.
void set_check_handler(CheckHandler handler);

}  // namespace dtr
