#include "host/session/value_recorder.h"

#include <algorithm>
#include <utility>

#include "compiler/support/align.h"

namespace dtr {

Result<ValueRecorder> ValueRecorder::create(const PteFile& pte_file) {
  if (pte_file.debug_map() == nullptr)
    return fail(DiagnosticId::kNoDebugMap,
                "the program has no debug map, so its tensors cannot be found",
                "compile without --no-debug-map", {.file = pte_file.path()});
  return ValueRecorder(*pte_file.debug_map());
}

void ValueRecorder::finish(TraceRun& run, std::span<const Tensor> outputs) {
  stored_.clear();
  for (const TraceEvent& event : run.events) {
    const MappedStep* step =
        event.instruction < 0 ? nullptr : map_.served(event.instruction, event.command);
    const bool delegate =
        event.kind == npu::ProfileEvent::kDelegate;  // its commands have the operators
    if (step == nullptr || step->origin.sources.empty() || delegate) continue;
    run.values.push_back({.instruction = event.instruction,
                          .command = event.command,
                          .tensor = result_of(std::ranges::max(step->origin.sources))});
  }
  for (const Tensor& output : outputs) run.values.push_back({.tensor = store(output)});
}

std::vector<std::byte> ValueRecorder::take_bytes() {
  taken_ += bytes_.size();
  return std::exchange(bytes_, {});
}

std::optional<TraceTensor> ValueRecorder::result_of(uint32_t source) {
  if (const auto found = stored_.find(source); found != stored_.end()) return found->second;
  const Tensor* codes = capture_.stored(source);
  if (codes == nullptr) return std::nullopt;
  const bool quantizes =
      map_.sources()[source].target.starts_with("quantized_decomposed.quantize_");
  const std::optional<Tensor> real = quantizes ? std::nullopt : capture_.real(source);
  return stored_[source] = store(real ? *real : *codes);
}

TraceTensor ValueRecorder::store(const Tensor& tensor) {
  constexpr size_t kAlignment = 16;
  TraceTensor stored{
      .dtype = tensor.dtype(), .shape = tensor.shape(), .offset = taken_ + bytes_.size()};
  bytes_.insert(bytes_.end(), tensor.bytes().begin(), tensor.bytes().end());
  bytes_.resize(align_up(bytes_.size(), kAlignment));
  return stored;
}

}  // namespace dtr
