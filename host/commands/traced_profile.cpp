#include "host/commands/traced_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/pipeline/read_model.h"
#include "compiler/program/machine.h"
#include "host/profiler/etdump.h"
#include "host/profiler/etrecord.h"
#include "host/profiler/records.h"
#include "host/session/recorder.h"

namespace dtr {
namespace {

Result<void> check_same_program(const Trace& trace, const std::string& trace_path,
                                const TraceSource& id, const std::string& path) {
  if (!trace.program || *trace.program == id) return {};
  return fail(
      DiagnosticId::kTraceProgram,
      fmt::format("the profile is of program {:08x} for `{}`, {} is {:08x} for `{}`",
                  trace.program->checksum, trace.program->target, path, id.checksum, id.target),
      "give the program that was run, or record the profile again", {.file = trace_path});
}

}  // namespace

Profile profile_of(const Trace& trace, const PteFile& pte_file) {
  Profile profile = make_profile(
      trace, pte_file.debug_map() == nullptr ? OperatorMap() : OperatorMap(*pte_file.debug_map()),
      pte_file.path());
  profile.target = target_of_manifest(pte_file);
  profile.configuration = npu_configuration(pte_file);
  if (pte_file.debug_map() != nullptr) return profile;
  const auto is_kernel = [](const ProfileSpan& span) {
    return span.track == ProfileSpan::Track::kHost && !span.waits;
  };
  profile.cpu_known = profile.cpu_unit != npu::ProfileUnit::kEstimate ||
                      std::ranges::none_of(profile.spans, is_kernel);
  profile.missing.emplace_back(
      "operators, memory, tensors, and the cycles of CPU kernels, which count 0: compile without "
      "--no-debug-map");
  return profile;
}

Result<TracedProfile> profile_session(std::unique_ptr<Session> session) {
  DTR_ASSIGN(Trace trace, record_zeros(*session));
  Profile profile = profile_of(trace, session->pte_file());
  profile.cost = {};  // the user did not request the recording
  return TracedProfile{
      .trace = std::move(trace), .profile = std::move(profile), .session = std::move(session)};
}

Result<TracedProfile> read_profile(const std::string& path, const std::string& program_path,
                                   const std::string& record_path,
                                   const std::vector<std::string>& tensor_files,
                                   std::string_view method) {
  DTR_ASSIGN(const FileKind kind, file_kind(path));
  if (kind == FileKind::kProgram) {
    if (!program_path.empty() && program_path != path)
      return fail(
          DiagnosticId::kTraceProgram,
          fmt::format("it is a program, which is run here, and {} is another one", program_path),
          "give a trace with --program, or the program alone", {.file = path});
    if (!record_path.empty())
      return fail(DiagnosticId::kTraceProgram,
                  "it is a program, which names its operators itself: a record has no effect",
                  "omit the record, or give a trace", {.file = path});
    DTR_ASSIGN(std::unique_ptr<Session> session, Session::open(path, tensor_files, method));
    return profile_session(std::move(session));
  }
  if (kind == FileKind::kRecords) {
    if (!record_path.empty())
      return fail(DiagnosticId::kTraceProgram,
                  "it holds records of a device, whose program is needed instead of a record of it",
                  "give the program that ran there: --program", {.file = path});
    if (program_path.empty())
      return fail(DiagnosticId::kTraceProgram,
                  "it holds records of a device, which name no operators",
                  "give the program that ran there: --program", {.file = path});
    DTR_ASSIGN(PteFile pte_file, PteFile::open(program_path));
    DTR_TRY(pte_file.select(method));
    DTR_ASSIGN(Trace trace, read_records(path, pte_file));
    Profile profile = profile_of(trace, pte_file);
    return TracedProfile{
        .trace = std::move(trace), .profile = std::move(profile), .pte_file = std::move(pte_file)};
  }
  DTR_ASSIGN(Trace trace, read_etdump(path));
  if (!record_path.empty()) {
    DTR_ASSIGN(const EtRecord record, EtRecord::open(record_path));
    if (record.program()) DTR_TRY(check_same_program(trace, path, *record.program(), record_path));
    Profile profile = make_profile(trace, record.operators(trace), record_path);
    profile.missing.emplace_back(
        record.program()
            ? "memory and tensors: a record does not hold them, give the program (--program)"
            : "memory, tensors and what limits operators: ExecuTorch's records do not hold them");
    return TracedProfile{.trace = std::move(trace), .profile = std::move(profile)};
  }
  if (program_path.empty()) {
    Profile profile = make_profile(trace, OperatorMap(), path);
    profile.missing.emplace_back(
        "operators, memory and tensors: give the program (--program) or its record (--etrecord)");
    return TracedProfile{.trace = std::move(trace), .profile = std::move(profile)};
  }
  DTR_ASSIGN(PteFile pte_file, PteFile::open(program_path));
  DTR_TRY(pte_file.select(method));
  DTR_TRY(check_same_program(trace, path, trace_source(pte_file), program_path));
  Profile profile = profile_of(trace, pte_file);
  return TracedProfile{
      .trace = std::move(trace), .profile = std::move(profile), .pte_file = std::move(pte_file)};
}

}  // namespace dtr
