// Runs a libFuzzer target without libFuzzer: mutations of seed files drawn from a fixed random
// sequence, so that ctest runs the same inputs everywhere. The work happens in a child process;
// when it crashes, exits or hangs, the parent names the input. Exit code 1 also if a seed does not
// get to the deepest stage of the target, or too few of the inputs do (test/fuzz/depth.h).
//
//     fuzz_NAME [--iterations N] [--seconds S] [--regressions FOLDER] [--only I] [--save FILE]
//     SEED…
//
// A seed that is a folder is all files in it. --regressions are inputs that once were a finding,
// run first; they need not get deep.
// --only runs one iteration (to debug it), --save writes its input to a file first.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "test/fuzz/depth.h"
#include "test/fuzz/mutate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size);  // NOLINT(readability-identifier-naming)

namespace {

namespace fuzz = dtr::fuzz;
namespace fs = std::filesystem;
using fuzz::Input;

constexpr uint64_t kMemoryLimit = uint64_t{3} << 30;
constexpr int kHangSeconds = 30;
constexpr uint64_t kLeastShareRun =
    4;  // a time limit that leaves less than a fourth of the iterations is an error

struct File {
  std::string path;
  Input bytes;
};

struct Options {
  uint64_t iterations = 2000;
  int seconds = 60;
  bool single = false;
  uint64_t only = 0;
  std::string save;
  std::vector<File> seeds, regressions;

  std::vector<Input> seed_bytes() const {
    std::vector<Input> bytes;
    for (const File& seed : seeds) bytes.push_back(seed.bytes);
    return bytes;
  }
};

bool read(const std::string& path, std::vector<File>& files) {
  std::error_code none;
  if (fs::is_directory(path, none)) {
    std::vector<std::string> entries;
    for (const fs::directory_entry& entry : fs::directory_iterator(path))
      entries.push_back(entry.path().string());
    std::ranges::sort(entries);
    return std::ranges::all_of(entries,
                               [&](const std::string& entry) { return read(entry, files); });
  }
  std::ifstream file(path, std::ios::binary);
  files.push_back(
      {path, Input(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>())});
  return file.good();
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto number = [&](auto& out) {
      if (++i == argc) return false;
      const std::string_view text = argv[i];
      return std::from_chars(text.data(), text.data() + text.size(), out).ec == std::errc{};
    };
    bool good = true;
    if (argument == "--iterations") {
      good = number(options.iterations);
    } else if (argument == "--seconds") {
      good = number(options.seconds);
    } else if (argument == "--only") {
      good = options.single = number(options.only);
    } else if (argument == "--save") {
      good = ++i < argc;
      if (good) options.save = argv[i];
    } else if (argument == "--regressions") {
      good = ++i < argc && read(argv[i], options.regressions);
    } else {
      good = read(argv[i], options.seeds);
    }
    if (!good) {
      fmt::print(stderr, "cannot use `{}`\n", argument);
      return false;
    }
  }
  return !options.seeds.empty();
}

// What the child does now: a regression, a seed or an iteration, counted through.
struct Progress {
  std::atomic<uint64_t> step{0};
  std::atomic<uint64_t> shallow_seeds{0};
  std::atomic<bool> done{false};
};

std::string step_name(const Options& options, uint64_t step) {
  const uint64_t files = options.regressions.size() + options.seeds.size();
  if (step >= files) return fmt::format("iteration {0} (run again with --only {0})", step - files);
  return step < options.regressions.size() ? options.regressions[step].path
                                           : options.seeds[step - options.regressions.size()].path;
}

// The child: regressions, seeds, then iterations until all are done or time is up.
void run(const Options& options, Progress& progress) {
#ifndef __SANITIZE_ADDRESS__
  const rlimit limit{.rlim_cur = kMemoryLimit, .rlim_max = kMemoryLimit};
  setrlimit(RLIMIT_AS, &limit);
#endif
  for (const File& file : options.regressions) {
    LLVMFuzzerTestOneInput(file.bytes.data(), file.bytes.size());
    ++progress.step;
  }
  for (const File& file : options.seeds) {
    LLVMFuzzerTestOneInput(file.bytes.data(), file.bytes.size());
    if (!fuzz::last_was_deep()) {
      fmt::print(stderr, "{}: this seed does not reach `{}`; it must\n", file.path,
                 fuzz::stages().back().name);
      ++progress.shallow_seeds;
    }
    ++progress.step;
  }
  fuzz::clear_counts();
  const std::vector<Input> seeds = options.seed_bytes();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  for (uint64_t i = 0; i < options.iterations && std::chrono::steady_clock::now() < end; ++i) {
    const Input input = fuzz::make_input(i, seeds);
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++progress.step;
  }
  progress.done = true;
}

// Waits for the child; a reason if it failed.
std::string watch(pid_t child, const Progress& progress) {
  uint64_t last = progress.step;
  auto since = std::chrono::steady_clock::now();
  for (;;) {
    int state = 0;
    if (waitpid(child, &state, WNOHANG) == child) {
      if (WIFSIGNALED(state)) return fmt::format("killed by signal {}", WTERMSIG(state));
      if (WEXITSTATUS(state) != 0) return fmt::format("exit code {}", WEXITSTATUS(state));
      return progress.done ? "" : "the process ended early";
    }
    if (progress.step != last) {
      last = progress.step;
      since = std::chrono::steady_clock::now();
    } else if (std::chrono::steady_clock::now() - since > std::chrono::seconds(kHangSeconds)) {
      kill(child, SIGKILL);
      waitpid(child, &state, 0);
      return fmt::format("no end within {} s", kHangSeconds);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// How many inputs ran and how deep they got; false if either is too little.
bool report(const Options& options) {
  const uint64_t executed = fuzz::executed();
  fmt::print("{}; {} regressions, {} seeds\n", fuzz::depth_line(), options.regressions.size(),
             options.seeds.size());
  if (executed < options.iterations)
    fmt::print("{} of {} iterations in {} s, the limit of time\n", executed, options.iterations,
               options.seconds);
  if (options.iterations == 0) return true;
  if (executed * kLeastShareRun < options.iterations) {
    fmt::print(stderr, "too few iterations to mean anything\n");
    return false;
  }
  if (!fuzz::deep_enough()) {
    fmt::print(stderr, "too few inputs get deep: the share of a stage is below its floor\n");
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    fmt::print(stderr,
               "usage: {} [--iterations N] [--seconds S] [--regressions FOLDER] [--only I] [--save "
               "FILE] SEED…\n",
               argv[0]);
    return 2;
  }
  if (options.single) {
    const Input input = fuzz::make_input(options.only, options.seed_bytes());
    if (!options.save.empty())
      std::ofstream(options.save, std::ios::binary)
          .write(reinterpret_cast<const char*>(input.data()),
                 static_cast<std::streamsize>(input.size()));
    LLVMFuzzerTestOneInput(input.data(), input.size());
    return 0;
  }
  fuzz::clear_counts();  // makes them, for both processes
  void* shared =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* progress = new (shared) Progress;
  const pid_t child = fork();
  if (child == 0) {
    run(options, *progress);
    _exit(0);
  }
  const std::string problem = watch(child, *progress);
  if (!problem.empty()) {
    fmt::print(stderr, "{}: {}\n", step_name(options, progress->step), problem);
    return 1;
  }
  return report(options) && progress->shallow_seeds == 0 ? 0 : 1;
}
