#include "compiler/frontends/tflite/model_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace dtr::tflite {
size_t element_size(fb::TensorType type) {
  switch (type) {
    case fb::TensorType::BOOL:
    case fb::TensorType::INT8:
    case fb::TensorType::UINT8:
      return 1;
    case fb::TensorType::FLOAT16:
    case fb::TensorType::INT16:
    case fb::TensorType::UINT16:
    case fb::TensorType::BFLOAT16:
      return 2;
    case fb::TensorType::FLOAT32:
    case fb::TensorType::INT32:
    case fb::TensorType::UINT32:
      return 4;
    case fb::TensorType::FLOAT64:
    case fb::TensorType::INT64:
    case fb::TensorType::UINT64:
    case fb::TensorType::COMPLEX64:
      return 8;
    default:
      return 0;
  }
}

namespace {

struct ModelReader {
  const fb::Model& model;
  const std::string& file;
  // Bytes that may still be copied out of the file. Tables of a flatbuffer may refer to the same
  // data any number of times; without a limit a small file could ask for absurd memory.
  size_t budget;
  size_t dense_budget;  // bytes that sparse tensors may become
  std::span<const std::byte> bytes;

  Result<void> spend(size_t count) {
    if (count > budget) return invalid("the same data are referred to absurdly often");
    budget -= count;
    return {};
  }
  Result<void> spend_dense(size_t count) {
    if (count > dense_budget) return invalid("its sparse tensors are absurdly large");
    dense_budget -= count;
    return {};
  }

  tl::unexpected<Diagnostic> invalid(std::string reason, std::string node = {}) const {
    return fail(DiagnosticId::kTfliteInvalid, std::move(reason),
                "Convert or download the model again.", {.file = file, .node = std::move(node)});
  }

  Result<std::span<const std::byte>> buffer(uint32_t index, const std::string& tensor) const {
    const auto* buffers = model.buffers();
    if (index == 0 && buffers == nullptr) return std::span<const std::byte>{};
    if (buffers == nullptr || index >= buffers->size())
      return invalid(fmt::format("buffer {} does not exist, the file has {}", index,
                                 buffers == nullptr ? 0 : buffers->size()),
                     tensor);
    const fb::Buffer& buffer = *buffers->Get(index);
    if (buffer.data() == nullptr) {
      if (buffer.offset() > 1 || buffer.size() > 1)
        return invalid("its data lie outside the flatbuffer, which is not supported", tensor);
      return std::span<const std::byte>{};
    }
    return std::as_bytes(std::span(buffer.data()->data(), buffer.data()->size()));
  }

  Result<void> quantization(const fb::QuantizationParameters* from, TensorInfo& tensor) {
    if (from == nullptr || from->scale() == nullptr || from->scale()->size() == 0) return {};
    const size_t count = from->scale()->size();
    DTR_TRY(spend(count * sizeof(float)));
    const auto* zero_points = from->zero_point();
    if (zero_points != nullptr && zero_points->size() != 0 && zero_points->size() != count)
      return invalid(fmt::format("{} scales and {} zero points", count, zero_points->size()),
                     tensor.name);
    tensor.quantized_dimension = from->quantized_dimension();
    if (count > 1) {
      const int axis = tensor.quantized_dimension;
      if (axis < 0 || static_cast<size_t>(axis) >= tensor.shape.size() ||
          tensor.shape[static_cast<size_t>(axis)] != static_cast<int64_t>(count))
        return invalid(fmt::format("{} scales along dimension {} of the shape {}", count, axis,
                                   to_string(tensor.shape)),
                       tensor.name);
    }
    for (uint32_t i = 0; i < count; ++i) {
      const float scale = from->scale()->Get(i);
      int64_t zero_point = 0;
      // The verifier aligns vectors to their length field only.
      if (zero_points != nullptr && zero_points->size() != 0)
        std::memcpy(&zero_point, zero_points->Data() + i * sizeof zero_point, sizeof zero_point);
      if (!(scale > 0) || !std::isfinite(scale))
        return invalid(fmt::format("the scale {} is not a positive number", scale), tensor.name);
      if (zero_point < INT32_MIN || zero_point > INT32_MAX)
        return invalid(fmt::format("the zero point {} is out of range", zero_point), tensor.name);
      tensor.scales.push_back(scale);
      tensor.zero_points.push_back(static_cast<int32_t>(zero_point));
    }
    return {};
  }

  Result<std::vector<int64_t>> sparse_indices(fb::IndicesType type, const fb::AnyOptions* table,
                                              const TensorInfo& tensor) {
    std::vector<int64_t> result;
    const auto read = [&]<class Table>(const Table* vector) {
      flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      if (vector == nullptr || !vector->Verify(verifier) || vector->values() == nullptr)
        return false;
      result.assign(vector->values()->begin(), vector->values()->end());
      return true;
    };
    const bool read_one = type == fb::IndicesType::Int32Vector
                              ? read(reinterpret_cast<const fb::Int32Vector*>(table))
                          : type == fb::IndicesType::Uint16Vector
                              ? read(reinterpret_cast<const fb::Uint16Vector*>(table))
                              : type == fb::IndicesType::Uint8Vector &&
                                    read(reinterpret_cast<const fb::Uint8Vector*>(table));
    if (!read_one) return invalid("the indices of its sparse elements are missing", tensor.name);
    DTR_TRY(spend(result.size() * sizeof(int64_t)));
    return result;
  }

  Result<Sparsity> sparsity(const fb::SparsityParameters& from, const TensorInfo& tensor) {
    const auto bad = [&] {
      return invalid("the description of its sparse elements is damaged", tensor.name);
    };
    const size_t rank = tensor.shape.size();
    const auto *order = from.traversal_order(), *blocks = from.block_map();
    const auto* levels = from.dim_metadata();
    const size_t block_count = blocks == nullptr ? 0 : blocks->size();
    if (order == nullptr || levels == nullptr || order->size() != rank + block_count ||
        levels->size() != order->size() || block_count > rank)
      return bad();
    Sparsity result;
    for (uint32_t i = 0; i < order->size(); ++i) {
      const fb::DimensionMetadata& level = *levels->Get(i);
      const int32_t at = order->Get(i);
      if (at < 0 || static_cast<size_t>(at) >= order->size()) return bad();
      const bool inside = static_cast<size_t>(at) >= rank;
      const int32_t dim =
          inside ? blocks->Get(static_cast<uint32_t>(static_cast<size_t>(at) - rank)) : at;
      if (dim < 0 || static_cast<size_t>(dim) >= rank) return bad();
      Sparsity::Level made{.dim = static_cast<size_t>(dim),
                           .sparse = level.format() == fb::DimensionType::SPARSE_CSR,
                           .extent = level.dense_size()};
      if (inside) made.block = level.dense_size();
      if (made.extent < 0 || made.block < 1 || (inside && made.sparse)) return bad();
      if (made.sparse) {
        DTR_ASSIGN(made.segments,
                   sparse_indices(level.array_segments_type(), level.array_segments(), tensor));
        DTR_ASSIGN(made.indices,
                   sparse_indices(level.array_indices_type(), level.array_indices(), tensor));
      }
      result.levels.push_back(std::move(made));
    }
    return result;
  }

  Result<TensorInfo> tensor(const fb::Tensor& from, size_t index) {
    TensorInfo tensor{.name = from.name() == nullptr || from.name()->size() == 0
                                  ? fmt::format("tensor_{}", index)
                                  : from.name()->str(),
                      .type = from.type(),
                      .is_variable = from.is_variable()};
    DTR_TRY(spend(tensor.name.size()));
    if (from.shape() != nullptr && from.shape()->size() > kMaxRank)
      return invalid(fmt::format("it has {} dimensions", from.shape()->size()), tensor.name);
    if (from.shape() != nullptr) tensor.shape.assign(from.shape()->begin(), from.shape()->end());
    if (from.shape_signature() != nullptr && from.shape_signature()->size() == tensor.shape.size())
      tensor.signature.assign(from.shape_signature()->begin(), from.shape_signature()->end());
    const auto elements = checked_element_count(tensor.shape);
    if (!elements || *elements > INT32_MAX)
      return invalid(fmt::format("the shape {} is impossible", to_string(tensor.shape)),
                     tensor.name);
    DTR_ASSIGN(tensor.data, buffer(from.buffer(), tensor.name));
    DTR_TRY(spend(tensor.data.size()));
    const size_t size = element_size(from.type());
    const auto count = static_cast<size_t>(*elements);
    if (from.sparsity() != nullptr && tensor.constant()) {
      DTR_TRY(spend_dense(count * size));
      DTR_ASSIGN(tensor.sparsity, sparsity(*from.sparsity(), tensor));
    } else if (const size_t needed =
                   from.type() == fb::TensorType::INT4 ? (count + 1) / 2 : count * size;
               tensor.constant() && needed != 0 && tensor.data.size() != needed) {
      return invalid(fmt::format("it has {} bytes of data, its shape {} needs {}",
                                 tensor.data.size(), to_string(tensor.shape), needed),
                     tensor.name);
    }
    DTR_TRY(quantization(from.quantization(), tensor));
    return tensor;
  }

  Result<std::vector<int32_t>> indices(const flatbuffers::Vector<int32_t>* from, size_t tensors,
                                       bool may_be_absent, const std::string& of) {
    std::vector<int32_t> result;
    if (from != nullptr) DTR_TRY(spend(from->size() * sizeof(int32_t)));
    if (from != nullptr) result.assign(from->begin(), from->end());
    for (const int32_t index : result)
      if (index < (may_be_absent ? -1 : 0) || index >= static_cast<int64_t>(tensors))
        return invalid(fmt::format("it refers to tensor {}, the file has {}", index, tensors), of);
    return result;
  }

  Result<std::vector<Signature::Argument>> arguments(
      const flatbuffers::Vector<flatbuffers::Offset<fb::TensorMap>>* from, size_t tensors,
      const std::string& key) {
    std::vector<Signature::Argument> result;
    for (uint32_t i = 0; from != nullptr && i < from->size(); ++i) {
      const fb::TensorMap& each = *from->Get(i);
      if (each.tensor_index() >= tensors)
        return invalid(fmt::format("it refers to tensor {}, its subgraph has {}",
                                   each.tensor_index(), tensors),
                       key);
      result.push_back(
          {each.name() == nullptr ? std::string() : each.name()->str(), each.tensor_index()});
      DTR_TRY(spend(sizeof(Signature::Argument) + result.back().name.size()));
    }
    return result;
  }

  Result<std::vector<Signature>> signatures() {
    std::vector<Signature> result;
    const auto* from = model.signature_defs();
    for (uint32_t i = 0; from != nullptr && i < from->size(); ++i) {
      const fb::SignatureDef& each = *from->Get(i);
      Signature made{
          .key = each.signature_key() == nullptr ? std::string() : each.signature_key()->str(),
          .subgraph = each.subgraph_index()};
      DTR_TRY(spend(sizeof(Signature) + made.key.size()));
      if (made.subgraph >= model.subgraphs()->size())
        return invalid(fmt::format("the signature is of subgraph {}, the file has {}",
                                   made.subgraph, model.subgraphs()->size()),
                       made.key);
      const auto* tensors = model.subgraphs()->Get(made.subgraph)->tensors();
      const size_t count = tensors == nullptr ? 0 : tensors->size();
      DTR_ASSIGN(made.inputs, arguments(each.inputs(), count, made.key));
      DTR_ASSIGN(made.outputs, arguments(each.outputs(), count, made.key));
      result.push_back(std::move(made));
    }
    return result;
  }

  Result<std::span<const std::byte>> metadata() const {
    const auto* from = model.metadata();
    for (uint32_t i = 0; from != nullptr && i < from->size(); ++i)
      if (const fb::Metadata& each = *from->Get(i);
          each.name() != nullptr && each.name()->string_view() == "TFLITE_METADATA")
        return buffer(each.buffer(), "TFLITE_METADATA");
    return std::span<const std::byte>{};
  }

  Result<OperatorInfo> op(const fb::Operator& from, size_t index, size_t tensors) {
    const auto* codes = model.operator_codes();
    const std::string of = fmt::format("operator {}", index);
    if (codes == nullptr || from.opcode_index() >= codes->size())
      return invalid(fmt::format("operator code {} does not exist", from.opcode_index()), of);
    const fb::OperatorCode& code = *codes->Get(from.opcode_index());
    OperatorInfo op;
    const auto deprecated = static_cast<fb::BuiltinOperator>(code.deprecated_builtin_code());
    op.code = std::max(code.builtin_code(), deprecated);
    op.name = fb::EnumNameBuiltinOperator(op.code);
    if (op.name.empty()) op.name = fmt::format("BUILTIN_{}", static_cast<int>(op.code));
    if (op.code == fb::BuiltinOperator::CUSTOM)
      op.name = fmt::format("CUSTOM({})",
                            code.custom_code() == nullptr ? "" : code.custom_code()->string_view());
    DTR_ASSIGN(op.inputs, indices(from.inputs(), tensors, true, of));
    DTR_ASSIGN(op.outputs, indices(from.outputs(), tensors, false, of));
    op.options_type = from.builtin_options_type();
    op.options = reinterpret_cast<const uint8_t*>(from.builtin_options());
    op.options2_type = from.builtin_options_2_type();
    op.options2 = reinterpret_cast<const uint8_t*>(from.builtin_options_2());
    if (from.custom_options() != nullptr)
      op.custom_options = {from.custom_options()->data(), from.custom_options()->size()};
    return op;
  }
};

}  // namespace

Result<ModelFile> ModelFile::open(std::span<const std::byte> bytes, const std::string& file,
                                  uint32_t subgraph) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const auto damaged = [&](std::string reason) {
    return fail(DiagnosticId::kTfliteInvalid, std::move(reason),
                "Convert or download the model again.", {.file = file});
  };
  if (bytes.size() < 8 || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE ||
      !fb::ModelBufferHasIdentifier(data))
    return damaged("it is not a TensorFlow Lite model (no identifier TFL3)");
  flatbuffers::Verifier verifier(data, bytes.size());
  if (!fb::VerifyModelBuffer(verifier)) return damaged("the flatbuffer is truncated or damaged");
  const fb::Model& model = *fb::GetModel(data);
  ModelReader reader{model, file, 16 * bytes.size() + (size_t{1} << 20),
                     256 * bytes.size() + (size_t{1} << 20), bytes};
  if (model.version() != 3)
    return damaged(fmt::format("it has version {} of the format, expected 3", model.version()));
  if (model.subgraphs() == nullptr || model.subgraphs()->size() <= subgraph)
    return damaged("it has no subgraph");

  ModelFile result;
  result.bytes_ = bytes;
  result.version = model.version();
  if (model.description() != nullptr) result.description = model.description()->str();
  result.subgraphs = model.subgraphs()->size();
  DTR_ASSIGN(result.signatures, reader.signatures());
  DTR_ASSIGN(result.metadata, reader.metadata());
  const fb::SubGraph& graph = *model.subgraphs()->Get(subgraph);
  if (graph.name() != nullptr) result.name = graph.name()->str();
  const size_t tensors = graph.tensors() == nullptr ? 0 : graph.tensors()->size();
  for (uint32_t i = 0; i < tensors; ++i) {
    DTR_ASSIGN(TensorInfo tensor, reader.tensor(*graph.tensors()->Get(i), i));
    result.tensors.push_back(std::move(tensor));
  }
  DTR_ASSIGN(result.inputs, reader.indices(graph.inputs(), tensors, false, "inputs"));
  DTR_ASSIGN(result.outputs, reader.indices(graph.outputs(), tensors, false, "outputs"));
  for (uint32_t i = 0; graph.operators() != nullptr && i < graph.operators()->size(); ++i) {
    DTR_ASSIGN(OperatorInfo op, reader.op(*graph.operators()->Get(i), i, tensors));
    result.operators.push_back(std::move(op));
  }
  return result;
}

}  // namespace dtr::tflite
