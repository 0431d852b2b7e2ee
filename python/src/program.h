// A program that Python holds: its bytes, what its compilation said, and sessions that run it.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "host/commands/inputs.h"
#include "host/commands/traced_profile.h"

namespace dtr::python {

namespace nb = nanobind;

using Bytes = std::vector<std::byte>;

class ProgramHandle {
 public:
  ProgramHandle() = default;
  ProgramHandle(const ProgramHandle&) = delete;
  ProgramHandle& operator=(const ProgramHandle&) = delete;

  std::string name;    // path or name, for messages
  std::string method;  // PteFile::select
  // The program, which the handles of its methods share.
  std::shared_ptr<const Bytes> pte = std::make_shared<Bytes>();
  Bytes tensors;                                         // constants outside of the program (.ptd)
  std::string report_json, report_text, placement_json;  // empty: of a program that was loaded

  ProgramInput input() const {
    return {.path = name, .method = method, .tensor_files = {}, .bytes = *pte, .tensors = tensors};
  }
  // A session that nobody uses. Each thread in a run has its own; the interpreter's lock guards the
  // list. Returns null if there is none: then the caller opens one.
  std::unique_ptr<Session> take_session();
  void give_back(std::unique_ptr<Session> session);
  // The session that keeps the states of a stream between calls. Null if no stream has begun.
  // Error: kRunFailed, if another thread runs it.
  std::unique_ptr<Session> take_stream();
  void give_back_stream(std::unique_ptr<Session> session);
  // The next run begins a new stream.
  void reset() { stream_.reset(); }

 private:
  std::vector<std::unique_ptr<Session>> free_;
  std::unique_ptr<Session> stream_;
  bool stream_is_taken_ = false;
};

// A session of the program for as long as the object lives. Made and destroyed with the
// interpreter's lock; opened by the first `get`, without it. A session whose work threw is not used
// again: where it stood is not known.
class SessionLease {
 public:
  explicit SessionLease(ProgramHandle& program)
      : program_(program), session_(program.take_session()) {}
  ~SessionLease() {
    if (session_ && std::uncaught_exceptions() == exceptions_)
      program_.give_back(std::move(session_));
  }
  SessionLease(const SessionLease&) = delete;
  SessionLease& operator=(const SessionLease&) = delete;

  Session& get();

 private:
  ProgramHandle& program_;
  std::unique_ptr<Session> session_;
  int exceptions_ = std::uncaught_exceptions();
};

// The session of the program's stream, for as long as the object lives: what the program keeps
// between runs (its states) lasts from call to call. A program without states has no stream.
class StreamLease {
 public:
  explicit StreamLease(ProgramHandle& program)
      : program_(program), session_(program.take_stream()) {}
  ~StreamLease() { program_.give_back_stream(std::move(session_)); }
  StreamLease(const StreamLease&) = delete;
  StreamLease& operator=(const StreamLease&) = delete;

  Session& get();

 private:
  ProgramHandle& program_;
  std::unique_ptr<Session> session_;
};

void bind_program(nb::module_& module);
void bind_commands(nb::module_& module);
void bind_executorch(nb::module_& module);

}  // namespace dtr::python
