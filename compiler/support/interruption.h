// What must not outlive the process when a signal ends it: temporary files and folders, and
// processes that it started.
#pragma once

#include <sys/types.h>

#include <list>
#include <mutex>
#include <optional>
#include <string>

namespace dtr {

// From now on SIGHUP, SIGINT and SIGTERM first end and remove what is registered below, then end
// the process as they always do (128 + n to a shell). Those that are ignored stay ignored. Called
// once, before other threads start: they, too, leave the signals to this.
void clean_up_on_signals();

// While it is held no signal is looked at: for making something and registering it as one step.
[[nodiscard]] std::unique_lock<std::recursive_mutex> block_signals();

// Registered for as long as the object lives.
class Ephemeral {
 public:
  static Ephemeral path(const std::string& path) {
    return Ephemeral({.path = path});
  }  // a file, or a folder with all in it
  static Ephemeral process_group(pid_t group) {
    return Ephemeral({.path = {}, .group = group});
  }  // ended, then killed

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
