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

struct Sum {
  Sqnr sqnr;
  int64_t elements = 0, differing = 0;
  double max_error = 0;
  bool seen = false;
};

// Floats have no quantization step, and next to none of them is equal in int8 and in float.
bool has_steps(const LayerError& layer) { return layer.fused || layer.dtype == "i8"; }

}  // namespace

Result<std::vector<LayerError>> verify_layers(Session& session, const Module& model,
                                              const Samples& samples, size_t count) {
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
  // The value of the model that each source operator makes.
  std::map<ValueId, uint32_t> source_of;
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    if (op.def == &ops::kDequantize) continue;  // the same values once more
    if (!op.origin.sources.empty() && op.results.size() == 1)
      source_of[op.results[0]] = op.origin.sources.back();
  }
  std::map<uint32_t, ValueId>
      value_of;  // several ops may stand for one operator: the last is its result
  for (const OpId id : graph.ops())
    if (const auto at = source_of.find(graph.op(id).results.front()); at != source_of.end())
      value_of[at->second] = at->first;

  DTR_ASSIGN(const std::unique_ptr<Executor> executor, make_model_executor(model, graph));
  Capture capture(*map);
  std::map<uint32_t, Sum> sums;
  for (size_t sample = 0; sample < std::min(count, samples.size()); ++sample) {
    RunHooks hooks;
    capture.watch(hooks);
    const Result<std::vector<Tensor>> outputs = session.run(samples.inputs(sample), nullptr, hooks);
    if (!outputs) return tl::unexpected(outputs.error());
    const auto observe = [&](ValueId value, const TensorView& tensor) {
      const auto at = source_of.find(value);
      if (at == source_of.end() || value_of.at(at->second) != value) return;
      const std::optional<Tensor> actual = capture.real(at->second);
      if (!is_real(graph.type(value)) || !actual || actual->elements() != tensor.elements()) return;
      const Tensor wished = real_values(tensor, graph.type(value));
      const Tensor same_shape = Tensor::copy_of(DType::kFloat32, tensor.shape, actual->bytes());
      Sum& sum = sums[at->second];
      sum.seen = true;
      sum.sqnr.add(wished.view(), same_shape.view());
      sum.max_error =
          std::max(sum.max_error, compare(wished.view(), same_shape.view()).max_absolute);
      const pte::DebugTensor& described = *capture.described(at->second);
      const float half_step = described.scales() != nullptr && described.scales()->size() == 1
                                  ? described.scales()->Get(0) / 2
                                  : 0.0F;
      const auto expected = wished.values<float>(), got = same_shape.values<float>();
      sum.elements += actual->elements();
      for (size_t i = 0; i < got.size(); ++i)
        sum.differing += std::abs(got[i] - expected[i]) > half_step ? 1 : 0;
    };
    const Result<std::vector<Tensor>> ideal = executor->run(samples.inputs(sample), observe);
    if (!ideal) return tl::unexpected(ideal.error());
  }

  std::vector<LayerError> layers;
  for (uint32_t i = 0; i < model.sources.size(); ++i) {
    if (!value_of.contains(i)) continue;
    const SourceOp& source = model.sources[i];
    const pte::DebugTensor* described = capture.described(i);
    LayerError layer{.name = shown_name(model, i, described),
                     .op = source.target,
                     .module_path = source.module_path,
                     .source_line = source.source_line};
    const auto sum = sums.find(i);
    if (sum == sums.end() || !sum->second.seen) {
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
