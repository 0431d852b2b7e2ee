// Reports the progress of long work. Libraries take a ProgressFunction and never print; tools pass
// a TerminalProgress.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

namespace dtr {

// Called with the number of finished pieces and their total, perhaps from several threads; the
// number never decreases.
using ProgressFunction = std::function<void(size_t done, size_t total)>;

// One line on stderr, "calibrate 12/100", rewritten in place and erased at the end. If stderr is
// not a terminal it is silent, or, if DEUTERON_PROGRESS is in the environment, rewritten once a
// percent.
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
