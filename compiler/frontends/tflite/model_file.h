// A validated .tflite file: every offset and size is in bounds, so that the importer needs no
// further checks.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/frontends/tflite/tflite_generated.h"
#include "compiler/ir/type.h"
#include "compiler/support/result.h"

namespace dtr::tflite {

inline constexpr size_t kMaxRank = 8;

// One tensor of the file, in the file's order of dimensions.
struct TensorInfo {
  std::string name;
  fb::TensorType type = fb::TensorType::FLOAT32;
  Shape shape;
  std::span<const std::byte> data;  // of a constant; empty: none
  std::vector<float> scales;        // empty: not quantized
  std::vector<int32_t> zero_points;
  int quantized_dimension = 0;
  bool is_variable = false;

  bool constant() const { return !data.empty(); }
};

struct OperatorInfo {
  fb::BuiltinOperator code = fb::BuiltinOperator::ADD;
  std::string name;             // "CONV_2D"; custom operators: "CUSTOM(name)"
  std::vector<int32_t> inputs;  // tensor indices, −1: absent
  std::vector<int32_t> outputs;
  fb::OptionsType options_type = fb::OptionsType::NONE;
  const uint8_t* options = nullptr;  // table of that type; nullptr if absent
};

class ModelFile {
 public:
  // Checks the whole file. `bytes` must outlive the object and be 16-byte aligned. Error:
  // kTfliteInvalid.
  static Result<ModelFile> open(std::span<const std::byte> bytes, const std::string& file);

  uint32_t version = 0;
  std::string description;
  size_t subgraphs = 0;
  // The first subgraph. Indices in `inputs`, `outputs` and of operators are in range (or −1 for an
  // absent optional operand).
  std::string name;
  std::vector<TensorInfo> tensors;
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;
  std::vector<OperatorInfo> operators;

  // The options of an operator, with the format's defaults for absent fields; nullptr if they are
  // missing or of another type. `Table` is Conv2DOptions, … and `type` its number in the union.
  template <class Table>
  const Table* options(const OperatorInfo& op, fb::OptionsType type) const {
    if (op.options == nullptr || op.options_type != type) return nullptr;
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size());
    const auto* table = reinterpret_cast<const Table*>(op.options);
    return table->Verify(verifier) ? table : nullptr;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace dtr::tflite
