#include "compiler/frontends/pt2/torch_file.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "compiler/ir/type.h"
#include "compiler/support/zip_writer.h"

namespace dtr::pt2 {
namespace {

// Name of the class of storages in the module torch.
std::string_view storage_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "FloatStorage";
    case DType::kFloat64:
      return "DoubleStorage";
    case DType::kInt8:
      return "CharStorage";
    case DType::kUint8:
      return "ByteStorage";
    case DType::kInt16:
      return "ShortStorage";
    case DType::kInt32:
      return "IntStorage";
    case DType::kInt64:
      return "LongStorage";
    case DType::kBool:
      return "BoolStorage";
  }
  DTR_CHECK(false);
}

// Opcodes of Python's pickle, by what they push or do.
class Pickle {
 public:
  Pickle& op(std::string_view code) {
    text_ += code;
    return *this;
  }
  Pickle& string(std::string_view text) { return op("X").little(text.size(), 4).op(text); }
  Pickle& integer(int64_t value) {
    return op("\x8a\x08").little(static_cast<uint64_t>(value), 8);
  }  // LONG1
  Pickle& global(std::string_view module, std::string_view name) {
    return op(fmt::format("c{}\n{}\n", module, name));
  }
  Pickle& integers(const Shape& values) {
    op("(");
    for (const int64_t value : values) integer(value);
    return op("t");
  }
  Pickle& no_hooks() { return global("collections", "OrderedDict").op(")R"); }
  const std::string& text() const { return text_; }

 private:
  Pickle& little(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>((value >> (8 * i)) & 0xff);
    return *this;
  }
  std::string text_;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

std::vector<std::byte> to_torch_file(std::span<const TorchTensor> tensors) {
  constexpr std::string_view kProtocol = "\x80\x02", kEmptyDict = "}", kMark = "(", kTuple = "t",
                             kPersistentId = "Q", kTrue = "\x88", kFalse = "\x89", kCall = "R",
                             kSetItems = "u", kStop = ".";
  ZipWriter writer;
  Pickle pickle;
  pickle.op(kProtocol).op(kEmptyDict).op(kMark);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i].tensor;
    const std::string key = fmt::format("{}", i);
    pickle.string(tensors[i].name);
    if (tensors[i].parameter) pickle.global("torch._utils", "_rebuild_parameter").op(kMark);
    pickle.global("torch._utils", "_rebuild_tensor_v2").op(kMark);
    pickle.op(kMark)
        .string("storage")
        .global("torch", storage_of(tensor.dtype()))
        .string(key)
        .string("cpu");
    pickle.integer(element_count(tensor.shape())).op(kTuple).op(kPersistentId);
    pickle.integer(0)
        .integers(tensor.shape())
        .integers(strides(tensor.shape(), Layout::kContiguous));
    pickle.op(kFalse).no_hooks().op(kTuple).op(kCall);
    if (tensors[i].parameter)
      pickle.op(is_float(tensor.dtype()) ? kTrue : kFalse).no_hooks().op(kTuple).op(kCall);
  }
  pickle.op(kSetItems).op(kStop);
  writer.add("archive/data.pkl", bytes_of(pickle.text()));
  writer.add("archive/byteorder", bytes_of("little"));
  for (size_t i = 0; i < tensors.size(); ++i)
    writer.add(fmt::format("archive/data/{}", i), tensors[i].tensor.bytes());
  writer.add("archive/version", bytes_of("3\n"));
  return writer.finish();
}

}  // namespace dtr::pt2
