// Calls of kernels on a device: those of the file `calls.bin` (test/fuzz/kernel_calls.cpp), with
// patterns between the blocks of memory. Each must end in the result that the host had, without a
// fault, and the patterns must stay. Kernels that are not linked are left out.
#include <cstring>

#include "device/runtime/kernels/cortex_m/kernels.h"
#ifndef DTR_CORTEX_M_KERNELS_ALONE
#include "device/runtime/kernels/portable/kernels.h"
#endif
#include "device/runtime/ports/cortex_m/semihosting.h"
#include "test/fuzz/kernel_call.h"

namespace {

using dtr::fuzz::KernelCall;
using dtr::port::print;
using dtr::runtime::Error;
using dtr::runtime::KernelFunction;

constexpr uint8_t kPattern = 0xA5;
constexpr size_t kGuard = 48;

// Blocks one behind the other.
class Memory {
 public:
  void fill() { std::memset(bytes_, kPattern, sizeof bytes_); }
  void clear() {
    std::memset(bytes_, kPattern, used_);
    used_ = kGuard;
    count_ = 0;
  }
  std::byte* give(size_t bytes, size_t misalignment) {
    const size_t begin = (used_ + 15) / 16 * 16 + misalignment, end = begin + bytes + kGuard;
    if (end > sizeof bytes_ || count_ == dtr::fuzz::kMostBlocks) return nullptr;
    blocks_[count_++] = {begin, begin + bytes};
    used_ = end;
    return bytes_ + begin;
  }
  bool intact() const {
    size_t at = 0;
    for (size_t i = 0; i <= count_; ++i) {
      for (const size_t end = i < count_ ? blocks_[i].begin : used_; at < end; ++at) {
        if (bytes_[at] != std::byte{kPattern}) return false;
      }
      if (i < count_) at = blocks_[i].end;
    }
    return true;
  }

 private:
  struct Block {
    size_t begin, end;
  };
  alignas(16) std::byte bytes_[512 * 1024];
  Block blocks_[dtr::fuzz::kMostBlocks];
  size_t used_ = 0, count_ = 0;
};

Memory memory;
KernelCall call;
alignas(8) std::byte file_bytes[256 * 1024];

KernelFunction find(std::string_view name) {
  for (const dtr::runtime::Kernel& kernel : dtr::runtime::cortex_m::kernels()) {
    if (kernel.name == name) return kernel.function;
  }
#ifndef DTR_CORTEX_M_KERNELS_ALONE
  for (const dtr::runtime::Kernel& kernel : dtr::runtime::portable::kernels()) {
    if (kernel.name == name) return kernel.function;
  }
#endif
  return nullptr;
}

bool read(dtr::port::HostFile& file, void* to, size_t bytes) {
  return file.read({static_cast<std::byte*>(to), bytes}) == bytes;
}

}  // namespace

int main() {
  dtr::port::HostFile file("calls.bin", dtr::port::HostFile::Mode::kRead);
  uint32_t count = 0;
  if (!file.is_open() || !read(file, &count, sizeof count)) {
    print("no calls.bin\n");
    return 2;
  }
  memory.fill();
  uint32_t run = 0, accepted = 0, failures = 0;
  for (uint32_t i = 0; i < count; ++i) {
    struct {
      uint32_t bytes, result, flags;
    } head;
    if (!read(file, &head, sizeof head) || head.bytes > sizeof file_bytes ||
        !read(file, file_bytes, (head.bytes + 3) / 4 * 4)) {
      print("calls.bin is broken\n");
      return 2;
    }
    memory.clear();
    const auto give = [](void* context, size_t bytes, size_t misalignment) {
      return static_cast<Memory*>(context)->give(bytes, misalignment);
    };
    if (!call.read({file_bytes, head.bytes}, give, &memory)) {
      print("a call cannot be read\n");
      return 2;
    }
    const KernelFunction kernel = find(call.name());
    if (kernel == nullptr) continue;
    ++run;
    const Error error = kernel(call.arguments());
    if (error == Error::kOk) ++accepted;
    const bool refused =
        error == Error::kKernelArguments && (head.flags & KernelCall::kMayRefuse) != 0;
    const uint32_t result = (head.flags & KernelCall::kErrorAlone) != 0
                                ? KernelCall::result_of_error(error)
                                : call.result(error);
    const bool same = refused || result == head.result;
    if (same && memory.intact()) continue;
    ++failures;
    print("FAILED ");
    print(call.name());
    print(same ? " wrote outside of its tensors, call " : " differs from the host, call ");
    print(i);
    print(", error ");
    print(static_cast<uint64_t>(error));
    print("\n");
  }
  print(run);
  print(" calls, ");
  print(accepted);
  print(" accepted, ");
  print(failures);
  print(" failures\n");
  return failures == 0 ? 0 : 1;
}
