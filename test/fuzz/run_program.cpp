#include "test/fuzz/run_program.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compiler/targets/target.h"
#include "device/runtime/delegate_deuteron.h"
#include "device/runtime/environment.h"
#include "device/runtime/method.h"
#include "host/simulator/host_simulator.h"

namespace dtr::fuzz {
namespace {

constexpr size_t kMaxArena = 1 << 22;       // a caller has only so much
constexpr uint64_t kMaxElements = 1 << 16;  // of all tensors, so that no run takes long

// Heap memory of exactly this size on a boundary of runtime::kArenaAlignment.
class Arena {
 public:
  explicit Arena(size_t bytes) : data_(std::make_unique<std::byte[]>(bytes)), bytes_(bytes) {
    for (size_t i = 0; i < bytes_; ++i) data_[i] = static_cast<std::byte>(i * 37);
  }
  std::span<std::byte> bytes() { return {data_.get(), bytes_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  size_t bytes_;
};
static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= runtime::kArenaAlignment);

bool small(const runtime::Method& method) {
  uint64_t elements = 0;
  for (size_t i = 0; method.value(i) != nullptr && elements <= kMaxElements; ++i) {
    const runtime::Value& value = *method.value(i);
    if (value.kind == runtime::ValueKind::kTensor)
      elements += static_cast<uint64_t>(value.tensor.elements());
  }
  return elements <= kMaxElements;
}

// Whether a method of the program ran to its end.
bool run(const runtime::Program& program, std::string_view name) {
  runtime::Method::Requirements need;
  if (!runtime::Method::requirements(program, name, &need).ok() || need.state_bytes > kMaxArena)
    return false;
  size_t total = 0;
  for (uint32_t i = 0; i < need.memories; ++i) {
    if (need.memory_bytes(i) > kMaxArena) return false;
    total += need.memory_bytes(i);
  }
  if (total > kMaxArena) return false;
  Arena state(need.state_bytes);
  std::vector<Arena> arenas;
  std::vector<std::span<std::byte>> memories;
  for (uint32_t i = 0; i < need.memories; ++i) arenas.emplace_back(need.memory_bytes(i));
  for (Arena& arena : arenas) memories.push_back(arena.bytes());
  runtime::Method method;
  if (!method.prepare(program, name, state.bytes(), memories).ok() || !small(method)) return false;
  std::vector<Arena> owned;
  for (size_t i = 0; i < method.input_count(); ++i) {
    const runtime::Tensor* tensor = method.input_tensor(i);
    if (tensor == nullptr) continue;
    Arena& data = owned.emplace_back(tensor->bytes());
    (void)method.set_input(
        i, {data.bytes().data(), tensor->bytes(), tensor->dtype, tensor->shape(), tensor->order()});
  }
  for (size_t i = 0; i < method.output_count(); ++i) {
    const runtime::Tensor* tensor = method.output_tensor(i);
    if (tensor != nullptr && tensor->data == nullptr)
      (void)method.set_output_memory(i, owned.emplace_back(tensor->bytes()).bytes());
  }
  return method.run().ok();
}

}  // namespace

Outcome run_program(std::span<const std::byte> bytes, pte::TensorFiles tensor_files) {
  simulator::HostSimulator simulator(find_target("imxrt700")->npu);
  runtime::DeuteronContext context{.driver = simulator.driver()};
  const runtime::Delegate delegates[] = {runtime::deuteron_delegate(context)};
  const runtime::LoadOptions options{.kernels = dtr_host_environment()->options.kernels,
                                     .delegates = delegates,
                                     .tensor_files = tensor_files,
                                     .checksum = nullptr};
  runtime::Program program;
  if (!runtime::Program::load(bytes, options, &program).ok()) return Outcome::kRefused;
  Outcome outcome = Outcome::kLoaded;
  for (size_t i = 0; i < program.method_count(); ++i)
    if (run(program, program.method_name(i))) outcome = Outcome::kRun;
  return outcome;
}

}  // namespace dtr::fuzz
