// deuteron profile
#include <fmt/format.h>

#include "compiler/pipeline/read_model.h"
#include "compiler/support/output_file.h"
#include "host/profiler/etdump.h"
#include "host/profiler/etrecord.h"
#include "host/profiler/html.h"
#include "host/profiler/records.h"
#include "host/profiler/report.h"
#include "host/session/recorder.h"
#include "tools/print.h"
#include "tools/verbs.h"

namespace dtr::tools {
namespace {

// A trace told in terms of its program, if that is given: a file, or what was run.
struct Loaded {
  Trace trace;
  Profile profile;
  std::unique_ptr<Session> session = {};
  std::optional<ProgramImage> image = {};

  const ProgramImage* program() const { return session != nullptr ? &session->image() : image ? &*image : nullptr; }
};

Profile told(const Trace& trace, const ProgramImage& image) {
  Profile profile = make_profile(trace, image.debug_map() == nullptr ? OperatorMap() : OperatorMap(*image.debug_map()), image.path());
  profile.configuration = npu_configuration(image);
  if (image.debug_map() != nullptr) return profile;
  profile.missing.emplace_back("operators, memory, tensors, and the cycles of CPU kernels, which count 0: compile without --no-debug-map");
  return profile;
}

Status check_same_program(const Trace& trace, const std::string& trace_path, const TraceProgram& id, const std::string& path) {
  if (!trace.program || *trace.program == id) return {};
  return fail(DiagnosticId::kTraceProgram,
              fmt::format("the profile is of program {:08x} for `{}`, {} is {:08x} for `{}`", trace.program->checksum,
                          trace.program->target, path, id.checksum, id.target),
              "give the program that was run, or record the profile again", {.file = trace_path});
}

// A program is run, on zeros, since its cost does not depend on data.
Result<Loaded> load(const std::string& path, const std::string& program_path, const std::string& record_path,
                    const std::vector<std::string>& tensor_files) {
  DTR_ASSIGN(const FileKind kind, file_kind(path));
  if (kind == FileKind::kProgram) {
    if (!program_path.empty() && program_path != path)
      return fail(DiagnosticId::kTraceProgram, fmt::format("it is a program, which is run here, and {} is another one", program_path),
                  "give a trace with --program, or the program alone", {.file = path});
    if (!record_path.empty())
      return fail(DiagnosticId::kTraceProgram, "it is a program, which names its operators itself: a record has nothing to do",
                  "leave the record away, or give a trace", {.file = path});
    DTR_ASSIGN(std::unique_ptr<Session> session, Session::open(path, tensor_files));
    DTR_ASSIGN(Trace trace, record_zeros(*session));
    Profile profile = told(trace, session->image());
    return Loaded{.trace = std::move(trace), .profile = std::move(profile), .session = std::move(session)};
  }
  if (kind == FileKind::kRecords) {
    if (!record_path.empty())
      return fail(DiagnosticId::kTraceProgram, "it holds records of a device, whose program is needed instead of a record of it",
                  "give the program that ran there: --program", {.file = path});
    if (program_path.empty())
      return fail(DiagnosticId::kTraceProgram, "it holds records of a device, which name no operators",
                  "give the program that ran there: --program", {.file = path});
    DTR_ASSIGN(ProgramImage image, ProgramImage::open(program_path));
    DTR_ASSIGN(Trace trace, read_records(path, image));
    Profile profile = told(trace, image);
    return Loaded{.trace = std::move(trace), .profile = std::move(profile), .image = std::move(image)};
  }
  DTR_ASSIGN(Trace trace, read_etdump(path));
  if (!record_path.empty()) {
    DTR_ASSIGN(const EtRecord record, EtRecord::open(record_path));
    if (record.program()) DTR_TRY(check_same_program(trace, path, *record.program(), record_path));
    Profile profile = make_profile(trace, record.operators(trace), record_path);
    profile.missing.emplace_back(record.program() ? "memory and tensors: a record does not hold them, give the program (--program)"
                                                  : "memory, tensors and what limits operators: ExecuTorch's records do not hold them");
    return Loaded{.trace = std::move(trace), .profile = std::move(profile)};
  }
  if (program_path.empty()) {
    Profile profile = make_profile(trace, OperatorMap(), path);
    profile.missing.emplace_back("operators, memory and tensors: give the program (--program) or its record (--etrecord)");
    return Loaded{.trace = std::move(trace), .profile = std::move(profile)};
  }
  DTR_ASSIGN(ProgramImage image, ProgramImage::open(program_path));
  DTR_TRY(check_same_program(trace, path, trace_program(image), program_path));
  Profile profile = told(trace, image);
  return Loaded{.trace = std::move(trace), .profile = std::move(profile), .image = std::move(image)};
}

// Tensor files are for programs that are run.
Status check_runs_a_program(const ProfileOptions& options) {
  for (const std::string& path : {options.trace, options.compare}) {
    if (path.empty()) continue;
    DTR_ASSIGN(const FileKind kind, file_kind(path));
    if (kind == FileKind::kProgram) return {};
  }
  return fail(DiagnosticId::kTraceProgram, "it is a recorded profile, and no program is run: --tensors has nothing to do",
              "leave --tensors away", {.file = options.trace});
}

ProfileTable table_of(const ProfileOptions& options) {
  ProfileTable table{.program_order = options.sort == "program", .filter = options.filter, .depth = options.depth};
  if (options.by == "module") table.view = ProfileView::kModule;
  if (options.by == "kernel") table.view = ProfileView::kKernel;
  if (options.by == "memory") table.view = ProfileView::kMemory;
  return table;
}

}  // namespace

Status profile(const CommonOptions&, const ProfileOptions& options) {
  DTR_TRY(check_outputs({options.trace, options.program, options.etrecord, options.compare, options.compare_program,
                         options.compare_etrecord, options.compile_report, options.verify},
                        {options.etdump, options.json, options.csv, options.perfetto, options.html}));
  if (!options.tensor_files.empty()) DTR_TRY(check_runs_a_program(options));
  DTR_ASSIGN(const Loaded loaded, load(options.trace, options.program, options.etrecord, options.tensor_files));
  const ProfileTable table = table_of(options);
  if (!options.etdump.empty()) DTR_TRY(write_file(options.etdump, to_etdump(loaded.trace)));
  if (!options.compare.empty()) {
    DTR_ASSIGN(const FileKind kind, file_kind(options.compare));
    const bool same = kind != FileKind::kProgram && options.compare_program.empty() && options.compare_etrecord.empty();
    DTR_ASSIGN(const Loaded other, load(options.compare, same ? options.program : options.compare_program,
                                        same ? options.etrecord : options.compare_etrecord, options.tensor_files));
    if (!options.json.empty())
      DTR_TRY(write_file(options.json, compare_json(loaded.profile, loaded.program(), other.profile, other.program(), table)));
    if (!options.csv.empty()) DTR_TRY(write_file(options.csv, compare_csv(loaded.profile, other.profile, table)));
    print("{}", EncodedLines{compare_text(loaded.profile, other.profile, table)});
    return {};
  }
  if (!options.json.empty()) DTR_TRY(write_file(options.json, to_json(loaded.profile, loaded.program())));
  if (!options.csv.empty()) DTR_TRY(write_file(options.csv, to_csv(loaded.profile, table)));
  if (!options.perfetto.empty()) DTR_TRY(write_file(options.perfetto, to_perfetto(loaded.profile, loaded.program())));
  if (!options.html.empty()) {
    DTR_ASSIGN(const std::string page,
               to_html(loaded.profile, loaded.program(), {.compile_report = options.compile_report, .verify = options.verify}));
    DTR_TRY(write_file(options.html, page));
  }
  print("{}", EncodedLines{to_text(loaded.profile, table)});
  return {};
}

}  // namespace dtr::tools
