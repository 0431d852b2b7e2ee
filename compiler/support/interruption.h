// Cleans up when a signal ends the process: removes temporary files and folders and ends child
// processes.
#pragma once

#include <sys/types.h>

#include <list>
#include <mutex>
#include <optional>
#include <string>

#include "compiler/support/cancellation.h"

namespace dtr {

// Installs a handler: SIGHUP, SIGINT and SIGTERM first end and remove everything that is registered
// below, then end the process as usual (128 + n to a shell). Ignored signals stay ignored. Call it
// once, before other threads start, which inherit the signal mask.
void clean_up_on_signals();

// While an object of this class lives, the first interrupt (^C) of the work on this thread cancels
// `cancellation`: the work ends a search and keeps the best result so far. A second interrupt ends
// the work. With clean_up_on_signals SIGINT is an interrupt of all work; an interpreter calls
// `interrupt`.
class InterruptScope {
 public:
  explicit InterruptScope(Cancellation& cancellation);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  Cancellation& cancellation_;
};

// Interrupts the work that `work` cancels, or all work if it is null. False if that work has no
// InterruptScope that was not interrupted yet: the caller ends it.
bool interrupt(const Cancellation* work);

// Defers signals while the lock is held, to create and register something in one step.
[[nodiscard]] std::unique_lock<std::recursive_mutex> block_signals();

// A registered file, folder or process group; unregistered by the destructor.
class Ephemeral {
 public:
  static Ephemeral path(const std::string& path) {
    return Ephemeral({.path = path});
  }  // a file, or a folder with its contents
  static Ephemeral process_group(pid_t group) {
    return Ephemeral({.path = {}, .group = group});
  }  // terminated, then killed

  Ephemeral(Ephemeral&& other) noexcept;
  Ephemeral& operator=(Ephemeral&& other) noexcept;
  Ephemeral(const Ephemeral&) = delete;
  Ephemeral& operator=(const Ephemeral&) = delete;
  ~Ephemeral();

  struct Entry {
    std::string path;
    pid_t group = 0;
  };

 private:
  explicit Ephemeral(Entry entry);
  std::optional<std::list<Entry>::iterator> entry_;
};

}  // namespace dtr
