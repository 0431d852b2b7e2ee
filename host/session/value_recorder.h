// Records results of operators for numeric comparison by ExecuTorch's Inspector: the debug buffer
// of an ETDump.
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
  // `pte_file` must outlive the recorder. Error: kNoDebugMap.
  static Result<ValueRecorder> create(const PteFile& pte_file);

  void watch(RunHooks& hooks) { capture_.watch(hooks); }
  // Adds the values of the watched run to `run`. The Inspector compares an event with the last of
  // its operators, so every event gets that operator's result, which is stored once: codes for a
  // quantize, else real values; integers unchanged.
  void finish(TraceRun& run, std::span<const Tensor> outputs);
  // The bytes added since the last call; offsets count from the first call.
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
