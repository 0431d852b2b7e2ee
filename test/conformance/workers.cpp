#include "test/conformance/workers.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "compiler/support/diagnostic.h"
#include "compiler/support/thread_pool.h"

namespace dtr::conformance {
namespace {

nlohmann::json to_json(const Check& check) {
  return {{"check", check.name},
          {"state", name(check.state)},
          {"text", check.text},
          {"figures", check.figures}};
}

Check check_from_json(const nlohmann::json& object) {
  const std::string said = object.value("state", "");
  State state = State::kFailed;
  for (const State each : {State::kPassed, State::kRefused, State::kNotCompared})
    if (said == name(each)) state = each;
  return {.name = object.value("check", ""),
          .state = state,
          .text = object.value("text", ""),
          .figures = object.value("figures", nlohmann::json::object())};
}

std::string to_line(const Check& check) {
  return to_json(check).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// A line of a worker that has said everything.
constexpr std::string_view kLastWord = "end\n";

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

class Worker {
 public:
  Worker(const std::filesystem::path& folder, const WorkerOptions& options)
      : name_(folder.filename()) {
    std::array<int, 2> answers = {}, errors = {};
    DTR_CHECK(pipe(answers.data()) == 0 && pipe(errors.data()) == 0);
    process_ = fork();
    DTR_CHECK(process_ >= 0);
    if (process_ == 0) {
      close(answers[0]);
      close(errors[0]);
      dup2(errors[1], STDERR_FILENO);
      alarm(options.seconds);
      run_case(folder, *options.target,
               [&](const Check& check) { write_all(answers[1], to_line(check)); });
      write_all(answers[1], kLastWord);
      _exit(0);
    }
    close(answers[1]);
    close(errors[1]);
    answers_.fd = answers[0];
    errors_.fd = errors[0];
  }

  std::array<pollfd, 2> events() const {
    return {pollfd{answers_.fd, POLLIN, 0}, pollfd{errors_.fd, POLLIN, 0}};
  }
  // Reads what is there; true when the process has ended.
  bool read_on() {
    answers_.read_on();
    errors_.read_on();
    return answers_.fd < 0 && errors_.fd < 0;
  }

  CaseResult result() {
    int status = 0;
    waitpid(process_, &status, 0);
    CaseResult result{
        .name = name_,
        .seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()};
    std::string_view text = answers_.text;
    const bool complete = text.ends_with(kLastWord);
    if (complete) text.remove_suffix(kLastWord.size());
    for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1))
      result.checks.push_back(check_from_json(
          nlohmann::json::parse(text.substr(0, end), nullptr, /*allow_exceptions=*/false)));
    if (!complete)
      result.checks.push_back(
          {.name = "crash",
           .text = fmt::format(
               "{}{}",
               !WIFSIGNALED(status)          ? fmt::format("exit code {}", WEXITSTATUS(status))
               : WTERMSIG(status) == SIGALRM ? std::string("took too long")
                                             : fmt::format("signal {}", WTERMSIG(status)),
               errors_.text.empty() ? "" : ": " + errors_.text)});
    return result;
  }

 private:
  struct Stream {
    int fd = -1;
    std::string text = {};

    void read_on() {
      pollfd event{fd, POLLIN, 0};
      if (fd < 0 || poll(&event, 1, 0) <= 0) return;
      std::array<char, 4096> buffer = {};
      const ssize_t count = read(fd, buffer.data(), buffer.size());
      if (count > 0) {
        text.append(buffer.data(), static_cast<size_t>(count));
      } else {
        close(fd);
        fd = -1;
      }
    }
  };

  std::string name_;
  pid_t process_ = -1;
  Stream answers_, errors_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

void run_cases(const std::vector<std::filesystem::path>& cases, const WorkerOptions& options,
               const std::function<void(const CaseResult&)>& done) {
  const size_t jobs = options.jobs == 0 ? default_threads() : options.jobs;
  std::vector<Worker> workers;
  for (size_t next = 0; next < cases.size() || !workers.empty();) {
    while (workers.size() < jobs && next < cases.size())
      workers.emplace_back(cases[next++], options);
    std::vector<pollfd> events;
    for (const Worker& worker : workers)
      for (const pollfd& event : worker.events()) events.push_back(event);
    poll(events.data(), events.size(), -1);
    for (auto worker = workers.begin(); worker != workers.end();) {
      if (!worker->read_on()) {
        ++worker;
        continue;
      }
      done(worker->result());
      worker = workers.erase(worker);
    }
  }
}

nlohmann::json to_json(const CaseResult& result) {
  nlohmann::json checks = nlohmann::json::array();
  for (const Check& check : result.checks) checks.push_back(to_json(check));
  return {{"case", result.name}, {"seconds", result.seconds}, {"checks", std::move(checks)}};
}

CaseResult case_from_json(const nlohmann::json& object) {
  CaseResult result{.name = object.value("case", ""), .seconds = object.value("seconds", 0.0)};
  if (const auto checks = object.find("checks"); checks != object.end())
    for (const nlohmann::json& check : *checks) result.checks.push_back(check_from_json(check));
  return result;
}

}  // namespace dtr::conformance
