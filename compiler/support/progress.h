// Progress of long work. Libraries take a ProgressFunction and never print; tools give them a
// TerminalProgress.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

namespace dtr {

// Called with how many of how many pieces are done; may come from several threads, numbers never
// decrease.
using ProgressFunction = std::function<void(size_t done, size_t total)>;

// One line on stderr, "calibrate 12/100", rewritten in place and erased at the end; silent when
// stderr is no terminal.
class TerminalProgress {
 public:
  explicit TerminalProgress(std::string label);
  ~TerminalProgress();
  TerminalProgress(const TerminalProgress&) = delete;
  TerminalProgress& operator=(const TerminalProgress&) = delete;

  void update(size_t done, size_t total);
  ProgressFunction function() {
    return [this](size_t done, size_t total) { update(done, total); };
  }

 private:
  std::string label_;
  std::mutex mutex_;
  size_t shown_ = 0;
  bool enabled_;
};

}  // namespace dtr
