// Runs that are recorded for a profile.
#pragma once

#include "host/profiler/trace.h"
#include "host/session/session.h"
#include "host/session/value_recorder.h"

namespace dtr {

class TraceRecorder {
 public:
  // `events`: room in the buffer of a run, where the session is of this machine; the oldest are
  // kept. The session must outlive the recorder.
  explicit TraceRecorder(Session& session, size_t events);

  // Session::run; what was recorded is kept even if it fails. `values`: records them too, of the
  // sample of that number.
  Result<std::vector<Tensor>> run(std::span<const TensorView> inputs, RunStats& stats,
                                  ValueRecorder* values = nullptr, int32_t sample = -1);
  const Trace& trace() const { return trace_; }
  bool empty() const { return trace_.runs.empty(); }  // nothing was recorded before an error

 private:
  Session& session_;
  Recording recording_;
  Trace trace_;
};

// A run on zeros: on the simulated machine a program costs the same whatever its inputs are.
Result<Trace> record_zeros(Session& session);

}  // namespace dtr
