#include "test/fuzz/call_maker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "device/runtime/value.h"
#include "test/fuzz/recipe_draws.h"

namespace dtr::fuzz {
namespace {

using runtime::ValueKind;

constexpr int64_t kMostTensorBytes = 4096;
constexpr int64_t kIntegers[] = {0,
                                 1,
                                 -1,
                                 2,
                                 -2,
                                 3,
                                 4,
                                 7,
                                 15,
                                 16,
                                 17,
                                 30,
                                 31,
                                 32,
                                 -31,
                                 -32,
                                 126,
                                 127,
                                 128,
                                 129,
                                 -127,
                                 -128,
                                 -129,
                                 255,
                                 256,
                                 4095,
                                 4096,
                                 32767,
                                 32768,
                                 32769,
                                 65536,
                                 1 << 20,
                                 1 << 23,
                                 (1 << 23) + 1,
                                 1 << 30,
                                 INT32_MAX,
                                 INT32_MIN,
                                 int64_t{INT32_MAX} + 1,
                                 int64_t{INT32_MIN} - 1,
                                 int64_t{1} << 32,
                                 (int64_t{1} << 32) + 1,
                                 int64_t{1} << 61,
                                 int64_t{1} << 62,
                                 6148914691236517206,
                                 INT64_MAX,
                                 INT64_MIN,
                                 INT64_MAX - 1,
                                 INT64_MIN + 1};
constexpr int32_t kExtents[] = {0,       0,       1,       2,       3,        4,       5,
                                8,       16,      17,      255,     256,      1 << 10, 1 << 15,
                                1 << 16, 1 << 20, 1 << 28, 1 << 30, INT32_MAX};
constexpr double kInfinity = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kReals[] = {
    0.0,         -0.0,        1.0,    -1.0,    0.5,       2.0,        127.5,      128,
    -128.5,      255,         256,    1e-12,   1e-38,     1e-40,      1e-45,      5e-324,
    1e-300,      1e300,       -1e300, 3.4e38,  1e10,      -1e10,      2147483647, 2147483648,
    -2147483648, -2147483649, 9.3e18, -9.3e18, kInfinity, -kInfinity, kNan};
constexpr ScalarType kTypes[] = {ScalarType::kByte,  ScalarType::kChar,   ScalarType::kShort,
                                 ScalarType::kInt,   ScalarType::kLong,   ScalarType::kHalf,
                                 ScalarType::kFloat, ScalarType::kDouble, ScalarType::kBool};

// The product of the extents, zeros as ones, times the size of an element, and that of what it
// really takes.
bool keeps_contract(const TensorSpec& tensor) {
  int64_t product = static_cast<int64_t>(byte_size(tensor.dtype)), bytes = product;
  if (tensor.sizes.size() > kMaxRank) return false;
  for (const int32_t size : tensor.sizes) {
    if (size < 0) return false;
    product *= std::max(size, 1);
    bytes = std::min(bytes, int64_t{INT32_MAX}) * size;
    if (product > INT32_MAX) return false;
  }
  return bytes <= kMostTensorBytes;
}

template <class F>
void for_each_tensor(Call& call, F f) {
  for (Argument& argument : call.arguments) {
    if (auto* tensor = std::get_if<TensorSpec>(&argument)) f(*tensor);
    if (auto* list = std::get_if<TensorList>(&argument))
      for (auto& item : *list)
        if (item) f(*item);
  }
}

bool keeps_contract(Call& call) {
  bool good = true;
  size_t tensors = 0;
  for_each_tensor(
      call, [&](const TensorSpec& tensor) { good &= keeps_contract(tensor) && ++tensors <= 16; });
  return good;
}

size_t bytes_of(const TensorSpec& tensor) {
  size_t bytes = byte_size(tensor.dtype);
  for (const int32_t size : tensor.sizes) bytes *= static_cast<size_t>(size);
  return bytes;
}

}  // namespace

uint64_t Draws::bits() {
  seed_ += 0x9E3779B97F4A7C15U;
  uint64_t z = seed_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  z ^= z >> 31;
  if (bytes_.empty()) return z;
  z += bytes_.front();
  bytes_ = bytes_.subspan(1);
  return z;
}

int64_t Draws::between(int64_t low, int64_t high) {
  if (high <= low) return low;
  return low + static_cast<int64_t>(bits() %
                                    (static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1));
}

// ---- breaking

namespace {

void break_tensor(TensorSpec& tensor, size_t tensors, Draws& draws) {
  const size_t rank = tensor.sizes.size();
  switch (draws.below(10)) {
    case 0:
    case 1:
    case 2:
      if (rank == 0) break;
      tensor.sizes[draws.below(rank)] = kExtents[draws.below(std::size(kExtents))];
      break;
    case 3: {
      if (rank == 0) break;
      int32_t& size = tensor.sizes[draws.below(rank)];
      size = static_cast<int32_t>(
          std::min<int64_t>(int64_t{size} + draws.pick({-1, 1, 1, 4}), INT32_MAX));
      break;
    }
    case 4:
      if (rank > 0 && draws.chance(50)) {
        tensor.sizes.pop_back();
      } else {
        tensor.sizes.push_back(draws.pick({1, 1, 2, 0}));
      }
      tensor.order.resize(tensor.sizes.size());
      for (size_t i = 0; i < tensor.order.size(); ++i) tensor.order[i] = static_cast<uint8_t>(i);
      break;
    case 5:
      tensor.dtype = kTypes[draws.below(std::size(kTypes))];
      break;
    case 6:
      for (size_t i = rank; i > 1; --i)
        std::swap(tensor.order[i - 1], tensor.order[draws.below(i)]);
      break;
    case 7:
      tensor.writable = !tensor.writable;
      break;
    case 8:
      tensor.misalignment = static_cast<uint8_t>(draws.below(16));
      tensor.fill = Fill::kBytes;
      break;
    default:
      tensor.inside = draws.below(tensors);
      tensor.delta = draws.chance(60) ? 0 : static_cast<uint32_t>(draws.below(40));
      break;
  }
}

// Memory that tensors share is the plan's: all that lies there may be written.
void mark_shared(Call& call) {
  std::vector<TensorSpec*> tensors;
  for_each_tensor(call, [&](TensorSpec& tensor) { tensors.push_back(&tensor); });
  for (size_t i = tensors.size(); i-- > 0;) {
    TensorSpec& tensor = *tensors[i];
    if (tensor.inside && *tensor.inside >= i) tensor.inside.reset();
    if (tensor.inside) tensor.writable = tensors[*tensor.inside]->writable = true;
  }
}

// Another extent in the place of one, in all tensors and lists.
void replace_extent(Call& call, Draws& draws) {
  std::vector<int64_t> found;
  for_each_tensor(call, [&](const TensorSpec& tensor) {
    found.insert(found.end(), tensor.sizes.begin(), tensor.sizes.end());
  });
  if (found.empty()) return;
  const int64_t from = found[draws.below(found.size())];
  const int32_t to = kExtents[draws.below(std::size(kExtents))];
  for_each_tensor(call, [&](TensorSpec& tensor) {
    std::ranges::replace(tensor.sizes, static_cast<int32_t>(from), to);
  });
  for (Argument& argument : call.arguments) {
    if (auto* list = std::get_if<Numbers>(&argument))
      std::ranges::replace(*list, from, int64_t{to});
    if (auto* number = std::get_if<int64_t>(&argument);
        number != nullptr && *number == from && draws.chance(50))
      *number = to;
  }
}

int64_t next_to(int64_t number, Draws& draws) {
  return static_cast<int64_t>(static_cast<uint64_t>(number) +
                              draws.pick<uint64_t>({1, UINT64_MAX}));
}

void break_numbers(Numbers& numbers, Draws& draws) {
  switch (draws.below(8)) {
    case 0:
      numbers.clear();
      break;
    case 1:
      if (!numbers.empty()) numbers.pop_back();
      break;
    case 2:
      numbers.push_back(draws.between(-2, 3));
      break;
    case 3:
      if (!numbers.empty()) {
        int64_t& number = numbers[draws.below(numbers.size())];
        number = next_to(number, draws);
      }
      break;
    default:
      if (!numbers.empty())
        numbers[draws.below(numbers.size())] = kIntegers[draws.below(std::size(kIntegers))];
      break;
  }
}

}  // namespace

void break_call(Call& call, Draws& draws) {
  if (call.arguments.empty()) return;
  size_t tensors = 0;
  for_each_tensor(call, [&](const TensorSpec&) { ++tensors; });
  if (draws.chance(20)) return replace_extent(call, draws);
  if (draws.chance(3)) return call.arguments.pop_back();
  if (draws.chance(3))
    return std::swap(call.arguments[draws.below(call.arguments.size())],
                     call.arguments[draws.below(call.arguments.size())]);
  Argument& argument = call.arguments[draws.below(call.arguments.size())];
  if (draws.chance(3)) {
    argument = std::monostate();
  } else if (auto* number = std::get_if<int64_t>(&argument)) {
    *number =
        draws.chance(20) ? next_to(*number, draws) : kIntegers[draws.below(std::size(kIntegers))];
  } else if (auto* real = std::get_if<double>(&argument)) {
    *real = kReals[draws.below(std::size(kReals))];
  } else if (auto* flag = std::get_if<bool>(&argument)) {
    *flag = !*flag;
  } else if (auto* numbers = std::get_if<Numbers>(&argument)) {
    break_numbers(*numbers, draws);
  } else if (auto* reals = std::get_if<Reals>(&argument)) {
    if (!reals->empty())
      (*reals)[draws.below(reals->size())] = kReals[draws.below(std::size(kReals))];
  } else if (auto* text = std::get_if<std::string>(&argument)) {
    text->push_back('x');
  } else if (auto* tensor = std::get_if<TensorSpec>(&argument)) {
    break_tensor(*tensor, tensors, draws);
  } else if (auto* list = std::get_if<TensorList>(&argument)) {
    if (list->empty()) return;
    auto& item = (*list)[draws.below(list->size())];
    if (draws.chance(20)) {
      item.reset();
    } else if (draws.chance(20)) {
      list->pop_back();
    } else if (item) {
      break_tensor(*item, tensors, draws);
    }
  }
}

// ---- bytes

namespace {

class Encoder {
 public:
  explicit Encoder(Draws& draws) : draws_(draws) {}

  std::vector<std::byte> encode(const Call& call) {
    Call copy = call;
    for_each_tensor(copy, [&](const TensorSpec& tensor) { tensors_.push_back(tensor); });
    place();
    number(static_cast<uint8_t>(call.kernel.size()));
    add(call.kernel.data(), call.kernel.size());
    number(static_cast<uint8_t>(blocks_.size()));
    for (const Block& block : blocks_) {
      number(block.misalignment);
      number(static_cast<uint32_t>(block.bytes.size()));
      add(block.bytes.data(), block.bytes.size());
    }
    number(static_cast<uint8_t>(call.arguments.size()));
    for (const Argument& argument : call.arguments)
      std::visit([&](const auto& value) { write(value); }, argument);
    return std::move(bytes_);
  }

 private:
  struct Block {
    uint8_t misalignment = 0;
    std::vector<std::byte> bytes;
  };
  struct Where {
    size_t block = 0;
    uint32_t offset = 0;
  };

  // A block for each tensor that does not lie in another one's; a tensor behind the end of its
  // block makes that longer.
  void place() {
    where_.resize(tensors_.size());
    std::vector<size_t> owner(tensors_.size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const TensorSpec& tensor = tensors_[i];
      const auto element = static_cast<uint8_t>(std::max<size_t>(byte_size(tensor.dtype), 1));
      if (tensor.inside && *tensor.inside < i) {
        where_[i] = {where_[*tensor.inside].block, where_[*tensor.inside].offset + tensor.delta};
        Block& block = blocks_[where_[i].block];
        while ((block.misalignment + where_[i].offset) % element != 0) ++where_[i].offset;
        if (block.bytes.size() < where_[i].offset + bytes_of(tensor))
          block.bytes.resize(where_[i].offset + bytes_of(tensor));
        continue;
      }
      where_[i] = {blocks_.size(), 0};
      blocks_.push_back({static_cast<uint8_t>(tensor.misalignment / element * element),
                         std::vector<std::byte>(bytes_of(tensor))});
      fill(tensor, blocks_.back().bytes);
    }
  }

  template <class T, class F>
  static void each(std::vector<std::byte>& bytes, F f) {
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      const T value = f();
      std::memcpy(bytes.data() + at, &value, sizeof value);
    }
  }

  void fill(const TensorSpec& tensor, std::vector<std::byte>& bytes) {
    // One draw a tensor: what is inside seldom matters.
    Draws draws(draws_.bits());
    const bool wild = draws.chance(10);
    const auto real = [&] {
      return wild && draws.chance(20) ? kReals[draws.below(std::size(kReals))]
                                      : static_cast<double>(draws.between(-4000, 4000)) / 1000;
    };
    switch (tensor.fill) {
      case Fill::kFloats:
      case Fill::kPositive:
        if (tensor.dtype == ScalarType::kFloat) {
          each<float>(bytes, [&] {
            return static_cast<float>(
                tensor.fill == Fill::kFloats ? real() : std::fabs(real()) / 100 + 0.001);
          });
        } else if (tensor.dtype == ScalarType::kDouble) {
          each<double>(bytes, [&] {
            return tensor.fill == Fill::kFloats ? real() : std::fabs(real()) / 100 + 0.001;
          });
        }
        break;
      case Fill::kFlags:
        each<uint8_t>(bytes, [&] { return static_cast<uint8_t>(draws.below(2)); });
        break;
      case Fill::kBelow: {
        const auto value = [&] {
          return wild && draws.chance(20)
                     ? kIntegers[draws.below(std::size(kIntegers))]
                     : draws.between(0, std::max<int64_t>(tensor.below - 1, 0));
        };
        if (tensor.dtype == ScalarType::kLong) each<int64_t>(bytes, value);
        if (tensor.dtype == ScalarType::kInt)
          each<int32_t>(bytes, [&] { return static_cast<int32_t>(value()); });
        if (tensor.dtype == ScalarType::kChar)
          each<int8_t>(bytes, [&] { return static_cast<int8_t>(value()); });
        break;
      }
      case Fill::kMultipliers:
        each<int32_t>(bytes, [&] {
          return static_cast<int32_t>(wild ? draws.pick<int64_t>({0, 1, INT32_MAX, 1 << 30})
                                           : draws.between(1 << 30, INT32_MAX));
        });
        break;
      case Fill::kShifts:
        each<int32_t>(bytes, [&] {
          return static_cast<int32_t>(wild ? draws.pick<int64_t>({-31, 30, 29, 0, -1, -30})
                                           : draws.between(-14, 1));
        });
        break;
      case Fill::kBytes:
        each<uint8_t>(bytes, [&] { return static_cast<uint8_t>(draws.bits()); });
        break;
    }
  }

  void add(const void* data, size_t count) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + count);
  }
  template <class T>
  void number(T value) {
    add(&value, sizeof value);
  }
  void kind(ValueKind kind) { number(static_cast<uint8_t>(kind)); }
  template <class T>
  void list(const T& items) {
    number(static_cast<uint16_t>(items.size()));
    add(items.data(), items.size() * sizeof(items[0]));
  }

  void write(std::monostate) { kind(ValueKind::kNone); }
  void write(int64_t value) { kind(ValueKind::kInt), number(value); }
  void write(bool value) { kind(ValueKind::kBool), number(static_cast<uint8_t>(value)); }
  void write(double value) { kind(ValueKind::kDouble), number(value); }
  void write(const std::string& value) { kind(ValueKind::kString), list(value); }
  void write(const Numbers& value) { kind(ValueKind::kInts), list(value); }
  void write(const Reals& value) { kind(ValueKind::kDoubles), list(value); }
  void write(const TensorSpec& tensor) {
    kind(ValueKind::kTensor);
    number(static_cast<int8_t>(tensor.dtype));
    number(static_cast<uint8_t>(tensor.sizes.size()));
    add(tensor.sizes.data(), tensor.sizes.size() * sizeof(int32_t));
    add(tensor.order.data(), tensor.order.size());
    number(static_cast<uint8_t>(tensor.writable));
    number(static_cast<uint8_t>(where_[written_].block));
    number(where_[written_++].offset);
  }
  void write(const TensorList& items) {
    kind(ValueKind::kTensors);
    number(static_cast<uint16_t>(items.size()));
    for (const auto& item : items) {
      if (item) {
        write(*item);
      } else {
        kind(ValueKind::kNone);
      }
    }
  }

  Draws& draws_;
  std::vector<TensorSpec> tensors_;  // of the call, in order
  std::vector<Where> where_;
  std::vector<Block> blocks_;
  size_t written_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace

std::optional<Call> make_call(const std::string& kernel, Draws& draws) {
  static const Recipes all = [] {
    Recipes made;
    add_portable_recipes(made);
    add_place_recipes(made);
    add_cortex_m_recipes(made);
    return made;
  }();
  const auto found = all.find(kernel);
  if (found == all.end()) return std::nullopt;
  return Call{kernel, found->second(RecipeDraws(draws))};
}

bool uses_libm(const std::string& kernel) {
  // Functions of one element that are exact arithmetic; the others of their files call libm.
  constexpr std::string_view kExact[] = {
      "ceil",       "floor",    "hardshrink", "hardsigmoid", "isinf", "isnan",
      "leaky_relu", "neg",      "reciprocal", "round",       "rsqrt", "sign",
      "softshrink", "softsign", "sqrt",       "threshold",   "trunc"};
  const std::string_view file = portable_file(kernel);
  if (file != "unary" && file != "functions")
    return file == "boxes" || file == "distance" || file == "glu" || file == "sigmoid" ||
           file == "softmax" || file == "tanh";
  const size_t begin = kernel.find("::") + 2;
  return std::ranges::find(kExact, std::string_view(kernel).substr(
                                       begin, kernel.find('.') - begin)) == std::end(kExact);
}

DrawnCall draw_call(const std::string& kernel, Draws& draws) {
  auto made = make_call(kernel, draws);
  if (!made || !keeps_contract(*made)) return {};
  DrawnCall drawn;
  for (size_t broken = draws.pick<size_t>({0, 0, 1, 1, 1, 2, 2}); broken > 0; --broken) {
    drawn.valid = false;
    Call call = *made;
    break_call(call, draws);
    if (keeps_contract(call)) made = std::move(call);
  }
  mark_shared(*made);
  for_each_tensor(
      *made, [&](const TensorSpec& tensor) { drawn.shares_memory |= tensor.inside.has_value(); });
  drawn.bytes = Encoder(draws).encode(*made);
  return drawn;
}

}  // namespace dtr::fuzz
