#include "compiler/support/interruption.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

namespace dtr {
namespace {

using namespace std::chrono_literals;

struct Registry {
  std::recursive_mutex mutex;
  std::list<Ephemeral::Entry> entries;
  struct Interruptible {
    const Cancellation* work;
    Cancellation* cancellation;
  };
  std::list<Interruptible> interruptible;
};

// Never destroyed: a signal may come while the process ends.
Registry& registry() {
  static Registry& instance = *std::make_unique<Registry>().release();
  return instance;
}

// Sends the signal, so that processes can remove their files, and kills those that remain after 1
// s.
void end_group(pid_t group, int signal) {
  ::kill(-group, signal);
  for (int i = 0; i < 100; ++i) {
    while (::waitpid(-group, nullptr, WNOHANG) > 0) {
    }
    if (::kill(-group, 0) != 0) return;
    std::this_thread::sleep_for(10ms);
  }
  ::kill(-group, SIGKILL);
}

[[noreturn]] void end_by(int signal) {
  // Held to the end: nothing is made or registered behind what was removed.
  registry().mutex.lock();
  for (const Ephemeral::Entry& entry : registry().entries)
    if (entry.group != 0) end_group(entry.group, signal);
  for (const Ephemeral::Entry& entry : registry().entries) {
    std::error_code ignored;
    if (!entry.path.empty()) std::filesystem::remove_all(entry.path, ignored);
  }
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);  // not reached: the default is to end
}

}  // namespace

void clean_up_on_signals() {
#ifdef __EMSCRIPTEN__
  return;  // no signals, and no thread that could wait for them
#else
  ::signal(SIGXFSZ, SIG_IGN);  // a file that becomes too large is an error of that write
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction action = {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&set, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([set] {
    int signal = 0;
    while (::sigwait(&set, &signal) != 0 || (signal == SIGINT && interrupt(nullptr))) {
    }
    end_by(signal);
  }).detach();
#endif
}

InterruptScope::InterruptScope(Cancellation& cancellation) : cancellation_(cancellation) {
  const auto held = block_signals();
  registry().interruptible.push_back({Cancellation::current(), &cancellation});
}

InterruptScope::~InterruptScope() {
  const auto held = block_signals();
  registry().interruptible.remove_if(
      [&](const auto& each) { return each.cancellation == &cancellation_; });
}

bool interrupt(const Cancellation* work) {
  const auto held = block_signals();
  const size_t cancelled = registry().interruptible.remove_if([&](const auto& each) {
    if (work != nullptr && each.work != work) return false;
    each.cancellation->cancel();
    return true;
  });
  return cancelled > 0;
}

std::unique_lock<std::recursive_mutex> block_signals() {
  return std::unique_lock(registry().mutex);
}

Ephemeral::Ephemeral(Entry entry) {
  const auto held = block_signals();
  entry_ = registry().entries.insert(registry().entries.end(), std::move(entry));
}

Ephemeral::Ephemeral(Ephemeral&& other) noexcept : entry_(std::exchange(other.entry_, {})) {}

Ephemeral& Ephemeral::operator=(Ephemeral&& other) noexcept {
  std::swap(entry_, other.entry_);
  return *this;
}

Ephemeral::~Ephemeral() {
  if (!entry_) return;
  const auto held = block_signals();
  registry().entries.erase(*entry_);
}

}  // namespace dtr
