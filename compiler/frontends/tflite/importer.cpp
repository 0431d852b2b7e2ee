#include "compiler/frontends/tflite/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "compiler/frontends/tflite/stored_forms.h"
#include "compiler/ir/reorder.h"
#include "compiler/ir/verifier.h"
#include "compiler/ops/constant_folding.h"
#include "compiler/plugins/plugins.h"
#include "device/numerics/requantize.h"

namespace dtr::tflite {
namespace {

bool is_identity(const Ints& dims) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != static_cast<int64_t>(i)) return false;
  return true;
}

Import empty_import(const ModelFile& file, const std::string& name) {
  Import import;
  import.module.file = name;
  import.module.graphs.resize(1);
  import.values.resize(file.tensors.size());
  return import;
}

// Whether the elements of a tensor are in the same order as NHWC and as NCHW.
bool order_is_free(const Shape& nhwc) {
  return nhwc.size() != 4 || nhwc[3] == 1 || nhwc[1] * nhwc[2] == 1;
}

}  // namespace

std::vector<std::byte> permuted(std::span<const std::byte> bytes, const Shape& shape,
                                const Ints& dims, size_t size) {
  const std::vector<int64_t> own = strides(shape, Layout::kContiguous);
  Shape sizes;
  std::vector<int64_t> from;
  for (const int64_t dim : dims) {
    sizes.push_back(shape[static_cast<size_t>(dim)]);
    from.push_back(own[static_cast<size_t>(dim)]);
  }
  std::vector<std::byte> result(bytes.size());
  reorder(sizes, size, bytes.data(), from, result.data(), strides(sizes, Layout::kContiguous));
  return result;
}

size_t logical_dim(size_t dim, size_t rank) {
  constexpr size_t kNhwcToNchw[] = {0, 2, 3, 1};
  return rank == 4 ? kNhwcToNchw[dim] : dim;
}

std::optional<DType> dtype_of(fb::TensorType type) {
  switch (type) {
    case fb::TensorType::FLOAT32:
      return DType::kFloat32;
    case fb::TensorType::INT8:
      return DType::kInt8;
    case fb::TensorType::UINT8:
      return DType::kUint8;
    case fb::TensorType::INT16:
      return DType::kInt16;
    case fb::TensorType::INT32:
      return DType::kInt32;
    case fb::TensorType::INT64:
      return DType::kInt64;
    case fb::TensorType::BOOL:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

Ints logical_dims(size_t rank) {
  if (rank == 4) return {0, 3, 1, 2};
  Ints dims(rank);
  for (size_t i = 0; i < rank; ++i) dims[i] = static_cast<int64_t>(i);
  return dims;
}

Shape file_shape(const Shape& logical) {
  Shape result;
  for (size_t i = 0; i < logical.size(); ++i)
    result.push_back(logical[logical_dim(i, logical.size())]);
  return result;
}

Shape logical_shape(const Shape& shape) {
  Shape result;
  for (const int64_t dim : logical_dims(shape.size()))
    result.push_back(shape[static_cast<size_t>(dim)]);
  return result;
}

Importer::Importer(ModelFile& file, const std::string& name, bool kept, Arithmetic arithmetic,
                   const DimensionSizes& sizes)
    : file_(&file),
      kept_(kept),
      arithmetic_(arithmetic),
      sizes_(sizes),
      import_(empty_import(file, name)),
      rewriter_(import_.module.graphs[0]) {}

Result<Import> Importer::run() && {
  DTR_TRY(check_operators());
  DTR_ASSIGN(const std::vector<Diagnostic> notes,
             convert_stored_forms(*file_, import_.module.file));
  import_.module.notes.insert(import_.module.notes.end(), notes.begin(), notes.end());
  DTR_TRY(bind_open_extents());
  DTR_TRY(add_inputs());
  DTR_TRY(find_variables());
  for (const OperatorInfo& op : file_->operators) {
    DTR_ASSIGN(const bool is_converted, convert_variable(op));
    if (!is_converted) DTR_TRY(convert(op));
  }
  DTR_TRY(finish());
  return std::move(import_);
}

Result<void> Importer::check_operators() {
  std::vector<std::string> unknown;
  std::string fix;
  for (const OperatorInfo& op : file_->operators)
    if (find_operator(op) == nullptr) {
      const auto [needs, what_to_do] = why_refused(op.code);
      if (fix.empty() || !needs.empty())
        fix = op.code == fb::BuiltinOperator::CUSTOM ? plugin_remedy(plugin_kernel_name(op))
                                                     : std::string(what_to_do);
      unknown.push_back(needs.empty() ? op.name : fmt::format("{} ({})", op.name, needs));
    }
  if (unknown.empty()) {
    // No operator calls them: signatures beside the first.
    const bool calls = std::ranges::any_of(file_->operators, [](const OperatorInfo& op) {
      return calls_subgraph(op.code) || op.code == fb::BuiltinOperator::CALL_ONCE;
    });
    if (file_->subgraphs != 1 && !calls && suffix_.empty())
      import_.module.notes.push_back(
          {.id = DiagnosticId::kTfliteUnsupportedOption,
           .reason =
               fmt::format("the file has {} subgraphs, the first one is read", file_->subgraphs),
           .place = place({}),
           .severity = Severity::kNote});
    return {};
  }
  std::ranges::sort(unknown);
  unknown.erase(std::unique(unknown.begin(), unknown.end()), unknown.end());
  return fail(
      DiagnosticId::kTfliteUnsupportedOperator,
      fmt::format("the model has operators that are not supported: {}", fmt::join(unknown, ", ")),
      std::move(fix), place({}));
}

Result<ValueId> Importer::emit_plain(const OpDef& def, std::vector<ValueId> operands,
                                     Attributes attributes,
                                     std::optional<Quantization> quantization) {
  return rewriter_.append({.def = &def,
                           .operands = std::move(operands),
                           .attributes = std::move(attributes),
                           .origin = origin_,
                           .quantization = std::move(quantization)});
}

Result<void> Importer::add_inputs() {
  for (const int32_t index : file_->inputs) {
    const TensorInfo& tensor = file_->tensors[static_cast<size_t>(index)];
    ValueId& value = import_.values[static_cast<size_t>(index)];
    if (value.valid() || tensor.constant())
      return fail(DiagnosticId::kTfliteInvalid, "it is an input of the model twice, or constant",
                  {}, place(tensor.name));
    DTR_ASSIGN(Type type, type_of(tensor, logical_dims(tensor.shape.size()), -1));
    if (type.rank() == 4) type.layout = Layout::kChannelsLast;
    if (tensor.was_uint8 && tensor.scales.size() != 1)
      return fail(DiagnosticId::kTfliteUnsupportedDtype, "it is an input of UINT8 per channel",
                  "Quantize inputs per tensor.", place(tensor.name));
    if (tensor.was_uint8) {
      type.dtype = DType::kUint8;
      type.quantization.reset();
    }
    value = rewriter_.add_input(std::move(type), tensor.name);
    if (tensor.was_uint8) {
      DTR_ASSIGN(value, shifted_input(value, tensor));
    }
  }
  return {};
}

Result<void> Importer::convert(const OperatorInfo& op) {
  op_ = &op;
  const OperatorDef& def = *find_operator(op);
  if (op.outputs.empty() || (op.outputs.size() != 1 && def.convert_several == nullptr))
    return invalid(fmt::format("it has {} outputs, expected 1", op.outputs.size()));
  if (op.inputs.size() < def.min_inputs || op.inputs.size() > def.max_inputs)
    return invalid(fmt::format("it has {} inputs", op.inputs.size()));
  for (size_t i = 0; i < def.min_inputs; ++i)
    if (!has(i)) return invalid(fmt::format("input {} is absent", i));
  for (size_t i = 0; i < op.outputs.size(); ++i)
    if (import_.values[static_cast<size_t>(op.outputs[i])].valid() || output(i).constant())
      return invalid(
          "its output is an input of the model, a constant, or made by another operator too");
  origin_ = {.sources = {static_cast<uint32_t>(import_.module.sources.size())}};
  import_.module.sources.push_back({.name = output().name + suffix_, .target = op.name});

  std::vector<ValueId> results;
  if (def.convert_several != nullptr) {
    DTR_ASSIGN(results, def.convert_several(*this));
  } else {
    DTR_ASSIGN(results.emplace_back(), def.convert(*this));
  }
  if (results.size() != op.outputs.size())
    return invalid(
        fmt::format("it makes {} tensors, the file says {}", results.size(), op.outputs.size()));
  for (size_t i = 0; i < results.size(); ++i) {
    if (def.gives_shapes)
      file_->tensors[static_cast<size_t>(op.outputs[i])].shape = file_shape(type(results[i]).shape);
    DTR_TRY(define(i, results[i]));
  }
  return {};
}

Result<void> Importer::define(size_t index, ValueId result) {
  if (output(index).type == fb::TensorType::COMPLEX64) return define_complex(index, result);
  DTR_ASSIGN(const Type expected,
             type_of(output(index), logical_dims(output(index).shape.size()), -1));
  const Type& actual = rewriter_.graph().type(result);
  TensorInfo& tensor = file_->tensors[static_cast<size_t>(op_->outputs[index])];
  if (actual.shape != expected.shape && actual.dtype == expected.dtype &&
      (tensor.has_open_extent() ||
       ((resized_ || !suffix_.empty()) && actual.rank() == expected.rank()))) {
    // What an open extent is follows from those of the inputs, or from the operands of a call.
    tensor.shape = file_shape(actual.shape);
    import_.values[static_cast<size_t>(op_->outputs[index])] = result;
    rewriter_.rename(result, tensor.name);
    return {};
  }
  if (actual.shape != expected.shape || actual.dtype != expected.dtype)
    return invalid(
        fmt::format("it makes {} of shape {}, the file says {} of shape {} (logical order)",
                    dtr::name(actual.dtype), to_string(actual.shape), dtr::name(expected.dtype),
                    to_string(expected.shape)));
  import_.values[static_cast<size_t>(op_->outputs[index])] = result;
  rewriter_.rename(result, output(index).name);
  return {};
}

Result<void> Importer::define_complex(size_t index, ValueId result) {
  Shape expected = output(index).shape;
  expected.push_back(2);
  const Type& actual = rewriter_.graph().type(result);
  if (actual.shape != expected || actual.dtype != DType::kFloat32)
    return invalid(fmt::format("it makes {} of shape {}, the file says COMPLEX64 of shape {}",
                               dtr::name(actual.dtype), to_string(actual.shape),
                               to_string(output(index).shape)));
  import_.values[static_cast<size_t>(op_->outputs[index])] = result;
  rewriter_.rename(result, output(index).name);
  return {};
}

Result<int64_t> Importer::logical_axis(int64_t axis, size_t rank) const {
  const auto signed_rank = static_cast<int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank)
    return invalid(fmt::format("axis {} is out of range for rank {}", axis, rank));
  return static_cast<int64_t>(
      logical_dim(static_cast<size_t>(axis < 0 ? axis + signed_rank : axis), rank));
}

Result<void> Importer::finish() {
  std::vector<ValueId> outputs;
  for (const int32_t index : file_->outputs) {
    ValueId value = import_.values[static_cast<size_t>(index)];
    const TensorInfo& tensor = file_->tensors[static_cast<size_t>(index)];
    const std::string& name = tensor.name;
    if (!value.valid() && tensor.constant()) {
      DTR_ASSIGN(value, constant_of(tensor));
    }
    if (!value.valid())
      return fail(DiagnosticId::kTfliteInvalid,
                  "it is an output of the model, but no operator makes it", {}, place(name));
    if (tensor.type == fb::TensorType::COMPLEX64)
      return fail(DiagnosticId::kTfliteUnsupportedDtype, "it is an output of COMPLEX64",
                  "Let the model return real and imaginary part, or the absolute value.",
                  place(name));
    if (tensor.was_uint8) {
      DTR_ASSIGN(value, shifted_output(value, tensor));
    }
    outputs.push_back(value);
  }
  const std::vector<ValueId> next = next_values();
  outputs.insert(outputs.end(), next.begin(), next.end());
  rewriter_.set_outputs(outputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (rewriter_.graph().type(outputs[i]).rank() == 4)
      rewriter_.set_output_layout(i, Layout::kChannelsLast);
  if (Result<void> verified = verify(import_.module); !verified) {
    Diagnostic diagnostic = std::move(verified).error();
    diagnostic.id = DiagnosticId::kTfliteInvalid;
    diagnostic.place.file = import_.module.file;
    return tl::unexpected<Diagnostic>(std::move(diagnostic));
  }
  return {};
}

Result<Type> Importer::type_of(const TensorInfo& tensor, const Ints& dims, int axis) const {
  const std::optional<DType> dtype = dtype_of(tensor.type);
  const bool quantized = !tensor.scales.empty() && tensor.type != fb::TensorType::FLOAT32;
  const bool integer = dtype == DType::kInt8 || dtype == DType::kInt32;
  if (!dtype || (quantized && !integer))
    return fail(DiagnosticId::kTfliteUnsupportedDtype,
                fmt::format("it is {}{}, supported are floats, quantized INT8, integers and BOOL",
                            quantized ? "quantized " : "", fb::EnumNameTensorType(tensor.type)),
                "Quantize the model to int8, or not at all.", place(tensor.name));
  Type type{.dtype = *dtype};
  for (const int64_t dim : dims) type.shape.push_back(tensor.shape[static_cast<size_t>(dim)]);
  if (quantized) {
    const bool narrow =
        tensor.constant() && *dtype == DType::kInt8 &&
        std::ranges::all_of(tensor.data, [](std::byte b) { return b != std::byte{0x80}; }) &&
        std::ranges::all_of(tensor.zero_points,
                            [](int32_t zero_point) { return zero_point >= -127; });
    const auto limits = *dtype == DType::kInt8 ? std::pair{narrow ? -127 : -128, 127}
                                               : std::pair{INT32_MIN, INT32_MAX};
    type.quantization =
        Quantization{tensor.scales, tensor.zero_points, tensor.scales.size() > 1 ? axis : -1,
                     limits.first, limits.second};
  }
  return type;
}

Result<ValueId> Importer::value(size_t operand) {
  ValueId& known = import_.values[static_cast<size_t>(op_->inputs[operand])];
  const TensorInfo& of = tensor(operand);
  if (of.type == fb::TensorType::COMPLEX64)
    return unsupported(fmt::format("it reads the complex numbers `{}`", of.name));
  if (!known.valid()) {
    if (of.is_variable)
      return unsupported(
          fmt::format("`{}` is a variable, whose content changes from run to run", of.name));
    if (!of.constant())
      return invalid(fmt::format(
          "it reads `{}` before any operator makes it (a cycle, or out of order)", of.name));
    DTR_ASSIGN(known, constant_of(of));
  }
  return known;
}

Result<ValueId> Importer::constant_of(const TensorInfo& of) {
  const int axis = static_cast<int>(
      of.scales.size() > 1
          ? logical_dim(static_cast<size_t>(of.quantized_dimension), of.shape.size())
          : 0);
  return add_stored(of, logical_dims(of.shape.size()), axis);
}

Result<ValueId> Importer::permuted_constant(size_t operand, const Ints& dims, int axis) {
  const TensorInfo& of = tensor(operand);
  if (!of.constant()) {
    if (of.scales.size() > 1)
      return unsupported(
          fmt::format("`{}` is computed by the model and quantized per channel", of.name));
    DTR_ASSIGN(const ValueId computed, file_value(operand));
    if (!ops::is_static(import_.module.forward(), computed))
      return unsupported(
          fmt::format("`{}` is computed by the model, only constants are supported here", of.name));
    return Builder(*this).permute(computed, dims);
  }
  return add_stored(of, dims, axis);
}

Result<ValueId> Importer::add_stored(const TensorInfo& of, const Ints& dims, int axis) {
  DTR_ASSIGN(Type type, type_of(of, dims, axis));
  ConstantPool& pool = import_.module.constants;
  ConstantId id;
  if (!is_identity(dims)) {
    id = pool.add(type.dtype, permuted(of.data, of.shape, dims, byte_size(type.dtype)));
  } else {
    id = kept_ && !of.converted ? pool.add_in_place(type.dtype, of.data)
                                : pool.add(type.dtype, of.data);
  }
  return rewriter_.add_constant(std::move(type), id, of.name);
}

Result<ValueId> Importer::add_codes(std::span<const std::byte> codes, const Shape& shape,
                                    const Ints& dims, float scale) {
  Type type{.dtype = DType::kInt8};
  for (const int64_t dim : dims) type.shape.push_back(shape[static_cast<size_t>(dim)]);
  type.quantization = Quantization::per_tensor(scale, 0);
  const ConstantId id = import_.module.constants.add(DType::kInt8, permuted(codes, shape, dims, 1));
  return rewriter_.add_constant(std::move(type), id, output().name + "_weight");
}

Result<ValueId> Importer::joined_codes(const std::vector<ValueId>& parts, int dim) {
  const Graph& graph = import_.module.forward();
  Type type = graph.type(parts.front());
  const auto axis = static_cast<size_t>(dim);
  size_t inner = 1, outer = 1;
  for (size_t i = 0; i < type.rank(); ++i)
    (i < axis ? outer : inner) *= static_cast<size_t>(type.shape[i]);
  std::vector<std::byte> codes;
  for (size_t block = 0; block < outer; ++block)
    for (const ValueId part : parts) {
      const std::span<const std::byte> from =
          import_.module.constants.bytes(graph.value(part).constant).subspan(block * inner, inner);
      codes.insert(codes.end(), from.begin(), from.end());
    }
  type.shape[axis] *= static_cast<int64_t>(parts.size());
  const ConstantId id = import_.module.constants.add(DType::kInt8, codes);
  return rewriter_.add_constant(std::move(type), id, output().name + "_weights");
}

Result<void> Importer::check_shape(const Shape& shape) const {
  const auto elements = checked_element_count(shape);
  if (shape.size() > kMaxRank || !elements || *elements > INT32_MAX)
    return invalid(fmt::format("the shape {} is impossible", to_string(shape)));
  return {};
}

// Whether no value that this one is computed from has very many elements.
bool Importer::is_small(ValueId value) const {
  constexpr int64_t kMost = int64_t{1} << 22;
  const Graph& graph = import_.module.forward();
  std::vector<ValueId> open{value};
  std::vector<bool> seen(graph.value_slots());
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!id.valid() || seen[id.index]) continue;
    seen[id.index] = true;
    if (graph.is_constant(id)) continue;
    if (graph.type(id).elements() > kMost || !graph.producer(id).valid()) return false;
    const Op& op = graph.op(graph.producer(id));
    open.insert(open.end(), op.operands.begin(), op.operands.end());
  }
  return true;
}

Result<std::vector<double>> Importer::known(size_t operand) {
  const TensorInfo& of = tensor(operand);
  const Graph& graph = import_.module.forward();
  if (element_count(of.shape) == 0) return std::vector<double>();
  DTR_ASSIGN(const ValueId id, value(operand));
  const Builder builder(*this);
  if (graph.is_constant(id)) return builder.constant_elements(id).value();
  if (!ops::is_static(graph, id) || !is_small(id))
    return unsupported(
        fmt::format("`{}` is computed by the model, only constants are supported here", of.name));
  std::vector<Tensor> made = ops::evaluate_on_constants(import_.module, graph, graph.producer(id));
  return elements_of(made.at(graph.value(id).result));
}

Result<Ints> Importer::integers(size_t operand) {
  const TensorInfo& of = tensor(operand);
  if (of.type != fb::TensorType::INT32 && of.type != fb::TensorType::INT64)
    return invalid(fmt::format("`{}` is not INT32", of.name));
  DTR_ASSIGN(const std::vector<double> elements, known(operand));
  Ints result;
  for (const double element : elements)
    result.push_back(numerics::saturating_cast<int64_t>(element));
  return result;
}

Result<double> Importer::real(size_t operand) {
  DTR_ASSIGN(const std::vector<double> elements, known(operand));
  const TensorInfo& of = tensor(operand);
  if (elements.size() != 1 || of.scales.size() > 1)
    return unsupported(fmt::format("`{}` has {} elements, expected 1", of.name, elements.size()));
  if (of.scales.empty()) return elements.front();
  return static_cast<double>(of.scales[0]) * (elements.front() - of.zero_points[0]);
}

Result<ValueId> Importer::file_value(size_t operand) {
  DTR_ASSIGN(const ValueId id, value(operand));
  return in_file_order(id);
}

Result<ValueId> Importer::real_value(size_t operand) {
  DTR_ASSIGN(const ValueId id, value(operand));
  return dequantized(id);
}

Result<ValueId> Importer::dequantized(ValueId id) {
  return type(id).quantized() ? Builder(*this).emit(ops::kDequantize.name, {id}) : id;
}

Result<ValueId> Importer::in_file_order(ValueId id) {
  return type(id).rank() == 4 ? Builder(*this).permute(id, {0, 2, 3, 1}) : id;
}

Result<ValueId> Importer::in_logical_order(ValueId id) {
  return type(id).rank() == 4 ? Builder(*this).permute(id, logical_dims(4)) : id;
}

Result<ValueId> Importer::file_output(ValueId value, size_t index) {
  DTR_ASSIGN(const ValueId logical, in_logical_order(value));
  return as_output(logical, index);
}

Result<ValueId> Importer::aligned(ValueId id, const Shape& of_file) {
  const size_t rank = output().shape.size();
  if (rank == of_file.size() || (rank != 4 && of_file.size() != 4)) return id;
  if (rank != 4 || of_file.size() > 4) return in_file_order(id);
  Shape shape = of_file;
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  return reshape(id, of_file, shape);
}

Result<ValueId> Importer::as_output(ValueId id, size_t index) {
  DTR_ASSIGN(Type wanted, type_of(output(index), {}, -1));
  if (wanted.quantized()) {
    if (type(id).quantized()) {
      if (type(id).quantization->scales == wanted.quantization->scales &&
          type(id).quantization->zero_points == wanted.quantization->zero_points)
        return id;
      Attributes attributes;
      round_once(ops::kRequantize, attributes);
      return Builder(*this).emit(ops::kRequantize.name, {id}, attributes, wanted.quantization);
    }
    if (wanted.quantization->scales.size() != 1)
      return unsupported("its output is quantized per channel");
    return Builder(*this).emit(ops::kQuantize.name, {id}, {}, wanted.quantization);
  }
  DTR_ASSIGN(const ValueId plain, dequantized(id));
  if (type(plain).dtype == wanted.dtype) return plain;
  return Builder(*this).emit(ops::kConvert.name, {plain},
                             {{"dtype", std::string(dtr::name(wanted.dtype))}});
}

// Attributes of PyTorch's arithmetic in the place of those that name TFLite's.
void Importer::round_once(const OpDef& def, Attributes& attributes) const {
  constexpr std::string_view kOnce = "qdq";
  constexpr std::string_view kOfTflite[] = {"fraction_bits", "of_bytes", "one_rounding",
                                            "truncates", "two_roundings"};
  if (arithmetic_ != Arithmetic::kPytorch || output().scales.empty()) return;
  for (const std::string_view name : kOfTflite) attributes.erase(name);
  if (def.schema.attribute(kOnce) != nullptr) attributes.set(kOnce, true);
}

Result<ValueId> Importer::append(const OpDef& def, std::vector<ValueId> operands,
                                 Attributes attributes) {
  round_once(def, attributes);
  OpSpec spec{.def = &def,
              .operands = std::move(operands),
              .attributes = std::move(attributes),
              .origin = origin_,
              .name = output().name};
  if (!output().scales.empty() && output().type != fb::TensorType::FLOAT32) {
    DTR_ASSIGN(Type type, type_of(output(), logical_dims(output().shape.size()), -1));
    if (output().scales.size() != 1) return unsupported("its output is quantized per channel");
    // What only moves data keeps the range of a constant too, which the file does not tell.
    const std::optional<Quantization>& from = rewriter_.graph().type(spec.operands[0]).quantization;
    const bool keeps = (def.has_trait(kMovesData) || def.has_trait(kKeepsQuantization)) && from &&
                       from->scales == type.quantization->scales &&
                       from->zero_points == type.quantization->zero_points;
    if (!keeps) spec.quantization = std::move(type.quantization);
  }
  Result<ValueId> value = rewriter_.append(std::move(spec));
  if (!value) return invalid(std::move(value).error().reason);
  return value;
}

Result<std::vector<ValueId>> Importer::append_several(const OpDef& def,
                                                      std::vector<ValueId> operands,
                                                      Attributes attributes) {
  const Result<OpId> made = rewriter_.insert(OpId{}, {.def = &def,
                                                      .operands = std::move(operands),
                                                      .attributes = std::move(attributes),
                                                      .origin = origin_,
                                                      .name = output().name});
  if (!made) return invalid(made.error().reason);
  return rewriter_.graph().op(*made).results;
}

Importer::Builder::Builder(Importer& importer)
    : GraphBuilder(importer.import_.module, importer.import_.module.forward(), importer.origin_,
                   importer.output().name),
      importer_(importer) {
  result_name_ = importer.output().name + "_moved";
}

Result<ValueId> Importer::Builder::emit(std::string_view op, std::vector<ValueId> operands,
                                        const Attributes& attributes,
                                        const std::optional<Quantization>& quantization) {
  Result<ValueId> value = GraphBuilder::emit(op, std::move(operands), attributes, quantization);
  if (!value) return importer_.invalid(std::move(value).error().reason);
  return value;
}

tl::unexpected<Diagnostic> Importer::Builder::unsupported(std::string reason,
                                                          std::string /*fix*/) const {
  return importer_.unsupported(std::move(reason));
}

Result<ValueId> Importer::append_moving(const OpDef& def, ValueId operand,
                                        const Attributes& attributes) {
  return Builder(*this).emit(def.name, {operand}, attributes);
}

Result<ValueId> Importer::reshape(ValueId value, const Shape& from, const Shape& to) {
  if (from == to) return value;
  if (!order_is_free(from)) {
    DTR_ASSIGN(value, append_moving(ops::kPermute, value, {{"dims", Ints{0, 2, 3, 1}}}));
  }
  if (order_is_free(to)) return append_moving(ops::kView, value, {{"size", logical_shape(to)}});
  DTR_ASSIGN(value, append_moving(ops::kView, value, {{"size", to}}));
  return append_moving(ops::kPermute, value, {{"dims", logical_dims(4)}});
}

Result<std::string> Importer::activation(fb::ActivationFunctionType type) const {
  switch (type) {
    case fb::ActivationFunctionType::NONE:
      return "";
    case fb::ActivationFunctionType::RELU:
      return "relu";
    case fb::ActivationFunctionType::RELU6:
      return "relu6";
    case fb::ActivationFunctionType::RELU_N1_TO_1:
      return "relu_n1_to_1";
    default:
      return unsupported(fmt::format("the fused activation {} is not supported",
                                     fb::EnumNameActivationFunctionType(type)));
  }
}

tl::unexpected<Diagnostic> Importer::invalid(std::string reason) const {
  return fail(DiagnosticId::kTfliteInvalid, fmt::format("{}: {}", op_->name, reason),
              "Convert or download the model again.",
              place(op_->outputs.empty() ? std::string() : output().name));
}

tl::unexpected<Diagnostic> Importer::unsupported(std::string reason, std::string fix) const {
  return fail(DiagnosticId::kTfliteUnsupportedOption, fmt::format("{}: {}", op_->name, reason),
              fix.empty() ? "Change the operator before the export." : std::move(fix),
              place(op_->outputs.empty() ? std::string() : output().name));
}

namespace {

// Leaves the operators and the interface of a subset.
void restrict_to(ModelFile& model, const OperatorSubset& subset) {
  std::vector<OperatorInfo> operators;
  for (const size_t index : subset.operators)
    operators.push_back(std::move(model.operators[index]));
  model.operators = std::move(operators);
  model.inputs = subset.inputs;
  model.outputs = subset.outputs;
}

}  // namespace

Result<Import> parse_tflite(std::span<const std::byte> bytes, const std::string& file,
                            const ReadOptions& options) {
  // The tables of the format are aligned inside the file, so that the file has to be in memory.
  const Tensor aligned =
      Tensor::copy_of(DType::kUint8, {static_cast<int64_t>(bytes.size())}, bytes);
  DTR_ASSIGN(ModelFile model, ModelFile::open(aligned.bytes(), file));
  if (options.subset != nullptr) restrict_to(model, *options.subset);
  const DimensionSizes none;
  return Importer(model, file, false, options.arithmetic,
                  options.sizes == nullptr ? none : *options.sizes)
      .run();
}

namespace {

Result<Import> import_contents(FileContents contents, const std::string& path,
                               const DimensionSizes& sizes) {
  DTR_ASSIGN(ModelFile model, ModelFile::open(contents.bytes(), path));
  DTR_ASSIGN(Import import, Importer(model, path, true, Arithmetic::kTflite, sizes).run());
  import.module.constants.keep(std::move(contents));
  return import;
}

}  // namespace

Result<Import> import_tflite(const std::string& path) {
  DTR_ASSIGN(FileContents contents, FileContents::read(path));
  return import_contents(std::move(contents), path, {});
}

Result<Module> read_tflite(FileContents file, const std::string& path,
                           const DimensionSizes& sizes) {
  DTR_ASSIGN(Import import, import_contents(std::move(file), path, sizes));
  return std::move(import.module);
}

Result<Module> read_tflite(const std::string& path) {
  DTR_ASSIGN(Import import, import_tflite(path));
  return std::move(import.module);
}

}  // namespace dtr::tflite
