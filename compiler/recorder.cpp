#include "compiler/recorder.h"

#include "abi/manifest.h"

namespace dtr {

TraceRecorder::TraceRecorder(Session& session, size_t events) : session_(session) {
  recording_.buffer.resize(events);
  trace_.program = trace_program(session.image());
  if (const pte::Manifest* manifest = session.image().file().manifest()) trace_.planned_bytes = manifest->sram_bytes;
}

Result<std::vector<Tensor>> TraceRecorder::run(std::span<const TensorView> inputs, RunStats& stats, ValueRecorder* values, int32_t sample) {
  RunHooks hooks{.recording = &recording_};
  if (values != nullptr) values->watch(hooks);
  Result<std::vector<Tensor>> outputs = session_.run(inputs, &stats, hooks);
  trace_.runs.push_back(decode_run(recording_.records(), recording_.lost, session_.image()));
  if (values != nullptr) {
    trace_.runs.back().sample = sample;
    values->finish(trace_.runs.back(), outputs ? std::span<const Tensor>(*outputs) : std::span<const Tensor>());
  }
  trace_.used_bytes = stats.sram_touched_bytes;
  return outputs;
}

Result<Trace> record_zeros(Session& session) {
  constexpr size_t kEvents = 1 << 20;  // a program has fewer commands
  std::vector<Tensor> inputs;
  std::vector<TensorView> views;
  const Graph& signature = session.signature();
  for (const ValueId input : signature.inputs()) inputs.emplace_back(signature.type(input).dtype, signature.type(input).shape);
  for (const Tensor& input : inputs) views.push_back(input.view());
  TraceRecorder recorder(session, kEvents);
  RunStats stats;
  DTR_TRY(recorder.run(views, stats));
  return recorder.trace();
}

}  // namespace dtr
