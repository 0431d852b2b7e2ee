// A validated .tflite file: every offset and size is in bounds, so that the importer needs no
// further checks.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/frontends/tflite/tflite_generated.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/type.h"
#include "compiler/support/result.h"

namespace dtr::tflite {

inline constexpr size_t kMaxRank = 8;

// Bytes of an element; 0 for types without a fixed size or that Deuteron has no name for.
size_t element_size(fb::TensorType type);

// The places of the elements of a sparse tensor, as nested loops from outermost to innermost. A
// dimension that is divided into blocks has a second level, whose index counts inside of a block of
// `block` elements.
struct Sparsity {
  struct Level {
    size_t dim = 0;
    int64_t block = 1;  // of a level inside of blocks: their extent
    bool sparse = false;
    int64_t extent = 0;  // of a dense level
    std::vector<int64_t> segments = {}, indices = {};
  };
  std::vector<Level> levels;
};

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
  bool converted = false;  // `data` are not bytes of the file
  bool was_uint8 = false;  // codes and zero points are those of the file less 128
  Ints signature = {};     // the shape as exported, −1 where it is open; empty: not said
  std::optional<Sparsity> sparsity = {};

  bool constant() const { return !data.empty(); }
  bool has_open_extent() const { return std::ranges::find(signature, -1) != signature.end(); }
};

struct OperatorInfo {
  fb::BuiltinOperator code = fb::BuiltinOperator::ADD;
  std::string name;             // "CONV_2D"; custom operators: "CUSTOM(name)"
  std::vector<int32_t> inputs;  // tensor indices, −1: absent
  std::vector<int32_t> outputs;
  fb::OptionsType options_type = fb::OptionsType::NONE;
  const uint8_t* options = nullptr;                         // table of that type; nullptr if absent
  fb::Options2Type options2_type = fb::Options2Type::NONE;  // the same of the second union
  const uint8_t* options2 = nullptr;
  std::span<const uint8_t> custom_options = {};
};

// A function of the file under the name that LiteRT's callers know: its inputs and outputs have
// names beside those of the tensors.
struct Signature {
  struct Argument {
    std::string name;
    uint32_t tensor = 0;  // of the subgraph
  };
  std::string key;
  uint32_t subgraph = 0;
  std::vector<Argument> inputs = {}, outputs = {};
};

class ModelFile {
 public:
  // Checks the whole file. `bytes` must outlive the object and be 16-byte aligned. Error:
  // kTfliteInvalid.
  // `subgraph`: the one to read, which must exist.
  static Result<ModelFile> open(std::span<const std::byte> bytes, const std::string& file,
                                uint32_t subgraph = 0);
  std::span<const std::byte> bytes() const { return bytes_; }

  uint32_t version = 0;
  std::string description;
  size_t subgraphs = 0;
  std::vector<Signature> signatures;
  std::span<const std::byte> metadata;  // of TensorFlow Lite (metadata.h), not checked; empty: none
  // The subgraph. Indices in `inputs`, `outputs` and of operators are in range (or −1 for an
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
    return op.options_type == type ? checked_table<Table>(op.options) : nullptr;
  }
  template <class Table>
  const Table* options(const OperatorInfo& op, fb::Options2Type type) const {
    return op.options2_type == type ? checked_table<Table>(op.options2) : nullptr;
  }

  // Keeps bytes of a converted constant as long as the object.
  std::span<const std::byte> own(std::vector<std::byte> bytes) {
    return converted_.emplace_back(std::move(bytes));
  }

 private:
  template <class Table>
  const Table* checked_table(const uint8_t* options) const {
    if (options == nullptr) return nullptr;
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size());
    const auto* table = reinterpret_cast<const Table*>(options);
    return table->Verify(verifier) ? table : nullptr;
  }

  std::span<const std::byte> bytes_;
  std::deque<std::vector<std::byte>> converted_;
};

}  // namespace dtr::tflite
