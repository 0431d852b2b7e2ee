// The file as messages, and its tensors as the compiler has them.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "compiler/frontends/onnx/onnx.h"
#include "compiler/frontends/onnx/onnx.pb.h"
#include "compiler/ir/tensor.h"

namespace dtr::onnx {

inline constexpr size_t kMaxRank = 8;

// Numbers of element types in the format.
enum ElementType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kUint4 = 21,
  kInt4 = 22
};
std::string name_of_type(int32_t type);  // "FLOAT16"
// The dtype in which elements of a type are held: other floats as float32, unsigned integers of
// more than eight bits in the next wider signed one, four bits in eight. std::nullopt: none.
std::optional<DType> dtype_of(int32_t type);

// Unsigned integers of more than eight bits.
inline bool is_wide_unsigned(int32_t type) {
  return type == kUint16 || type == kUint32 || type == kUint64;
}

// Parses the file. Error: kOnnxInvalid.
Result<pb::ModelProto> parse(std::span<const std::byte> bytes, const std::string& path);

// Reads tensors, and the files of external data that they name.
class TensorReader {
 public:
  explicit TensorReader(std::string path) : path_(std::move(path)) {}

  // The elements in the dtype of dtype_of. Errors: kOnnxInvalid for elements that do not fill the
  // shape, kOnnxUnsupportedDtype, kOnnxExternalData.
  Result<Tensor> read(const pb::TensorProto& tensor);
  // The same of a sparse tensor, made dense.
  Result<Tensor> read(const pb::SparseTensorProto& tensor);

  // The shape alone. Error: kOnnxInvalid for extents that no tensor has.
  Result<Shape> shape_of(const pb::TensorProto& tensor) const;

 private:
  Result<std::span<const std::byte>> external(const pb::TensorProto& tensor);
  tl::unexpected<Diagnostic> invalid(const std::string& tensor, std::string reason) const;

  std::string path_;
  std::map<std::string, FileContents> files_;  // by location
};

}  // namespace dtr::onnx
