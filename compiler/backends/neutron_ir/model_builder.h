// Builds a TensorFlow Lite model: tensors, constants and operators in order, then the bytes of the
// file.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/frontends/tflite/tflite_generated.h"
#include "compiler/ir/type.h"

namespace dtr::neutron_ir {

namespace fb = tflite::fb;
using TensorIndex = int32_t;
inline constexpr TensorIndex kAbsent = -1;

// The options of an operator: its number in the format's union and the table.
struct Options {
  fb::OptionsType type = fb::OptionsType::NONE;
  flatbuffers::Offset<fb::AnyOptions> table = {};
};

class ModelBuilder {
 public:
  // Adds a tensor; `shape` is in the file's order. A number is appended to a name that exists.
  TensorIndex add_tensor(const std::string& name, fb::TensorType type, const Shape& shape,
                         const std::optional<Quantization>& quantization = {}, int axis = 0);
  // Adds a tensor with data; equal data are stored once.
  TensorIndex add_constant(const std::string& name, fb::TensorType type, const Shape& shape,
                           std::span<const std::byte> data,
                           const std::optional<Quantization>& quantization = {}, int axis = 0);

  void add_operator(fb::BuiltinOperator code, int version, const std::vector<TensorIndex>& inputs,
                    const std::vector<TensorIndex>& outputs, Options options = {});
  size_t operators() const { return operators_.size(); }

  template <class Table>
  static Options as_options(fb::OptionsType type, flatbuffers::Offset<Table> table) {
    return {type, table.o};
  }
  flatbuffers::FlatBufferBuilder& tables() { return builder_; }

  std::vector<std::byte> finish(const std::vector<TensorIndex>& inputs,
                                const std::vector<TensorIndex>& outputs,
                                const std::string& description);

 private:
  TensorIndex add(const std::string& name, fb::TensorType type, const Shape& shape, uint32_t buffer,
                  const std::optional<Quantization>& quantization, int axis);

  flatbuffers::FlatBufferBuilder builder_;
  std::vector<flatbuffers::Offset<fb::Tensor>> tensors_;
  std::vector<std::vector<std::byte>> buffers_{{}};  // the first one is empty
  std::multimap<uint64_t, uint32_t> known_buffers_;  // by hash
  std::map<std::string, int> names_;
  std::vector<flatbuffers::Offset<fb::OperatorCode>> codes_;
  std::map<std::pair<fb::BuiltinOperator, int>, uint32_t> known_codes_;
  std::vector<flatbuffers::Offset<fb::Operator>> operators_;
};

}  // namespace dtr::neutron_ir
