#include "compiler/ir/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>

#include "compiler/ir/quantized_values.h"

namespace dtr {
namespace {

std::string_view numpy_name(DType dtype) {
  constexpr std::string_view kNames[] = {"bool_", "uint8", "int8",    "int16",
                                         "int32", "int64", "float32", "float64"};
  return kNames[static_cast<size_t>(dtype)];
}

std::string names_of(std::span<const NamedTensor> arrays) {
  std::string text;
  for (const NamedTensor& array : arrays)
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", array.name);
  return text.empty() ? "none" : text;
}

// The array for input `k` of so many; nullptr if there is none. Error: kDataMissingArray, if two
// are and none of them is another input's own (`is_of_another`; null: the first one found is
// taken).
Result<const NamedTensor*> find_array(
    std::span<const NamedTensor> arrays, const std::string& input, size_t k, size_t inputs,
    const std::string& file, const std::function<bool(const std::string&)>& is_of_another = {}) {
  const NamedTensor* found = nullptr;
  for (const std::string& wanted :
       {input, fmt::format("input_{}", k), std::string(k == 0 ? "input" : "")}) {
    const auto array = std::ranges::find(arrays, wanted, &NamedTensor::name);
    if (array == arrays.end() || &*array == found) continue;
    if (!is_of_another) return &*array;
    if (is_of_another(wanted)) continue;
    if (found != nullptr)
      return fail(DiagnosticId::kDataMissingArray,
                  fmt::format("the arrays `{}` and `{}` are both for input `{}`", found->name,
                              array->name, input),
                  "leave one of them out, or name each after the input that it is for",
                  {.file = file});
    found = &*array;
  }
  if (found != nullptr) return found;
  return inputs == 1 && arrays.size() == 1 && file.ends_with(".npy") ? arrays.data() : nullptr;
}

// How many samples of shape `input` an array of shape `array` holds, or -1.
int64_t sample_count(const Shape& array, const Shape& input) {
  if (array == input) return 1;
  const auto tails_equal = [&](size_t skip) {
    return std::equal(array.begin() + 1, array.end(), input.begin() + static_cast<int64_t>(skip),
                      input.end());
  };
  if (array.size() == input.size() + 1 && tails_equal(0)) return array[0];
  if (!input.empty() && input[0] == 1 && array.size() == input.size() && tails_equal(1))
    return array[0];
  if (!input.empty() && input[0] == 1 &&
      std::equal(array.begin(), array.end(), input.begin() + 1, input.end()))
    return 1;
  return -1;
}

// What to do about an array that does not fit. Images whose channels come last fit by a
// transposition alone: a reshape would mix pixels and channels.
std::string fix_shape(const Shape& array, const Shape& input) {
  if (input.size() == 4) {
    const Shape last{input[0], input[2], input[3], input[1]};
    if (sample_count(array, last) >= 0)
      return fmt::format(
          "its channels come last, the program counts N, C, H, W: transpose it with numpy's "
          "array.transpose({}), do not reshape it",
          array.size() == 5   ? "0, 1, 4, 2, 3"
          : array.size() == 4 ? "0, 3, 1, 2"
                              : "2, 0, 1");
  }
  return fmt::format("give it the shape Nx{} for N samples", to_string(input));
}

// Complex numbers are read as two floats in a last dimension: an array that fits but for that one.
bool fits_as_complex(const Tensor& array, const Shape& input) {
  Shape shape = array.shape();
  if (!is_float(array.dtype()) || shape.empty() || shape.back() != 2) return false;
  shape.pop_back();
  return sample_count(shape, input) >= 0;
}

}  // namespace

Result<Samples> Samples::bind(const Graph& graph, std::span<const NamedTensor> arrays,
                              const std::string& file) {
  Samples samples;
  samples.file_ = file;
  const size_t inputs = graph.user_input_count();
  for (size_t k = 0; k < inputs; ++k) {
    const Value& input = graph.value(graph.inputs()[k]);
    const Type& type = input.type;
    const auto is_of_another = [&](const std::string& name) {
      return name != input.name &&
             std::ranges::any_of(std::span(graph.inputs()).first(inputs),
                                 [&](ValueId each) { return graph.value(each).name == name; });
    };
    DTR_ASSIGN(const NamedTensor* array,
               find_array(arrays, input.name, k, inputs, file, is_of_another));
    if (array == nullptr)
      return fail(
          DiagnosticId::kDataMissingArray,
          fmt::format("no array for input `{}`; the file has {}", input.name, names_of(arrays)),
          fmt::format("name the array `{}` or `input_{}`{}", input.name, k,
                      k == 0 ? " or `input`" : ""),
          {.file = file});
    const Place place{.file = file, .node = array->name};
    const Tensor& tensor = array->tensor;
    const int64_t count = sample_count(tensor.shape(), type.shape);
    if (count < 0 && fits_as_complex(tensor, type.shape))
      return fail(DiagnosticId::kDataShape,
                  fmt::format("the array is {}, as one of complex numbers is read; the input `{}` "
                              "is real, {}",
                              to_string(tensor.shape()), input.name, to_string(type.shape)),
                  "give real numbers: of a complex array with numpy array.real or abs(array)",
                  place);
    if (count < 0)
      return fail(DiagnosticId::kDataShape,
                  fmt::format("the array is {}, the input `{}` is {}", to_string(tensor.shape()),
                              input.name, to_string(type.shape)),
                  fix_shape(tensor.shape(), type.shape), place);
    const bool as_codes = tensor.dtype() == DType::kFloat32 && has_real_values(type);
    if (tensor.dtype() != type.dtype && !as_codes)
      return fail(
          DiagnosticId::kDataDtype,
          fmt::format("the array is {}, the input `{}` is {}", name(tensor.dtype()), input.name,
                      name(type.dtype)),
          fmt::format("convert it before saving: array.astype(numpy.{})", numpy_name(type.dtype)),
          place);
    if (count == 0)
      return fail(DiagnosticId::kDataEmpty, "the array holds no sample", "save at least one sample",
                  place);
    if (k > 0 && static_cast<size_t>(count) != samples.count_)
      return fail(DiagnosticId::kDataCount,
                  fmt::format("the array holds {} samples, `{}` holds {}", count,
                              samples.inputs_[0].name, samples.count_),
                  "save the same number of samples for every input", place);
    samples.count_ = static_cast<size_t>(count);
    if (as_codes) samples.owned_.push_back(quantized(tensor.view(), type));
    const Tensor& bound = as_codes ? samples.owned_.back() : tensor;
    samples.inputs_.push_back(
        {.name = array->name, .first = {type.dtype, type.shape, bound.view().data}});
  }
  if (samples.inputs_.empty()) samples.count_ = 1;
  return samples;
}

bool Samples::is_input_array(const Graph& graph, std::string_view array) {
  const auto inputs = std::span(graph.inputs()).first(graph.user_input_count());
  for (size_t k = 0; k < inputs.size(); ++k)
    if (array == graph.value(inputs[k]).name || array == fmt::format("input_{}", k)) return true;
  return array == "input";
}

Result<Samples> Samples::read(const Graph& graph, const std::string& file) {
  DTR_ASSIGN(std::vector<NamedTensor> arrays, read_tensors(file, [&](std::string_view array) {
               return is_input_array(graph, array);
             }));
  DTR_ASSIGN(Samples samples, bind(graph, arrays, file));
  for (NamedTensor& array : arrays)
    samples.owned_.push_back(std::move(array.tensor));  // elements stay where they are
  return samples;
}

Samples Samples::own(const Graph& graph, std::vector<NamedTensor> arrays, size_t count,
                     std::string file) {
  Samples samples;
  samples.file_ = std::move(file);
  samples.count_ = count;
  for (size_t k = 0; k < arrays.size(); ++k) {
    const Type& type = graph.type(graph.inputs()[k]);
    Tensor& tensor = arrays[k].tensor;
    samples.inputs_.push_back(
        {.name = std::move(arrays[k].name), .first = {type.dtype, type.shape, tensor.view().data}});
    samples.owned_.push_back(std::move(tensor));
  }
  return samples;
}

decltype(DimensionSizes::sampled) Samples::shapes_of(std::span<const NamedTensor> arrays,
                                                     std::string file) {
  return [arrays, file = std::move(file)](const std::string& input, size_t index,
                                          size_t inputs) -> Result<std::optional<Shape>> {
    DTR_ASSIGN(const NamedTensor* array, find_array(arrays, input, index, inputs, file));
    if (array == nullptr) return std::optional<Shape>();
    return std::optional(array->tensor.shape());
  };
}

decltype(DimensionSizes::sampled) Samples::shapes_of(std::string file) {
  // Arrays of other names have no elements: only those of inputs need be read.
  return [file = std::move(file)](const std::string& input, size_t index,
                                  size_t inputs) -> Result<std::optional<Shape>> {
    const auto is_wanted = [&](std::string_view array) {
      return array == input || array == fmt::format("input_{}", index) ||
             (index == 0 && array == "input");
    };
    DTR_ASSIGN(const std::vector<NamedTensor> arrays, read_tensors(file, is_wanted));
    DTR_ASSIGN(const NamedTensor* array, find_array(arrays, input, index, inputs, file));
    if (array == nullptr) return std::optional<Shape>();
    return std::optional(array->tensor.shape());
  };
}

Samples Samples::random(const Graph& graph, size_t count, uint64_t seed) {
  Samples samples;
  samples.count_ = count;
  std::mt19937_64 generator(seed);
  // Box-Muller on the generator's own bits: the distributions of the standard library differ
  // between implementations.
  const auto uniform = [&] { return (static_cast<double>(generator() >> 11) + 0.5) * 0x1p-53; };
  for (const ValueId id : std::span(graph.inputs()).first(graph.user_input_count())) {
    const Value& input = graph.value(id);
    Shape shape = input.type.shape;
    shape.insert(shape.begin(), static_cast<int64_t>(count));
    Tensor tensor(input.type.dtype, std::move(shape));
    if (input.type.dtype == DType::kFloat32)
      for (float& x : tensor.values<float>())
        x = static_cast<float>(std::sqrt(-2 * std::log(uniform())) *
                               std::cos(2 * std::numbers::pi * uniform()));
    // Any code is one; integers may be indices, of which only 0 is sure to be in range.
    const bool any_byte = input.type.dtype == DType::kInt8 || input.type.dtype == DType::kUint8;
    if (any_byte || input.type.dtype == DType::kBool)
      for (size_t i = 0; i < tensor.view().bytes(); ++i)
        tensor.view().data[i] = static_cast<std::byte>(generator() >> (any_byte ? 56 : 63));
    samples.inputs_.push_back(
        {.name = input.name, .first = {input.type.dtype, input.type.shape, tensor.view().data}});
    samples.owned_.push_back(std::move(tensor));
  }
  return samples;
}

std::vector<TensorView> Samples::inputs(size_t index) const {
  DTR_CHECK(index < count_);
  std::vector<TensorView> views;
  for (const Input& input : inputs_) {
    TensorView view = input.first;
    view.data += (chosen_.empty() ? index : chosen_[index]) * view.bytes();
    views.push_back(std::move(view));
  }
  return views;
}

Samples Samples::choose(std::vector<size_t> indices) const {
  Samples chosen;
  chosen.file_ = file_;
  chosen.count_ = indices.size();
  chosen.inputs_ = inputs_;
  for (size_t& index : indices) {
    DTR_CHECK(index < count_);
    if (!chosen_.empty()) index = chosen_[index];
  }
  chosen.chosen_ = std::move(indices);
  return chosen;
}

Result<void> Samples::check_finite() const {
  for (size_t sample = 0; sample < count_; ++sample) {
    const std::vector<TensorView> views = inputs(sample);
    for (size_t k = 0; k < views.size(); ++k)
      if (const int64_t at = find_non_finite(views[k]); at >= 0)
        return fail(DiagnosticId::kDataNotFinite,
                    fmt::format("element {} of sample {} is NaN or infinite", at, sample),
                    "remove the sample or repair the data; in a mask of attention, -1e9 excludes "
                    "as -inf does",
                    {.file = file_, .node = inputs_[k].name});
  }
  return {};
}

}  // namespace dtr
