#include "compiler/backends/neutron_ir/model_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/constant_pool.h"

namespace dtr::neutron_ir {
namespace {

constexpr uint32_t kSchemaVersion = 3;

}  // namespace

TensorIndex ModelBuilder::add_tensor(const std::string& name, fb::TensorType type,
                                     const Shape& shape,
                                     const std::optional<Quantization>& quantization, int axis) {
  return add(name, type, shape, 0, quantization, axis);
}

TensorIndex ModelBuilder::add_constant(const std::string& name, fb::TensorType type,
                                       const Shape& shape, std::span<const std::byte> data,
                                       const std::optional<Quantization>& quantization, int axis) {
  const uint64_t hash = content_hash(data);
  const auto [first, last] = known_buffers_.equal_range(hash);
  const auto known = std::find_if(first, last, [&](const auto& entry) {
    return std::ranges::equal(buffers_[entry.second], data);
  });
  if (known != last) return add(name, type, shape, known->second, quantization, axis);
  const auto buffer = static_cast<uint32_t>(buffers_.size());
  buffers_.emplace_back(data.begin(), data.end());
  known_buffers_.emplace(hash, buffer);
  return add(name, type, shape, buffer, quantization, axis);
}

TensorIndex ModelBuilder::add(const std::string& name, fb::TensorType type, const Shape& shape,
                              uint32_t buffer, const std::optional<Quantization>& quantization,
                              int axis) {
  flatbuffers::Offset<fb::QuantizationParameters> parameters;
  if (quantization) {
    const std::vector<int64_t> zero_points(quantization->zero_points.begin(),
                                           quantization->zero_points.end());
    const auto scales = builder_.CreateVector(quantization->scales);
    parameters =
        fb::CreateQuantizationParameters(builder_, 0, 0, scales, builder_.CreateVector(zero_points),
                                         0, 0, quantization->per_channel() ? axis : 0);
  }
  const int taken = names_[name]++;
  const std::string unique = taken == 0 ? name : fmt::format("{};{}", name, taken);
  const auto sizes = builder_.CreateVector(std::vector<int32_t>(shape.begin(), shape.end()));
  tensors_.push_back(
      fb::CreateTensor(builder_, sizes, type, buffer, builder_.CreateString(unique), parameters));
  return static_cast<TensorIndex>(tensors_.size() - 1);
}

void ModelBuilder::add_operator(fb::BuiltinOperator code, int version,
                                const std::vector<TensorIndex>& inputs,
                                const std::vector<TensorIndex>& outputs, Options options) {
  const auto [at, is_new] =
      known_codes_.emplace(std::pair(code, version), static_cast<uint32_t>(codes_.size()));
  if (is_new) {
    constexpr int kLastDeprecated = 127;
    const auto deprecated = static_cast<int8_t>(std::min(static_cast<int>(code), kLastDeprecated));
    codes_.push_back(fb::CreateOperatorCode(builder_, deprecated, 0, version, code));
  }
  const auto input_vector = builder_.CreateVector(inputs);
  const auto output_vector = builder_.CreateVector(outputs);
  operators_.push_back(fb::CreateOperator(builder_, at->second, input_vector, output_vector,
                                          options.type, options.table));
}

std::vector<std::byte> ModelBuilder::finish(const std::vector<TensorIndex>& inputs,
                                            const std::vector<TensorIndex>& outputs,
                                            const std::string& description) {
  const auto tensors = builder_.CreateVector(tensors_);
  const auto input_vector = builder_.CreateVector(inputs);
  const auto output_vector = builder_.CreateVector(outputs);
  const auto operators = builder_.CreateVector(operators_);
  const auto graph = fb::CreateSubGraph(builder_, tensors, input_vector, output_vector, operators,
                                        builder_.CreateString("main"));
  std::vector<flatbuffers::Offset<fb::Buffer>> buffers;
  for (const std::vector<std::byte>& data : buffers_) {
    flatbuffers::Offset<flatbuffers::Vector<uint8_t>> bytes;
    if (!data.empty()) {
      builder_.ForceVectorAlignment(data.size(), 1, 16);
      bytes = builder_.CreateVector(reinterpret_cast<const uint8_t*>(data.data()), data.size());
    }
    buffers.push_back(fb::CreateBuffer(builder_, bytes));
  }
  const auto codes = builder_.CreateVector(codes_);
  const auto graphs = builder_.CreateVector(&graph, 1);
  const auto text = builder_.CreateString(description);
  fb::FinishModelBuffer(builder_, fb::CreateModel(builder_, kSchemaVersion, codes, graphs, text,
                                                  builder_.CreateVector(buffers)));
  const auto* data = reinterpret_cast<const std::byte*>(builder_.GetBufferPointer());
  return {data, data + builder_.GetSize()};
}

}  // namespace dtr::neutron_ir
