// The verbs that make programs, or need none.
#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <deque>

#include "compiler/ops/ops.h"
#include "compiler/pipeline/placement_report.h"
#include "compiler/pipeline/qat_prepare.h"
#include "compiler/plugins/plugins.h"
#include "compiler/support/encode.h"
#include "compiler/support/output_file.h"
#include "compiler/targets/target_file.h"
#include "host/accuracy/compare_outputs.h"
#include "host/commands/compile_options.h"
#include "host/commands/convert.h"
#include "host/commands/describe.h"
#include "host/commands/evaluate.h"
#include "host/commands/explore.h"
#include "host/commands/explore_accuracy.h"
#include "host/commands/run_dataset.h"
#include "host/tasks/packing.h"
#include "python/src/convert.h"
#include "python/src/program.h"
#include "python/src/work.h"

namespace dtr::python {
namespace {

CompileOptions compile_options(const nb::dict& values) {
  CompileOptions o;
  OptionReader reader(values);
  reader.take("output", o.output)
      .take("external_constants", o.external_constants)
      .take("converter", o.converter)
      .take("keep_neutron_ir", o.keep_neutron_ir)
      .take("converter_seconds", o.converter_seconds)
      .take("threads", o.threads)
      .take("etrecord", o.etrecord)
      .take("target", o.target)
      .take("recipe", o.recipe)
      .take("calibration", o.calibration)
      .take("calibration_samples", o.calibration_samples)
      .take("calibrate_random", o.random_samples)
      .take("load_calibration", o.load_calibration)
      .take("save_calibration", o.save_calibration)
      .take("observer", o.observer)
      .take("accuracy", o.accuracy)
      .take("data", o.data)
      .take("labels", o.labels)
      .take("max_loss", o.max_loss)
      .take("seconds", o.seconds)
      .take("equalize", o.equalize)
      .take("rotate", o.rotate)
      .take("round_weights", o.round_weights)
      .take("keep_float", o.keep_float)
      .take("io", o.io)
      .take("keep_off", o.keep_off)
      .take("force_on", o.force_on)
      .take("dims", o.dims)
      .take("stop_at", o.stop_at)
      .take("report_json", o.report_json)
      .take("placement", o.placement)
      .take("patterns", o.patterns)
      .take("quantization_json", o.quantization_json)
      .take("emit_ir", o.emit_ir)
      .take("print_after", o.print_after)
      .take("report_quantization", o.report_quantization)
      .take("check", o.check)
      .take("min_sqnr", o.min_sqnr)
      .take("row_packing", o.row_packing)
      .take("schedule", o.schedule)
      .take("constants", o.constants)
      .take("sram", o.sram)
      .take("optimize", o.optimize)
      .take("debug_map", o.debug_map)
      .take("time_passes", o.time_passes)
      .take("verbose", o.verbose)
      .take("elide_constants", o.elide_constants);
  reader.finish();
  return o;
}

std::vector<std::byte> copy(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

// Arrays that Python makes once the inputs of the model are known.
class Loader {
 public:
  // most: samples that are kept of the arrays, at least 1.
  Loader(nb::handle make, std::string name, size_t most = kMostCalibrationSamples)
      : make_(make), name_(std::move(name)), most_(most) {}
  bool given() const { return !make_.is_none(); }
  std::optional<SampleSource> source(Work& work) {
    if (!given()) return std::nullopt;
    return SampleBinding([this, &work](const Graph& graph) { return bind(work, graph); });
  }
  // Called by the work, whose caller runs the loader. The arrays live as long as this object.
  Result<PickedSamples> bind(Work& work, const Graph& graph) {
    work.call_and_wait([&] { tensors_ = to_tensors(make_(inputs_of(graph))); });
    DTR_ASSIGN(const Samples all, Samples::bind(graph, tensors_, name_));
    return pick_samples(graph, all, most_);
  }

 private:
  nb::handle make_;
  std::string name_;
  size_t most_;
  std::vector<NamedTensor> tensors_;
};

ModelSource model_source(const Source& source) {
  if (source.buffer) return ModelBytes{source.bytes(), source.name, source.detached};
  return source.name;
}

// None if nobody listens.
ProgressFunction progress_to(nb::handle listener, Work& work) {
  if (listener.is_none()) return {};
  return [&work, listener](size_t done, size_t total) {
    work.post([listener, done, total] { listener(done, total); });
  };
}

auto text_to(nb::handle listener, Work& work) {
  return [&work, listener](std::string_view text) {
    work.post([listener, copied = std::string(text)] { listener(copied); });
  };
}

std::vector<NamedTensor> tensors_or_none(nb::handle arrays) {
  return arrays.is_none() ? std::vector<NamedTensor>() : to_tensors(arrays);
}

CompileWatch watch_of(Work& running, nb::handle progress, nb::handle step, nb::handle out,
                      nb::handle err, nb::handle warn) {
  return {.out = text_to(out, running),
          .err = text_to(err, running),
          .on_warning =
              [&running, warn](const Diagnostic& warning) {
                running.post([warn, warning] { warn(python::to_python(warning)); });
              },
          .progress = progress_to(progress, running),
          .on_step = text_to(step, running)};
}

std::unique_ptr<ProgramHandle> handle_of(const CompiledModel& compiled, const std::string& name,
                                         std::shared_ptr<const Bytes> pte) {
  auto handle = std::make_unique<ProgramHandle>();
  handle->name = name;
  handle->pte = std::move(pte);
  handle->report_json = to_json(compiled.report);
  handle->report_text = to_text(compiled.report);
  handle->placement_json = placement_json(compiled.report);
  return handle;
}

// Compiles a model. `loader` is called with the model's inputs, and returns arrays; `labelled` has
// the arrays of labelled samples. `progress` is called with (done, total); `step`, `out` and `err`
// with text; `warn` with a diagnostic.
std::unique_ptr<ProgramHandle> compile(nb::handle model, const nb::dict& options, nb::handle loader,
                                       const std::string& data, nb::handle labelled,
                                       nb::handle progress, nb::handle step, nb::handle out,
                                       nb::handle err, nb::handle warn) {
  const Source source(model);
  CompileOptions given = compile_options(options);
  given.model = source.name;
  Loader samples(loader, data, given.calibration_samples);
  const std::vector<NamedTensor> arrays = tensors_or_none(labelled);
  return work([&](Work& running) {
    const CompileWatch watch = watch_of(running, progress, step, out, err, warn);
    const CompiledModel compiled = take(
        compile_with_options(model_source(source), given, watch, samples.source(running), arrays));
    std::unique_ptr<ProgramHandle> handle =
        handle_of(compiled, source.name, std::make_shared<Bytes>(copy(compiled.compilation.pte())));
    if (!given.external_constants.empty())
      handle->tensors = copy(compiled.compilation.tensor_file());
    return handle;
  });
}

// A model that becomes a method: (name, model, options, loader, name of the data).
struct Method {
  explicit Method(const nb::tuple& row)
      : name(nb::cast<std::string>(row[0])),
        source(row[1]),
        options(compile_options(nb::cast<nb::dict>(row[2]))),
        loader_of_row(row[3]),
        samples(loader_of_row, nb::cast<std::string>(row[4]), options.calibration_samples) {
    options.model = source.name;
  }
  std::string name;
  Source source;
  CompileOptions options;
  nb::object loader_of_row;
  Loader samples;
};

// Compiles models as methods of one program, and returns a handle of each. What listens is as for
// `compile`.
nb::list compile_methods(const nb::list& rows, const std::string& output, nb::handle progress,
                         nb::handle step, nb::handle out, nb::handle err, nb::handle warn) {
  std::deque<Method> methods;  // not a vector: they do not move
  for (const nb::handle row : rows) methods.emplace_back(nb::cast<nb::tuple>(row));
  std::vector<std::unique_ptr<ProgramHandle>> handles = work([&](Work& running) {
    std::vector<MethodModel> models;
    for (Method& method : methods)
      models.push_back({.name = method.name,
                        .options = method.options,
                        .source = model_source(method.source),
                        .samples = method.samples.source(running)});
    const CompiledMethods made = take(dtr::compile_methods(
        std::move(models), output, watch_of(running, progress, step, out, err, warn)));
    const auto pte = std::make_shared<Bytes>(made.program.bytes);
    std::vector<std::unique_ptr<ProgramHandle>> list;
    for (size_t i = 0; i < methods.size(); ++i) {
      list.push_back(handle_of(made.methods[i], methods[i].source.name, pte));
      list.back()->method = methods[i].name;
    }
    return list;
  });
  nb::list list;
  for (std::unique_ptr<ProgramHandle>& handle : handles) list.append(std::move(handle));
  return list;
}

// The frontier as text, JSON, SVG and HTML.
nb::tuple explore(nb::handle model, const nb::dict& options, const std::string& axis,
                  uint32_t points, nb::handle loader, const std::string& data, nb::handle labelled,
                  nb::handle progress, nb::handle step) {
  const Source source(model);
  CompileOptions given = compile_options(options);
  given.model = source.name;
  Loader samples(loader, data);
  const std::vector<NamedTensor> arrays = tensors_or_none(labelled);
  const auto texts = [](const auto& frontier) {
    return std::array{to_text(frontier), to_json(frontier), to_svg(frontier), to_html(frontier)};
  };
  const std::array<std::string, 4> made = work([&](Work& running) {
    const CompileWatch watch{.progress = progress_to(progress, running),
                             .on_step = text_to(step, running)};
    if (axis == "accuracy")
      return texts(take(explore_accuracy(model_source(source), given, {}, watch,
                                         samples.source(running), arrays)));
    return texts(take(dtr::explore(model_source(source), {.compile = given, .points = points},
                                   watch, samples.source(running))));
  });
  return nb::make_tuple(made[0], made[1], made[2], made[3]);
}

std::unique_ptr<ProgramHandle> load(nb::handle program, nb::handle tensors,
                                    const std::string& method) {
  const Source source(program);
  const Source outside(tensors);
  return work([&](Work&) {
    auto handle = std::make_unique<ProgramHandle>();
    handle->name = source.name;
    const auto read = [](const Source& from) {
      if (from.buffer) return copy(from.bytes());
      return copy(take(FileContents::read(from.name)).bytes());
    };
    handle->pte = std::make_shared<Bytes>(read(source));
    if (outside.given) handle->tensors = read(outside);
    handle->method = method;
    take(handle->input().pte_file());
    return handle;
  });
}

// A program that was pickled.
std::unique_ptr<ProgramHandle> restore(const std::string& name, nb::bytes pte, nb::bytes tensors,
                                       const std::string& report_json,
                                       const std::string& report_text, const std::string& placement,
                                       const std::string& method) {
  auto handle = std::make_unique<ProgramHandle>();
  handle->name = name;
  handle->pte = std::make_shared<Bytes>(copy(BufferView(pte).bytes()));
  handle->tensors = copy(BufferView(tensors).bytes());
  handle->report_json = report_json;
  handle->report_text = report_text;
  handle->placement_json = placement;
  handle->method = method;
  take(handle->input().pte_file());
  return handle;
}

// Results of tasks that run elsewhere, as `records`: for each its length and its bytes.
class RecordedTasks final : public TaskExecutor {
 public:
  // Returns the records of all tasks; is_stream: they depend on each other.
  using Source = std::function<std::string(size_t count, bool is_stream)>;
  explicit RecordedTasks(Source source) : source_(std::move(source)) {}

  Result<void> run(const TaskJob& job, const TakeResult& take, const ProgressFunction&) override {
    const std::string records = source_(job.count, job.is_stream);
    Unpacker unpacker(std::as_bytes(std::span(records)));
    for (size_t task = 0; task < job.count; ++task) {
      uint64_t size = 0;
      std::span<const std::byte> result;
      if (!unpacker.take(size) || !unpacker.take_bytes(size, result)) return damaged();
      DTR_TRY(take(task, result));
    }
    return unpacker.at_end() ? Result<void>() : damaged();
  }

 private:
  static tl::unexpected<Diagnostic> damaged() {
    return fail(DiagnosticId::kRunFailed,
                "the executor did not return the results of its samples, one for each", {});
  }
  Source source_;
};

// Runs tasks for RecordedTasks, and nothing of what follows them.
class RecordingTasks final : public TaskExecutor {
 public:
  explicit RecordingTasks(unsigned threads) : threads_(make_thread_executor(threads)) {}
  Result<void> run(const TaskJob& job, const TakeResult&,
                   const ProgressFunction& progress) override {
    const TakeResult take = [&](size_t, std::span<const std::byte> result) -> Result<void> {
      packer_.add(uint64_t{result.size()});
      packer_.add_bytes(result);
      return {};
    };
    DTR_TRY(threads_->run(job, take, progress));
    records = packer_.take();
    return fail(DiagnosticId::kRunFailed, "the samples were run", {});
  }

  std::optional<std::vector<std::byte>> records;  // of all tasks, once they were run

 private:
  std::unique_ptr<TaskExecutor> threads_;
  Packer packer_;
};

// The records of samples that are a part of an evaluation's.
nb::bytes eval_records(ProgramHandle& program, nb::handle arrays, const std::string& labels,
                       nb::handle against, unsigned threads) {
  const Source model(against);
  const std::vector<NamedTensor> tensors = to_tensors(arrays);
  SessionLease lease(program);
  return to_bytes(work([&](Work&) {
    RecordingTasks executor(threads);
    const EvaluateOptions options{.program = program.input(),
                                  .data = {.path = "data", .arrays = tensors},
                                  .labels = labels,
                                  .against = model.model(),
                                  .executor = executor};
    const Result<EvaluationResult> result = evaluate(options, lease.get());
    if (!executor.records) take(result);
    return *std::move(executor.records);
  }));
}

// `run`: None, or a function of the number of samples, and of whether they are a stream, that
// returns their records.
nb::tuple eval(ProgramHandle& program, nb::handle arrays, const std::string& data,
               const std::string& labels, nb::handle against, unsigned threads, nb::handle progress,
               nb::handle run) {
  const Source model(against);
  const std::vector<NamedTensor> tensors = tensors_or_none(arrays);
  SessionLease lease(program);
  const EvaluationResult result = work([&](Work& running) {
    std::unique_ptr<TaskExecutor> executor = make_thread_executor(threads);
    if (!run.is_none())
      executor = std::make_unique<RecordedTasks>([&](size_t count, bool is_stream) {
        std::string records;
        running.call_and_wait([&] {
          const nb::bytes made = nb::cast<nb::bytes>(run(count, is_stream));
          records.assign(made.c_str(), made.size());
        });
        return records;
      });
    EvaluateOptions options{.program = program.input(),
                            .data = {.path = data, .arrays = tensors},
                            .labels = labels,
                            .against = model.model(),
                            .executor = *executor,
                            .progress = progress_to(progress, running)};
    return take(evaluate(options, lease.get()));
  });
  return nb::make_tuple(to_text(result), to_json(result));
}

// One side of a comparison: (name, path | buffer | None, arrays | None, tensor file, method).
struct Side {
  explicit Side(nb::handle object) : Side(nb::cast<nb::tuple>(object)) {}
  explicit Side(const nb::tuple& object)
      : source(nb::make_tuple(object[0], object[1])),
        results(tensors_or_none(object[2])),
        method(nb::cast<std::string>(object[4])) {
    if (const nb::object file = object[3]; !file.is_none())
      tensors = std::make_unique<BufferView>(file);
  }
  Source source;
  std::vector<NamedTensor> results;
  std::unique_ptr<BufferView> tensors;
  std::string method;
};

nb::tuple compare(nb::handle expected, nb::handle actual, nb::handle arrays,
                  const std::string& data, uint32_t samples, const nb::dict& rules_given) {
  const Side sides[] = {Side(expected), Side(actual)};
  const std::vector<NamedTensor> tensors = tensors_or_none(arrays);
  CompareRules rules{.expected = sides[0].source.name, .actual = sides[1].source.name};
  OptionReader reader(rules_given);
  reader.take("step", rules.step)
      .take("rtol", rules.rtol)
      .take("atol", rules.atol)
      .take("max_steps", rules.max_steps)
      .take("min_sqnr", rules.min_sqnr)
      .take("min_argmax", rules.min_argmax);
  reader.finish();
  std::string text;
  const std::string json = work([&](Work&) {
    std::vector<std::vector<Output>> outputs;
    for (const Side& side : sides) {
      OutputSource source{.path = side.source.name, .data = data, .samples = samples};
      source.bytes = side.source.bytes();
      source.results = side.results;
      source.samples_to_run = tensors;
      source.method = side.method;
      if (side.tensors) source.tensors = side.tensors->bytes();
      outputs.push_back(take(read_outputs(source)));
    }
    const auto add = [&](std::string_view line) { text += line; };
    return to_json(take(compare_outputs(outputs[0], outputs[1], rules, add,
                                        [&](const ComparedOutput& row) { text += to_text(row); })));
  });
  return nb::make_tuple(text, json);
}

nb::tuple prepare(nb::handle model, const std::string& target, nb::handle loader,
                  const std::string& data, const nb::dict& values) {
  const Source source(model);
  Loader arrays(loader, data);
  CompileOptions options;
  OptionReader reader(values);
  reader.take("threads", options.threads)
      .take("equalize", options.equalize)
      .take("observer", options.observer)
      .finish();
  const QatPrepared prepared = work([&](Work& running) {
    CompileSettings settings = training_settings(options);
    settings.target = take(resolve_target(target));
    std::optional<FileContents> file;
    if (!source.buffer) file.emplace(take(FileContents::read(source.name)));
    const std::span<const std::byte> bytes = file ? file->bytes() : source.bytes();
    const FileKind kind = kind_of(bytes);
    take(check_trainable(kind, source.name));
    Module program = take(parse_model(bytes, kind, source.name));
    std::optional<PickedSamples> picked;
    if (arrays.given())
      picked = take(arrays.bind(running, program.forward()));
    else if (!data.empty())
      picked = take(pick_samples(program.forward(), data, kMostCalibrationSamples));
    return take(
        qat_prepare(std::move(program), bytes, settings, picked ? &picked->samples : nullptr));
  });
  return nb::make_tuple(to_bytes(prepared.archive), prepared.activations, prepared.weights,
                        prepared.batch_norms, prepared.notes);
}

nb::list targets() {
  nb::list list;
  for (const TargetDescription& target : all_targets()) {
    nb::dict row;
    row["name"] = std::string(target.name);
    row["summary"] = std::string(target.summary);
    std::vector<std::string> recipe;
    for (const std::string_view backend : target.recipe) recipe.emplace_back(backend);
    row["recipe"] = recipe;
    row["has_npu"] = has_npu(target);
    row["npu_clock_hz"] = target.npu.clock_hz;
    row["cpu"] = std::string(target.cpu.name);
    row["cpu_clock_hz"] = target.cpu.clock_hz;
    row["json"] = to_json(target);
    row["sram_bytes"] = target.memory.sram_bytes;
    row["flash_bytes"] = target.memory.flash_bytes;
    row["constants"] = std::string(name(target.memory.constants));
    list.append(row);
  }
  return list;
}

nb::list operators() {
  nb::list list;
  for (const OpDef* op : all_ops()) {
    nb::dict row;
    row["name"] = std::string(op->name);
    row["summary"] = std::string(op->summary);
    row["quantized"] = op->evaluate_integer != nullptr;
    list.append(row);
  }
  return list;
}

// What the libraries throw, as Python's exceptions. `payload` is the class deuteron.Error.
void translate(const std::exception_ptr& failure, void* payload) {
  try {
    std::rethrow_exception(failure);
  } catch (const DiagnosticError& error) {
    PyErr_SetObject(static_cast<PyObject*>(payload), python::to_python(error.diagnostic).ptr());
  } catch (const Cancelled&) {
    PyErr_SetString(PyExc_RuntimeError, "the interpreter is shutting down");
  }
}

// (model, log, kernel selection, operators, converted, graphs, operators that stay as they are)
nb::tuple convert(nb::handle model, const std::string& target, bool fetch_constants_to_sram,
                  bool profile) {
  const Source source(model);
  const ConvertOptions options{
      .target = target, .fetch_constants_to_sram = fetch_constants_to_sram, .profile = profile};
  const ConvertedModel made = work([&](Work&) {
    if (source.buffer) return take(convert_model(source.bytes(), source.name, options));
    const FileContents file = take(FileContents::read(source.name));
    return take(convert_model(file.bytes(), source.name, options));
  });
  nb::list kept;
  for (const KeptOperator& each : made.kept)
    kept.append(
        nb::make_tuple(as_terminal(each.name), as_terminal(each.op), as_terminal(each.reason)));
  return nb::make_tuple(to_bytes(made.tflite), made.log, made.kernel_selection, made.operators,
                        made.converted, made.graphs, kept);
}

}  // namespace

void bind_commands(nb::module_& module) {
  module.attr("version") = DTR_VERSION;
  module.def("compile", &compile, nb::arg("model"), nb::arg("options"), nb::arg("loader").none(),
             nb::arg("data"), nb::arg("labelled").none(), nb::arg("progress").none(),
             nb::arg("step"), nb::arg("out"), nb::arg("err"), nb::arg("warn"));
  module.def("compile_methods", &compile_methods, nb::arg("methods"), nb::arg("output"),
             nb::arg("progress").none(), nb::arg("step"), nb::arg("out"), nb::arg("err"),
             nb::arg("warn"));
  module.def("is_method_name", &is_method_name, nb::arg("name"));
  module.def("explore", &explore, nb::arg("model"), nb::arg("options"), nb::arg("axis"),
             nb::arg("points"), nb::arg("loader").none(), nb::arg("data"),
             nb::arg("labelled").none(), nb::arg("progress").none(), nb::arg("step"));
  module.def("load", &load, nb::arg("program"), nb::arg("tensors"), nb::arg("method"));
  module.def("restore", &restore);
  module.def("eval", &eval, nb::arg("program"), nb::arg("arrays").none(), nb::arg("data"),
             nb::arg("labels"), nb::arg("against"), nb::arg("threads"), nb::arg("progress").none(),
             nb::arg("run").none());
  module.def("eval_records", &eval_records, nb::arg("program"), nb::arg("arrays"),
             nb::arg("labels"), nb::arg("against"), nb::arg("threads"));
  module.def("compare", &compare, nb::arg("expected"), nb::arg("actual"), nb::arg("arrays").none(),
             nb::arg("data"), nb::arg("samples"), nb::arg("rules"));
  module.def("qat_prepare", &prepare, nb::arg("model"), nb::arg("target"), nb::arg("loader").none(),
             nb::arg("data"), nb::arg("options"));
  module.def("convert", &convert, nb::arg("model"), nb::arg("target"),
             nb::arg("fetch_constants_to_sram"), nb::arg("profile"));
  module.def("kernel_table", &kernel_table, nb::arg("names"));
  module.def(
      "run_dataset",
      [](const std::string& model, const std::string& dataset,
         const std::vector<std::string>& inputs, const std::string& output, nb::handle say) {
        return work([&](Work& running) {
          return take(run_dataset({model, dataset, inputs, output}, [&](std::string_view line) {
            running.post([say, copied = std::string(line)] { say(copied); });
          }));
        });
      },
      nb::arg("model"), nb::arg("dataset"), nb::arg("inputs"), nb::arg("output"), nb::arg("say"));
  module.def("inspect", [](const std::string& path) {
    return work([&](Work&) { return take(describe_file(path)); });
  });
  module.def("read_arrays", [](ProgramHandle& program, const std::string& path) {
    SessionLease lease(program);
    return python::to_python(work([&](Work&) {
      const Graph& signature = lease.get().signature();
      return take(read_tensors(
          path, [&](std::string_view array) { return Samples::is_input_array(signature, array); }));
    }));
  });
  module.def("load_plugin", [](const std::string& path) {
    return work([&](Work&) { return take(load_plugin(path)); });
  });
  module.def("write", [](const std::string& path, nb::handle content) {
    const BufferView buffer(content);
    take(write_file(path, buffer.bytes()));
  });
  module.def("write_npz", [](const std::string& path, nb::handle arrays) {
    take(write_npz(path, to_tensors(arrays)));
  });
  module.def("targets", &targets);
  module.def("operators", &operators);
  module.def("close", &Work::close, nb::arg("seconds"));
  // For the test of what a failed check does to the interpreter.
  module.def("_fail_check", [] { work([](Work&) { DTR_CHECK(all_targets().empty()); }); });
  module.def("set_error", [](nb::handle error) {
    nb::register_exception_translator(&translate, error.inc_ref().ptr());
  });
}

}  // namespace dtr::python
