// Where a simulated inference spends its time on this computer: `bench_simulator_kernels PROGRAM…`
// prints one JSON object a kind of kernel and program, for bench/run.py. Each call's time is the
// least of many runs. Two things are measured in the same run to compare with: the products of
// bytes that one core reaches in registers, and the bytes a second that it copies within its
// second-level cache.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "compiler/program/machine.h"
#include "compiler/program/reader.h"
#include "compiler/targets/target.h"
#include "device/pte/program_generated.h"
#include "host/simulator/conv_vnni.h"
#include "host/simulator/host_simulator.h"
#include "test/unit/simulator_payload.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dtr {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The least time of `work` in a good number of runs, in seconds.
template <class Work>
double least_seconds(Work work, double budget) {
  double best = 1e9;
  for (const Clock::time_point start = Clock::now(); seconds_since(start) < budget;) {
    const Clock::time_point begin = Clock::now();
    work();
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

#if defined(__x86_64__)
// Multiplies in registers alone; returns the number of products.
__attribute__((target("avx512f,avx512vnni"))) double multiply_in_registers(uint32_t steps) {
  constexpr int kSums = 8;  // enough to hide an instruction's latency
  __m512i x = _mm512_set1_epi8(3), sums[kSums] = {};
  asm volatile("" : "+v"(x));
  // Otherwise the compiler computes sums that start equal only once.
  for (__m512i& sum : sums) asm volatile("" : "+v"(sum));
  for (uint32_t step = 0; step < steps; ++step) {
#pragma GCC unroll 8
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, x, x);
    asm volatile("" : "+v"(x));
  }
  for (__m512i& sum : sums) asm volatile("" : : "v"(sum));
  return static_cast<double>(steps) * kSums * sizeof(__m512i);
}
// Products of bytes a second of one core that has all operands at hand; 0 without VNNI.
double peak_products() {
  if (!simulator::vnni_supported()) return 0;
  constexpr uint32_t kSteps = 1 << 14;
  return multiply_in_registers(kSteps) / least_seconds([] { multiply_in_registers(kSteps); }, 0.5);
}
#else
double peak_products() { return 0; }
#endif
// Bytes read and written a second, copying in the second-level cache.
double cache_bytes() {
  constexpr size_t kBytes = 200 << 10;
  std::vector<std::byte> from(kBytes, std::byte{1}), to(kBytes);
  return 2.0 * kBytes /
         least_seconds(
             [&] {
               std::memcpy(to.data(), from.data(), kBytes);
               asm volatile("" : : "r"(to.data()) : "memory");
             },
             0.2);
}

struct Work {
  std::string kind;
  uint64_t macs = 0, bytes = 0;  // bytes of operands, each once
};

// What each command is, by index.
class Classes {
 public:
  Classes(const Target& target, std::vector<Work>& result) : target_(target), result_(result) {}
  Status operator()(uint32_t index, const Conv2d& command) {
    const Window& w = command.window;
    const bool first = w.in_channels < 8;
    return add(index, command,
               fmt::format("conv {}x{}{}", w.kernel_height, w.kernel_width,
                           first                                       ? ", few channels"
                           : w.batch * w.out_height * w.out_width == 1 ? ", one position"
                                                                       : ""),
               w.in_channels);
  }
  Status operator()(uint32_t index, const Depthwise& command) {
    const Window& w = command.window;
    return add(index, command,
               fmt::format("depthwise {}x{}{}", w.kernel_height, w.kernel_width,
                           w.in_channels == 1 ? ", one channel" : ""),
               1);
  }
  // Most copies are left out (host/simulator/staging.h).
  Status operator()(uint32_t index, const Copy&) {
    result_[index] = {"copy", 0, 0};
    return Status::kOk;
  }
  template <class Command>
  Status operator()(uint32_t index, const Command& command) {
    const Accesses touched = accesses(command);
    result_[index] = {"other", 0, bytes(touched)};
    return Status::kOk;
  }

 private:
  using Accesses = npu::Accesses;
  template <class Command>
  Accesses accesses(const Command& command) {
    return npu::accesses(target_, command);
  }
  static uint64_t bytes(const Accesses& touched) {
    uint64_t sum = 0;
    for (const npu::Access& access : touched.all()) sum += access.bytes;
    return sum;
  }
  template <class Command>
  Status add(uint32_t index, const Command& command, std::string kind, uint64_t products) {
    const Window& w = command.window;
    const Accesses touched = accesses(command);
    result_[index] = {std::move(kind),
                      uint64_t{w.batch} * w.out_height * w.out_width * w.out_channels *
                          w.kernel_height * w.kernel_width * products,
                      bytes(touched)};
    return Status::kOk;
  }
  const Target& target_;
  std::vector<Work>& result_;
};

// The least time of each command: an event tells when one has ended.
struct Watch {
  std::vector<double> least;
  Clock::time_point last;
  static void on_event(void* context, const Event& event) {
    auto& self = *static_cast<Watch*>(context);
    const Clock::time_point now = Clock::now();
    double& least = self.least[event.command];
    least = std::min(least, std::chrono::duration<double>(now - self.last).count());
    self.last = Clock::now();
  }
};

void measure(const std::string& name, const Target& target, std::span<const std::byte> bytes,
             double peak, double cache) {
  const test::AlignedBytes aligned(bytes);
  simulator::Payload payload;
  simulator::HostSimulator host(target);
  uint32_t handle = 0;
  if (simulator::decode(target, aligned.bytes(), payload).status != Status::kOk ||
      host.prepare(aligned.bytes(), handle).status != Status::kOk)
    return fmt::print(stderr, "{}: not a payload\n", name);
  std::vector<Work> work(payload.header.command_count);
  simulator::visit(payload, Classes(target, work));
  std::vector<test::AlignedBytes> operands;
  for (uint32_t i = 0; i < payload.header.operand_count; ++i)
    operands.emplace_back(payload.operand(i).bytes, uint8_t{17});
  std::vector<Buffer> buffers;
  for (test::AlignedBytes& operand : operands) buffers.push_back(operand.buffer());
  test::AlignedBytes scratch(payload.header.scratch_bytes);
  Watch watch{std::vector<double>(work.size(), 1e9), {}};
  const auto run = [&] {
    watch.last = Clock::now();
    host.run(handle, buffers, scratch.buffer(), {&Watch::on_event, &watch});
  };
  least_seconds(run, 3);
  struct Sum {
    uint64_t calls = 0, macs = 0, bytes = 0;
    double seconds = 0;
  };
  std::map<std::string, Sum> sums;
  double total = 0;
  for (size_t i = 0; i < work.size(); ++i) {
    if (watch.least[i] > 1) continue;  // no event
    Sum& sum = sums[work[i].kind];
    ++sum.calls, sum.macs += work[i].macs, sum.bytes += work[i].bytes;
    sum.seconds += watch.least[i];
    total += watch.least[i];
  }
  for (const auto& [kind, sum] : sums)
    fmt::print(
        "{{\"program\": \"{}\", \"kernel\": \"{}\", \"calls\": {}, \"macs\": {}, \"us\": {:.2f}, "
        "\"time\": {:.4f}, \"peak\": {:.4f}, \"cache\": {:.4f}}}\n",
        name, kind, sum.calls, sum.macs, 1e6 * sum.seconds, sum.seconds / total,
        peak > 0 ? static_cast<double>(sum.macs) / sum.seconds / peak : 0.0,
        static_cast<double>(sum.bytes) / sum.seconds / cache);
}

int run(std::span<char*> paths) {
  const double peak = peak_products(), cache = cache_bytes();
  fmt::print("{{\"peak_products\": {:.4g}, \"cache_bytes\": {:.4g}}}\n", peak, cache);
  for (const char* path : paths) {
    const auto file = PteFile::open(path);
    const auto target = file ? target_of(*file) : tl::unexpected(file.error());
    if (!target || *target == nullptr) {
      fmt::print(stderr, "{}: not a program for a machine with an NPU\n", path);
      return 1;
    }
    std::string name(path);
    name = name.substr(name.rfind('/') + 1);
    name = name.substr(0, name.rfind('.'));
    for (const pte::BackendDelegate* delegate :
         *file->file().program().execution_plan()->Get(0)->delegates())
      if (delegate->id()->string_view() == pte::kDelegateId)
        measure(name, (*target)->npu, file->file().payload(*delegate), peak, cache);
  }
  return 0;
}

}  // namespace
}  // namespace dtr

int main(int argc, char** argv) { return dtr::run({argv + 1, static_cast<size_t>(argc - 1)}); }
