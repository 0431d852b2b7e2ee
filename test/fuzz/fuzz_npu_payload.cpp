// Any bytes as an NPU payload, its checksum and target set right so that damage reaches the
// commands: refused with a status, or run with the same bytes and cycles on the core's plain loops
// and on the host's fast kernels.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "compiler/support/result.h"
#include "compiler/targets/target.h"
#include "device/npu/cycles.h"
#include "device/numerics/crc32.h"
#include "device/simulator/simulator.h"
#include "host/simulator/host_simulator.h"
#include "host/simulator/listing.h"
#include "host/simulator/plan.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"

namespace {

namespace npu = dtr::npu;
namespace simulator = dtr::simulator;
using npu::Buffer, npu::Header, npu::Report, npu::Status, npu::Target;

enum : size_t { kDecoded, kExecuted };
constexpr dtr::fuzz::Stage kStages[] = {{"decoded", 0.35}, {"executed", 0.35}};

const Target kTarget = dtr::find_target("imxrt700")->npu;

using Bytes = simulator::AlignedVector<std::byte>;

// Makes the header consistent as far as a reader would notice before it looks at commands.
void sign(Bytes& payload) {
  Header header{};
  if (payload.size() < sizeof header) return;
  std::memcpy(&header, payload.data(), sizeof header);
  header.target_hash = npu::format_hash(kTarget);
  std::memcpy(payload.data(), &header, sizeof header);
  const uint64_t end = uint64_t{header.constants_offset} + header.constants_bytes;
  if (end > payload.size() || end < sizeof header) return;
  header.crc32 = dtr::crc32_with_hole(std::span(payload).first(end), offsetof(Header, crc32));
  std::memcpy(payload.data(), &header, sizeof header);
}

// Cycles of all calls, to leave out what would only take long.
struct Work {
  uint64_t cycles = 0;
  template <class Command>
  Status operator()(uint32_t, const Command& command) {
    if constexpr (requires { npu::cycles(kTarget, command).total; })
      cycles += npu::cycles(kTarget, command).total;
    return Status::kOk;
  }
};

struct Memory {
  std::vector<Bytes> operands;
  Bytes scratch;
  std::vector<Buffer> buffers;
  explicit Memory(const simulator::Payload& payload) : scratch(payload.header.scratch_bytes) {
    for (uint32_t i = 0; i < payload.header.operand_count; ++i) {
      operands.emplace_back(payload.operand(i).bytes);
      for (size_t k = 0; k < operands.back().size(); ++k)
        operands.back()[k] = static_cast<std::byte>(k * 89 + i);
    }
    for (Bytes& operand : operands)
      buffers.push_back({operand.data(), static_cast<uint32_t>(operand.size())});
  }
  Buffer scratch_buffer() { return {scratch.data(), static_cast<uint32_t>(scratch.size())}; }
};

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  dtr::fuzz::Depth depth;
  const auto bytes = std::as_bytes(std::span(data, size));
  Bytes payload(bytes.begin(), bytes.end());
  sign(payload);
  simulator::list_payload(kTarget, payload);
  simulator::Payload decoded;
  if (simulator::decode(kTarget, payload, decoded).status != Status::kOk) return 0;
  depth.reach(kDecoded);
  uint64_t memory_bytes = decoded.header.scratch_bytes;
  for (uint32_t i = 0; i < decoded.header.operand_count; ++i)
    memory_bytes += decoded.operand(i).bytes;
  Work work;
  simulator::visit(decoded, work);
  if (memory_bytes > 1 << 16 || work.cycles > 1 << 15) return 0;

  // One that leaves in scratch what the machine does, and one that leaves out what nobody reads.
  static simulator::HostSimulator host(kTarget, simulator::best_kernel_set(),
                                       simulator::HostSimulator::Scratch::kEveryByte);
  static simulator::HostSimulator usual(kTarget);
  uint32_t handle = 0;
  DTR_CHECK(host.prepare(payload, handle).status == Status::kOk);
  Memory fast(decoded);
  const Report report = host.run(handle, fast.buffers, fast.scratch_buffer());
  host.unprepare(handle);
  if (report.status != Status::kOk && report.status != Status::kBadArgument)
    return 0;  // the watch has refused it

  Memory plain(decoded);
  std::vector<uint64_t> arrivals(decoded.most_copies_in_flight);
  const Report expected =
      simulator::execute(kTarget, decoded, plain.buffers, plain.scratch_buffer(),
                         simulator::kPlainKernels, nullptr, arrivals, {});
  DTR_CHECK(report.status == expected.status && report.command == expected.command &&
            report.total_cycles == expected.total_cycles);
  DTR_CHECK(fast.operands == plain.operands && fast.scratch == plain.scratch);

  DTR_CHECK(usual.prepare(payload, handle).status == Status::kOk);
  Memory again(decoded);
  const Report same = usual.run(handle, again.buffers, again.scratch_buffer());
  usual.unprepare(handle);
  DTR_CHECK(same.status == expected.status && same.total_cycles == expected.total_cycles);
  DTR_CHECK(again.operands == plain.operands);
  depth.reach(kExecuted);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {  // NOLINT(readability-identifier-naming)
  return dtr::fuzz::mutate_words(data, size, max_size, seed, sizeof(Header));
}
