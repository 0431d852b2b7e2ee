#include "python/src/program.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "compiler/ir/quantized_values.h"
#include "compiler/program/scalar_types.h"
#include "compiler/support/output_file.h"
#include "compiler/support/progress.h"
#include "device/pte/program_generated.h"
#include "host/accuracy/verify.h"
#include "host/commands/describe.h"
#include "host/commands/run_results.h"
#include "host/commands/sample_runs.h"
#include "host/firmware/firmware.h"
#include "host/firmware/qemu_session.h"
#include "host/profiler/etdump.h"
#include "host/profiler/html.h"
#include "host/profiler/report.h"
#include "host/session/recorder.h"
#include "python/src/convert.h"
#include "python/src/work.h"

namespace dtr::python {
namespace {

// Sessions that wait for the next run of a program; each has an arena of its own.
constexpr size_t kFreeSessions = 4;

// A profile that Python holds. It refers to the program, which Python keeps alive.
struct ProfileHandle {
  Trace trace;
  Profile profile;
  const ProgramHandle* program = nullptr;  // null: `image` is the program, or there is none
  std::optional<PteFile> pte_file;
  std::vector<std::byte> debug_buffer;
  const PteFile* shown() const { return pte_file ? &*pte_file : nullptr; }
};

// What one call of a program gives: the arrays, and what the run cost as JSON.
struct RunOutcome {
  std::vector<NamedTensor> outputs;
  std::string stats;
  std::vector<Diagnostic> warnings;
};

// Whether each array is one sample, of the shape that the program takes.
bool is_one_sample(const Graph& signature, std::span<const NamedTensor> arrays) {
  if (arrays.size() != signature.inputs().size()) return false;
  for (size_t i = 0; i < arrays.size(); ++i)
    if (arrays[i].tensor.shape() != signature.type(signature.inputs()[i]).shape) return false;
  return true;
}

RunOutcome run_program(Session& session, const std::vector<NamedTensor>& arrays,
                       const std::string& data, uint32_t repeat, unsigned threads,
                       const ProgressFunction& progress) {
  take(check_repeat(session, repeat));
  const Samples samples = take(Samples::bind(session.signature(), arrays, data));
  RunOutcome outcome;
  outcome.warnings = nan_warnings(session.signature(), samples, samples.size(), data);
  SampleRuns runs = take(run_samples(session, samples, samples.size(), repeat,
                                     *make_thread_executor(threads), progress));
  std::vector<std::vector<Tensor>>& outputs = runs.outputs;
  if (is_one_sample(session.signature(), arrays)) {
    for (size_t k = 0; k < outputs.front().size(); ++k)
      outcome.outputs.push_back({fmt::format("output_{}", k), std::move(outputs.front()[k])});
  } else {
    outcome.outputs = stacked(outputs);
  }
  outcome.stats = stats_json(session.pte_file(), runs.stats, samples.size());
  return outcome;
}

ProfileTable table_of(const std::string& by, const std::string& sort, const std::string& filter,
                      size_t depth) {
  ProfileTable table{.program_order = sort == "program", .filter = filter, .depth = depth};
  if (by == "module") table.view = ProfileView::kModule;
  if (by == "kernel") table.view = ProfileView::kKernel;
  if (by == "memory") table.view = ProfileView::kMemory;
  return table;
}

nb::list to_python(const std::vector<Diagnostic>& diagnostics) {
  nb::list list;
  for (const Diagnostic& each : diagnostics) list.append(python::to_python(each));
  return list;
}

// Calls `progress(done, total)` on the thread that called.
ProgressFunction forwarded(Work& work, nb::handle progress) {
  if (progress.is_none()) return [](size_t, size_t) {};
  return [&work, progress](size_t done, size_t total) {
    work.post([progress, done, total] { progress(done, total); });
  };
}

// Name, dtype and shape of what a program keeps between runs.
nb::list states_of(const ProgramHandle& program) {
  const PteFile file = take(program.input().pte_file());
  const pte::ExecutionPlan& plan = file.plan();
  nb::list list;
  for (const uint32_t value : state_values(plan)) {
    const pte::Tensor& tensor = *plan.values()->Get(value)->val_as_Tensor();
    const pte::ExtraTensorInfo* extra = tensor.extra_tensor_info();
    const bool named = extra != nullptr && extra->fully_qualified_name() != nullptr;
    nb::list shape;
    if (tensor.sizes() != nullptr)
      for (const int32_t size : *tensor.sizes()) shape.append(size);
    const Type type = type_of(static_cast<ScalarType>(tensor.scalar_type()), {}, {});
    list.append(nb::make_tuple(
        named ? extra->fully_qualified_name()->str() : fmt::format("state_{}", value),
        std::string(name(type.dtype)), nb::tuple(shape)));
  }
  return list;
}

// Name, scale, zero point, and range of the codes of each quantized input and output.
nb::list codes_of(ProgramHandle& program) {
  SessionLease lease(program);
  const Session& session = lease.get();
  nb::list list;
  const auto add = [&](const std::string& name, const Type& type) {
    if (!has_real_values(type)) return;
    const Quantization& q = *type.quantization;
    list.append(nb::make_tuple(name, q.scale(), q.zero_point(), q.qmin, q.qmax));
  };
  const Graph& signature = session.signature();
  for (const ValueId input : signature.inputs())
    add(signature.value(input).name, signature.type(input));
  for (size_t k = 0; k < session.pte_file().plan().outputs()->size(); ++k)
    add(fmt::format("output_{}", k), session.output_type(k));
  return list;
}

// The method that the handle is of, and all those of the program.
nb::tuple methods_of(const ProgramHandle& program) {
  const PteFile file = take(program.input().pte_file());
  std::vector<std::string> names;
  for (uint32_t i = 0; i < file.method_count(); ++i)
    if (!file.is_io_constant(i)) names.push_back(file.plan(i).name()->str());
  return nb::make_tuple(std::string(file.method()), names);
}

bool has_states(const ProgramHandle& program) { return nb::len(states_of(program)) > 0; }

// `on`: "host", or what open_on_qemu takes. `threads`: 0 for all, but one for repeated runs, whose
// times others disturb, and for boards, each of which takes a build.
nb::tuple run(ProgramHandle& program, nb::handle arrays, const std::string& data, uint32_t repeat,
              const std::string& on, unsigned threads, nb::handle progress) {
  if (threads == 0 && (repeat > 1 || on != "host")) threads = 1;
  const std::vector<NamedTensor> tensors = to_tensors(arrays);
  const auto on_host = [&](auto& lease) {
    return work([&](Work& running) {
      return run_program(lease.get(), tensors, data, repeat, threads, forwarded(running, progress));
    });
  };
  const auto answer = [](const RunOutcome& outcome) {
    return nb::make_tuple(python::to_python(outcome.outputs), outcome.stats,
                          to_python(outcome.warnings));
  };
  if (on == "host" && has_states(program)) {
    StreamLease lease(program);
    return answer(on_host(lease));
  }
  SessionLease lease(program);
  if (on == "host") return answer(on_host(lease));
  return answer(work([&](Work& running) {
    const ProgressFunction watch = forwarded(running, progress);
    const std::unique_ptr<Session> board = take(open_on_qemu(take(program.input().open()), on));
    return run_program(*board, tensors, data, repeat, threads, watch);
  }));
}

nb::tuple verify(ProgramHandle& program, nb::handle against, nb::handle arrays,
                 const std::string& data, uint32_t samples, double min_sqnr, unsigned threads) {
  const Source model(against);
  const std::vector<NamedTensor> tensors =
      arrays.is_none() ? std::vector<NamedTensor>() : to_tensors(arrays);
  SessionLease lease(program);
  const auto [text, json, good] = work([&](Work&) {
    Session& session = lease.get();
    const Module read = take(model.model().read());
    const Samples bound = take(DataInput{.path = data, .arrays = tensors}.bind(read.forward()));
    const std::vector<LayerError> layers =
        take(verify_layers(session, read, bound, samples, *make_thread_executor(threads)));
    return std::tuple(to_text(layers, min_sqnr), to_json(trace_source(session.pte_file()), layers),
                      first_bad(layers, min_sqnr) == nullptr);
  });
  return nb::make_tuple(text, json, good);
}

// Of runs on data, or on zeros where there are none: then the cost is the same.
std::unique_ptr<ProfileHandle> profile(ProgramHandle& program, nb::handle arrays,
                                       const std::string& data, size_t events, bool values) {
  const std::vector<NamedTensor> tensors =
      arrays.is_none() ? std::vector<NamedTensor>() : to_tensors(arrays);
  SessionLease lease(program);
  return work([&](Work&) {
    Session& session = lease.get();
    auto handle = std::make_unique<ProfileHandle>();
    if (tensors.empty()) {
      handle->trace = take(record_zeros(session));
    } else {
      const Samples samples = take(Samples::bind(session.signature(), tensors, data));
      TraceRecorder recorder(session, events);
      std::optional<ValueRecorder> recorded;
      if (values) recorded.emplace(take(ValueRecorder::create(session.pte_file())));
      RunStats stats;
      for (size_t i = 0; i < samples.size(); ++i) {
        take(recorder.run(samples.inputs(i), stats, recorded ? &*recorded : nullptr,
                          static_cast<int32_t>(i)));
        if (!recorded) continue;
        const std::vector<std::byte> bytes = recorded->take_bytes();
        handle->debug_buffer.insert(handle->debug_buffer.end(), bytes.begin(), bytes.end());
      }
      handle->trace = recorder.trace();
    }
    handle->profile = profile_of(handle->trace, session.pte_file());
    handle->pte_file.emplace(take(program.input().pte_file()));
    handle->program = &program;
    return handle;
  });
}

std::string profile_html(const ProfileHandle& handle, const std::string& compile_report,
                         const std::string& verified) {
  HtmlAdditions additions;
  additions.compile_report_text = compile_report;
  additions.verify_text = verified;
  return take(to_html(handle.profile, handle.shown(), additions));
}

nb::dict write_project(const std::vector<ProgramHandle*>& programs,
                       const std::vector<std::string>& names, const std::string& folder,
                       const std::string& board, bool checksum) {
  const FirmwareChanges changes = work([&](Work&) {
    std::vector<PteFile> pte_files;
    std::vector<PtdFile> tensors;
    std::vector<FirmwareInput> rows;
    pte_files.reserve(programs.size());
    for (size_t i = 0; i < programs.size(); ++i) {
      pte_files.push_back(take(programs[i]->input().pte_file()));
      rows.push_back({&pte_files.back(), names[i]});
      if (!programs[i]->tensors.empty())
        tensors.push_back(take(PtdFile::parse(programs[i]->tensors, names[i] + ".ptd")));
    }
    const FirmwareOptions options{
        .board = take(resolve_board(board)), .checksum = checksum, .tensor_files = tensors};
    return take(write_firmware(take(make_firmware(rows, options)), folder));
  });
  nb::dict result;
  result["kept"] = changes.kept;
  result["beside"] = changes.beside;
  result["unused"] = changes.unused;
  result["removed"] = changes.removed;
  return result;
}

}  // namespace

std::unique_ptr<Session> ProgramHandle::take_session() {
  if (free_.empty()) return nullptr;
  std::unique_ptr<Session> session = std::move(free_.back());
  free_.pop_back();
  return session;
}

void ProgramHandle::give_back(std::unique_ptr<Session> session) {
  if (free_.size() < kFreeSessions) free_.push_back(std::move(session));
}

std::unique_ptr<Session> ProgramHandle::take_stream() {
  if (stream_is_taken_)
    take(Result<void>(fail(DiagnosticId::kRunFailed,
                           "another thread runs this program, which keeps states between runs",
                           "load the program once for each thread: deuteron.load(program.pte)",
                           {.file = name})));
  stream_is_taken_ = true;
  return std::move(stream_);
}

void ProgramHandle::give_back_stream(std::unique_ptr<Session> session) {
  stream_is_taken_ = false;
  stream_ = std::move(session);
}

Session& StreamLease::get() {
  if (!session_) session_ = take(program_.input().open());
  return *session_;
}

Session& SessionLease::get() {
  if (session_) session_->reset();
  if (!session_) session_ = take(program_.input().open());
  return *session_;
}

void bind_program(nb::module_& module) {
  nb::class_<ProgramHandle>(module, "Program")
      .def_prop_ro("name", [](const ProgramHandle& self) { return self.name; })
      .def_prop_ro("method", [](const ProgramHandle& self) { return self.method; })
      .def("methods", &methods_of)
      .def("with_method",
           [](const ProgramHandle& self, const std::string& method) {
             auto handle = std::make_unique<ProgramHandle>();
             handle->name = self.name;
             handle->pte = self.pte;
             handle->tensors = self.tensors;
             handle->method = method;
             take(handle->input().pte_file());
             return handle;
           })
      .def_prop_ro("pte", [](const ProgramHandle& self) { return to_bytes(*self.pte); })
      .def_prop_ro("tensors", [](const ProgramHandle& self) { return to_bytes(self.tensors); })
      .def_prop_ro("report_json", [](const ProgramHandle& self) { return self.report_json; })
      .def_prop_ro("report_text", [](const ProgramHandle& self) { return self.report_text; })
      .def_prop_ro("placement_json", [](const ProgramHandle& self) { return self.placement_json; })
      .def("inputs",
           [](ProgramHandle& self) {
             SessionLease lease(self);
             return inputs_of(lease.get().signature());
           })
      .def("codes", &codes_of)
      .def("states", &states_of)
      .def("reset", &ProgramHandle::reset)
      .def("target",
           [](ProgramHandle& self) {
             SessionLease lease(self);
             return trace_source(lease.get().pte_file()).target;
           })
      .def("run", &run, nb::arg("arrays"), nb::arg("data"), nb::arg("repeat"), nb::arg("on"),
           nb::arg("threads"), nb::arg("progress").none())
      .def("verify", &verify, nb::arg("against"), nb::arg("arrays").none(), nb::arg("data"),
           nb::arg("samples"), nb::arg("min_sqnr"), nb::arg("threads"))
      .def("profile", &profile, nb::keep_alive<0, 1>(), nb::arg("arrays").none(), nb::arg("data"),
           nb::arg("events"), nb::arg("values"))
      .def("explain",
           [](ProgramHandle& self, const std::string& name, size_t most) {
             SessionLease lease(self);
             return work([&](Work&) { return take(explain_program(lease.get(), name, most)); });
           })
      .def("describe",
           [](const ProgramHandle& self) {
             return work([&](Work&) { return describe(take(self.input().pte_file())); });
           })
      .def("save",
           [](const ProgramHandle& self, const std::string& path, const std::string& tensors) {
             take(check_outputs({}, {path, tensors}));
             std::vector<OutputFile> files;
             files.push_back(take(OutputFile::create(path)));
             take(files.back().write(*self.pte));
             if (!tensors.empty()) {
               files.push_back(take(OutputFile::create(tensors)));
               take(files.back().write(self.tensors));
             }
             take(OutputFile::commit(files));
           });
  nb::class_<ProfileHandle>(module, "Profile")
      .def_prop_ro("total_cycles", [](const ProfileHandle& self) { return self.profile.total; })
      .def("text",
           [](const ProfileHandle& self, const std::string& by, const std::string& sort,
              const std::string& filter,
              size_t depth) { return to_text(self.profile, table_of(by, sort, filter, depth)); })
      .def("csv",
           [](const ProfileHandle& self, const std::string& by, const std::string& sort,
              const std::string& filter,
              size_t depth) { return to_csv(self.profile, table_of(by, sort, filter, depth)); })
      .def("json", [](const ProfileHandle& self) { return to_json(self.profile, self.shown()); })
      .def("perfetto",
           [](const ProfileHandle& self) { return to_perfetto(self.profile, self.shown()); })
      .def("etdump", [](const ProfileHandle& self) { return to_bytes(to_etdump(self.trace)); })
      .def("debug_buffer", [](const ProfileHandle& self) { return to_bytes(self.debug_buffer); })
      .def("html", &profile_html)
      .def("compare_text",
           [](const ProfileHandle& self, const ProfileHandle& other, const std::string& by,
              const std::string& filter, size_t depth) {
             return compare_text(self.profile, other.profile, table_of(by, "", filter, depth));
           })
      .def("compare_json", [](const ProfileHandle& self, const ProfileHandle& other,
                              const std::string& by, const std::string& filter, size_t depth) {
        return compare_json(self.profile, self.shown(), other.profile, other.shown(),
                            table_of(by, "", filter, depth));
      });
  module.def("read_profile",
             [](const std::string& path, const std::string& program, const std::string& record,
                const std::vector<std::string>& tensors, const std::string& method) {
               return work([&](Work&) {
                 TracedProfile read = take(read_profile(path, program, record, tensors, method));
                 auto handle = std::make_unique<ProfileHandle>();
                 handle->trace = std::move(read.trace);
                 handle->profile = std::move(read.profile);
                 if (read.pte_file)
                   handle->pte_file = std::move(read.pte_file);
                 else if (read.session) {
                   const PteFile& file = read.session->pte_file();
                   handle->pte_file.emplace(take(PteFile::parse(file.bytes(), file.path())));
                   take(handle->pte_file->select(file.method()));
                 }
                 return handle;
               });
             });
  module.def("firmware", &write_project, nb::arg("programs"), nb::arg("names"), nb::arg("folder"),
             nb::arg("board"), nb::arg("checksum"));
}

}  // namespace dtr::python
