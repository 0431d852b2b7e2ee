#include "host/commands/sample_runs.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "host/tasks/packing.h"

namespace dtr {
namespace {

// The counters of RunStats that are no lists.
constexpr std::array kCounters = {&RunStats::total_cycles, &RunStats::busy_cycles,
                                  &RunStats::host_cycles,  &RunStats::stall_cycles,
                                  &RunStats::copied_bytes, &RunStats::sram_touched_bytes};

template <class T>
void pack_list(Packer& packer, const std::vector<T>& list) {
  packer.add(uint64_t{list.size()});
  packer.add_bytes(std::as_bytes(std::span(list)));
}
template <class T>
[[nodiscard]] bool unpack_list(Unpacker& unpacker, std::vector<T>& list) {
  uint64_t size = 0;
  std::span<const std::byte> bytes;
  if (!unpacker.take(size) || size > SIZE_MAX / sizeof(T) ||
      !unpacker.take_bytes(size * sizeof(T), bytes))
    return false;
  list.resize(size);
  if (size > 0) std::memcpy(list.data(), bytes.data(), bytes.size());
  return true;
}

void pack(Packer& packer, const RunStats& stats) {
  packer.add(stats.runs);
  packer.add(stats.npu_calls);
  for (const auto counter : kCounters) packer.add(stats.*counter);
  pack_list(packer, stats.milliseconds);
  pack_list(packer, stats.instructions);
}

// Adds the runs of the next sample.
[[nodiscard]] bool unpack(Unpacker& unpacker, RunStats& stats) {
  RunStats next;
  bool good = unpacker.take(next.runs) && unpacker.take(next.npu_calls);
  for (const auto counter : kCounters) good = good && unpacker.take(next.*counter);
  good =
      good && unpack_list(unpacker, next.milliseconds) && unpack_list(unpacker, next.instructions);
  std::vector<double> times = std::move(stats.milliseconds);
  times.insert(times.end(), next.milliseconds.begin(), next.milliseconds.end());
  next.runs += stats.runs;
  next.sram_touched_bytes = std::max(next.sram_touched_bytes, stats.sram_touched_bytes);
  stats = std::move(next);
  stats.milliseconds = std::move(times);
  return good;
}

class RunWorker final : public TaskWorker {
 public:
  RunWorker(SharedProgram::Lease session, const Samples& samples, uint32_t repeat)
      : session_(std::move(session)), samples_(samples), repeat_(repeat) {}

  Result<std::vector<std::byte>> run(size_t task, std::span<const std::byte> /*input*/) override {
    RunStats stats;
    std::vector<Tensor> outputs;
    for (uint32_t i = 0; i < repeat_; ++i) {
      DTR_ASSIGN(std::vector<Tensor> results, session_->run(samples_.inputs(task), &stats));
      if (i == 0) outputs = std::move(results);
    }
    Packer packer;
    pack(packer, stats);
    packer.add(uint64_t{outputs.size()});
    for (const Tensor& output : outputs) packer.add_bytes(output.bytes());
    return packer.take();
  }

 private:
  SharedProgram::Lease session_;
  const Samples& samples_;
  uint32_t repeat_;
};

}  // namespace

Result<SampleRuns> run_samples(Session& session, const Samples& samples, size_t count,
                               uint32_t repeat, TaskExecutor& executor,
                               const ProgressFunction& progress) {
  SharedProgram program(session, executor.threads_for_each(count, session.has_states()));
  const TaskJob job{.count = count,
                    .is_stream = session.has_states(),
                    .open = [&]() -> Result<std::unique_ptr<TaskWorker>> {
                      DTR_ASSIGN(SharedProgram::Lease lease, program.open());
                      return std::make_unique<RunWorker>(std::move(lease), samples, repeat);
                    }};
  SampleRuns runs;
  const TakeResult take = [&](size_t, std::span<const std::byte> result) -> Result<void> {
    Unpacker unpacker(result);
    uint64_t outputs = 0;
    DTR_CHECK(unpack(unpacker, runs.stats) && unpacker.take(outputs));
    std::vector<Tensor>& tensors = runs.outputs.emplace_back();
    for (uint64_t k = 0; k < outputs; ++k) {
      const Type type = session.output_type(k);
      std::span<const std::byte> bytes;
      DTR_CHECK(unpacker.take_bytes(static_cast<size_t>(type.bytes()), bytes));
      tensors.push_back(Tensor::copy_of(type.dtype, type.shape, bytes));
    }
    DTR_CHECK(unpacker.at_end());
    return {};
  };
  DTR_TRY(executor.run(job, take, progress));
  return runs;
}

}  // namespace dtr
