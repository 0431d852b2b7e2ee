#include "compiler/support/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace dtr {

TerminalProgress::TerminalProgress(std::string label)
    : label_(std::move(label)), enabled_(::isatty(STDERR_FILENO) != 0) {}

TerminalProgress::~TerminalProgress() {
  if (shown_ != 0) fmt::print(stderr, "\r\x1b[K");
}

void TerminalProgress::update(size_t done, size_t total) {
  if (!enabled_) return;
  const std::scoped_lock lock(mutex_);
  if (done <= shown_) return;
  shown_ = done;
  fmt::print(stderr, "\r{} {}/{}\x1b[K", label_, done, total);
  std::fflush(stderr);
}

}  // namespace dtr
