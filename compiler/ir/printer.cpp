#include "compiler/ir/printer.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace dtr {
namespace {

template <class T>
void append_integer(std::string& out, T value) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

template <class Bits>
void append_hex(std::string& out, Bits bits) {
  char buffer[20];
  out.append("0x").append(buffer, std::to_chars(buffer, buffer + sizeof buffer, bits, 16).ptr);
}

template <class T>
void append_float(std::string& out, T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  if (std::isnan(value)) {
    const Bits bits = std::bit_cast<Bits>(value);
    out += "nan";
    if (bits != std::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN()))
      append_hex(out += ':', bits);
  } else if (std::isinf(value)) {
    out += value > 0 ? "inf" : "-inf";
  } else {
    char buffer[32];
    out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  }
}

// A float attribute differs from an int by its point, exponent or letters.
void append_attribute_float(std::string& out, double value) {
  const size_t start = out.size();
  append_float(out, value);
  if (out.find_first_of(".ein", start) == std::string::npos) out += ".0";
}

void append_string(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      ((out += "\\x") += kDigits[byte >> 4]) += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

struct AttributePrinter {
  std::string& out;
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(int64_t value) const { append_integer(out, value); }
  void operator()(double value) const { append_attribute_float(out, value); }
  void operator()(const std::string& value) const { append_string(out, value); }
  void operator()(const Ints& values) const { list(values); }
  void operator()(const Floats& values) const {
    if (values.empty()) out += "floats";
    list(values);
  }
  template <class T>
  void list(const std::vector<T>& values) const {
    out += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      if (i != 0) out += ", ";
      (*this)(values[i]);
    }
    out += ']';
  }
};

void append_quantization(std::string& out, const Type& type, bool derived_bias) {
  const Quantization& quantization = *type.quantization;
  if (derived_bias) {
    out += " quant<bias>";
    return;
  }
  out += " quant<";
  if (quantization.per_channel()) {
    out += "axis=";
    append_integer(out, quantization.axis);
    out += ", ";
  }
  const IntegerRange range = integer_range(type.dtype);
  if (quantization.qmin != range.min || quantization.qmax != range.max) {
    out += "range=";
    append_integer(out, quantization.qmin);
    out += "..";
    append_integer(out, quantization.qmax);
    out += ", ";
  }
  for (size_t i = 0; i < quantization.scales.size(); ++i) {
    if (i != 0) out += ", ";
    append_float(out, quantization.scales[i]);
    if (quantization.zero_points[i] != 0) append_integer(out += ':', quantization.zero_points[i]);
  }
  out += '>';
}

void append_type(std::string& out, const Type& type, bool derived_bias = false) {
  out += name(type.dtype);
  out += '[';
  for (size_t i = 0; i < type.shape.size(); ++i) {
    if (i != 0) out += ',';
    append_integer(out, type.shape[i]);
  }
  out += ']';
  if (type.layout == Layout::kChannelsLast) out += " channels_last";
  if (type.quantization) append_quantization(out, type, derived_bias);
}

template <class T>
void append_element(std::string& out, std::span<const std::byte> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  if constexpr (std::is_floating_point_v<T>)
    append_float(out, value);
  else
    append_integer(out, static_cast<int64_t>(value));
}

void append_element(std::string& out, DType dtype, std::span<const std::byte> bytes, size_t index) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      return append_element<uint8_t>(out, bytes, index);
    case DType::kInt8:
      return append_element<int8_t>(out, bytes, index);
    case DType::kInt16:
      return append_element<int16_t>(out, bytes, index);
    case DType::kInt32:
      return append_element<int32_t>(out, bytes, index);
    case DType::kInt64:
      return append_element<int64_t>(out, bytes, index);
    case DType::kFloat32:
      return append_element<float>(out, bytes, index);
    case DType::kFloat64:
      return append_element<double>(out, bytes, index);
  }
}

class GraphPrinter {
 public:
  GraphPrinter(const Module& module, const Graph& graph, const PrintOptions& options,
               std::string& out)
      : module_(module),
        graph_(graph),
        options_(options),
        out_(out),
        printed_(graph.value_slots()) {}

  void run() {
    out_ += "graph @" + graph_.name + "(";
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      if (i != 0) out_ += ", ";
      if (i < graph_.user_input_count()) {
        append_typed(graph_.inputs()[i], false);
      } else {
        append_state(i - graph_.user_input_count());
      }
    }
    out_ += ") {\n";
    for (const OpId op : graph_.ops()) append_op(graph_.op(op));
    for (const ValueId output : graph_.outputs())
      if (graph_.is_constant(output)) append_constant(output, false);
    out_ += "  return";
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      out_ += i == 0 ? " " : ", ";
      if (i >= graph_.user_output_count()) out_ += "next ";
      append_name(graph_.outputs()[i]);
      if (graph_.output_layout(i) == Layout::kChannelsLast) out_ += " channels_last";
    }
    out_ += "\n}\n";
  }

 private:
  void append_name(ValueId id) {
    if (id.valid())
      (out_ += '%') += graph_.value(id).name;
    else
      out_ += '_';
  }

  void append_typed(ValueId id, bool derived_bias) {
    append_name(id);
    out_ += ": ";
    append_type(out_, graph_.type(id), derived_bias);
  }

  void append_state(size_t index) {
    out_ += "state ";
    append_typed(graph_.state(index), false);
    out_ += " = ";
    append_contents(graph_.type(graph_.state(index)).dtype,
                    module_.constants.bytes(graph_.initial_state(index)),
                    module_.constants.hash(graph_.initial_state(index)));
  }

  // Whether operand `index` of an op is a bias whose quantization the reader can compute from
  // operands 0 and 1.
  bool is_derived_bias(const Op& op, size_t index) const {
    if (index != 2 || !op.operands[0].valid() || !op.operands[1].valid()) return false;
    const Type& bias = graph_.type(op.operands[2]);
    const Type& input = graph_.type(op.operands[0]);
    const Type& weight = graph_.type(op.operands[1]);
    return bias.quantized() && input.quantized() && weight.quantized() && bias.rank() == 1 &&
           *bias.quantization ==
               bias_quantization(*input.quantization, *weight.quantization, bias.shape[0]);
  }

  void append_op(const Op& op) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (graph_.is_constant(op.operands[i]))
        append_constant(op.operands[i], is_derived_bias(op, i));
    out_ += "  ";
    for (size_t i = 0; i < op.results.size(); ++i) {
      if (i != 0) out_ += ", ";
      append_typed(op.results[i], false);
    }
    out_ += " = ";
    out_ += op.def->name;
    out_ += '(';
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (i != 0) out_ += ", ";
      append_name(op.operands[i]);
    }
    out_ += ')';
    append_attributes(op.attributes);
    if (options_.locations && (!op.origin.sources.empty() || op.origin.keeps_float))
      append_location(op.origin);
    out_ += '\n';
  }

  void append_attributes(const Attributes& attributes) {
    if (attributes.empty()) return;
    std::string_view separator = " {";
    for (const auto& [key, value] : attributes) {
      out_ += separator;
      out_ += key;
      out_ += " = ";
      std::visit(AttributePrinter{out_}, value);
      separator = ", ";
    }
    out_ += '}';
  }

  void append_location(const Origin& origin) {
    std::string_view separator = " loc(";
    for (const uint32_t source : origin.sources) {
      out_ += separator;
      append_integer(out_, source);
      separator = ", ";
    }
    if (origin.parts != 1) {
      append_integer(out_ += ", part ", origin.part);
      append_integer(out_ += " of ", origin.parts);
    }
    if (origin.keeps_float) (out_ += origin.sources.empty() ? separator : ", ") += "float";
    out_ += ')';
  }

  void append_constant(ValueId id, bool derived_bias) {
    if (printed_[id.index]) return;
    printed_[id.index] = true;
    out_ += "  ";
    append_typed(id, derived_bias);
    out_ += " = constant ";
    const Value& value = graph_.value(id);
    append_contents(value.type.dtype, module_.constants.bytes(value.constant),
                    module_.constants.hash(value.constant));
    out_ += '\n';
  }

  void append_contents(DType dtype, std::span<const std::byte> bytes, uint64_t hash) {
    const size_t size = byte_size(dtype);
    const size_t count = bytes.size() / size;
    const bool same =
        count > 1 && std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0;
    if (same) {
      append_element(out_ += "splat<", dtype, bytes, 0);
    } else if (count <= options_.inline_elements) {
      out_ += "dense<";
      for (size_t i = 0; i < count; ++i) {
        if (i != 0) out_ += ", ";
        append_element(out_, dtype, bytes, i);
      }
    } else if (options_.elide_constants) {
      append_hex(out_ += "seeded<", hash);
    } else {
      constexpr std::string_view kDigits = "0123456789abcdef";
      out_ += "hex<";
      for (const std::byte byte : bytes)
        (out_ += kDigits[static_cast<size_t>(byte >> 4)]) +=
            kDigits[static_cast<size_t>(byte & std::byte{15})];
    }
    out_ += '>';
  }

  const Module& module_;
  const Graph& graph_;
  const PrintOptions& options_;
  std::string& out_;
  std::vector<bool> printed_;
};

void append_sources(std::string& out, const std::vector<SourceOp>& sources) {
  if (sources.empty()) return;
  out += "sources {\n";
  for (size_t i = 0; i < sources.size(); ++i) {
    append_integer(out += "  ", i);
    out += ':';
    for (const std::string* field :
         {&sources[i].name, &sources[i].target, &sources[i].module_path, &sources[i].source_line})
      append_string(out += ' ', *field);
    for (const std::string& type : sources[i].module_types) append_string(out += ' ', type);
    out += '\n';
  }
  out += "}\n";
}

}  // namespace

std::string print(const Module& module, const PrintOptions& options) {
  std::string out;
  if (options.locations) append_sources(out, module.sources);
  for (const Graph& graph : module.graphs) GraphPrinter(module, graph, options, out).run();
  return out;
}

std::string print(const Module& module, const Graph& graph, const PrintOptions& options) {
  std::string out;
  GraphPrinter(module, graph, options, out).run();
  return out;
}

std::string print(const Type& type) {
  std::string out;
  append_type(out, type);
  return out;
}

std::string print(const AttributeValue& value) {
  std::string out;
  std::visit(AttributePrinter{out}, value);
  return out;
}

}  // namespace dtr
