// Any bytes as a program: refused, or described, and run if all of its kernels are there. The checksum is off, so that damage gets through
// to the structure.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "program/describe.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/method.h"

namespace dtr {
namespace {

constexpr size_t kMaxArena = 1 << 22;  // a caller has only so much

class Arena {
 public:
  explicit Arena(size_t bytes) : blocks_((bytes + sizeof(Block) - 1) / sizeof(Block)), bytes_(bytes) {}
  std::span<std::byte> bytes() { return {blocks_.empty() ? nullptr : blocks_.front().bytes, bytes_}; }

 private:
  struct alignas(runtime::kArenaAlignment) Block {
    std::byte bytes[runtime::kArenaAlignment];
  };
  std::vector<Block> blocks_;
  size_t bytes_;
};

// The work of one run, so that a damaged program cannot ask for hours: product of extents is what the kernels' loops are made of.
bool small(const runtime::Method& method) {
  for (size_t i = 0; method.value(i) != nullptr; ++i) {
    const runtime::Value& value = *method.value(i);
    if (value.kind == runtime::ValueKind::kTensor && value.tensor.elements() > 4096) return false;
  }
  return true;
}

void run(const runtime::Program& program) {
  for (size_t m = 0; m < program.method_count(); ++m) {
    runtime::Method::Requirements need;
    if (!runtime::Method::requirements(program, program.method_name(m), &need).ok() || need.state_bytes > kMaxArena) continue;
    Arena state(need.state_bytes);
    std::vector<Arena> arenas;
    std::vector<std::span<std::byte>> memories;
    size_t total = 0;
    for (uint32_t i = 0; i < need.memories; ++i) total += need.memory_bytes(i);
    if (total > kMaxArena) continue;
    for (uint32_t i = 0; i < need.memories; ++i) arenas.emplace_back(need.memory_bytes(i));
    for (Arena& arena : arenas) memories.push_back(arena.bytes());
    runtime::Method method;
    if (!method.prepare(program, program.method_name(m), state.bytes(), memories).ok() || !small(method)) continue;
    std::vector<Arena> inputs;
    inputs.reserve(method.input_count());
    for (size_t i = 0; i < method.input_count(); ++i) {
      const runtime::Tensor* tensor = method.input_tensor(i);
      if (tensor == nullptr) continue;
      Arena& data = inputs.emplace_back(tensor->bytes());
      (void)method.set_input(i, {data.bytes().data(), tensor->bytes(), tensor->dtype, tensor->shape(), tensor->order()});
    }
    (void)method.run();
  }
}

}  // namespace
}  // namespace dtr

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {  // NOLINT(readability-identifier-naming)
  const auto image = dtr::ProgramImage::parse(std::as_bytes(std::span(data, size)), "fuzz.pte", false);
  if (!image) return 0;
  if (dtr::describe_program(*image).empty()) std::abort();
  dtr::runtime::Program program;
  const dtr::runtime::LoadOptions options{.kernels = dtr::runtime::portable::kernels(), .checksum = nullptr};
  if (dtr::runtime::Program::load(image->bytes(), options, &program).ok()) dtr::run(program);
  return 0;
}
