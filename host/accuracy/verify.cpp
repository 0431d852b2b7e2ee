#include "host/accuracy/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "compiler/executors/onednn_executor.h"
#include "compiler/ops/ops.h"
#include "compiler/program/scalar_types.h"
#include "compiler/support/encode.h"
#include "device/pte/debug_map_generated.h"
#include "host/session/capture.h"
#include "host/tasks/packing.h"

namespace dtr {
namespace {

// Whether values of that type can be told in real numbers: float, or int8 with one scale.
bool is_real(const Type& type) {
  return type.quantized() ? type.dtype == DType::kInt8 && !type.quantization->per_channel()
                          : type.dtype == DType::kFloat32;
}

// What a user calls the result of an operator: of a quantize that a kernel call has taken in, the
// operators before it.
std::string shown_name(const Module& model, uint32_t source, const pte::DebugTensor* tensor) {
  const auto quantizes = [&](uint32_t i) {
    return model.sources[i].target.starts_with("quantized_decomposed.");
  };
  std::string name;
  if (quantizes(source) && tensor != nullptr)
    for (const uint32_t each : *tensor->origin()->sources())
      if (!quantizes(each)) name += (name.empty() ? "" : " + ") + model.sources[each].name;
  return name.empty() ? model.sources[source].name : name;
}

// The difference of one operator's results over samples. `source` is the operator's index. A result
// of a task is one of them for each operator.
struct Sum {
  uint64_t source = 0;
  Sqnr sqnr;
  int64_t elements = 0, differing = 0;
  double max_error = 0;

  void add(const Sum& other) {
    sqnr.add(other.sqnr);
    elements += other.elements;
    differing += other.differing;
    max_error = std::max(max_error, other.max_error);
  }
};

// Which value of the model is the result of each source operator, and the operator of each value.
struct Compared {
  std::map<ValueId, uint32_t> source_of;
  std::map<uint32_t, ValueId> value_of;
};

Compared compared_values(const Graph& graph) {
  Compared compared;
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    if (op.def == &ops::kDequantize) continue;  // the same values once more
    if (!op.origin.sources.empty() && op.results.size() == 1)
      compared.source_of[op.results[0]] = op.origin.sources.back();
  }
  // Several ops may belong to one operator: the last is its result.
  for (const OpId id : graph.ops())
    if (const auto at = compared.source_of.find(graph.op(id).results.front());
        at != compared.source_of.end())
      compared.value_of[at->second] = at->first;
  return compared;
}

class VerifyWorker final : public TaskWorker {
 public:
  VerifyWorker(SharedProgram::Lease session, const Graph& graph, const Samples& samples,
               const Compared& compared, Executor& executor)
      : session_(std::move(session)),
        graph_(graph),
        samples_(samples),
        compared_(compared),
        executor_(executor),
        capture_(*session_->pte_file().debug_map()) {}

  Result<std::vector<std::byte>> run(size_t task, std::span<const std::byte> /*input*/) override {
    RunHooks hooks;
    capture_.watch(hooks);
    DTR_TRY(session_->run(samples_.inputs(task), nullptr, hooks));
    std::map<uint32_t, Sum> sums;
    DTR_TRY(executor_.run(samples_.inputs(task), [&](ValueId value, const TensorView& tensor) {
      const auto at = compared_.source_of.find(value);
      if (at == compared_.source_of.end() || compared_.value_of.at(at->second) != value) return;
      const std::optional<Tensor> actual = capture_.real(at->second);
      if (!is_real(graph_.type(value)) || !actual || actual->elements() != tensor.elements())
        return;
      sums[at->second] = difference(at->second, real_values(tensor, graph_.type(value)), *actual);
    }));
    Packer packer;
    for (const auto& [source, sum] : sums) packer.add(sum);
    return packer.take();
  }

 private:
  Sum difference(uint32_t source, const Tensor& wished, const Tensor& actual) const {
    const Tensor same_shape = Tensor::copy_of(DType::kFloat32, wished.shape(), actual.bytes());
    Sum sum{.source = source};
    sum.sqnr.add(wished.view(), same_shape.view());
    sum.max_error = compare(wished.view(), same_shape.view()).max_absolute;
    const pte::DebugTensor& described = *capture_.described(source);
    const float half_step = described.scales() != nullptr && described.scales()->size() == 1
                                ? described.scales()->Get(0) / 2
                                : 0.0F;
    const auto expected = wished.values<float>(), got = same_shape.values<float>();
    sum.elements = actual.elements();
    for (size_t i = 0; i < got.size(); ++i)
      sum.differing += std::abs(got[i] - expected[i]) > half_step ? 1 : 0;
    return sum;
  }

  SharedProgram::Lease session_;
  const Graph& graph_;
  const Samples& samples_;
  const Compared& compared_;
  Executor& executor_;  // of all workers
  Capture capture_;
};

// Floats have no quantization step, and next to none of them is equal in int8 and in float.
bool has_steps(const LayerError& layer) { return layer.fused || layer.dtype == "i8"; }

}  // namespace

Result<std::vector<LayerError>> verify_layers(Session& session, const Module& model,
                                              const Samples& samples, size_t count,
                                              TaskExecutor& executor,
                                              const ProgressFunction& progress) {
  const Graph& graph = model.forward();
  const pte::DebugMap* map = session.pte_file().debug_map();
  if (map == nullptr)
    return fail(DiagnosticId::kNoDebugMap,
                "the program has no debug map, so its tensors cannot be found",
                "compile without --no-debug-map", {.file = session.pte_file().path()});
  const size_t known = map->sources() == nullptr ? 0 : map->sources()->size();
  bool same = known == model.sources.size();
  for (uint32_t i = 0; same && i < known; ++i) {
    const flatbuffers::String* name = map->sources()->Get(i)->name();
    same = name != nullptr && name->string_view() == model.sources[i].name;
  }
  if (!same)
    return fail(DiagnosticId::kVerifyMismatch,
                "the program was compiled from another model: their operators differ",
                "give the model that the program was compiled from", {.file = model.file});
  const Compared compared = compared_values(graph);
  DTR_ASSIGN(const std::unique_ptr<Executor> float_model, make_model_executor(model, graph));
  const size_t tasks = std::min(count, samples.size());
  const bool is_stream = session.has_states() || graph.state_count() > 0;
  SharedProgram program(session, executor.threads_for_each(tasks, is_stream));
  const TaskJob job{
      .count = tasks, .is_stream = is_stream, .open = [&]() -> Result<std::unique_ptr<TaskWorker>> {
        DTR_ASSIGN(SharedProgram::Lease lease, program.open());
        return std::make_unique<VerifyWorker>(std::move(lease), graph, samples, compared,
                                              *float_model);
      }};
  std::map<uint32_t, Sum> sums;
  const TakeResult take = [&](size_t, std::span<const std::byte> result) -> Result<void> {
    Unpacker unpacker(result);
    for (Sum sum; !unpacker.at_end();) {
      DTR_CHECK(unpacker.take(sum));
      sums[static_cast<uint32_t>(sum.source)].add(sum);
    }
    return {};
  };
  DTR_TRY(executor.run(job, take, progress));

  const Capture capture(*map);
  std::vector<LayerError> layers;
  for (uint32_t i = 0; i < model.sources.size(); ++i) {
    if (!compared.value_of.contains(i)) continue;
    const SourceOp& source = model.sources[i];
    const pte::DebugTensor* described = capture.described(i);
    LayerError layer{.name = shown_name(model, i, described),
                     .op = source.target,
                     .module_path = source.module_path,
                     .source_line = source.source_line};
    const auto sum = sums.find(i);
    if (sum == sums.end()) {
      layer.fused = true;
    } else {
      layer.where = described->in_delegate() ? "npu" : "program";
      layer.dtype =
          described->scalar_type() == static_cast<int8_t>(ScalarType::kChar) ? "i8" : "f32";
      layer.sqnr_db = sum->second.sqnr.decibels();
      layer.max_error = sum->second.max_error;
      layer.differing = static_cast<double>(sum->second.differing) /
                        static_cast<double>(std::max<int64_t>(sum->second.elements, 1));
      if (layer.dtype == "i8")
        layer.steps = layer.max_error / static_cast<double>(described->scales()->Get(0));
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

const LayerError* first_bad(const std::vector<LayerError>& layers, double least_decibels) {
  const auto bad = std::ranges::find_if(layers, [&](const LayerError& layer) {
    return !layer.fused && layer.sqnr_db < least_decibels;
  });
  return bad == layers.end() ? nullptr : &*bad;
}

std::string to_text(const std::vector<LayerError>& layers, double least_decibels) {
  size_t width = 8;
  for (const LayerError& layer : layers) width = std::clamp(layer.name.size(), width, size_t{40});
  std::string text = fmt::format("{:<{}}  {:<26}  {:<8}  {:>8}  {:>12}  {:>7}  {:>8}\n", "operator",
                                 width, "module", "on", "SQNR dB", "max error", "steps", "differ");
  for (const LayerError& layer : layers) {
    if (layer.fused) {
      text += terminal_format("{:<{}}  {:<26}  (inside another operator's kernel call)\n",
                              layer.name, width, layer.module_path);
      continue;
    }
    text += terminal_format("{:<{}}  {:<26}  {:<8}  {:>8.1f}  {:>12.5g}  {:>7}  {:>8}{}\n",
                            layer.name, width, layer.module_path, layer.where + " " + layer.dtype,
                            layer.sqnr_db, layer.max_error,
                            has_steps(layer) ? fmt::format("{:.2f}", layer.steps) : "-",
                            has_steps(layer) ? fmt::format("{:.2f} %", 100 * layer.differing) : "-",
                            layer.sqnr_db < least_decibels ? "  bad" : "");
  }
  const LayerError* const bad = first_bad(layers, least_decibels);
  if (bad == nullptr) return text + fmt::format("all layers at {} dB or better\n", least_decibels);
  return text + terminal_format("first bad operator: {} ({}){}{}{}{}: {:.1f} dB\n", bad->name,
                                bad->op, bad->module_path.empty() ? "" : " in ", bad->module_path,
                                bad->source_line.empty() ? "" : ", ", bad->source_line,
                                bad->sqnr_db);
}

std::string to_json(const TraceSource& program, const std::vector<LayerError>& layers) {
  std::string text = "[";
  for (const LayerError& layer : layers)
    text += fmt::format(
        "{}\n  {{\"name\": {}, \"op\": {}, \"module_path\": {}, \"source_line\": {}, \"fused\": "
        "{}, \"where\": {}, \"dtype\": {}, "
        "\"sqnr_db\": {:.3f}, \"max_error\": {:.8g}, \"steps\": {}, \"differing\": {:.6f}}}",
        text.size() == 1 ? "" : ",", json_quote(layer.name), json_quote(layer.op),
        json_quote(layer.module_path), json_quote(layer.source_line), layer.fused,
        json_quote(layer.where), json_quote(layer.dtype), layer.sqnr_db, layer.max_error,
        has_steps(layer) ? fmt::format("{:.3f}", layer.steps) : "null", layer.differing);
  return fmt::format("{{\"checksum\": \"{:08x}\", \"target\": {}, \"layers\": {}\n]}}\n",
                     program.checksum, json_quote(program.target), text);
}

}  // namespace dtr
