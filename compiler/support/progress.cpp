#include "compiler/support/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace dtr {
namespace {

bool is_terminal() { return ::isatty(STDERR_FILENO) != 0; }

}  // namespace

TerminalProgress::TerminalProgress(std::string label)
    : label_(std::move(label)),
      enabled_(is_terminal() || std::getenv("DEUTERON_PROGRESS") != nullptr) {}

TerminalProgress::~TerminalProgress() {
  if (shown_ != 0) fmt::print(stderr, "\r\x1b[K");
}

void TerminalProgress::update(size_t done, size_t total) {
  if (!enabled_) return;
  const std::scoped_lock lock(mutex_);
  if (done <= shown_) return;
  // What is no terminal may be a file, which keeps each state: one for each percent.
  if (done < total && done * 100 / total == shown_ * 100 / total && !is_terminal()) return;
  shown_ = done;
  fmt::print(stderr, "\r{} {}/{}\x1b[K", label_, done, total);
  std::fflush(stderr);
}

}  // namespace dtr
