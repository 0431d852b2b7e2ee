// Records runs for a profile.
#pragma once

#include "host/profiler/trace.h"
#include "host/session/session.h"
#include "host/session/value_recorder.h"

namespace dtr {

class TraceRecorder {
 public:
  // `events`: size of the buffer for one run, for sessions on this machine; the oldest events are
  // kept. The session must outlive the recorder.
  explicit TraceRecorder(Session& session, size_t events);

  // Calls Session::run and adds its events to the trace, even if it fails. `values`: also records
  // the values of sample `sample`. Errors: those of Session::run.
  Result<std::vector<Tensor>> run(std::span<const TensorView> inputs, RunStats& stats,
                                  ValueRecorder* values = nullptr, int32_t sample = -1);
  const Trace& trace() const { return trace_; }
  bool empty() const { return trace_.runs.empty(); }  // no run was recorded

 private:
  Session& session_;
  Recording recording_;
  Trace trace_;
};

// Records a run on zeros: on the simulated machine the cycles do not depend on the inputs. Errors:
// those of Session::run.
Result<Trace> record_zeros(Session& session);

}  // namespace dtr
