#include "compiler/backends/portable/kernels.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/integer.h"
#include "compiler/ops/ops.h"
#include "device/numerics/boxes.h"

namespace dtr::portable {
namespace {

Ints ints(const Op& op, std::string_view name) { return op.attributes.get<Ints>(name); }
int64_t integer(const Op& op, std::string_view name) { return op.attributes.get<int64_t>(name); }
bool boolean(const Op& op, std::string_view name) { return op.attributes.get<bool>(name); }

// The arguments that quantize and dequantize share: scale, zero point, range and dtype of the
// integer side.
void push_quantization(KernelCall& call, const Type& integer_type) {
  DTR_CHECK(integer_type.quantized());
  const Quantization& quantization = *integer_type.quantization;
  call.arguments.insert(
      call.arguments.end(),
      {static_cast<double>(quantization.scale()), int64_t{quantization.zero_point()},
       int64_t{quantization.qmin}, int64_t{quantization.qmax}, integer_type.dtype});
}

KernelCall quantize(Module&, const Graph& graph, const Op& op) {
  KernelCall call{.name = "quantized_decomposed::quantize_per_tensor.out",
                  .arguments = {kernel_argument(graph, op.operands[0])}};
  push_quantization(call, graph.type(op.results[0]));
  return call;
}

KernelCall dequantize_per_channel(Module& module, const Graph& graph, const Op& op) {
  const Type& type = graph.type(op.operands[0]);
  const Quantization& q = *type.quantization;
  const Shape channels{static_cast<int64_t>(q.scales.size())};
  return {.name = "quantized_decomposed::dequantize_per_channel.out",
          .arguments = {
              kernel_argument(graph, op.operands[0]),
              ConstantArgument{{.dtype = DType::kFloat32, .shape = channels},
                               module.constants.add_values<float>(DType::kFloat32, q.scales)},
              ConstantArgument{{.dtype = DType::kInt32, .shape = channels},
                               module.constants.add_values<int32_t>(DType::kInt32, q.zero_points)},
              int64_t{q.axis}, int64_t{q.qmin}, int64_t{q.qmax}, type.dtype, std::monostate{}}};
}

KernelCall dequantize(Module& module, const Graph& graph, const Op& op) {
  DTR_CHECK(graph.type(op.operands[0]).quantized());
  if (graph.type(op.operands[0]).quantization->per_channel())
    return dequantize_per_channel(module, graph, op);
  KernelCall call{.name = "quantized_decomposed::dequantize_per_tensor.out",
                  .arguments = {kernel_argument(graph, op.operands[0])}};
  push_quantization(call, graph.type(op.operands[0]));
  call.arguments.emplace_back(std::monostate{});  // out_dtype
  return call;
}

KernelCall batch_norm(Module&, const Graph& graph, const Op& op) {
  KernelCall call{.name = "aten::_native_batch_norm_legit_no_training.out",
                  .extra_outputs = {{.dtype = DType::kFloat32, .shape = {0}},
                                    {.dtype = DType::kFloat32, .shape = {0}}}};
  for (size_t i = 0; i < 5; ++i) call.arguments.push_back(kernel_argument(graph, op.operands[i]));
  call.arguments.insert(
      call.arguments.end(),
      {0.0, op.attributes.get<double>("eps")});  // momentum does not count in evaluation
  return call;
}

KernelCall max_pool2d(Module&, const Graph& graph, const Op& op) {
  return {.name = "aten::max_pool2d_with_indices.out",
          .arguments = {op.operands[0], ints(op, "kernel_size"), ints(op, "stride"),
                        ints(op, "padding"), ints(op, "dilation"), boolean(op, "ceil_mode")},
          .extra_outputs = {{.dtype = DType::kInt64,
                             .shape = graph.type(op.results[0]).shape,
                             .layout = graph.type(op.results[0]).layout}}};
}

// Upstream's runtime has kernels for a list of indices and for tables.
KernelCall index_select(Module&, const Graph& graph, const Op& op) {
  const KernelArgument x = kernel_argument(graph, op.operands[0]),
                       index = kernel_argument(graph, op.operands[1]);
  if (is_embedding(graph, op))
    return {.name = "aten::embedding.out", .arguments = {x, index, int64_t{-1}, false, false}};
  return {.name = "aten::index_select.out", .arguments = {x, integer(op, "dim"), index}};
}

// Upstream's kernel takes a list of indices, one for each dimension.
KernelCall index_put(Module&, const Graph& graph, const Op& op) {
  return {.name = "aten::index_put.out",
          .arguments = {
              kernel_argument(graph, op.operands[0]), std::vector<ValueId>{op.operands[1]},
              kernel_argument(graph, op.operands[2]), op.attributes.get_or("accumulate", false)}};
}

KernelCall adaptive_max_pool2d(Module&, const Graph& graph, const Op& op) {
  const Type& type = graph.type(op.results[0]);
  return {.name = "aten::adaptive_max_pool2d.out",
          .arguments = {op.operands[0], ints(op, "output_size")},
          .extra_outputs = {{.dtype = DType::kInt64, .shape = type.shape, .layout = type.layout}}};
}

void push_scales(KernelCall& call, const Op& op) {
  for (const double factor : op.attributes.get_or("scales", Floats{0, 0}))
    call.arguments.push_back(factor == 0 ? KernelArgument{} : KernelArgument{factor});
}

KernelCall upsample_nearest2d(Module&, const Graph&, const Op& op) {
  KernelCall call{.name = "aten::upsample_nearest2d.out",
                  .arguments = {op.operands[0], ints(op, "output_size")}};
  push_scales(call, op);
  return call;
}

KernelCall upsample_bilinear2d(Module&, const Graph&, const Op& op) {
  KernelCall call{
      .name = "aten::upsample_bilinear2d.out",
      .arguments = {op.operands[0], ints(op, "output_size"), boolean(op, "align_corners")}};
  push_scales(call, op);
  return call;
}

KernelCall expand(Module&, const Graph& graph, const Op& op) {
  return {.name = "aten::expand_copy.out",
          .arguments = {kernel_argument(graph, op.operands[0]), ints(op, "size"), false}};
}

KernelCall softmax(Module&, const Graph& graph, const Op& op) {
  if (op.operands.size() > 1)
    return {
        .name = "deuteron::masked_softmax.out",
        .arguments = {op.operands[0], kernel_argument(graph, op.operands[1]), integer(op, "dim")}};
  return {.name = op.def == &ops::kSoftmax ? "aten::_softmax.out" : "aten::_log_softmax.out",
          .arguments = {op.operands[0], integer(op, "dim"), false}};
}

// Upstream's runtime has kernels for one matrix and for one dimension of them.
KernelCall matmul(Module&, const Graph& graph, const Op& op) {
  const Shape& left = graph.type(op.operands[0]).shape;
  const Shape& right = graph.type(op.operands[1]).shape;
  KernelCall call{.name = "aten::matmul.out"};
  if (left.size() == 2 && right.size() == 2) call.name = "aten::mm.out";
  if (left.size() == 3 && right.size() == 3 && left[0] == right[0]) call.name = "aten::bmm.out";
  for (const ValueId operand : op.operands)
    call.arguments.push_back(kernel_argument(graph, operand));
  return call;
}

// Kernels that also give the mean and the inverse of the deviation of each row.
std::vector<Type> moments(Shape shape) {
  return std::vector<Type>(2, {.dtype = DType::kFloat32, .shape = std::move(shape)});
}

KernelCall layer_norm(Module&, const Graph& graph, const Op& op) {
  const Ints& shape = op.attributes.get<Ints>("normalized_shape");
  Shape rows = graph.type(op.operands[0]).shape;
  for (size_t i = rows.size() - shape.size(); i < rows.size(); ++i) rows[i] = 1;
  return {.name = "aten::native_layer_norm.out",
          .arguments = {op.operands[0], shape, kernel_argument(graph, operand_or_absent(op, 1)),
                        kernel_argument(graph, operand_or_absent(op, 2)),
                        op.attributes.get<double>("eps")},
          .extra_outputs = moments(std::move(rows))};
}

KernelCall group_norm(Module&, const Graph& graph, const Op& op) {
  const Shape& shape = graph.type(op.operands[0]).shape;
  const int64_t groups = integer(op, "num_groups");
  const int64_t planes = shape[0] * shape[1];
  const int64_t pixels = planes == 0 ? 0 : element_count(shape) / planes;
  return {.name = "aten::native_group_norm.out",
          .arguments = {op.operands[0], kernel_argument(graph, operand_or_absent(op, 1)),
                        kernel_argument(graph, operand_or_absent(op, 2)), shape[0], shape[1],
                        pixels, groups, op.attributes.get<double>("eps")},
          .extra_outputs = moments({shape[0], groups})};
}

KernelCall view(Module&, const Graph& graph, const Op& op) {
  return {
      .name = "aten::view_copy.out",
      .arguments = {kernel_argument(graph, op.operands[0]), Ints(graph.type(op.results[0]).shape)}};
}

// On quantized integers the fill is the quantized value.
KernelCall constant_pad_nd(Module&, const Graph& graph, const Op& op) {
  const Type& type = graph.type(op.operands[0]);
  KernelArgument value = op.attributes.get<double>("value");
  if (type.quantized()) {
    const Quantization& q = *type.quantization;
    value = int64_t{
        numerics::code_of(std::get<double>(value), q.scale(), q.zero_point(), ops::range_of(q))};
  }
  return {.name = "aten::constant_pad_nd.out",
          .arguments = {op.operands[0], ints(op, "pad"), value}};
}

KernelCall to_dim_order_copy(Module&, const Graph& graph, const Op& op) {
  Ints order;
  for (const int dim :
       dim_order(graph.type(op.results[0]).layout, graph.type(op.results[0]).rank()))
    order.push_back(dim);
  return {.name = "dim_order_ops::_to_dim_order_copy.out",
          .arguments = {op.operands[0], false, order}};
}

KernelCall lookup(Module& module, const Graph& graph, const Op& op) {
  std::vector<int8_t> codes;  // or those of uint8, whose bytes these are too
  for (const int64_t code : ints(op, "codes")) codes.push_back(static_cast<int8_t>(code));
  return {
      .name = std::string(op.def->kernel),
      .arguments = {kernel_argument(graph, op.operands[0]),
                    ConstantArgument{{.dtype = DType::kInt8, .shape = {256}},
                                     module.constants.add_values<int8_t>(DType::kInt8, codes)}}};
}

KernelCall convert(Module& module, const Graph& graph, const Op& op) {
  KernelCall call = to_dim_order_copy(module, graph, op);
  call.arguments[0] = kernel_argument(graph, op.operands[0]);
  return call;
}

bool is_integer_op(const Graph& graph, const Op& op) {
  const auto is_number = [&](ValueId value) {
    const Type& type = graph.type(value);
    return !type.quantized() && !is_float(type.dtype);
  };
  return is_number(op.results[0]) && std::ranges::all_of(op.operands, [&](ValueId value) {
           return !value.valid() || is_number(value);
         });
}

// An attribute as a kernel's argument. Whole numbers of an operator on integers are written as
// integers: ExecuTorch's sums refuse a float `alpha` then.
KernelArgument argument_of(const AttributeValue& value, bool of_integers) {
  if (const auto* number = std::get_if<double>(&value); number != nullptr && of_integers &&
                                                        *number == std::trunc(*number) &&
                                                        std::abs(*number) <= 0x1p53)
    return static_cast<int64_t>(*number);
  return std::visit([](const auto& known) { return KernelArgument(known); }, value);
}

// The arguments in the order of the operator's schema.
KernelCall regular_call(std::string_view name, const Graph& graph, const Op& op) {
  KernelCall call{.name = std::string(name)};
  const bool of_integers = is_integer_op(graph, op);
  size_t operand = 0;
  for (const Param& param : op.def->schema.params()) {
    if (param.own) continue;
    if (param.variadic) {
      call.arguments.emplace_back(op.operands);
    } else if (param.is_operand()) {
      call.arguments.push_back(kernel_argument(graph, operand_or_absent(op, operand++)));
    } else if (param.is_attribute()) {
      const AttributeValue* value = op.attributes.find(param.name);
      const auto given = value == nullptr ? param.default_value() : std::optional(*value);
      call.arguments.push_back(given ? argument_of(*given, of_integers) : KernelArgument{});
    } else {
      call.arguments.emplace_back(std::monostate{});
    }
  }
  return call;
}

// The arguments of the schema, and memory to compute in.
KernelCall non_max_suppression(Module&, const Graph& graph, const Op& op) {
  KernelCall call = regular_call(op.def->kernel, graph, op);
  call.arguments.emplace_back(ScratchArgument{numerics::suppression_bytes(
      graph.type(op.operands[0]).shape[0], integer(op, "max_output_size"))});
  return call;
}
KernelCall detection_postprocess(Module&, const Graph& graph, const Op& op) {
  KernelCall call = regular_call(op.def->kernel, graph, op);
  const auto number = [&](std::string_view name) {
    return static_cast<int32_t>(integer(op, name));
  };
  call.arguments.emplace_back(ScratchArgument{
      numerics::detection_bytes({.boxes = static_cast<int32_t>(graph.type(op.operands[0]).shape[1]),
                                 .classes = number("num_classes"),
                                 .most = number("max_detections"),
                                 .regular = boolean(op, "use_regular_nms")})});
  return call;
}

// The kernel of a plug-in.
KernelCall custom(Module&, const Graph&, const Op& op) {
  return {.name = op.attributes.get<std::string>("kernel"),
          .arguments = {op.operands, op.attributes.get<std::string>("options")}};
}

// Kernels with other arguments than the operator: parts that ExecuTorch's schema has beside it,
// several kernels for one operator.
struct SpecialRow {
  const OpDef* op;
  KernelCall (*call)(Module& module, const Graph& graph, const Op& op);
};
constexpr SpecialRow kSpecialRows[] = {
    {&ops::kAdaptiveMaxPool2d, adaptive_max_pool2d},
    {&ops::kBatchNorm, batch_norm},
    {&ops::kConstantPadNd, constant_pad_nd},
    {&ops::kConvert, convert},
    {&ops::kCustom, custom},
    {&ops::kDequantize, dequantize},
    {&ops::kDetectionPostprocess, detection_postprocess},
    {&ops::kExpand, expand},
    {&ops::kGroupNorm, group_norm},
    {&ops::kIndexPut, index_put},
    {&ops::kIndexSelect, index_select},
    {&ops::kLayerNorm, layer_norm},
    {&ops::kLogSoftmax, softmax},
    {&ops::kLookup, lookup},
    {&ops::kMatmul, matmul},
    {&ops::kMaxPool2d, max_pool2d},
    {&ops::kNonMaxSuppression, non_max_suppression},
    {&ops::kQuantize, quantize},
    {&ops::kSoftmax, softmax},
    {&ops::kToDimOrderCopy, to_dim_order_copy},
    {&ops::kUpsampleBilinear2d, upsample_bilinear2d},
    {&ops::kUpsampleNearest2d, upsample_nearest2d},
    {&ops::kView, view},
};

// Kernels that run on quantized integers as well although they do more than move them: they
// convert, compare codes or select one.
constexpr const OpDef* kOnCodes[] = {&ops::kAmax,   &ops::kAmin,       &ops::kArgmax,
                                     &ops::kArgmin, &ops::kDequantize, &ops::kIndexSelect,
                                     &ops::kLookup, &ops::kQuantize};

constexpr std::string_view kKernelNames[] = {
#define DTR_KERNEL(function, name, file) name,
#include "device/runtime/kernels/portable/kernels.inc"
#undef DTR_KERNEL
};

// The name of the kernel whose arguments are those of the operator's schema; empty if the runtime
// has none.
std::string_view kernel_of(const OpDef& op) {
  const std::string name = kernel_name(op);
  const auto* at = std::ranges::find(kKernelNames, name);
  return at == std::end(kKernelNames) ? std::string_view{} : *at;
}

std::vector<Row> make_rows() {
  std::vector<Row> rows;
  for (const OpDef* op : all_ops()) {
    const auto* special = std::ranges::find(kSpecialRows, op, &SpecialRow::op);
    Row row{.op = op,
            .kernel = special == std::end(kSpecialRows) ? kernel_of(*op) : std::string_view{},
            .moves_any_dtype =
                op->has_trait(kMovesData) || std::ranges::find(kOnCodes, op) != std::end(kOnCodes),
            .special = special == std::end(kSpecialRows) ? nullptr : special->call};
    if (row.special != nullptr || !row.kernel.empty()) rows.push_back(row);
  }
  return rows;
}

}  // namespace

bool is_embedding(const Graph& graph, const Op& index_select) {
  return graph.type(index_select.operands[0]).rank() == 2 && integer(index_select, "dim") == 0;
}

const Row* find_row(const OpDef* op) {
  static const std::vector<Row> rows = make_rows();
  const auto at = std::ranges::find(rows, op, &Row::op);
  return at == rows.end() ? nullptr : &*at;
}

KernelCall Row::call(Module& module, const Graph& graph, const Op& call_of) const {
  return special != nullptr ? special(module, graph, call_of)
                            : regular_call(kernel, graph, call_of);
}

}  // namespace dtr::portable
