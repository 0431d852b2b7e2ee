#include "compiler/frontends/tflite/stored_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "compiler/frontends/tflite/importer.h"
#include "compiler/support/half.h"

namespace dtr::tflite {
namespace {

using fb::TensorType;

template <class T>
T element(const TensorInfo& tensor, size_t index) {
  T value;
  std::memcpy(&value, tensor.data.data() + index * sizeof value, sizeof value);
  return value;
}

bool is_half(TensorType type) {
  return type == TensorType::FLOAT16 || type == TensorType::BFLOAT16 || type == TensorType::FLOAT64;
}
bool is_real(TensorType type) { return type == TensorType::FLOAT32 || is_half(type); }
bool quantized(const TensorInfo& tensor) { return !tensor.scales.empty(); }
bool is_recurrent(fb::BuiltinOperator code) {
  return std::ranges::find(recurrent_operators(), code, &OperatorDef::code) !=
         recurrent_operators().end();
}

class Converter {
 public:
  Converter(ModelFile& file, const std::string& name) : file_(file), name_(name) {}

  Result<std::vector<Diagnostic>> run() {
    for (TensorInfo& tensor : file_.tensors) {
      // A float tensor may have the range that a quantizer observed.
      if (is_real(tensor.type)) clear_quantization(tensor);
      DTR_TRY(make_dense(tensor));
      if (tensor.type == TensorType::INT4) DTR_TRY(unpack_nibbles(tensor));
      if (is_half(tensor.type)) DTR_TRY(widen(tensor));
    }
    DTR_TRY(dequantize_recurrent());
    DTR_TRY(has_int16_activations() ? dequantize_all() : dequantize_weights_of_float());
    for (TensorInfo& tensor : file_.tensors)
      if (tensor.type == TensorType::UINT8 && quantized(tensor)) DTR_TRY(shift_bytes(tensor));
    drop_conversions_of_constants();
    return std::move(notes_);
  }

 private:
  static void clear_quantization(TensorInfo& tensor) {
    tensor.scales.clear();
    tensor.zero_points.clear();
  }

  template <class T>
  void store(TensorInfo& tensor, TensorType type, const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    tensor.data = file_.own({bytes.begin(), bytes.end()});
    tensor.converted = true;
    tensor.type = type;
  }

  void note(std::string reason, std::string fix = {}) {
    notes_.push_back({.id = DiagnosticId::kTfliteUnsupportedDtype,
                      .reason = std::move(reason),
                      .fix = std::move(fix),
                      .place = {.file = name_},
                      .severity = Severity::kNote});
  }

  tl::unexpected<Diagnostic> invalid(const TensorInfo& tensor, std::string reason) const {
    return fail(DiagnosticId::kTfliteInvalid, std::move(reason),
                "Convert or download the model again.", {.file = name_, .node = tensor.name});
  }

  // ---- sparse weights

  Result<void> make_dense(TensorInfo& tensor) {
    if (!tensor.sparsity) return {};
    const size_t size = element_size(tensor.type);
    if (size == 0)
      return fail(DiagnosticId::kTfliteUnsupportedDtype,
                  fmt::format("it is sparse {}", fb::EnumNameTensorType(tensor.type)),
                  "Export the model without sparse weights.", {.file = name_, .node = tensor.name});
    const Sparsity sparsity = *std::move(tensor.sparsity);
    tensor.sparsity.reset();
    if (!tensor.constant()) return {};
    std::vector<std::byte> dense(static_cast<size_t>(element_count(tensor.shape)) * size);
    if (!scatter(sparsity, tensor, size, dense))
      return invalid(tensor, "the places of its sparse elements do not fit its shape");
    tensor.data = file_.own(std::move(dense));
    tensor.converted = true;
    return {};
  }

  // Writes the stored elements to their places. The levels of the format are nested loops: a dense
  // level takes every index, a sparse one those of its list from one segment's start to the next.
  static bool scatter(const Sparsity& sparsity, const TensorInfo& tensor, size_t size,
                      std::vector<std::byte>& dense) {
    const size_t rank = tensor.shape.size(), levels = sparsity.levels.size();
    const size_t stored = tensor.data.size() / size;
    size_t taken = 0;
    int64_t steps = 4 * static_cast<int64_t>(dense.size() + tensor.data.size()) + 1024;
    Shape index(levels);
    const auto place = [&]() -> std::optional<size_t> {
      Shape at(rank);
      for (size_t level = 0; level < levels; ++level) {
        const Sparsity::Level& of = sparsity.levels[level];
        at[of.dim] = at[of.dim] * of.block + index[level];
        if (at[of.dim] < 0 || at[of.dim] > INT32_MAX) return std::nullopt;
      }
      int64_t offset = 0;
      for (size_t i = 0; i < rank; ++i) {
        if (at[i] < 0 || at[i] >= tensor.shape[i]) return std::nullopt;
        offset = offset * tensor.shape[i] + at[i];
      }
      return static_cast<size_t>(offset);
    };
    const auto visit = [&](const auto& self, size_t level, int64_t parent) -> bool {
      if (--steps < 0 || parent > INT32_MAX) return false;
      if (level == levels) {
        const auto at = place();
        if (!at || taken == stored) return false;
        std::memcpy(dense.data() + *at * size, tensor.data.data() + taken++ * size, size);
        return true;
      }
      const Sparsity::Level& of = sparsity.levels[level];
      if (!of.sparse) {
        for (int64_t i = 0; i < of.extent; ++i) {
          index[level] = i;
          if (!self(self, level + 1, parent * of.extent + i)) return false;
        }
        return true;
      }
      if (parent + 1 >= static_cast<int64_t>(of.segments.size())) return false;
      const int64_t first = of.segments[static_cast<size_t>(parent)],
                    last = of.segments[static_cast<size_t>(parent) + 1];
      if (first < 0 || last > static_cast<int64_t>(of.indices.size())) return false;
      for (int64_t i = first; i < last; ++i) {
        index[level] = of.indices[static_cast<size_t>(i)];
        if (!self(self, level + 1, i)) return false;
      }
      return true;
    };
    return visit(visit, 0, 0) && taken == stored;
  }

  // ---- elements of other sizes

  // The low four bits come first.
  Result<void> unpack_nibbles(TensorInfo& tensor) {
    if (!tensor.constant())
      return fail(DiagnosticId::kTfliteUnsupportedDtype, "it is INT4 and computed by the model",
                  "Quantize activations to int8.", {.file = name_, .node = tensor.name});
    std::vector<int8_t> values(static_cast<size_t>(element_count(tensor.shape)));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto byte = std::to_integer<uint32_t>(tensor.data[i / 2]);
      const auto nibble = static_cast<int32_t>(i % 2 == 0 ? byte & 15u : byte >> 4);
      values[i] = static_cast<int8_t>(nibble < 8 ? nibble : nibble - 16);
    }
    store(tensor, TensorType::INT8, values);
    return {};
  }

  Result<void> widen(TensorInfo& tensor) {
    const TensorType from = tensor.type;
    tensor.type = TensorType::FLOAT32;
    if (!tensor.constant()) return {};
    std::vector<float> values(static_cast<size_t>(element_count(tensor.shape)));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = from == TensorType::FLOAT16    ? from_half(element<uint16_t>(tensor, i))
                  : from == TensorType::BFLOAT16 ? from_bfloat(element<uint16_t>(tensor, i))
                                                 : static_cast<float>(element<double>(tensor, i));
    store(tensor, TensorType::FLOAT32, values);
    return {};
  }

  // ---- quantizations that stay beside float

  Result<void> dequantize(TensorInfo& tensor) {
    if (tensor.constant()) {
      std::vector<float> values(static_cast<size_t>(element_count(tensor.shape)));
      const int64_t channels = static_cast<int64_t>(tensor.scales.size());
      int64_t run = 1;
      if (channels > 1)
        for (size_t i = static_cast<size_t>(tensor.quantized_dimension) + 1;
             i < tensor.shape.size(); ++i)
          run *= tensor.shape[i];
      for (size_t i = 0; i < values.size(); ++i) {
        const auto c = static_cast<size_t>(static_cast<int64_t>(i) / run % channels);
        DTR_ASSIGN(const int64_t code, integer(tensor, i));
        values[i] = static_cast<float>(static_cast<double>(code - tensor.zero_points[c]) *
                                       static_cast<double>(tensor.scales[c]));
      }
      store(tensor, TensorType::FLOAT32, values);
    }
    tensor.type = TensorType::FLOAT32;
    clear_quantization(tensor);
    return {};
  }

  Result<int64_t> integer(const TensorInfo& tensor, size_t index) const {
    switch (tensor.type) {
      case TensorType::INT8:
        return element<int8_t>(tensor, index);
      case TensorType::UINT8:
        return element<uint8_t>(tensor, index);
      case TensorType::INT16:
        return element<int16_t>(tensor, index);
      case TensorType::INT32:
        return element<int32_t>(tensor, index);
      case TensorType::INT64:
        return element<int64_t>(tensor, index);
      default:
        return fail(DiagnosticId::kTfliteUnsupportedDtype,
                    fmt::format("it is quantized {}", fb::EnumNameTensorType(tensor.type)),
                    "Quantize the model to int8, or not at all.",
                    {.file = name_, .node = tensor.name});
    }
  }

  // Weights and states of recurrent operators between codes. Their integer form keeps states and
  // products in int16; a file has scales of those beside, which no operator reads.
  Result<void> dequantize_recurrent() {
    std::vector<bool> by_others(file_.tensors.size());
    for (const OperatorInfo& op : file_.operators)
      for (const int32_t input : op.inputs)
        if (input >= 0 && !is_recurrent(op.code)) by_others[static_cast<size_t>(input)] = true;
    size_t count = 0;
    for (const OperatorInfo& op : file_.operators) {
      if (!is_recurrent(op.code) || op.outputs.empty() ||
          !quantized(file_.tensors[static_cast<size_t>(op.outputs[0])]))
        continue;
      ++count;
      for (const int32_t input : op.inputs) {
        if (input < 0 || by_others[static_cast<size_t>(input)]) continue;
        TensorInfo& tensor = file_.tensors[static_cast<size_t>(input)];
        if (quantized(tensor) && (tensor.constant() || tensor.is_variable))
          DTR_TRY(dequantize(tensor));
      }
    }
    if (count > 0)
      note(
          fmt::format("{} recurrent operator{} in float between int8 inputs and outputs, where "
                      "TFLite rounds states and products to int16",
                      count, count == 1 ? " computes" : "s compute"));
    return {};
  }

  bool has_int16_activations() const {
    return std::ranges::any_of(file_.operators, [&](const OperatorInfo& op) {
      return has_int16_activation(op.inputs) || has_int16_activation(op.outputs);
    });
  }
  bool has_int16_activation(const std::vector<int32_t>& tensors) const {
    return std::ranges::any_of(tensors, [&](int32_t index) {
      if (index < 0) return false;
      const TensorInfo& tensor = file_.tensors[static_cast<size_t>(index)];
      return tensor.type == TensorType::INT16 && quantized(tensor) && !tensor.constant();
    });
  }

  Result<void> dequantize_all() {
    for (TensorInfo& tensor : file_.tensors)
      if (quantized(tensor)) DTR_TRY(dequantize(tensor));
    note("its activations are int16, which no kernel here computes: it is read as a float model",
         "Calibrate it, so that it is quantized to int8; inputs and outputs are real numbers.");
    return {};
  }

  // Weights that only operators with float results read: dynamic-range and weight-only
  // quantization.
  Result<void> dequantize_weights_of_float() {
    std::vector<bool> by_float(file_.tensors.size()), by_integer(file_.tensors.size());
    for (const OperatorInfo& op : file_.operators) {
      const bool real = !op.outputs.empty() &&
                        is_real(file_.tensors[static_cast<size_t>(op.outputs.front())].type);
      for (const int32_t input : op.inputs)
        if (input >= 0) (real ? by_float : by_integer)[static_cast<size_t>(input)] = true;
    }
    for (const int32_t output : file_.outputs) by_integer[static_cast<size_t>(output)] = true;
    size_t count = 0;
    for (size_t i = 0; i < file_.tensors.size(); ++i) {
      TensorInfo& tensor = file_.tensors[i];
      if (!tensor.constant() || !quantized(tensor) || !by_float[i] || by_integer[i]) continue;
      DTR_TRY(dequantize(tensor));
      ++count;
    }
    if (count > 0)
      note(fmt::format("{} weight{} quantized, and read as float, because the activations are "
                       "float (dynamic-range or weight-only quantization)",
                       count, count == 1 ? " is" : "s are"),
           "Calibrate the model, so that weights and activations are quantized to int8.");
    return {};
  }

  // real = scale · (byte − zero_point) as int8: both less 128.
  Result<void> shift_bytes(TensorInfo& tensor) {
    tensor.was_uint8 = true;
    tensor.type = TensorType::INT8;
    for (int32_t& zero_point : tensor.zero_points) {
      if (zero_point < 0 || zero_point > 255)
        return invalid(tensor, fmt::format("the zero point {} is out of range", zero_point));
      zero_point -= 128;
    }
    if (!tensor.constant()) return {};
    std::vector<std::byte> codes(tensor.data.begin(), tensor.data.end());
    for (std::byte& code : codes) code ^= std::byte{0x80};
    tensor.data = file_.own(std::move(codes));
    tensor.converted = true;
    return {};
  }

  // DEQUANTIZE and DENSIFY of a constant that is in its final form: the result is that constant.
  void drop_conversions_of_constants() {
    std::vector<OperatorInfo> kept;
    for (OperatorInfo& op : file_.operators) {
      const bool converts =
          (op.code == fb::BuiltinOperator::DEQUANTIZE || op.code == fb::BuiltinOperator::DENSIFY) &&
          op.inputs.size() == 1 && op.inputs[0] >= 0 && op.outputs.size() == 1;
      const TensorInfo* from =
          converts ? &file_.tensors[static_cast<size_t>(op.inputs[0])] : nullptr;
      TensorInfo* to = converts ? &file_.tensors[static_cast<size_t>(op.outputs[0])] : nullptr;
      if (!converts || !from->constant() || to->constant() || from->type != to->type ||
          from->shape != to->shape || from->scales != to->scales ||
          from->zero_points != to->zero_points ||
          std::ranges::find(file_.inputs, op.outputs[0]) != file_.inputs.end() ||
          std::ranges::find(file_.outputs, op.outputs[0]) != file_.outputs.end()) {
        kept.push_back(std::move(op));
        continue;
      }
      to->data = from->data;
      to->converted = from->converted;
      to->quantized_dimension = from->quantized_dimension;
    }
    file_.operators = std::move(kept);
  }

  ModelFile& file_;
  const std::string& name_;
  std::vector<Diagnostic> notes_;
};

}  // namespace

Result<std::vector<Diagnostic>> convert_stored_forms(ModelFile& file, const std::string& name) {
  return Converter(file, name).run();
}

}  // namespace dtr::tflite
