// Captures results of operators during a run of a compiled program: copies each one from planned
// memory as soon as it is complete, before its memory is reused. The debug map gives its address
// and time, also inside of the NPU's partitions.
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

  // Sets hooks that capture the tensors of the next run; those of earlier runs are dropped. The
  // hooks refer to the capture.
  void watch(RunHooks& hooks);

  // The tensor of the program that is the result of a source operator (by index): the last tensor
  // whose last source it is; null if there is none, as for split operators.
  const pte::DebugTensor* described(uint32_t source) const;
  // Its captured elements in logical order; null if fusion removed it or the run ended before it.
  const Tensor* stored(uint32_t source) const;
  // Its elements as float32, dequantized if it is quantized per tensor; std::nullopt for other
  // integers.
  std::optional<Tensor> real(uint32_t source) const;

 private:
  void after_event(uint32_t instruction, const npu::Event& event, std::span<const std::byte> arena);
  void after_instruction(uint32_t instruction, const runtime::Method& method);

  std::map<uint32_t, const pte::DebugTensor*> wanted_;
  std::map<uint32_t, Tensor> values_;
  std::map<uint32_t, uint32_t> steps_;  // kernel calls seen, by instruction
};

}  // namespace dtr
