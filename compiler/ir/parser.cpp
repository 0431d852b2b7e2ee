// A recursive-descent parser over characters: the grammar is regular except for lists, so that no
// token stream is needed.
#include "compiler/ir/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "compiler/ir/printer.h"
#include "compiler/ir/rewriter.h"
#include "compiler/ir/scanner.h"
#include "compiler/ir/verifier.h"

namespace dtr {
namespace {

// Contents of all constants of one text together: protects against `splat` and `seeded` of absurd
// shapes.
constexpr int64_t kMaxConstantBytes = int64_t{1} << 28;

// A type as written: `quant<bias>` is known only when the op that takes the constant has been read.
struct WrittenType {
  Type type;
  bool derived_bias = false;
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : scan_(text) { module_.file = file; }

  Result<Module> run() {
    if (scan_.accept("sources")) DTR_TRY(parse_sources());
    do {
      const size_t start = scan_.offset();
      DTR_TRY(scan_.expect("graph"));
      DTR_ASSIGN(Graph graph, parse_graph());
      for (const Graph& other : module_.graphs)
        if (other.name == graph.name)
          return scan_.error_at(start, fmt::format("there is a graph `{}` already", graph.name));
      module_.graphs.push_back(std::move(graph));
    } while (!scan_.at_end());
    return std::move(module_);
  }

 private:
  Result<void> parse_sources() {
    DTR_TRY(scan_.expect("{"));
    while (!scan_.accept("}")) {
      const size_t start = scan_.offset();
      DTR_ASSIGN(const uint32_t index,
                 scan_.integer<uint32_t>("the number of a source operator or `}`"));
      if (index != module_.sources.size())
        return scan_.error_at(start,
                              fmt::format("expected source operator {}", module_.sources.size()));
      DTR_TRY(scan_.expect(":"));
      SourceOp source;
      for (std::string* field :
           {&source.name, &source.target, &source.module_path, &source.source_line}) {
        DTR_ASSIGN(*field, scan_.string("a string (name, target, module path, source line)"));
      }
      while (scan_.peek('"')) {
        DTR_ASSIGN(source.module_types.emplace_back(), scan_.string("a string (type of a module)"));
      }
      module_.sources.push_back(std::move(source));
    }
    return {};
  }

  Result<Graph> parse_graph() {
    Graph graph;
    Rewriter rewriter(graph);
    values_.clear();
    pending_biases_.clear();
    DTR_TRY(scan_.expect("@"));
    DTR_ASSIGN(graph.name, scan_.identifier("the name of the graph"));
    DTR_TRY(scan_.expect("("));
    while (!scan_.peek(')')) {
      const bool is_state = scan_.accept("state");
      const size_t start = scan_.offset();
      if (!is_state && graph.state_count() > 0)
        return scan_.error_at(start, "an input behind a state: states are the last inputs");
      DTR_ASSIGN(const std::string_view name, parse_new_name());
      DTR_ASSIGN(WrittenType written, parse_typed());
      if (written.derived_bias) return scan_.error_at(start, "`quant<bias>` is for constants");
      if (is_state) {
        DTR_TRY(scan_.expect("="));
        DTR_ASSIGN(const ConstantId initial, parse_pooled(written.type, start));
        values_.emplace(name, rewriter.add_state(std::move(written.type), initial, name));
      } else {
        values_.emplace(name, rewriter.add_input(std::move(written.type), name));
      }
      if (!scan_.accept(",")) break;
    }
    DTR_TRY(scan_.expect(")"));
    DTR_TRY(scan_.expect("{"));
    while (!scan_.accept("return")) DTR_TRY(parse_statement(rewriter));
    std::vector<ValueId> outputs;
    std::vector<size_t> channels_last;
    size_t next_states = 0;
    const size_t outputs_at = scan_.offset();
    while (!scan_.peek('}')) {
      if (scan_.accept("next")) {
        ++next_states;
      } else if (next_states > 0) {
        return scan_.error_at(scan_.offset(), "an output behind a `next`: states are the last");
      }
      DTR_ASSIGN(const ValueId output, parse_reference());
      if (scan_.accept("channels_last")) channels_last.push_back(outputs.size());
      outputs.push_back(output);
      if (!scan_.accept(",")) break;
    }
    DTR_TRY(scan_.expect("}"));
    if (next_states != graph.state_count())
      return scan_.error_at(outputs_at, fmt::format("{} states, but {} outputs with `next`",
                                                    graph.state_count(), next_states));
    rewriter.set_outputs(std::move(outputs));
    for (const size_t index : channels_last)
      rewriter.set_output_layout(index, Layout::kChannelsLast);
    if (Result<void> status = verify_states(module_, graph); !status)
      return scan_.error_at(outputs_at, status.error().reason, DiagnosticId::kIrInvalid);
    return graph;
  }

  // `%name` that is not defined yet.
  Result<std::string_view> parse_new_name() {
    const size_t start = scan_.offset();
    DTR_TRY(scan_.expect("%"));
    DTR_ASSIGN(const std::string_view name, scan_.identifier("the name of a value"));
    if (values_.contains(name))
      return scan_.error_at(start, fmt::format("`{}` is defined twice", name));
    return name;
  }

  // `%name` of a value that is there.
  Result<ValueId> parse_reference() {
    const size_t start = scan_.offset();
    DTR_TRY(scan_.expect("%"));
    DTR_ASSIGN(const std::string_view name, scan_.identifier("the name of a value"));
    const auto at = values_.find(name);
    if (at == values_.end()) return scan_.error_at(start, fmt::format("`{}` is not defined", name));
    if (pending_biases_.contains(at->second.index))
      return scan_.error_at(start,
                            fmt::format("`{}` has `quant<bias>`, but is no bias here", name));
    return at->second;
  }

  // ": type" after a name.
  Result<WrittenType> parse_typed() {
    DTR_TRY(scan_.expect(":"));
    const size_t start = scan_.offset();
    WrittenType written;
    DTR_ASSIGN(const std::string_view dtype_name, scan_.identifier("a dtype"));
    const auto dtype = dtype_from_name(dtype_name);
    if (!dtype) return scan_.error_at(start, fmt::format("`{}` is not a dtype", dtype_name));
    written.type.dtype = *dtype;
    DTR_TRY(scan_.expect("["));
    while (!scan_.peek(']')) {
      DTR_ASSIGN(const int64_t extent, scan_.integer<int64_t>("a dimension"));
      written.type.shape.push_back(extent);
      if (!scan_.accept(",")) break;
    }
    DTR_TRY(scan_.expect("]"));
    if (!checked_element_count(written.type.shape))
      return scan_.error_at(start, "impossible shape " + to_string(written.type.shape));
    if (scan_.accept("channels_last")) written.type.layout = Layout::kChannelsLast;
    if (scan_.accept("quant")) DTR_TRY(parse_quantization(written));
    if (Result<void> status = verify_quantization(written.type); !status)
      return scan_.error_at(start, status.error().reason, DiagnosticId::kIrInvalid);
    return written;
  }

  Result<void> parse_quantization(WrittenType& written) {
    DTR_TRY(scan_.expect("<"));
    if (scan_.accept("bias")) {
      written.derived_bias = true;
      return scan_.expect(">");
    }
    const IntegerRange range = integer_range(written.type.dtype);
    Quantization& quantization = written.type.quantization.emplace();
    quantization.qmin = range.min;
    quantization.qmax = range.max;
    if (scan_.accept("axis")) {
      DTR_TRY(scan_.expect("="));
      const size_t start = scan_.offset();
      DTR_ASSIGN(quantization.axis, scan_.integer<int>("an axis"));
      if (quantization.axis < 0) return scan_.error_at(start, "the axis is negative");
      DTR_TRY(scan_.expect(","));
    }
    if (scan_.accept("range")) {
      DTR_TRY(scan_.expect("="));
      DTR_ASSIGN(quantization.qmin, scan_.integer<int32_t>("the smallest quantized value"));
      DTR_TRY(scan_.expect(".."));
      DTR_ASSIGN(quantization.qmax, scan_.integer<int32_t>("the greatest quantized value"));
      DTR_TRY(scan_.expect(","));
    }
    do {
      DTR_ASSIGN(const float scale, scan_.floating<float>("a scale"));
      int32_t zero_point = 0;
      if (scan_.accept(":")) {
        DTR_ASSIGN(zero_point, scan_.integer<int32_t>("a zero point"));
      }
      quantization.scales.push_back(scale);
      quantization.zero_points.push_back(zero_point);
    } while (scan_.accept(","));
    return scan_.expect(">");
  }

  struct NewValue {
    std::string_view name;
    WrittenType written;
    size_t offset;
  };

  Result<void> parse_statement(Rewriter& rewriter) {
    std::vector<NewValue> results;
    do {
      NewValue value{.offset = scan_.offset()};
      if (!scan_.peek('%')) return scan_.expected("`%` or `return`");
      DTR_ASSIGN(value.name, parse_new_name());
      DTR_ASSIGN(value.written, parse_typed());
      results.push_back(std::move(value));
    } while (scan_.accept(","));
    DTR_TRY(scan_.expect("="));
    if (scan_.accept("constant")) {
      if (results.size() != 1) return scan_.error_at(results[1].offset, "a constant is one value");
      return parse_constant(rewriter, results.front());
    }
    for (const NewValue& value : results)
      if (value.written.derived_bias)
        return scan_.error_at(value.offset, "`quant<bias>` is for constants");
    return parse_op(rewriter, results);
  }

  Result<void> parse_op(Rewriter& rewriter, const std::vector<NewValue>& results) {
    const size_t start = scan_.offset();
    DTR_ASSIGN(const std::string_view op_name,
               scan_.identifier("`constant` or the name of an operator"));
    OpSpec spec{.def = find_op(op_name), .name = std::string(results.front().name)};
    if (spec.def == nullptr)
      return scan_.error_at(start, fmt::format("there is no operator `{}`", op_name));
    DTR_TRY(parse_operands(rewriter, spec));
    DTR_TRY(parse_attributes(spec));
    DTR_ASSIGN(spec.origin, parse_location());

    spec.quantization = results.front().written.type.quantization;
    Result<OpId> inserted = rewriter.insert(OpId{}, std::move(spec));
    if (!inserted) return scan_.error_at(start, inserted.error().reason, inserted.error().id);
    const std::vector<ValueId> made = rewriter.graph().op(*inserted).results;
    if (made.size() != results.size())
      return scan_.error_at(
          start, fmt::format("{} has {} results, not {}", op_name, made.size(), results.size()),
          DiagnosticId::kIrInvalid);
    for (size_t i = 0; i < made.size(); ++i) {
      const Type& written = results[i].written.type;
      const Type& inferred = rewriter.graph().type(made[i]);
      if (written.dtype != inferred.dtype || written.shape != inferred.shape)
        return scan_.error_at(results[i].offset,
                              fmt::format("`{}` is written as {}, but {} gives {}", results[i].name,
                                          print(written), op_name, print(inferred)),
                              DiagnosticId::kIrInvalid);
      if (i != 0) rewriter.rename(made[i], results[i].name);
      rewriter.set_layout(made[i], written.layout);
      rewriter.set_quantization(made[i], written.quantization);
      if (!values_.emplace(results[i].name, made[i]).second)
        return scan_.error_at(results[i].offset,
                              fmt::format("`{}` is defined twice", results[i].name));
    }
    if (Result<void> status = verify_op(module_, rewriter.graph(), *inserted); !status)
      return scan_.error_at(start, status.error().reason, DiagnosticId::kIrInvalid);
    return {};
  }

  Result<void> parse_operands(Rewriter& rewriter, OpSpec& spec) {
    DTR_TRY(scan_.expect("("));
    while (!scan_.peek(')')) {
      if (scan_.accept("_")) {
        spec.operands.push_back(ValueId{});
      } else {
        if (spec.operands.size() == 2) DTR_TRY(resolve_bias(rewriter, spec));
        DTR_ASSIGN(const ValueId operand, parse_reference());
        spec.operands.push_back(operand);
      }
      if (!scan_.accept(",")) break;
    }
    return scan_.expect(")");
  }

  // Gives a constant with `quant<bias>` its quantization, if operand 2, which comes next, is one.
  Result<void> resolve_bias(Rewriter& rewriter, const OpSpec& spec) {
    Scanner ahead = scan_;
    if (pending_biases_.empty() || !ahead.accept("%")) return {};
    DTR_ASSIGN(const std::string_view name, ahead.identifier("the name of a value"));
    const auto at = values_.find(name);
    if (at == values_.end() || !pending_biases_.contains(at->second.index)) return {};
    const Graph& graph = rewriter.graph();
    if (!spec.operands[0].valid() || !spec.operands[1].valid() ||
        !graph.type(spec.operands[0]).quantized() || !graph.type(spec.operands[1]).quantized())
      return scan_.error_at(
          scan_.offset(),
          fmt::format("`{}` has `quant<bias>`, but operands 0 and 1 are not quantized", name));
    rewriter.set_quantization(at->second,
                              bias_quantization(*graph.type(spec.operands[0]).quantization,
                                                *graph.type(spec.operands[1]).quantization,
                                                graph.type(at->second).elements()));
    pending_biases_.erase(at->second.index);
    return {};
  }

  Result<void> parse_attributes(OpSpec& spec) {
    if (!scan_.accept("{")) return {};
    while (!scan_.peek('}')) {
      const size_t start = scan_.offset();
      DTR_ASSIGN(const std::string_view key, scan_.identifier("the name of an attribute"));
      if (spec.attributes.find(key) != nullptr)
        return scan_.error_at(start, fmt::format("attribute `{}` is there twice", key));
      DTR_TRY(scan_.expect("="));
      const Param* known = spec.def->schema.attribute(key);
      const bool wants_float = known != nullptr && (known->kind == AttributeKind::kFloat ||
                                                    known->kind == AttributeKind::kFloats);
      DTR_ASSIGN(AttributeValue value, parse_attribute(wants_float));
      spec.attributes.set(key, std::move(value));
      if (!scan_.accept(",")) break;
    }
    return scan_.expect("}");
  }

  // Numbers without a point are ints, unless the operator's attribute is a list of floats.
  Result<AttributeValue> parse_attribute(bool wants_float) {
    if (scan_.accept("true")) return true;
    if (scan_.accept("false")) return false;
    if (scan_.peek('"')) return scan_.string("a string");
    const bool floats = scan_.accept("floats");
    if (scan_.accept("[")) {
      if (floats || wants_float || (!scan_.peek(']') && !scan_.integer_ahead()))
        return parse_list<double>(&Scanner::floating<double>);
      return parse_list<int64_t>(&Scanner::integer<int64_t>);
    }
    if (wants_float || !scan_.integer_ahead()) return scan_.floating<double>("a value");
    return scan_.integer<int64_t>("a value");
  }

  template <class T>
  Result<AttributeValue> parse_list(Result<T> (Scanner::*element)(std::string_view)) {
    std::vector<T> values;
    while (!scan_.peek(']')) {
      DTR_ASSIGN(const T value, (scan_.*element)("a number"));
      values.push_back(value);
      if (!scan_.accept(",")) break;
    }
    DTR_TRY(scan_.expect("]"));
    return values;
  }

  Result<Origin> parse_location() {
    Origin origin;
    if (!scan_.accept("loc")) return origin;
    DTR_TRY(scan_.expect("("));
    do {
      if (scan_.accept("float")) {
        origin.keeps_float = true;
        break;
      }
      if (scan_.accept("part")) {
        DTR_ASSIGN(origin.part, scan_.integer<uint32_t>("the number of the part"));
        DTR_TRY(scan_.expect("of"));
        DTR_ASSIGN(origin.parts, scan_.integer<uint32_t>("the number of parts"));
        continue;
      }
      DTR_ASSIGN(const uint32_t source, scan_.integer<uint32_t>("the number of a source operator"));
      origin.sources.push_back(source);
    } while (scan_.accept(","));
    DTR_TRY(scan_.expect(")"));
    return origin;
  }

  Result<void> parse_constant(Rewriter& rewriter, const NewValue& value) {
    const Type& type = value.written.type;
    if (value.written.derived_bias) {
      if (type.dtype != DType::kInt32 || type.rank() != 1)
        return scan_.error_at(value.offset, "`quant<bias>` is for int32 constants of rank 1");
    }
    DTR_ASSIGN(const ConstantId constant, parse_pooled(type, value.offset));
    const ValueId id = rewriter.add_constant(type, constant, value.name);
    values_.emplace(value.name, id);
    if (value.written.derived_bias) pending_biases_.emplace(id.index, true);
    return {};
  }

  // Contents of a value that begins at `offset`, added to the pool.
  Result<ConstantId> parse_pooled(const Type& type, size_t offset) {
    const int64_t bytes = type.bytes();
    constant_bytes_ += bytes;
    if (bytes > kMaxConstantBytes || constant_bytes_ > kMaxConstantBytes)
      return scan_.error_at(offset,
                            fmt::format("constants of more than {} MiB", kMaxConstantBytes >> 20));
    DTR_ASSIGN(const std::vector<std::byte> contents, parse_contents(type));
    return module_.constants.add(type.dtype, contents);
  }

  Result<std::vector<std::byte>> parse_contents(const Type& type) {
    const auto elements = static_cast<size_t>(type.elements());
    if (scan_.accept("seeded")) {
      DTR_TRY(scan_.expect("<"));
      DTR_ASSIGN(const uint64_t seed, scan_.integer<uint64_t>("a seed"));
      DTR_TRY(scan_.expect(">"));
      return seeded_values(type.dtype, elements, seed);
    }
    std::vector<std::byte> contents(static_cast<size_t>(type.bytes()));
    if (scan_.accept("hex")) {
      DTR_TRY(scan_.expect("<"));
      DTR_TRY(scan_.hex_bytes(contents));
    } else if (scan_.accept("splat")) {
      DTR_TRY(scan_.expect("<"));
      std::byte element[8];
      DTR_TRY(parse_element(type.dtype, element));
      const size_t size = byte_size(type.dtype);
      for (size_t i = 0; i < elements; ++i) std::memcpy(contents.data() + i * size, element, size);
    } else if (scan_.accept("dense")) {
      DTR_TRY(scan_.expect("<"));
      for (size_t i = 0; i < elements; ++i) {
        if (i != 0) DTR_TRY(scan_.expect(","));
        DTR_TRY(parse_element(type.dtype, contents.data() + i * byte_size(type.dtype)));
      }
    } else {
      return scan_.expected("`dense`, `splat`, `hex` or `seeded`");
    }
    DTR_TRY(scan_.expect(">"));
    return contents;
  }

  template <class T>
  Result<void> parse_integer_element(std::byte* to, int64_t limit = std::numeric_limits<T>::max()) {
    const size_t start = scan_.offset();
    DTR_ASSIGN(const int64_t wide, scan_.integer<int64_t>("an integer"));
    if (wide < std::numeric_limits<T>::min() || wide > limit)
      return scan_.error_at(start, fmt::format("{} does not fit the dtype", wide));
    const T value = static_cast<T>(wide);
    std::memcpy(to, &value, sizeof value);
    return {};
  }
  template <class T>
  Result<void> parse_float_element(std::byte* to) {
    DTR_ASSIGN(const T value, scan_.floating<T>("a number"));
    std::memcpy(to, &value, sizeof value);
    return {};
  }
  Result<void> parse_element(DType dtype, std::byte* to) {
    switch (dtype) {
      case DType::kBool:
        return parse_integer_element<uint8_t>(to, 1);
      case DType::kUint8:
        return parse_integer_element<uint8_t>(to);
      case DType::kInt8:
        return parse_integer_element<int8_t>(to);
      case DType::kInt16:
        return parse_integer_element<int16_t>(to);
      case DType::kInt32:
        return parse_integer_element<int32_t>(to);
      case DType::kInt64:
        return parse_integer_element<int64_t>(to);
      case DType::kFloat32:
        return parse_float_element<float>(to);
      case DType::kFloat64:
        return parse_float_element<double>(to);
    }
    return {};
  }

  Scanner scan_;
  Module module_;
  int64_t constant_bytes_ = 0;
  std::unordered_map<std::string_view, ValueId> values_;  // of the graph being read
  std::unordered_map<uint32_t, bool>
      pending_biases_;  // constants whose `quant<bias>` is not known yet
};

}  // namespace

Result<Module> parse_module(std::string_view text, std::string_view file) {
  Result<Module> module = Parser(text, file).run();
  if (!module) module.error().place.file = file;
  return module;
}

}  // namespace dtr
