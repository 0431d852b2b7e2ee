// A board's program in small: `board PAYLOAD INPUT OUTPUT BYTES` opens the payload of a delegate,
// runs it on the simulator of device/, and writes BYTES of its only output, all of which is
// float32.
#include <executorch/runtime/backend/interface.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "device/executorch/backend.h"
#include "device/runtime/kernels/cortex_m/kernels.h"
#include "device/runtime/kernels/portable/kernels.h"
#include "device/simulator/simulator.h"

namespace {

namespace et = ::executorch::runtime;
using dtr::executorch::DeuteronBackend;
using dtr::executorch::Machine;
using dtr::executorch::Platform;

constexpr dtr::npu::Target kNpu NPU;

// One program at a time, as many boards have it.
dtr::simulator::Simulator::Slot slots[4];
std::array<uint64_t, 256> arrivals;
dtr::simulator::Simulator simulator(kNpu, slots, arrivals);

bool open(void*, std::span<const std::byte>&, Machine* machine) {
  machine->driver = simulator.driver();
  machine->target_hash = dtr::npu::format_hash(kNpu);
  machine->npu_hz = kNpu.clock_hz;
  return true;
}
void close(void*, Machine&) {}
void log(void*, const char* sentence) { std::fprintf(stderr, "%s\n", sentence); }

std::vector<char> read(const char* path) {
  std::vector<char> bytes;
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) std::exit(2);
  char buffer[4096];
  for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, file)) > 0;)
    bytes.insert(bytes.end(), buffer, buffer + got);
  std::fclose(file);
  return bytes;
}

}  // namespace

int main(int, char** arguments) {
  std::vector<dtr::runtime::Kernel> kernels;
  for (const dtr::runtime::KernelTable table :
       {dtr::runtime::portable::kernels(), dtr::runtime::cortex_m::kernels()})
    kernels.insert(kernels.end(), table.begin(), table.end());
  const Platform platform{.kernels = kernels, .open = open, .close = close, .log = log};
  DeuteronBackend backend(platform);

  // An odd address, as inside of a flatbuffer.
  std::vector<char> payload = read(arguments[1]);
  payload.insert(payload.begin(), 0);
  std::vector<uint8_t> memory(8 << 20);
  et::MemoryAllocator allocator(static_cast<uint32_t>(memory.size()), memory.data());
  et::BackendInitContext init(&allocator);
  et::FreeableBuffer processed(payload.data() + 1, payload.size() - 1, nullptr);
  auto handle = static_cast<et::BackendInterface&>(backend).init(init, &processed, {});
  if (!handle.ok()) return 3;

  std::vector<char> input = read(arguments[2]);
  std::vector<char> output(static_cast<size_t>(std::atoi(arguments[4])));
  int32_t in_sizes[] = {1, 3, 16, 16}, out_sizes[] = {1, 10}, strides[4] = {};
  uint8_t in_order[] = {0, 1, 2, 3}, out_order[] = {0, 1};
  const auto type = ::executorch::aten::ScalarType::Float;
  et::etensor::TensorImpl in(type, 4, in_sizes, input.data(), in_order, strides);
  et::etensor::TensorImpl out(type, 2, out_sizes, output.data(), out_order, strides);
  et::EValue values[] = {et::EValue(et::etensor::Tensor(&in)),
                         et::EValue(et::etensor::Tensor(&out))};
  et::EValue* pointers[] = {&values[0], &values[1]};
  et::BackendExecutionContext context;
  for (int run = 0; run < 2; ++run)
    if (backend.execute(context, handle.get(), {pointers, 2}) != et::Error::Ok) return 4;
  backend.destroy(handle.get());
  std::FILE* file = std::fopen(arguments[3], "wb");
  if (file == nullptr || std::fwrite(output.data(), 1, output.size(), file) != output.size())
    return 5;
  return std::fclose(file) == 0 ? 0 : 6;
}
