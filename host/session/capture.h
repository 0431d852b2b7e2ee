// What operators compute inside of a compiled program: their results, taken out of planned memory
// as soon as they are complete. A program keeps most of them only for a moment, many of them inside
// of the NPU's partitions; the debug map says where and when.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "device/pte/debug_map_generated.h"
#include "host/session/session.h"

namespace dtr {

class Capture {
 public:
  // The map must outlive the capture.
  explicit Capture(const pte::DebugMap& map);

  // Lets a run hand over its tensors; those of the run before are dropped. The hooks refer to the
  // capture.
  void watch(RunHooks& hooks);

  // Both by index of a source operator. The tensor of the program that is its result: the last one
  // whose last source it is; null if there is none, as for parts of split operators.
  const pte::DebugTensor* described(uint32_t source) const;
  // Its elements as the program has them, in logical order; null if it is lost to fusion or the run
  // did not come to it.
  const Tensor* stored(uint32_t source) const;
  // As float32: dequantized where it has one scale; none for other integers.
  std::optional<Tensor> real(uint32_t source) const;

 private:
  void after_event(uint32_t instruction, const npu::Event& event, std::span<const std::byte> arena);
  void after_instruction(uint32_t instruction, const runtime::Method& method);

  std::map<uint32_t, const pte::DebugTensor*> wanted_;
  std::map<uint32_t, Tensor> values_;
  std::map<uint32_t, uint32_t> steps_;  // kernel calls seen, by instruction
};

}  // namespace dtr
