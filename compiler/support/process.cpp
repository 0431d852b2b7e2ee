#include "compiler/support/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "compiler/support/cancellation.h"
#include "compiler/support/encode.h"
#include "compiler/support/interruption.h"

namespace dtr {
namespace {

tl::unexpected<Diagnostic> failed(const std::string& program, int error) {
  return fail(DiagnosticId::kFirmwareRun,
              fmt::format("{} cannot be run: {}", program, std::strerror(error)),
              error == ENOENT ? "install it; scripts/setup installs all that Deuteron uses"
                              : "check the machine's limits");
}

// How often a wait looks at the cancellation of the work that waits.
constexpr std::chrono::milliseconds kLook{50};

// Reads until the other end closes; false if that takes longer than the limit, or if the work is
// cancelled.
bool read_all(int pipe, std::chrono::seconds limit, std::string& output) {
  const auto end = std::chrono::steady_clock::now() + limit;
  const Cancellation* const cancellation = Cancellation::current();
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    if (cancellation != nullptr && cancellation->cancelled()) return false;
    const auto wait = cancellation == nullptr ? left : std::min(left, kLook);
    pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
    const int count = ::poll(&ready, 1, static_cast<int>(wait.count()));
    if (count < 0 && errno != EINTR) return false;
    if (count <= 0) continue;
    std::array<char, 4096> buffer{};
    const ssize_t bytes = ::read(pipe, buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return true;
    output.append(buffer.data(), static_cast<size_t>(bytes));
  }
}

}  // namespace

Result<ProcessResult> run_process(const std::vector<std::string>& arguments,
                                  const std::string& folder, std::chrono::seconds limit) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed(arguments[0], errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const std::string temporary = "TMPDIR=" + folder;
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (folder == "." || !std::string_view(*variable).starts_with("TMPDIR="))
      variables.push_back(*variable);
  if (folder != ".") variables.push_back(const_cast<char*>(temporary.c_str()));
  variables.push_back(nullptr);
  // A group of its own, so that the limit ends its children too; and all signals, of which we may
  // hold some back.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  auto held = block_signals();
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, words[0], &actions, &attributes, words.data(), variables.data());
  std::optional<Ephemeral> group;
  if (error == 0) group = Ephemeral::process_group(child);
  held.unlock();
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  ProcessResult result;
  if (error == 0) {
    result.timed_out = !read_all(ends[0], limit, result.output);
    if (result.timed_out) ::kill(-child, SIGKILL);
    // Once it is known to have ended it must not be ended again; once we waited for it its number
    // is another's.
    siginfo_t info;
    while (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) < 0 &&
           errno == EINTR) {
    }
    group.reset();
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  ::close(ends[0]);
  if (error != 0) return failed(arguments[0], error);
  check_cancelled();
  return result;
}

std::string end_of_output(std::string_view output) {
  constexpr size_t kShown = 2000;
  const bool is_cut = output.size() > kShown;
  if (is_cut) output.remove_prefix(output.size() - kShown);
  while (output.ends_with('\n')) output.remove_suffix(1);
  if (output.empty()) return {};
  std::string lines = is_cut ? ":\n  | …" : ":";
  while (!output.empty()) {
    const size_t end = std::min(output.find('\n'), output.size());
    lines += terminal_format("\n  | {}", output.substr(0, end));
    output.remove_prefix(std::min(end + 1, output.size()));
  }
  return lines;
}

}  // namespace dtr
