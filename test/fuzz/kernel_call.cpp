#include "test/fuzz/kernel_call.h"

#include <cstring>

namespace dtr::fuzz {

using runtime::Error;
using runtime::Tensor;
using runtime::Value;
using runtime::ValueKind;

// Takes pieces off the bytes; after one that is not there nothing is good any more.
class KernelCall::Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool good() const { return good_; }
  bool at_end() const { return bytes_.empty(); }

  std::span<const std::byte> take(size_t count) {
    if (count > bytes_.size()) {
      good_ = false;
      return {};
    }
    const std::span<const std::byte> taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  template <class T>
  T number() {
    T value{};
    const std::span<const std::byte> taken = take(sizeof(T));
    if (good_) std::memcpy(&value, taken.data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool good_ = true;
};

bool KernelCall::read(std::span<const std::byte> bytes, Place place, void* context) {
  block_count_ = value_count_ = argument_count_ = listed_count_ = integer_count_ = number_count_ =
      dim_count_ = 0;
  Reader reader(bytes);
  const std::span<const std::byte> name = reader.take(reader.number<uint8_t>());
  name_ = {reinterpret_cast<const char*>(name.data()), name.size()};
  const size_t blocks = reader.number<uint8_t>();
  if (blocks > kMostBlocks) return false;
  for (; block_count_ < blocks; ++block_count_) {
    const size_t misalignment = reader.number<uint8_t>();
    const std::span<const std::byte> contents = reader.take(reader.number<uint32_t>());
    if (!reader.good()) return false;
    std::byte* const data = place(context, contents.size(), misalignment % 16);
    if (data == nullptr) return false;
    if (!contents.empty()) std::memcpy(data, contents.data(), contents.size());
    blocks_[block_count_] = {data, static_cast<uint32_t>(contents.size())};
  }
  const size_t arguments = reader.number<uint8_t>();
  if (arguments > kMostArguments) return false;
  for (; argument_count_ < arguments; ++argument_count_) {
    Value* const value = &values_[value_count_++];
    arguments_[argument_count_] = value;
    if (!read_value(reader, value)) return false;
  }
  return reader.good() && reader.at_end();
}

bool KernelCall::read_value(Reader& reader, Value* value) {
  *value = Value();
  value->kind = static_cast<ValueKind>(reader.number<uint8_t>());
  switch (value->kind) {
    case ValueKind::kNone:
      return reader.good();
    case ValueKind::kInt:
      value->integer = reader.number<int64_t>();
      return reader.good();
    case ValueKind::kBool:
      value->flag = reader.number<uint8_t>() != 0;
      return reader.good();
    case ValueKind::kDouble:
      value->number = reader.number<double>();
      return reader.good();
    case ValueKind::kTensor:
      value->tensor = {};
      return read_tensor(reader, &value->tensor);
    case ValueKind::kString: {
      const std::span<const std::byte> text = reader.take(reader.number<uint16_t>());
      value->string = {reinterpret_cast<const char*>(text.data()),
                       static_cast<uint32_t>(text.size())};
      return reader.good();
    }
    case ValueKind::kInts: {
      const uint32_t count = reader.number<uint16_t>();
      if (count > kMostNumbers - integer_count_) return false;
      value->ints = {integers_ + integer_count_, count};
      for (uint32_t i = 0; i < count; ++i) integers_[integer_count_++] = reader.number<int64_t>();
      return reader.good();
    }
    case ValueKind::kDoubles: {
      const uint32_t count = reader.number<uint16_t>();
      if (count > kMostNumbers - number_count_) return false;
      value->doubles = {numbers_ + number_count_, count};
      for (uint32_t i = 0; i < count; ++i) numbers_[number_count_++] = reader.number<double>();
      return reader.good();
    }
    case ValueKind::kTensors: {
      const uint32_t count = reader.number<uint16_t>();
      if (count > kMostTensors - listed_count_) return false;
      value->tensors = {listed_ + listed_count_, count};
      for (uint32_t i = 0; i < count; ++i) {
        Value*& item = listed_[listed_count_++];
        item = nullptr;
        if (static_cast<ValueKind>(reader.number<uint8_t>()) != ValueKind::kTensor) continue;
        if (value_count_ >= kMostTensors) return false;
        item = &values_[value_count_++];
        item->kind = ValueKind::kTensor;
        item->tensor = {};
        if (!read_tensor(reader, &item->tensor)) return false;
      }
      return reader.good();
    }
    default:
      return false;
  }
}

bool KernelCall::read_tensor(Reader& reader, Tensor* tensor) {
  tensor->dtype = static_cast<ScalarType>(reader.number<int8_t>());
  tensor->rank = reader.number<uint8_t>();
  const size_t rank = tensor->rank;
  if (rank > kMaxRank || rank > kMostDims - dim_count_) return false;
  tensor->sizes = extents_ + dim_count_;
  tensor->dim_order = orders_ + dim_count_;
  for (size_t i = 0; i < rank; ++i) extents_[dim_count_ + i] = reader.number<int32_t>();
  for (size_t i = 0; i < rank; ++i) orders_[dim_count_ + i] = reader.number<uint8_t>();
  dim_count_ += rank;
  tensor->writable = reader.number<uint8_t>() != 0;
  const size_t block = reader.number<uint8_t>(), offset = reader.number<uint32_t>();
  if (!reader.good() || block >= block_count_ || offset > blocks_[block].bytes ||
      tensor->bytes() > blocks_[block].bytes - offset)
    return false;
  tensor->data = blocks_[block].data + offset;
  return true;
}

namespace {

// FNV-1a.
class Hash {
 public:
  void add(uint32_t byte) { value_ = (value_ ^ (byte & 0xFFu)) * 16777619u; }
  void add_word(uint32_t word) {
    for (int i = 0; i < 4; ++i) add(word >> (8 * i));
  }
  uint32_t value() const { return value_; }

 private:
  uint32_t value_ = 2166136261u;
};

void add_tensor(const Tensor& tensor, Hash* hash) {
  if (tensor.dtype == ScalarType::kFloat) {
    for (size_t i = 0; i < tensor.elements(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, tensor.data + 4 * i, 4);
      hash->add_word((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : bits);
    }
  } else {
    for (size_t i = 0; i < tensor.bytes(); ++i) hash->add(static_cast<uint32_t>(tensor.data[i]));
  }
}

}  // namespace

uint32_t KernelCall::result(Error error) const {
  Hash hash;
  hash.add_word(static_cast<uint32_t>(error));
  if (error != Error::kOk) return hash.value();
  const bool scratch = !name_.starts_with("aten::");
  for (size_t i = scratch && argument_count_ > 0 ? argument_count_ - 1 : 0; i < argument_count_;
       ++i) {
    const Value& value = *arguments_[i];
    if (value.kind == ValueKind::kTensor && value.tensor.writable) add_tensor(value.tensor, &hash);
  }
  return hash.value();
}

uint32_t KernelCall::result_of_error(Error error) {
  Hash hash;
  hash.add_word(static_cast<uint32_t>(error));
  return hash.value();
}

}  // namespace dtr::fuzz
