// What operators gave in runs that are recorded, for numeric comparison by ExecuTorch's Inspector:
// the debug buffer beside an ETDump.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "host/profiler/operator_map.h"
#include "host/profiler/trace.h"
#include "host/session/capture.h"

namespace dtr {

class ValueRecorder {
 public:
  // Errors: kNoDebugMap. The image must outlive the recorder.
  static Result<ValueRecorder> create(const PteFile& pte_file);

  void watch(RunHooks& hooks) { capture_.watch(hooks); }
  // Puts the values of the run that was watched into `run`. The Inspector compares an event with
  // the last of its operators, so every event gets the result of that one, which is stored once:
  // codes for a quantize, else real values; integers as they are.
  void finish(TraceRun& run, std::span<const Tensor> outputs);
  // What came since the last call; offsets count from the first.
  std::vector<std::byte> take_bytes();

 private:
  explicit ValueRecorder(const pte::DebugMap& map) : map_(map), capture_(map) {}
  std::optional<TraceTensor> result_of(uint32_t source);
  TraceTensor store(const Tensor& tensor);

  OperatorMap map_;
  Capture capture_;
  std::map<uint32_t, TraceTensor> stored_;  // of this run, by source
  std::vector<std::byte> bytes_;
  uint64_t taken_ = 0;  // bytes
};

}  // namespace dtr
