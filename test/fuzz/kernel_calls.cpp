// Many calls of every kernel from a seed, counted; and a file of calls with their results for a
// device (test/device/kernel_calls.cpp).
//
//     kernel_calls [--calls N] [--seed S] [--only I] [--mve] [--prefix NAME] [--write FILE]
//                  [--expect FILE]
//
// --expect: every call has the result that it has in such a file, which another build wrote. Ends
// with 1 if a kernel accepts no call at all, or too few. --only runs one call, to debug it;
// --mve asks for scratch as a core with MVE wants it; --prefix takes the kernels whose names begin
// so. The file: u32 count, then of each call u32
// bytes, u32 result, u32 flags (KernelCall::kErrorAlone, kMayRefuse), the bytes, padded to 4. Plain
// loops take scratch for either kind of core, a device that for its own alone, which a broken call
// may not have.
#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "test/fuzz/call_maker.h"
#include "test/fuzz/host_call.h"

namespace {

using namespace dtr::fuzz;
using dtr::runtime::Error;

constexpr double kLeastShare = 0.3;       // of all calls
constexpr uint64_t kCallsOfAKernel = 20;  // from so many on, each must accept one

struct Options {
  uint64_t calls = 20000, seed = 1, only = UINT64_MAX;
  std::string prefix, file, expected;
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto number = [&](uint64_t& out) {
      if (++i == argc) return false;
      const std::string_view text = argv[i];
      return std::from_chars(text.data(), text.data() + text.size(), out).ec == std::errc{};
    };
    bool good = true;
    if (argument == "--calls") {
      good = number(options.calls);
    } else if (argument == "--seed") {
      good = number(options.seed);
    } else if (argument == "--only") {
      good = number(options.only);
    } else if (argument == "--mve") {
      scratch_core = dtr::cortex_m::Core::kMve;
    } else if (argument == "--prefix" && ++i < argc) {
      options.prefix = argv[i];
    } else if (argument == "--write" && ++i < argc) {
      options.file = argv[i];
    } else if (argument == "--expect" && ++i < argc) {
      options.expected = argv[i];
    } else {
      good = false;
    }
    if (!good) return false;
  }
  return true;
}

// The calls of a file, one after the other.
class Expected {
 public:
  explicit Expected(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
  }
  // Whether the next call is that one, with that result; or was refused here, where it may be.
  bool has(std::span<const std::byte> call, uint32_t result, uint32_t flags, bool refused) {
    uint32_t head[3];  // size, result, flags
    if (bytes_.size() < at_ + sizeof head + call.size()) return false;
    std::memcpy(head, bytes_.data() + at_, sizeof head);
    const char* const known = bytes_.data() + at_ + sizeof head;
    at_ += sizeof head + (call.size() + 3) / 4 * 4;
    return head[0] == call.size() && head[2] == flags &&
           std::memcmp(known, call.data(), call.size()) == 0 &&
           (head[1] == result || (refused && (flags & KernelCall::kMayRefuse) != 0));
  }

 private:
  std::string bytes_;
  size_t at_ = sizeof(uint32_t);  // behind the number of calls
};

class File {
 public:
  void add(std::span<const std::byte> call, uint32_t result, uint32_t flags) {
    ++count_;
    word(static_cast<uint32_t>(call.size()));
    word(result);
    word(flags);
    bytes_.append(reinterpret_cast<const char*>(call.data()), call.size());
    bytes_.resize((bytes_.size() + 3) / 4 * 4);
  }
  bool write(const std::string& path) const {
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&count_), sizeof count_);
    out.write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
    return out.good();
  }

 private:
  void word(uint32_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }

  uint32_t count_ = 0;
  std::string bytes_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    fmt::print(stderr,
               "usage: {} [--calls N] [--seed S] [--only I] [--mve] [--prefix NAME] [--write FILE] "
               "[--expect FILE]\n",
               argv[0]);
    return 2;
  }
  std::vector<NamedKernel> kernels = all_kernels();
  std::erase_if(kernels, [&](const NamedKernel& kernel) {
    return !std::string_view(kernel.name).starts_with(options.prefix);
  });
  if (kernels.empty()) {
    fmt::print(stderr, "no kernel's name begins with {}\n", options.prefix);
    return 2;
  }
  std::vector<uint64_t> made(kernels.size()), accepted(kernels.size());
  uint64_t all_made = 0, all_accepted = 0;
  File file;
  Expected expected(options.expected);
  for (uint64_t i = 0; i < options.calls; ++i) {
    if (options.only != UINT64_MAX && i != options.only) continue;
    const size_t which = i % kernels.size();
    Draws draws(options.seed * 0x2545F4914F6CDD1DU + i * 0xD1342543DE82EF95U);
    const DrawnCall call = draw_call(kernels[which].name, draws);
    if (call.bytes.empty()) continue;
    if (options.only != UINT64_MAX) fmt::print("{}\n", kernels[which].name);
    const Outcome outcome = run_call(kernels[which], call.bytes);
    ++made[which], ++all_made;
    if (outcome.error == Error::kOk) ++accepted[which], ++all_accepted;
    if (options.file.empty() && options.expected.empty()) continue;
    const bool error_alone = call.shares_memory || uses_libm(kernels[which].name);
    const bool may_refuse =
        !call.valid && kernels[which].name.find("::quantized_") != std::string::npos;
    const uint32_t result =
        error_alone ? KernelCall::result_of_error(outcome.error) : outcome.result;
    const uint32_t flags =
        (error_alone ? KernelCall::kErrorAlone : 0) | (may_refuse ? KernelCall::kMayRefuse : 0);
    file.add(call.bytes, result, flags);
    if (!options.expected.empty() &&
        !expected.has(call.bytes, result, flags, outcome.error == Error::kKernelArguments)) {
      fmt::print(stderr, "call {} of {} has another result than in {}\n", i, kernels[which].name,
                 options.expected);
      return 1;
    }
  }
  if (options.only != UINT64_MAX) return 0;
  bool good = true;
  size_t least = 0;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (made[k] > 0 && accepted[k] * made[least] < accepted[least] * made[k]) least = k;
    if (accepted[k] > 0 || options.calls < kCallsOfAKernel * kernels.size()) continue;
    fmt::print(stderr, "{}: none of {} calls was accepted\n", kernels[k].name, made[k]);
    good = false;
  }
  const double share = static_cast<double>(all_accepted) / static_cast<double>(options.calls);
  fmt::print(
      "{} calls of {} kernels: {:.1f} % ({} accepted), floor {:.0f} %; fewest by {}: {} of {}\n",
      all_made, kernels.size(), 100 * share, all_accepted, 100 * kLeastShare, kernels[least].name,
      accepted[least], made[least]);
  if (!options.file.empty() && !file.write(options.file)) {
    fmt::print(stderr, "cannot write {}\n", options.file);
    return 2;
  }
  return good && share >= kLeastShare ? 0 : 1;
}
