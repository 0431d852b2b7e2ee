#include "test/fuzz/host_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "device/runtime/kernels/cortex_m/kernels.h"
#include "device/runtime/kernels/portable/kernels.h"

#if defined(__SANITIZE_ADDRESS__)
#define DTR_GUARDED_HEAP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DTR_GUARDED_HEAP 1
#endif
#endif
#ifndef DTR_GUARDED_HEAP
#define DTR_GUARDED_HEAP 0
#endif

namespace dtr::fuzz {
namespace {

using runtime::Error;

constexpr double kMostSeconds = 1;
constexpr size_t kGuard = DTR_GUARDED_HEAP ? 0 : 64;
constexpr std::byte kPattern{0xA5};

class Heap {
 public:
  std::byte* give(size_t bytes, size_t misalignment) {
    const size_t front = kGuard + misalignment;
    auto* const memory = static_cast<std::byte*>(std::malloc(front + bytes + kGuard));
    std::fill_n(memory, front, kPattern);
    std::fill_n(memory + front + bytes, kGuard, kPattern);
    blocks_.push_back({Memory(memory), front, bytes});
    return memory + front;
  }
  bool intact() const {
    const auto is_pattern = [](const std::byte* from, size_t count) {
      return std::all_of(from, from + count, [](std::byte b) { return b == kPattern; });
    };
    return std::ranges::all_of(blocks_, [&](const Block& block) {
      return is_pattern(block.memory.get(), block.front) &&
             is_pattern(block.memory.get() + block.front + block.bytes, kGuard);
    });
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  struct Block {
    Memory memory;
    size_t front, bytes;
  };
  std::vector<Block> blocks_;
};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

[[noreturn]] void fail(std::string_view kernel, std::string_view what) {
  fmt::print(stderr, "{}: {}\n", kernel, what);
  std::abort();
}

}  // namespace

const std::vector<NamedKernel>& all_kernels() {
  static const std::vector<NamedKernel> all = [] {
    std::vector<NamedKernel> made;
    for (const runtime::KernelTable table :
         {runtime::portable::kernels(), runtime::cortex_m::kernels()})
      for (const runtime::Kernel& kernel : table)
        made.push_back({std::string(kernel.name), kernel.function});
    return made;
  }();
  return all;
}

Outcome run_call(const NamedKernel& kernel, std::span<const std::byte> bytes) {
  Heap heap;
  const auto give = [](void* context, size_t size, size_t misalignment) {
    return static_cast<Heap*>(context)->give(size, misalignment);
  };
  const auto call = std::make_unique<KernelCall>();
  if (!call->read(bytes, give, &heap) || call->name() != kernel.name)
    fail(kernel.name, "the call cannot be read");
  const double start = processor_seconds();
  const Error error = kernel.function(call->arguments());
  if (const double seconds = processor_seconds() - start; seconds > kMostSeconds)
    fail(kernel.name, fmt::format("took {:.1f} s for {} bytes", seconds, bytes.size()));
  if (!heap.intact()) fail(kernel.name, "wrote outside of its tensors");
  return {error, call->result(error)};
}

}  // namespace dtr::fuzz
