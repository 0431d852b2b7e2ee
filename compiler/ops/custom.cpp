// custom: an operator that only a plug-in of the user knows: its kernel's name, the bytes of its
// options and the types of its results are attributes. Reals are float32; other operands and
// results are plain integers and bools. It runs on the CPU and is not folded, not even on
// constants.
#include "compiler/ops/custom.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/define.h"
#include "compiler/plugins/plugins.h"

namespace dtr::ops {
namespace {

thread_local std::optional<std::string> failure_of_thread;

// "f32 1x4x4x8, i32 scalar".
std::optional<Type> parse_type(std::string_view text) {
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const std::optional<DType> dtype = dtype_from_name(text.substr(0, blank));
  if (!dtype) return std::nullopt;
  Type type{.dtype = *dtype};
  std::string_view shape = text.substr(blank + 1);
  if (shape == "scalar") return type;
  while (true) {
    int64_t extent = 0;
    size_t digits = 0;
    for (; digits < shape.size() && shape[digits] >= '0' && shape[digits] <= '9'; ++digits) {
      extent = extent * 10 + (shape[digits] - '0');
      if (extent > kMaxExtent) return std::nullopt;
    }
    if (digits == 0) return std::nullopt;
    type.shape.push_back(extent);
    if (digits == shape.size()) return type;
    if (shape[digits] != 'x') return std::nullopt;
    shape.remove_prefix(digits + 1);
  }
}

// Empty if the text is not well-formed.
std::vector<Type> parse_types(std::string_view text) {
  std::vector<Type> types;
  while (true) {
    const size_t end = std::min(text.find(", "), text.size());
    std::optional<Type> type = parse_type(text.substr(0, end));
    if (!type) return {};
    types.push_back(*std::move(type));
    if (end == text.size()) return types;
    text.remove_prefix(end + 2);
  }
}

Result<void> verify(const OpView& view) {
  if (view.attribute<std::string>("kernel").empty()) return broken(view, "`kernel` is empty");
  const std::vector<Type> types = parse_types(view.attribute<std::string>("results"));
  if (types.empty()) return broken(view, "`results` is not of the form `f32 1x4x4x8, i32 scalar`");
  if (view.operands.size() > DTR_KERNEL_TENSORS || types.size() > DTR_KERNEL_TENSORS)
    return broken(view,
                  fmt::format("it has {} operands and {} results, a kernel at most {} of each",
                              view.operands.size(), types.size(), DTR_KERNEL_TENSORS));
  for (size_t i = 0; i < view.operands.size(); ++i) {
    if (!view.has(i)) return broken(view, fmt::format("operand {} is absent", i));
    if (view.operand(i).quantized() || view.operand(i).dtype == DType::kFloat64)
      return broken(view, fmt::format("operand {} is quantized or f64", i));
  }
  for (const Type& type : types) {
    if (type.dtype == DType::kFloat64) return broken(view, "a result is f64");
    DTR_TRY(check_result_shape(view, type.shape));
  }
  for (const Type* result : view.results)
    if (result->quantized()) return broken(view, "a result is quantized");
  return {};
}

std::vector<Type> infer(const OpView& view) {
  return parse_types(view.attribute<std::string>("results"));
}

uint32_t number_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return DTR_BOOL;
    case DType::kUint8:
      return DTR_UINT8;
    case DType::kInt8:
      return DTR_INT8;
    case DType::kInt16:
      return DTR_INT16;
    case DType::kInt32:
      return DTR_INT32;
    case DType::kInt64:
      return DTR_INT64;
    case DType::kFloat32:
      return DTR_FLOAT32;
    default:
      return DTR_FLOAT64;
  }
}

// A tensor as a kernel sees it: in float32 where the evaluation is in double.
struct KernelTensor {
  TensorView view;
  std::vector<float> reals = {};
  std::vector<int32_t> sizes = {};

  dtr_kernel_tensor describe(bool read) {
    for (const int64_t extent : view.shape) sizes.push_back(static_cast<int32_t>(extent));
    const auto elements = static_cast<size_t>(element_count(view.shape));
    const bool narrowed = view.dtype == DType::kFloat64;
    if (narrowed) reals.resize(elements);
    if (narrowed && read)
      std::ranges::transform(view.values<double>(), reals.begin(),
                             [](double x) { return static_cast<float>(x); });
    return {narrowed ? static_cast<void*>(reals.data()) : view.data, sizes.data(),
            static_cast<uint32_t>(view.shape.size()),
            narrowed ? static_cast<uint32_t>(DTR_FLOAT32) : number_of(view.dtype), elements};
  }
  void store() {
    if (view.dtype == DType::kFloat64) std::ranges::copy(reals, view.values<double>().begin());
  }
};

void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  failure_of_thread.reset();
  const auto& name = view.attribute<std::string>("kernel");
  const dtr_kernel* const kernel = find_plugin_kernel(name);
  if (kernel == nullptr) {
    failure_of_thread = fmt::format("no plug-in has the kernel `{}`", name);
    return;
  }
  std::vector<KernelTensor> held;
  held.reserve(operands.size() + results.size());
  std::vector<dtr_kernel_tensor> given, made;
  for (const TensorView& operand : operands)
    given.push_back(held.emplace_back(KernelTensor{operand}).describe(true));
  for (const TensorView& result : results)
    made.push_back(held.emplace_back(KernelTensor{result}).describe(false));
  const auto& options = view.attribute<std::string>("options");
  const dtr_kernel_call call{.operands = given.data(),
                             .results = made.data(),
                             .operand_count = static_cast<uint32_t>(given.size()),
                             .result_count = static_cast<uint32_t>(made.size()),
                             .options = options.data(),
                             .option_bytes = options.size()};
  if (const int32_t code = kernel->function(&call); code != 0)
    failure_of_thread = fmt::format("the plug-in's kernel `{}` failed with code {}", name, code);
  for (size_t i = operands.size(); i < held.size(); ++i) held[i].store();
}

}  // namespace

constinit const OpDef kCustom{
    .name = "deuteron.custom",
    .summary = "an operator whose kernel a plug-in of the user has",
    .schema = "(Tensor[] operands, str options | str kernel, str results)",
    .traits = kOnIntegers,
    .verify = verify,
    .infer = infer,
    .evaluate_float = evaluate,
    .evaluate_double = evaluate};

std::string types_text(std::span<const Type> types) {
  std::string text;
  for (const Type& type : types)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", dtr::name(type.dtype),
                        to_string(type.shape));
  return text;
}

namespace {

struct JsonWriter {
  std::string operator()(bool truth) const { return truth ? "true" : "false"; }
  std::string operator()(int64_t whole) const { return fmt::to_string(whole); }
  std::string operator()(double real) const {
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real > 0 ? "Infinity" : "-Infinity";
    return fmt::to_string(real);
  }
  std::string operator()(const std::string& text) const { return json_quote(text); }
  template <class T>
  std::string operator()(const std::vector<T>& items) const {
    std::string text;
    for (const T& item : items) text += (text.empty() ? "" : ", ") + (*this)(item);
    return "[" + text + "]";
  }
};

}  // namespace

std::string options_text(std::span<const CustomOption> options) {
  std::string text;
  for (const auto& [name, value] : options)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", json_quote(name),
                        value ? std::visit(JsonWriter{}, *value) : "null");
  return "{" + text + "}";
}

Result<void> kernel_status(const Module& module, const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  if (op.def != &kCustom || !failure_of_thread) return {};
  const auto& kernel = op.attributes.get<std::string>("kernel");
  return fail(DiagnosticId::kPluginKernelFailed, *std::exchange(failure_of_thread, std::nullopt),
              find_plugin_kernel(kernel) == nullptr
                  ? plugin_remedy(kernel)
                  : "look the code up in the kernel's source: it is the kernel's own",
              place_of(module, graph, id));
}

}  // namespace dtr::ops
