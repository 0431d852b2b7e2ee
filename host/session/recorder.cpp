#include "host/session/recorder.h"

#include <algorithm>
#include <chrono>

#include "device/runtime/profiler.h"

namespace dtr {

namespace {

// How long recording as many calls and commands as there are in `records` takes here, in
// nanoseconds for `cost_events` of them.
void measure_cost(std::span<const npu::ProfileRecord> records, npu::ProfileHeader& header) {
  constexpr size_t kLeastEvents = 8192;
  const auto calls =
      static_cast<size_t>(std::ranges::count_if(records, [](const npu::ProfileRecord& record) {
        return record.start.event == npu::ProfileEvent::kKernel ||
               record.start.event == npu::ProfileEvent::kDelegate;
      }));
  std::vector<npu::ProfileRecord> buffer(records.size());
  uint64_t time = 0;
  runtime::Profiler profiler(buffer,
                             {[](void* clock) { return ++*static_cast<uint64_t*>(clock); }, &time});
  size_t events = 0;
  const auto start = std::chrono::steady_clock::now();
  for (; events < kLeastEvents; events += records.size())
    profiler.record_and_discard(calls, records.size() - calls);
  const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - start;
  header.cost = static_cast<uint32_t>(taken.count());
  header.cost_events = static_cast<uint32_t>(events);
}

}  // namespace

TraceRecorder::TraceRecorder(Session& session, size_t events) : session_(session) {
  recording_.buffer.resize(events);
  trace_.program = trace_source(session.pte_file());
}

Result<std::vector<Tensor>> TraceRecorder::run(std::span<const TensorView> inputs, RunStats& stats,
                                               ValueRecorder* values, int32_t sample) {
  RunHooks hooks{.recording = &recording_};
  if (values != nullptr) values->watch(hooks);
  Result<std::vector<Tensor>> outputs = session_.run(inputs, &stats, hooks);
  npu::ProfileHeader header = recording_.header;
  if (recording_.used == 0 && recording_.lost == 0)
    return outputs;  // it did not get as far as that
  uint64_t own_run = 0;
  if (header.unit == npu::ProfileUnit::kEstimate && outputs) {
    measure_cost(recording_.records(), header);
    own_run = static_cast<uint64_t>(stats.milliseconds.back() * 1e6);
  }
  if (trace_.runs.empty()) add_records(trace_, header, recording_.start, session_.pte_file());
  add_records(trace_, header, recording_.records(), session_.pte_file(), own_run);
  if (values != nullptr) {
    trace_.runs.back().sample = sample;
    values->finish(trace_.runs.back(),
                   outputs ? std::span<const Tensor>(*outputs) : std::span<const Tensor>());
  }
  return outputs;
}

Result<Trace> record_zeros(Session& session) {
  constexpr size_t kEvents = 1 << 20;  // a program has fewer commands
  std::vector<Tensor> inputs;
  std::vector<TensorView> views;
  const Graph& signature = session.signature();
  for (const ValueId input : signature.inputs())
    inputs.emplace_back(signature.type(input).dtype, signature.type(input).shape);
  for (const Tensor& input : inputs) views.push_back(input.view());
  TraceRecorder recorder(session, kEvents);
  RunStats stats;
  DTR_TRY(recorder.run(views, stats));
  return recorder.trace();
}

}  // namespace dtr
