// Runs a libFuzzer target without libFuzzer: mutations of seed files drawn from a fixed random sequence, so that ctest runs the same
// inputs everywhere. The work happens in a child process; when it crashes, exits or hangs, the parent names the input.
//
//     fuzz_NAME [--iterations N] [--seconds S] [--only I] [--save FILE] SEED…
//
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
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);  // NOLINT(readability-identifier-naming)

namespace {

using Input = std::vector<uint8_t>;
using Random = std::mt19937_64;

constexpr uint64_t kMemoryLimit = uint64_t{3} << 30;
constexpr int kHangSeconds = 30;

size_t below(Random& random, size_t limit) { return static_cast<size_t>(random() % limit); }

// Values at which sizes, counts and offsets go wrong.
constexpr uint64_t kEdges[] = {0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, INT64_MAX, UINT64_MAX};

void mutate(Random& random, Input& input, const std::vector<Input>& seeds) {
  if (input.empty()) input.push_back(0);
  const size_t at = below(random, input.size());
  const size_t left = input.size() - at;
  switch (below(random, 12)) {
    case 0:
    case 1:
      input[at] ^= static_cast<uint8_t>(1U << below(random, 8));
      break;
    case 2:
    case 3:
      input[at] = static_cast<uint8_t>(random());
      break;
    case 4: {  // an edge value, little-endian
      const uint64_t value = kEdges[below(random, std::size(kEdges))];
      std::memcpy(&input[at], &value, std::min(left, size_t{1} << below(random, 4)));
      break;
    }
    case 5:
    case 6: {  // another digit in text: sizes and indices of JSON
      for (size_t i = at; i < input.size(); ++i)
        if (input[i] >= '0' && input[i] <= '9') {
          input[i] = static_cast<uint8_t>('0' + below(random, 10));
          break;
        }
      break;
    }
    case 7:
    case 8: {  // a piece onto another place: names and fields change roles
      const size_t from = below(random, input.size());
      const size_t size = std::min({left, input.size() - from, 1 + below(random, 64)});
      std::memmove(&input[at], &input[from], size);
      break;
    }
    case 9: {  // a piece of another seed
      const Input& other = seeds[below(random, seeds.size())];
      if (other.empty()) break;
      const size_t from = below(random, other.size());
      std::memcpy(&input[at], &other[from], std::min({left, other.size() - from, 1 + below(random, 256)}));
      break;
    }
    case 10: {
      const auto first = input.begin() + static_cast<ptrdiff_t>(at);
      input.erase(first, first + static_cast<ptrdiff_t>(std::min(left, 1 + below(random, 32))));
      break;
    }
    default:
      input.resize(below(random, 16) == 0 ? at : input.size());
      break;
  }
}

Input make_input(uint64_t iteration, const std::vector<Input>& seeds) {
  Random random(iteration);
  Input input = seeds[below(random, seeds.size())];
  for (size_t count = 1 + below(random, 6); count > 0; --count) mutate(random, input, seeds);
  return input;
}

struct Options {
  uint64_t iterations = 2000;
  int seconds = 60;
  bool single = false;
  uint64_t only = 0;
  std::string save;
  std::vector<Input> seeds;
};

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
    } else {
      std::ifstream file(argv[i], std::ios::binary);
      good = file.good();
      options.seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    if (!good) {
      fmt::print(stderr, "cannot use `{}`\n", argument);
      return false;
    }
  }
  return !options.seeds.empty();
}

// The child: runs iterations until all are done or time is up, telling the parent through `current`.
void run(const Options& options, std::atomic<uint64_t>& current) {
#ifndef __SANITIZE_ADDRESS__
  const rlimit limit{.rlim_cur = kMemoryLimit, .rlim_max = kMemoryLimit};
  setrlimit(RLIMIT_AS, &limit);
#endif
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  for (uint64_t i = 0; i < options.iterations && std::chrono::steady_clock::now() < end; ++i) {
    current.store(i);
    const Input input = make_input(i, options.seeds);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  current.store(UINT64_MAX);
}

// Waits for the child; a reason if it failed.
std::string watch(pid_t child, const std::atomic<uint64_t>& current) {
  uint64_t last = current.load();
  auto since = std::chrono::steady_clock::now();
  for (;;) {
    int state = 0;
    if (waitpid(child, &state, WNOHANG) == child) {
      if (WIFSIGNALED(state)) return fmt::format("killed by signal {}", WTERMSIG(state));
      if (WEXITSTATUS(state) != 0) return fmt::format("exit code {}", WEXITSTATUS(state));
      return current.load() == UINT64_MAX ? "" : "the process ended early";
    }
    if (current.load() != last) {
      last = current.load();
      since = std::chrono::steady_clock::now();
    } else if (std::chrono::steady_clock::now() - since > std::chrono::seconds(kHangSeconds)) {
      kill(child, SIGKILL);
      waitpid(child, &state, 0);
      return fmt::format("no end within {} s", kHangSeconds);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    fmt::print(stderr, "usage: {} [--iterations N] [--seconds S] [--only I] [--save FILE] SEED…\n", argv[0]);
    return 2;
  }
  if (options.single) {
    const Input input = make_input(options.only, options.seeds);
    if (!options.save.empty())
      std::ofstream(options.save, std::ios::binary)
          .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
    LLVMFuzzerTestOneInput(input.data(), input.size());
    return 0;
  }
  for (const Input& seed : options.seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  void* shared = mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* current = new (shared) std::atomic<uint64_t>(0);
  const pid_t child = fork();
  if (child == 0) {
    run(options, *current);
    _exit(0);
  }
  const std::string problem = watch(child, *current);
  if (!problem.empty()) {
    fmt::print(stderr, "iteration {}: {}; run again with --only {}\n", current->load(), problem, current->load());
    return 1;
  }
  return 0;
}
