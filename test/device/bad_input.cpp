// Bad input on a device: the main of a firmware project (test/e2e/firmware.py puts it there). One
// per cent of all single-bit flips of the program, truncations, other versions and targets, memory
// too small or misaligned, inputs missing. Each must end in an error or, where the flipped bit
// means nothing, in the same outputs; nothing outside of the given memory may change, and the
// program itself may not.
#include <array>
#include <cstring>

#include "device/pte/manifest.h"
#include "device/runtime/ports/cortex_m/semihosting.h"
#include "model/model.h"

extern "C" const std::byte model_program[], model_program_end[];

namespace {

using dtr::port::print;
using dtr::runtime::Error;
using dtr::runtime::LoadOptions;
using dtr::runtime::Method;
using dtr::runtime::Program;
using dtr::runtime::Status;
using dtr::runtime::Tensor;

constexpr size_t kStride =
    101;  // of the flipped bits; odd, so that all eight of a byte have their turn

// Memory that is given away in part; the rest must keep its pattern.
class Guarded {
 public:
  static constexpr size_t kBytes = 64 * 1024;

  std::span<std::byte> give(size_t bytes, size_t misalignment = 0) {
    begin_ = kBytes / 4 + misalignment;
    end_ = begin_ + bytes;
    std::memset(memory_, kPattern, kBytes);
    return {memory_ + begin_, bytes};
  }
  bool intact() const {
    for (size_t i = 0; i < kBytes; ++i) {
      if ((i < begin_ || i >= end_) && memory_[i] != std::byte{kPattern}) return false;
    }
    return true;
  }

 private:
  static constexpr uint8_t kPattern = 0xA5;
  alignas(16) std::byte memory_[kBytes];
  size_t begin_ = 0, end_ = 0;
};
constexpr size_t kMostGiven = Guarded::kBytes / 2;

Guarded program_memory, state_memory, arena_memory, input_memory;
std::byte expected[4096];
size_t expected_bytes = 0;
uint32_t failures = 0;

void fail(const char* what, uint64_t at) {
  print("FAILED ");
  print(what);
  print(" at ");
  print(at);
  print("\n");
  ++failures;
}

// How the memory of a run differs from what the program asks for.
struct Memory {
  size_t state_less = 0, state_shift = 0, arena_less = 0, arena_shift = 0;
  bool inputs = true;
};

Error run(Method& method, const Program& program, const Memory& memory) {
  if (program.method_count() == 0) return Error::kMissingMethod;
  const std::string_view name = program.method_name(0);
  Method::Requirements need;
  if (const Status status = Method::requirements(program, name, &need); !status.ok())
    return status.error;
  std::array<std::span<std::byte>, 1> arenas;
  // More than there is: the caller says no.
  if (need.memories > arenas.size() || need.state_bytes > kMostGiven) return Error::kArenaTooSmall;
  if (need.memories > 0) {
    if (need.memory_bytes(0) > kMostGiven) return Error::kArenaTooSmall;
    arenas[0] = arena_memory.give(need.memory_bytes(0) - memory.arena_less, memory.arena_shift);
  }
  Status status = method.prepare(
      program, name, state_memory.give(need.state_bytes - memory.state_less, memory.state_shift),
      std::span(arenas).first(need.memories));
  if (!status.ok()) return status.error;
  for (size_t i = 0; memory.inputs && i < method.input_count(); ++i) {
    const Tensor* tensor = method.input_tensor(i);
    if (tensor == nullptr || tensor->bytes() > kMostGiven) return Error::kNoSuchTensor;
    const std::span<std::byte> data = input_memory.give(tensor->bytes());
    for (size_t b = 0; b < data.size(); ++b)
      data[b] = static_cast<std::byte>(b % 4 == 3 ? 0x3F : b * 37);  // floats below 2, any integers
    status = method.set_input(
        i, {data.data(), data.size(), tensor->dtype, tensor->shape(), tensor->order()});
    if (!status.ok()) return status.error;
  }
  return method.run().error;
}

bool as_expected(const Method& method) {
  const Tensor* output = method.output_tensor(0);
  return output != nullptr && output->bytes() == expected_bytes &&
         std::memcmp(output->data, expected, expected_bytes) == 0;
}

// Loads and runs the bytes. Whether they have to give the expected outputs, if they run, depends on
// what was done to them.
Error attempt(std::span<const std::byte> bytes, const LoadOptions& options, const char* what,
              uint64_t at, bool any_result = false, const Memory& memory = {}) {
  Program program;
  Method method;
  Status status = Program::load(bytes, options, &program);
  if (status.ok()) {
    status.error = run(method, program, memory);
    if (status.ok() && !any_result && !as_expected(method)) fail(what, at);
  }
  method.release();
  if (!program_memory.intact() || !state_memory.intact() || !arena_memory.intact() ||
      !input_memory.intact())
    fail("memory outside was written", at);
  return status.error;
}

void expect(Error error, Error wanted, const char* what) {
  if (error != wanted) fail(what, static_cast<uint64_t>(error));
}

}  // namespace

int main() {
  const LoadOptions checked = model::load_options();
  LoadOptions unchecked = checked;
  unchecked.checksum = nullptr;
  const std::span<const std::byte> good(model_program, model_program_end);
  std::span<std::byte> bytes = program_memory.give(good.size());
  std::memcpy(bytes.data(), good.data(), good.size());

  // What comes out of the program as it is.
  {
    Program program;
    Method method;
    if (!Program::load(bytes, checked, &program).ok() || run(method, program, {}) != Error::kOk) {
      print("FAILED the program itself\n");
      return 1;
    }
    expected_bytes = method.output_tensor(0)->bytes();
    std::memcpy(expected, method.output_tensor(0)->data, expected_bytes);
  }

  uint64_t flips = 0, refused = 0, harmless = 0, found_without = 0;
  for (size_t bit = 0; bit < 8 * good.size(); bit += kStride, ++flips) {
    std::byte& flipped = bytes[bit / 8];
    flipped ^= static_cast<std::byte>(1 << bit % 8);
    ++(attempt(bytes, checked, "another result", bit) == Error::kOk ? harmless : refused);
    if (attempt(bytes, unchecked, "another result", bit, true) != Error::kOk) ++found_without;
    flipped = good[bit / 8];
    if (std::memcmp(bytes.data(), good.data(), good.size()) != 0)
      fail("the program was written", bit);
  }
  for (size_t size = 0; size < good.size(); size += 7) {
    const std::span<std::byte> part = program_memory.give(size);
    std::memcpy(part.data(), good.data(), size);
    if (attempt(part, unchecked, "a part of the program", size) == Error::kOk)
      fail("a part of the program runs", size);
  }
  bytes = program_memory.give(good.size(), 4);
  std::memcpy(bytes.data(), good.data(), good.size());
  expect(attempt(bytes, checked, "misaligned", 0), Error::kMisaligned, "a misaligned program");

  bytes = program_memory.give(good.size());
  std::memcpy(bytes.data(), good.data(), good.size());
  bytes[7] = std::byte{'3'};
  expect(attempt(bytes, checked, "newer schema", 0), Error::kNewerVersion, "a newer schema");
  bytes[7] = good[7];
  for (size_t i = 0; i + sizeof(dtr::pte::Manifest) <= bytes.size();
       i += alignof(dtr::pte::Manifest)) {
    auto& manifest = *reinterpret_cast<dtr::pte::Manifest*>(bytes.data() + i);
    if (manifest.magic != dtr::pte::kManifestMagic) continue;
    ++manifest.major;
    expect(attempt(bytes, unchecked, "newer tool", 0), Error::kNewerVersion, "a newer tool");
    --manifest.major;
    manifest.target_hash = 1;
    unchecked.target_hash = 2;
    expect(attempt(bytes, unchecked, "other target", 0), Error::kWrongTarget, "another target");
    std::memcpy(bytes.data(), good.data(), good.size());
  }

  const auto with = [&](const Memory& memory) {
    return attempt(bytes, checked, "wrong memory", 0, false, memory);
  };
  expect(with({.state_less = 1}), Error::kArenaTooSmall, "a small state");
  expect(with({.state_shift = 8}), Error::kArenaMisaligned, "a misaligned state");
  expect(with({.arena_less = 1}), Error::kArenaTooSmall, "a small arena");
  expect(with({.arena_shift = 4}), Error::kArenaMisaligned, "a misaligned arena");
  expect(with({.inputs = false}), Error::kInputNotSet, "missing inputs");
  expect(with({}), Error::kOk, "the program after all this");

  print(flips);
  print(" flips: ");
  print(refused);
  print(" refused, ");
  print(harmless);
  print(" harmless; without the checksum ");
  print(found_without);
  print(" refused\n");
  print(failures == 0 ? "done\n" : "failed\n");
  return failures == 0 ? 0 : 1;
}
