#include "compiler/backends/portable/kernels.h"

#include <array>

#include "compiler/ops/integer.h"
#include "compiler/ops/ops.h"

namespace dtr::portable {
namespace {

Ints ints(const Op& op, std::string_view name) { return op.attributes.get<Ints>(name); }
int64_t integer(const Op& op, std::string_view name) { return op.attributes.get<int64_t>(name); }
bool boolean(const Op& op, std::string_view name) { return op.attributes.get<bool>(name); }

// Kernels that take tensors and nothing else.
template <const char* kName>
KernelCall plain(Program&, const Graph& graph, const Op& op) {
  KernelCall call{.name = kName};
  for (const ValueId operand : op.operands) call.arguments.push_back(kernel_argument(graph, operand));
  return call;
}

// The arguments that quantize and dequantize share: scale, zero point, range and dtype of the integer side.
void push_quantization(KernelCall& call, const Type& integer_type) {
  DTR_CHECK(integer_type.quantized());
  const Quantization& quantization = *integer_type.quantization;
  call.arguments.insert(call.arguments.end(), {static_cast<double>(quantization.scale()), int64_t{quantization.zero_point()},
                                               int64_t{quantization.qmin}, int64_t{quantization.qmax}, integer_type.dtype});
}

KernelCall quantize(Program&, const Graph& graph, const Op& op) {
  KernelCall call{.name = "quantized_decomposed::quantize_per_tensor.out", .arguments = {kernel_argument(graph, op.operands[0])}};
  push_quantization(call, graph.type(op.results[0]));
  return call;
}

KernelCall dequantize_per_channel(Program& program, const Graph& graph, const Op& op) {
  const Type& type = graph.type(op.operands[0]);
  const Quantization& q = *type.quantization;
  const Shape channels{static_cast<int64_t>(q.scales.size())};
  return {.name = "quantized_decomposed::dequantize_per_channel.out",
          .arguments = {kernel_argument(graph, op.operands[0]),
                        ConstantArgument{{.dtype = DType::kFloat32, .shape = channels},
                                         program.constants.add_values<float>(DType::kFloat32, q.scales)},
                        ConstantArgument{{.dtype = DType::kInt32, .shape = channels},
                                         program.constants.add_values<int32_t>(DType::kInt32, q.zero_points)},
                        int64_t{q.axis}, int64_t{q.qmin}, int64_t{q.qmax}, type.dtype, std::monostate{}}};
}

KernelCall dequantize(Program& program, const Graph& graph, const Op& op) {
  DTR_CHECK(graph.type(op.operands[0]).quantized());
  if (graph.type(op.operands[0]).quantization->per_channel()) return dequantize_per_channel(program, graph, op);
  KernelCall call{.name = "quantized_decomposed::dequantize_per_tensor.out", .arguments = {kernel_argument(graph, op.operands[0])}};
  push_quantization(call, graph.type(op.operands[0]));
  call.arguments.emplace_back(std::monostate{});  // out_dtype
  return call;
}

// add.Tensor and sub.Tensor.
template <const char* kName>
KernelCall sum(Program&, const Graph& graph, const Op& op) {
  return {.name = kName,
          .arguments = {kernel_argument(graph, op.operands[0]), kernel_argument(graph, op.operands[1]),
                        op.attributes.get_or<double>("alpha", 1.0)}};
}

KernelCall batch_norm(Program&, const Graph& graph, const Op& op) {
  KernelCall call{.name = "aten::_native_batch_norm_legit_no_training.out",
                  .extra_outputs = {{.dtype = DType::kFloat32, .shape = {0}}, {.dtype = DType::kFloat32, .shape = {0}}}};
  for (size_t i = 0; i < 5; ++i) call.arguments.push_back(kernel_argument(graph, op.operands[i]));
  call.arguments.insert(call.arguments.end(), {0.0, op.attributes.get<double>("eps")});  // momentum does not count in evaluation
  return call;
}

KernelCall clamp(Program&, const Graph& graph, const Op& op) {
  KernelCall call{.name = "aten::clamp.out", .arguments = {kernel_argument(graph, op.operands[0])}};
  for (const std::string_view bound : {"min", "max"}) {
    const AttributeValue* value = op.attributes.find(bound);
    call.arguments.push_back(value == nullptr ? KernelArgument{} : KernelArgument{std::get<double>(*value)});
  }
  return call;
}

KernelCall convolution(Program&, const Graph& graph, const Op& op) {
  KernelCall call{.name = "aten::convolution.out"};
  for (size_t i = 0; i < 3; ++i) call.arguments.push_back(kernel_argument(graph, i < op.operands.size() ? op.operands[i] : ValueId{}));
  call.arguments.insert(call.arguments.end(), {ints(op, "stride"), ints(op, "padding"), ints(op, "dilation"), boolean(op, "transposed"),
                                               ints(op, "output_padding"), integer(op, "groups")});
  return call;
}

KernelCall linear(Program&, const Graph& graph, const Op& op) {
  KernelCall call{.name = "aten::linear.out"};
  for (size_t i = 0; i < 3; ++i) call.arguments.push_back(kernel_argument(graph, i < op.operands.size() ? op.operands[i] : ValueId{}));
  return call;
}

KernelCall max_pool2d(Program&, const Graph& graph, const Op& op) {
  return {
      .name = "aten::max_pool2d_with_indices.out",
      .arguments = {op.operands[0], ints(op, "kernel_size"), ints(op, "stride"), ints(op, "padding"), ints(op, "dilation"),
                    boolean(op, "ceil_mode")},
      .extra_outputs = {{.dtype = DType::kInt64, .shape = graph.type(op.results[0]).shape, .layout = graph.type(op.results[0]).layout}}};
}

KernelCall avg_pool2d(Program&, const Graph&, const Op& op) {
  const AttributeValue* divisor = op.attributes.find("divisor_override");
  return {
      .name = "aten::avg_pool2d.out",
      .arguments = {op.operands[0], ints(op, "kernel_size"), ints(op, "stride"), ints(op, "padding"), boolean(op, "ceil_mode"),
                    boolean(op, "count_include_pad"), divisor == nullptr ? KernelArgument{} : KernelArgument{std::get<int64_t>(*divisor)}}};
}

KernelCall mean(Program&, const Graph&, const Op& op) {
  return {.name = "aten::mean.out", .arguments = {op.operands[0], ints(op, "dim"), boolean(op, "keepdim"), std::monostate{}}};
}

KernelCall sum_dim(Program&, const Graph&, const Op& op) {
  return {.name = "aten::sum.IntList_out", .arguments = {op.operands[0], ints(op, "dim"), boolean(op, "keepdim"), std::monostate{}}};
}

template <const char* kName>
KernelCall extreme(Program&, const Graph&, const Op& op) {
  return {.name = kName, .arguments = {op.operands[0], ints(op, "dim"), boolean(op, "keepdim")}};
}

template <const char* kName>
KernelCall argument_of_extreme(Program&, const Graph& graph, const Op& op) {
  const AttributeValue* dim = op.attributes.find("dim");
  return {.name = kName,
          .arguments = {kernel_argument(graph, op.operands[0]), dim == nullptr ? KernelArgument{} : KernelArgument{std::get<int64_t>(*dim)},
                        op.attributes.get_or("keepdim", false)}};
}

// Upstream's runtime has kernels for a list of indices and for tables.
KernelCall index_select(Program&, const Graph& graph, const Op& op) {
  const KernelArgument x = kernel_argument(graph, op.operands[0]), index = kernel_argument(graph, op.operands[1]);
  if (graph.type(op.operands[0]).rank() == 2 && integer(op, "dim") == 0)
    return {.name = "aten::embedding.out", .arguments = {x, index, int64_t{-1}, false, false}};
  return {.name = "aten::index_select.out", .arguments = {x, integer(op, "dim"), index}};
}

KernelCall adaptive_avg_pool2d(Program&, const Graph&, const Op& op) {
  return {.name = "aten::_adaptive_avg_pool2d.out", .arguments = {op.operands[0], ints(op, "output_size")}};
}

KernelCall adaptive_max_pool2d(Program&, const Graph& graph, const Op& op) {
  const Type& type = graph.type(op.results[0]);
  return {.name = "aten::adaptive_max_pool2d.out",
          .arguments = {op.operands[0], ints(op, "output_size")},
          .extra_outputs = {{.dtype = DType::kInt64, .shape = type.shape, .layout = type.layout}}};
}

void push_scales(KernelCall& call, const Op& op) {
  for (const double factor : op.attributes.get_or("scales", Floats{0, 0}))
    call.arguments.push_back(factor == 0 ? KernelArgument{} : KernelArgument{factor});
}

KernelCall upsample_nearest2d(Program&, const Graph&, const Op& op) {
  KernelCall call{.name = "aten::upsample_nearest2d.out", .arguments = {op.operands[0], ints(op, "output_size")}};
  push_scales(call, op);
  return call;
}

KernelCall upsample_bilinear2d(Program&, const Graph&, const Op& op) {
  KernelCall call{.name = "aten::upsample_bilinear2d.out",
                  .arguments = {op.operands[0], ints(op, "output_size"), boolean(op, "align_corners")}};
  push_scales(call, op);
  return call;
}

KernelCall slice(Program&, const Graph& graph, const Op& op) {
  return {.name = "aten::slice_copy.Tensor_out",
          .arguments = {kernel_argument(graph, op.operands[0]), integer(op, "dim"), integer(op, "start"), integer(op, "end"),
                        integer(op, "step")}};
}

KernelCall expand(Program&, const Graph& graph, const Op& op) {
  return {.name = "aten::expand_copy.out", .arguments = {kernel_argument(graph, op.operands[0]), ints(op, "size"), false}};
}

KernelCall flip(Program&, const Graph& graph, const Op& op) {
  return {.name = "aten::flip.out", .arguments = {kernel_argument(graph, op.operands[0]), ints(op, "dims")}};
}

template <const char* kName>
KernelCall softmax(Program&, const Graph& graph, const Op& op) {
  if (op.operands.size() > 1)
    return {.name = "deuteron::masked_softmax.out",
            .arguments = {op.operands[0], kernel_argument(graph, op.operands[1]), integer(op, "dim")}};
  return {.name = kName, .arguments = {op.operands[0], integer(op, "dim"), false}};
}

// Upstream's runtime has kernels for one matrix and for one dimension of them.
KernelCall matmul(Program&, const Graph& graph, const Op& op) {
  const Shape& left = graph.type(op.operands[0]).shape;
  const Shape& right = graph.type(op.operands[1]).shape;
  KernelCall call{.name = "aten::matmul.out"};
  if (left.size() == 2 && right.size() == 2) call.name = "aten::mm.out";
  if (left.size() == 3 && right.size() == 3 && left[0] == right[0]) call.name = "aten::bmm.out";
  for (const ValueId operand : op.operands) call.arguments.push_back(kernel_argument(graph, operand));
  return call;
}

// Kernels that also give the mean and the inverse of the deviation of each row.
std::vector<Type> moments(Shape shape) { return std::vector<Type>(2, {.dtype = DType::kFloat32, .shape = std::move(shape)}); }

KernelCall layer_norm(Program&, const Graph& graph, const Op& op) {
  const Ints& shape = op.attributes.get<Ints>("normalized_shape");
  Shape rows = graph.type(op.operands[0]).shape;
  for (size_t i = rows.size() - shape.size(); i < rows.size(); ++i) rows[i] = 1;
  return {.name = "aten::native_layer_norm.out",
          .arguments = {op.operands[0], shape, kernel_argument(graph, operand_or_absent(op, 1)),
                        kernel_argument(graph, operand_or_absent(op, 2)), op.attributes.get<double>("eps")},
          .extra_outputs = moments(std::move(rows))};
}

KernelCall rms_norm(Program&, const Graph& graph, const Op& op) {
  return {.name = "aten::rms_norm.out",
          .arguments = {op.operands[0], ints(op, "normalized_shape"), kernel_argument(graph, operand_or_absent(op, 1)),
                        op.attributes.get<double>("eps")}};
}

KernelCall group_norm(Program&, const Graph& graph, const Op& op) {
  const Shape& shape = graph.type(op.operands[0]).shape;
  const int64_t groups = integer(op, "num_groups");
  const int64_t planes = shape[0] * shape[1];
  const int64_t pixels = planes == 0 ? 0 : element_count(shape) / planes;
  return {.name = "aten::native_group_norm.out",
          .arguments = {op.operands[0], kernel_argument(graph, operand_or_absent(op, 1)), kernel_argument(graph, operand_or_absent(op, 2)),
                        shape[0], shape[1], pixels, groups, op.attributes.get<double>("eps")},
          .extra_outputs = moments({shape[0], groups})};
}

KernelCall view(Program&, const Graph& graph, const Op& op) {
  return {.name = "aten::view_copy.out", .arguments = {kernel_argument(graph, op.operands[0]), Ints(graph.type(op.results[0]).shape)}};
}

KernelCall permute(Program&, const Graph& graph, const Op& op) {
  return {.name = "aten::permute_copy.out", .arguments = {kernel_argument(graph, op.operands[0]), ints(op, "dims")}};
}

// On quantized integers the fill is the quantized value.
KernelCall constant_pad_nd(Program&, const Graph& graph, const Op& op) {
  const Type& type = graph.type(op.operands[0]);
  KernelArgument value = op.attributes.get<double>("value");
  if (type.quantized()) {
    const Quantization& q = *type.quantization;
    value = int64_t{numerics::code_of(std::get<double>(value), q.scale(), q.zero_point(), ops::range_of(q))};
  }
  return {.name = "aten::constant_pad_nd.out", .arguments = {op.operands[0], ints(op, "pad"), value}};
}

KernelCall cat(Program&, const Graph&, const Op& op) { return {.name = "aten::cat.out", .arguments = {op.operands, integer(op, "dim")}}; }

KernelCall to_dim_order_copy(Program&, const Graph& graph, const Op& op) {
  Ints order;
  for (const int dim : dim_order(graph.type(op.results[0]).layout, graph.type(op.results[0]).rank())) order.push_back(dim);
  return {.name = "dim_order_ops::_to_dim_order_copy.out", .arguments = {op.operands[0], false, order}};
}

// A kernel whose arguments after the tensor are numbers, with their defaults.
struct Number {
  std::string_view name;
  double fallback;
};
template <size_t kCount>
KernelCall with_numbers(std::string_view kernel, const Graph& graph, const Op& op, const Number (&numbers)[kCount]) {
  KernelCall call{.name = kernel, .arguments = {kernel_argument(graph, op.operands[0])}};
  for (const Number& number : numbers) call.arguments.emplace_back(op.attributes.get_or(number.name, number.fallback));
  return call;
}

KernelCall elu(Program&, const Graph& graph, const Op& op) {
  return with_numbers("aten::elu.out", graph, op, {{"alpha", 1}, {"scale", 1}, {"input_scale", 1}});
}
KernelCall leaky_relu(Program&, const Graph& graph, const Op& op) {
  return with_numbers("aten::leaky_relu.out", graph, op, {{"negative_slope", 0.01}});
}
KernelCall pow(Program&, const Graph& graph, const Op& op) {
  return with_numbers("aten::pow.Tensor_Scalar_out", graph, op, {{"exponent", 1}});
}
KernelCall softplus(Program&, const Graph& graph, const Op& op) {
  return with_numbers("aten::softplus.out", graph, op, {{"beta", 1}, {"threshold", 20}});
}
KernelCall masked_fill(Program&, const Graph& graph, const Op& op) {
  return {
      .name = "aten::masked_fill.Scalar_out",
      .arguments = {kernel_argument(graph, op.operands[0]), kernel_argument(graph, op.operands[1]), op.attributes.get<double>("value")}};
}
template <const char* kName>
KernelCall shrink(Program&, const Graph& graph, const Op& op) {
  return with_numbers(kName, graph, op, {{"lambd", 0.5}});
}
KernelCall threshold(Program&, const Graph& graph, const Op& op) {
  return with_numbers("aten::threshold.out", graph, op, {{"threshold", 0}, {"value", 0}});
}
KernelCall gelu(Program&, const Graph& graph, const Op& op) {
  return {.name = "aten::gelu.out",
          .arguments = {kernel_argument(graph, op.operands[0]), op.attributes.get_or<std::string>("approximate", "none")}};
}

constexpr char kAdd[] = "aten::add.out";
constexpr char kSub[] = "aten::sub.out";
constexpr char kMul[] = "aten::mul.out";
constexpr char kDiv[] = "aten::div.out";
constexpr char kMaximum[] = "aten::maximum.out";
constexpr char kMinimum[] = "aten::minimum.out";
constexpr char kPrelu[] = "aten::prelu.out";
constexpr char kCeil[] = "aten::ceil.out";
constexpr char kCos[] = "aten::cos.out";
constexpr char kErf[] = "aten::erf.out";
constexpr char kExp[] = "aten::exp.out";
constexpr char kFloor[] = "aten::floor.out";
constexpr char kHardsigmoid[] = "aten::hardsigmoid.out";
constexpr char kLog[] = "aten::log.out";
constexpr char kLogSigmoid[] = "aten::log_sigmoid.out";
constexpr char kMish[] = "aten::mish.out";
constexpr char kNeg[] = "aten::neg.out";
constexpr char kReciprocal[] = "aten::reciprocal.out";
constexpr char kRound[] = "aten::round.out";
constexpr char kRsqrt[] = "aten::rsqrt.out";
constexpr char kSign[] = "aten::sign.out";
constexpr char kSilu[] = "aten::silu.out";
constexpr char kSin[] = "aten::sin.out";
constexpr char kSqrt[] = "aten::sqrt.out";
constexpr char kAbs[] = "aten::abs.out";
constexpr char kLogicalNot[] = "aten::logical_not.out";
constexpr char kHardshrink[] = "aten::hardshrink.out";
constexpr char kSoftshrink[] = "aten::softshrink.out";
constexpr char kSoftsign[] = "deuteron::softsign.out";
constexpr char kSoftmax[] = "aten::_softmax.out";
constexpr char kLogSoftmax[] = "aten::_log_softmax.out";
constexpr char kAmax[] = "aten::amax.out";
constexpr char kAmin[] = "aten::amin.out";
constexpr char kArgmax[] = "aten::argmax.out";
constexpr char kArgmin[] = "aten::argmin.out";
constexpr char kRelu[] = "aten::relu.out";
constexpr char kHardswish[] = "aten::hardswish.out";
constexpr char kSigmoid[] = "aten::sigmoid.out";
constexpr char kTanh[] = "aten::tanh.out";

constexpr std::array kRows{
    Row{&ops::kAbs, false, plain<kAbs>},
    Row{&ops::kAdaptiveAvgPool2d, false, adaptive_avg_pool2d},
    Row{&ops::kAdaptiveMaxPool2d, false, adaptive_max_pool2d},
    Row{&ops::kAddTensor, false, sum<kAdd>},
    Row{&ops::kAmax, true, extreme<kAmax>},
    Row{&ops::kAmin, true, extreme<kAmin>},
    Row{&ops::kArgmax, true, argument_of_extreme<kArgmax>},
    Row{&ops::kArgmin, true, argument_of_extreme<kArgmin>},
    Row{&ops::kAvgPool2d, false, avg_pool2d},
    Row{&ops::kBatchNorm, false, batch_norm},
    Row{&ops::kCat, true, cat},
    Row{&ops::kCeil, false, plain<kCeil>},
    Row{&ops::kClamp, false, clamp},
    Row{&ops::kConstantPadNd, true, constant_pad_nd},
    Row{&ops::kConvolution, false, convolution},
    Row{&ops::kCos, false, plain<kCos>},
    Row{&ops::kDequantize, true, dequantize},
    Row{&ops::kDivTensor, false, plain<kDiv>},
    Row{&ops::kExpand, true, expand},
    Row{&ops::kFlip, true, flip},
    Row{&ops::kElu, false, elu},
    Row{&ops::kErf, false, plain<kErf>},
    Row{&ops::kExp, false, plain<kExp>},
    Row{&ops::kFloor, false, plain<kFloor>},
    Row{&ops::kGelu, false, gelu},
    Row{&ops::kGroupNorm, false, group_norm},
    Row{&ops::kHardshrink, false, shrink<kHardshrink>},
    Row{&ops::kHardsigmoid, false, plain<kHardsigmoid>},
    Row{&ops::kHardswish, false, plain<kHardswish>},
    Row{&ops::kIndexSelect, true, index_select},
    Row{&ops::kLayerNorm, false, layer_norm},
    Row{&ops::kLeakyRelu, false, leaky_relu},
    Row{&ops::kLinear, false, linear},
    Row{&ops::kLog, false, plain<kLog>},
    Row{&ops::kLogSigmoid, false, plain<kLogSigmoid>},
    Row{&ops::kLogSoftmax, false, softmax<kLogSoftmax>},
    Row{&ops::kLogicalNot, false, plain<kLogicalNot>},
    Row{&ops::kMaskedFill, false, masked_fill},
    Row{&ops::kMatmul, false, matmul},
    Row{&ops::kMaximum, false, plain<kMaximum>},
    Row{&ops::kMaxPool2d, false, max_pool2d},
    Row{&ops::kMeanDim, false, mean},
    Row{&ops::kMinimum, false, plain<kMinimum>},
    Row{&ops::kMish, false, plain<kMish>},
    Row{&ops::kMulTensor, false, plain<kMul>},
    Row{&ops::kNeg, false, plain<kNeg>},
    Row{&ops::kPermute, true, permute},
    Row{&ops::kPowTensorScalar, false, pow},
    Row{&ops::kPrelu, false, plain<kPrelu>},
    Row{&ops::kQuantize, true, quantize},
    Row{&ops::kReciprocal, false, plain<kReciprocal>},
    Row{&ops::kRelu, false, plain<kRelu>},
    Row{&ops::kRmsNorm, false, rms_norm},
    Row{&ops::kRound, false, plain<kRound>},
    Row{&ops::kRsqrt, false, plain<kRsqrt>},
    Row{&ops::kSigmoid, false, plain<kSigmoid>},
    Row{&ops::kSign, false, plain<kSign>},
    Row{&ops::kSilu, false, plain<kSilu>},
    Row{&ops::kSin, false, plain<kSin>},
    Row{&ops::kSoftmax, false, softmax<kSoftmax>},
    Row{&ops::kSoftplus, false, softplus},
    Row{&ops::kSoftshrink, false, shrink<kSoftshrink>},
    Row{&ops::kSoftsign, false, plain<kSoftsign>},
    Row{&ops::kSqrt, false, plain<kSqrt>},
    Row{&ops::kSubTensor, false, sum<kSub>},
    Row{&ops::kSliceTensor, true, slice},
    Row{&ops::kSumDim, false, sum_dim},
    Row{&ops::kTanh, false, plain<kTanh>},
    Row{&ops::kThreshold, false, threshold},
    Row{&ops::kToDimOrderCopy, true, to_dim_order_copy},
    Row{&ops::kUpsampleBilinear2d, false, upsample_bilinear2d},
    Row{&ops::kUpsampleNearest2d, false, upsample_nearest2d},
    Row{&ops::kView, true, view},
};

}  // namespace

const Row* find_row(const OpDef* op) {
  for (const Row& row : kRows)
    if (row.op == op) return &row;
  return nullptr;
}

}  // namespace dtr::portable
