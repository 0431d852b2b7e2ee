#include "compiler/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "abi/debug_map_generated.h"
#include "compiler/onednn_executor.h"
#include "ir/reorder.h"
#include "ops/ops.h"
#include "program/scalar_types.h"

namespace dtr {
namespace {

// The source operator whose result a tensor is: the last one it stands for. Parts of split operators have no counterpart.
std::optional<uint32_t> last_source(const pte::DebugOrigin* origin) {
  if (origin == nullptr || origin->sources() == nullptr || origin->sources()->size() == 0 || origin->parts() != 1) return std::nullopt;
  return *std::max_element(origin->sources()->begin(), origin->sources()->end());
}

bool exists(const pte::DebugTensor& tensor) { return tensor.value() >= 0 || tensor.in_delegate(); }

// For each source operator the last tensor of the program that is its result; tensors come in order of execution.
std::map<uint32_t, const pte::DebugTensor*> tensors_by_source(const pte::DebugMap& map) {
  std::map<uint32_t, const pte::DebugTensor*> found;
  if (map.tensors() == nullptr) return found;
  for (const pte::DebugTensor* tensor : *map.tensors()) {
    const auto source = last_source(tensor->origin());
    if (!source) continue;
    const pte::DebugTensor*& entry = found[*source];
    if (entry == nullptr || exists(*tensor)) entry = tensor;
  }
  return found;
}

struct TensorLayout {
  Shape shape;
  std::vector<int64_t> strides;  // in elements, by logical dimension
  int64_t elements = 1;
  size_t element_bytes = 0;
};

std::optional<TensorLayout> layout_of(const pte::DebugTensor& tensor) {
  TensorLayout layout{.element_bytes = byte_size(static_cast<ScalarType>(tensor.scalar_type()))};
  if (tensor.sizes() == nullptr || tensor.dim_order() == nullptr || tensor.sizes()->size() != tensor.dim_order()->size() ||
      layout.element_bytes == 0)
    return std::nullopt;
  layout.shape.assign(tensor.sizes()->begin(), tensor.sizes()->end());
  if (!checked_element_count(layout.shape)) return std::nullopt;
  layout.elements = element_count(layout.shape);
  layout.strides.resize(layout.shape.size());
  int64_t stride = 1;
  for (size_t i = layout.shape.size(); i-- > 0;) {
    const size_t dim = tensor.dim_order()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (dim >= layout.shape.size()) return std::nullopt;
    layout.strides[dim] = stride;
    stride *= layout.shape[dim];
  }
  return layout;
}

// Real values in logical order of a tensor that lies at `data`.
std::optional<Tensor> read_tensor(const pte::DebugTensor& described, const TensorLayout& layout, const std::byte* data) {
  const auto dtype = static_cast<ScalarType>(described.scalar_type());
  const bool quantized = described.scales() != nullptr && described.scales()->size() == 1 && described.zero_points() != nullptr &&
                         described.zero_points()->size() == 1;
  if (dtype != ScalarType::kFloat && !(dtype == ScalarType::kChar && quantized)) return std::nullopt;
  Tensor real(DType::kFloat32, layout.shape);
  const std::vector<int64_t> logical = strides(layout.shape, Layout::kContiguous);
  if (dtype == ScalarType::kFloat) {
    reorder(layout.shape, layout.element_bytes, data, layout.strides, real.view().data, logical);
    return real;
  }
  Tensor codes(DType::kInt8, layout.shape);
  reorder(layout.shape, layout.element_bytes, data, layout.strides, codes.view().data, logical);
  std::ranges::transform(codes.values<int8_t>(), real.values<float>().begin(),
                         [&](int8_t q) { return static_cast<float>(q - described.zero_points()->Get(0)) * described.scales()->Get(0); });
  return real;
}

// Runs the program on one sample and hands out the tensors of `wanted` as soon as they are complete.
class Capture {
 public:
  Capture(const std::map<uint32_t, const pte::DebugTensor*>& wanted) : wanted_(wanted) {}

  Status run(Session& session, std::span<const TensorView> inputs) {
    values_.clear();
    steps_.clear();
    const RunHooks hooks{
        .after_event = [&](uint32_t instruction, const npu::Event& event,
                           std::span<const std::byte> arena) { after_event(instruction, event, arena); },
        .after_instruction = [&](uint32_t instruction, const runtime::Method& method) { after_instruction(instruction, method); }};
    const Result<std::vector<Tensor>> outputs = session.run(inputs, nullptr, hooks);
    if (!outputs) return tl::unexpected(outputs.error());
    return {};
  }
  const Tensor* find(uint32_t source) const {
    const auto at = values_.find(source);
    return at == values_.end() ? nullptr : &at->second;
  }

 private:
  void after_event(uint32_t instruction, const npu::Event& event, std::span<const std::byte> arena) {
    if (event.kind != npu::EventKind::kCall) return;
    const uint32_t step = steps_[instruction]++;
    for (const auto& [source, tensor] : wanted_) {
      if (!tensor->in_delegate() || tensor->call() != static_cast<int32_t>(instruction) || tensor->step() != step) continue;
      const std::optional<TensorLayout> layout = layout_of(*tensor);
      if (!layout) continue;
      const uint64_t bytes = static_cast<uint64_t>(layout->elements) * layout->element_bytes;
      if (tensor->offset() > arena.size() || bytes > arena.size() - tensor->offset()) continue;
      keep(source, read_tensor(*tensor, *layout, arena.data() + tensor->offset()));
    }
  }

  void after_instruction(uint32_t instruction, const runtime::Method& method) {
    for (const auto& [source, tensor] : wanted_) {
      if (tensor->value() < 0 || tensor->call() != static_cast<int32_t>(instruction)) continue;
      const runtime::Value* value = method.value(static_cast<size_t>(tensor->value()));
      const std::optional<TensorLayout> layout = layout_of(*tensor);
      if (!layout || value == nullptr || value->kind != runtime::ValueKind::kTensor || value->tensor.data == nullptr) continue;
      if (value->tensor.bytes() != static_cast<size_t>(layout->elements) * layout->element_bytes) continue;
      keep(source, read_tensor(*tensor, *layout, value->tensor.data));
    }
  }

  void keep(uint32_t source, std::optional<Tensor> tensor) {
    if (tensor) values_[source] = std::move(*tensor);
  }

  const std::map<uint32_t, const pte::DebugTensor*>& wanted_;
  std::map<uint32_t, Tensor> values_;
  std::map<uint32_t, uint32_t> steps_;  // kernel calls seen, by instruction
};

// Whether values of that type can be told in real numbers: float, or int8 with one scale.
bool is_real(const Type& type) {
  return type.quantized() ? type.dtype == DType::kInt8 && !type.quantization->per_channel() : type.dtype == DType::kFloat32;
}

// What a user calls the result of an operator: of a quantize that a kernel call has taken in, the operators before it.
std::string shown_name(const Program& model, uint32_t source, const pte::DebugTensor* tensor) {
  const auto quantizes = [&](uint32_t i) { return model.sources[i].target.starts_with("quantized_decomposed."); };
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

}  // namespace

Result<std::vector<LayerError>> verify_layers(Session& session, const Program& model, const Samples& samples, size_t count) {
  const Graph& graph = model.forward();
  const pte::DebugMap* map = session.image().debug_map();
  if (map == nullptr)
    return fail(DiagnosticId::kNoDebugMap, "the program has no debug map, so its tensors cannot be found", "compile without --no-debug-map",
                {.file = session.image().path()});
  const size_t known = map->sources() == nullptr ? 0 : map->sources()->size();
  bool same = known == model.sources.size();
  for (uint32_t i = 0; same && i < known; ++i) {
    const flatbuffers::String* name = map->sources()->Get(i)->name();
    same = name != nullptr && name->string_view() == model.sources[i].name;
  }
  if (!same)
    return fail(DiagnosticId::kVerifyMismatch, "the program was compiled from another model: their operators differ",
                "give the model that the program was compiled from", {.file = model.file});
  const std::map<uint32_t, const pte::DebugTensor*> wanted = tensors_by_source(*map);

  // The value of the model that each source operator makes.
  std::map<ValueId, uint32_t> source_of;
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    if (op.def == &ops::kDequantize) continue;  // the same values once more
    if (!op.origin.sources.empty() && op.results.size() == 1) source_of[op.results[0]] = op.origin.sources.back();
  }
  std::map<uint32_t, ValueId> value_of;  // several ops may stand for one operator: the last is its result
  for (const OpId id : graph.ops())
    if (const auto at = source_of.find(graph.op(id).results.front()); at != source_of.end()) value_of[at->second] = at->first;

  DTR_ASSIGN(const std::unique_ptr<Executor> executor, make_model_executor(model, graph));
  Capture capture(wanted);
  std::map<uint32_t, Sum> sums;
  for (size_t sample = 0; sample < std::min(count, samples.size()); ++sample) {
    DTR_TRY(capture.run(session, samples.inputs(sample)));
    const auto observe = [&](ValueId value, const TensorView& tensor) {
      const auto at = source_of.find(value);
      if (at == source_of.end() || value_of.at(at->second) != value) return;
      const Tensor* actual = capture.find(at->second);
      if (!is_real(graph.type(value)) || actual == nullptr || actual->elements() != tensor.elements()) return;
      const Tensor wished = real_values(tensor, graph.type(value));
      const Tensor same_shape = Tensor::copy_of(DType::kFloat32, tensor.shape, actual->bytes());
      Sum& sum = sums[at->second];
      sum.seen = true;
      sum.sqnr.add(wished.view(), same_shape.view());
      sum.max_error = std::max(sum.max_error, compare(wished.view(), same_shape.view()).max_absolute);
      const pte::DebugTensor& described = *wanted.at(at->second);
      const float half_step = described.scales() != nullptr && described.scales()->size() == 1 ? described.scales()->Get(0) / 2 : 0.0F;
      const auto expected = wished.values<float>(), got = same_shape.values<float>();
      sum.elements += actual->elements();
      for (size_t i = 0; i < got.size(); ++i) sum.differing += std::abs(got[i] - expected[i]) > half_step ? 1 : 0;
    };
    const Result<std::vector<Tensor>> ideal = executor->run(samples.inputs(sample), observe);
    if (!ideal) return tl::unexpected(ideal.error());
  }

  std::vector<LayerError> layers;
  for (uint32_t i = 0; i < model.sources.size(); ++i) {
    if (!value_of.contains(i)) continue;
    const SourceOp& source = model.sources[i];
    const auto described = wanted.find(i);
    LayerError layer{.name = shown_name(model, i, described == wanted.end() ? nullptr : described->second),
                     .op = source.target,
                     .module_path = source.module_path,
                     .source_line = source.source_line};
    const auto sum = sums.find(i);
    if (sum == sums.end() || !sum->second.seen) {
      layer.fused = true;
    } else {
      const pte::DebugTensor& tensor = *wanted.at(i);
      layer.where = tensor.in_delegate() ? "npu" : "program";
      layer.dtype = tensor.scalar_type() == static_cast<int8_t>(ScalarType::kChar) ? "i8" : "f32";
      layer.sqnr_db = sum->second.sqnr.decibels();
      layer.max_error = sum->second.max_error;
      layer.differing = static_cast<double>(sum->second.differing) / static_cast<double>(std::max<int64_t>(sum->second.elements, 1));
      if (layer.dtype == "i8") layer.steps = layer.max_error / static_cast<double>(tensor.scales()->Get(0));
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace dtr
