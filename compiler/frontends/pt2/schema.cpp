#include "compiler/frontends/pt2/schema.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace dtr::pt2 {

namespace dom = simdjson::dom;

struct JsonText::Parser {
  dom::parser parser;
};
JsonText::JsonText() : parser_(std::make_unique<Parser>()) {}
JsonText::~JsonText() = default;
JsonText::JsonText(JsonText&&) noexcept = default;
JsonText& JsonText::operator=(JsonText&&) noexcept = default;

namespace {

constexpr int64_t kMajor = 8;

struct ScalarTypeInfo {
  int number;
  std::string_view name;
  std::optional<DType> dtype;
};
constexpr std::array kScalarTypes{ScalarTypeInfo{1, "uint8", DType::kUint8},
                                  ScalarTypeInfo{2, "int8", DType::kInt8},
                                  ScalarTypeInfo{3, "int16", DType::kInt16},
                                  ScalarTypeInfo{4, "int32", DType::kInt32},
                                  ScalarTypeInfo{5, "int64", DType::kInt64},
                                  ScalarTypeInfo{kHalfType, "float16", DType::kFloat32},
                                  ScalarTypeInfo{7, "float32", DType::kFloat32},
                                  ScalarTypeInfo{8, "float64", DType::kFloat64},
                                  ScalarTypeInfo{kHalfComplexType, "complex32", std::nullopt},
                                  ScalarTypeInfo{kComplexType, "complex64", std::nullopt},
                                  ScalarTypeInfo{kDoubleComplexType, "complex128", std::nullopt},
                                  ScalarTypeInfo{12, "bool", DType::kBool},
                                  ScalarTypeInfo{kBfloatType, "bfloat16", DType::kFloat32},
                                  ScalarTypeInfo{28, "uint16", std::nullopt},
                                  ScalarTypeInfo{29, "float8_e4m3fn", std::nullopt},
                                  ScalarTypeInfo{30, "float8_e5m2", std::nullopt},
                                  ScalarTypeInfo{31, "float8_e4m3fnuz", std::nullopt},
                                  ScalarTypeInfo{32, "float8_e5m2fnuz", std::nullopt},
                                  ScalarTypeInfo{33, "float8_e8m0fnu", std::nullopt},
                                  ScalarTypeInfo{34, "uint32", std::nullopt},
                                  ScalarTypeInfo{35, "uint64", std::nullopt}};

const ScalarTypeInfo* find_scalar_type(int number) {
  for (const ScalarTypeInfo& entry : kScalarTypes)
    if (entry.number == number) return &entry;
  return nullptr;
}

// Reads fields of the document. A field that is missing or of another kind is remembered; the
// caller asks once at the end, so that reading code stays plain.
class Reader {
 public:
  explicit Reader(const Place& place) : place_(place) {}

  // Sizes of symbols, and the subgraphs that were read.
  std::map<std::string_view, Number> symbols = {};
  std::vector<ExportedGraph> subgraphs = {};
  // Symbolic numbers of the graph that is read, by name: symbols, expressions, flags.
  std::unordered_map<std::string_view, Number> numbers = {};
  std::unordered_map<std::string_view, Number> known = {};  // of KnownNumbers

  std::optional<Number> value_of(std::string_view expression) const {
    if (symbols.empty()) return std::nullopt;
    return evaluate(expression, [&](std::string_view name) -> std::optional<Number> {
      const auto at = symbols.find(name);
      return at == symbols.end() ? std::optional<Number>() : at->second;
    });
  }

  Result<void> status() const {
    if (problem_.empty()) return {};
    return fail(DiagnosticId::kPt2Invalid, problem_,
                "export the model again with torch.export.save", place_);
  }
  void malformed(std::string what) {
    if (problem_.empty()) problem_ = std::move(what);
  }

  dom::element field(dom::element of, std::string_view key) {
    dom::element value;
    if (!good()) return value;  // `of` may be unset
    if (of.at_key(key).get(value) != simdjson::SUCCESS)
      malformed(fmt::format("field `{}` is missing", key));
    return value;
  }
  static std::optional<dom::element> optional(dom::element of, std::string_view key) {
    dom::element value;
    if (of.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
    return value;
  }
  std::string_view string(dom::element value, std::string_view what) {
    return take<std::string_view>(value, what, "a string");
  }
  int64_t integer(dom::element value, std::string_view what) {
    return take<int64_t>(value, what, "an integer");
  }
  bool boolean(dom::element value, std::string_view what) {
    return take<bool>(value, what, "a bool");
  }
  // Empty, not unset, where the value is none: callers may iterate before they ask for the status.
  dom::array array(dom::element value, std::string_view what) {
    const dom::array list = take<dom::array>(value, what, "a list");
    return good() ? list : empty<dom::array>("[]");
  }
  dom::object object(dom::element value, std::string_view what) {
    const dom::object fields = take<dom::object>(value, what, "an object");
    return good() ? fields : empty<dom::object>("{}");
  }
  std::string_view string_field(dom::element of, std::string_view key) {
    return string(field(of, key), key);
  }
  // A small number (an enumerator); anything beyond int reads as −1.
  int small_field(dom::element of, std::string_view key) {
    const int64_t value = integer(field(of, key), key);
    return value < 0 || value > 10000 ? -1 : static_cast<int>(value);
  }
  // JSON has no infinities: torch writes them as strings.
  double number(dom::element value, std::string_view what) {
    std::string_view text;
    if (value.get(text) == simdjson::SUCCESS) {
      if (text == "Infinity") return std::numeric_limits<double>::infinity();
      if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
      if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    }
    return take<double>(value, what, "a number");
  }
  // The one entry of a tagged union: {"as_int": 3}.
  std::pair<std::string_view, dom::element> tagged(dom::element value, std::string_view what) {
    const dom::object fields = object(value, what);
    if (!problem_.empty()) return {};
    // Of several entries each reader would take another one.
    if (fields.size() != 1) {
      malformed(fields.size() == 0 ? fmt::format("`{}` is empty", what)
                                   : fmt::format("`{}` has several kinds", what));
      return {};
    }
    const dom::key_value_pair entry = *fields.begin();
    return {entry.key, entry.value};
  }
  bool good() const { return problem_.empty(); }

 private:
  template <class T>
  static T empty(std::string_view text) {
    thread_local dom::parser parser;
    T result{};
    DTR_CHECK(parser.parse(text.data(), text.size()).get(result) == simdjson::SUCCESS);
    return result;
  }

  template <class T>
  T take(dom::element value, std::string_view what, std::string_view expected) {
    T result{};
    if (!good()) return result;  // `value` may be unset
    if (value.get(result) != simdjson::SUCCESS)
      malformed(fmt::format("`{}` is not {}", what, expected));
    return result;
  }

  const Place& place_;
  std::string problem_;
};

// {"as_int": 3} or {"as_expr": {"expr_str": "s0", …}}.
int64_t read_size(Reader& in, dom::element value, TensorMeta& meta) {
  const auto [tag, content] = in.tagged(value, "size");
  if (!in.good()) return 0;
  if (tag == "as_int") return in.integer(content, "as_int");
  if (tag == "as_expr") {
    std::string_view expression = in.string_field(content, "expr_str");
    const std::optional<int64_t> known = as_integer(in.value_of(expression));
    if (known && *known >= 0) return *known;
    constexpr std::string_view kSymbol =
        "Symbol('";  // Symbol('s6', positive=True, …): a plain symbol
    if (expression.starts_with(kSymbol)) {
      expression.remove_prefix(kSymbol.size());
      expression = expression.substr(0, expression.find('\''));
    }
    if (meta.symbol.empty()) meta.symbol = expression.empty() ? "?" : expression;
    return 1;
  }
  in.malformed(fmt::format("size of the unknown kind `{}`", tag));
  return 0;
}

std::vector<int64_t> read_sizes(Reader& in, dom::element value, std::string_view what,
                                TensorMeta& meta) {
  std::vector<int64_t> sizes;
  const dom::array list = in.array(value, what);
  if (!in.good()) return sizes;
  for (const dom::element entry : list) sizes.push_back(read_size(in, entry, meta));
  return sizes;
}

TensorMeta read_meta(Reader& in, dom::element value) {
  TensorMeta meta;
  meta.scalar_type = in.small_field(value, "dtype");
  if (!in.good()) return meta;
  meta.sizes = read_sizes(in, in.field(value, "sizes"), "sizes", meta);
  if (!in.good()) return meta;
  meta.strides = read_sizes(in, in.field(value, "strides"), "strides", meta);
  if (!in.good()) return meta;
  const dom::element offset = in.field(value, "storage_offset");
  if (!in.good()) return meta;
  TensorMeta of_offset;  // where a value begins in memory says nothing about its size
  meta.storage_offset = read_size(in, offset, of_offset);
  meta.layout = in.small_field(value, "layout");
  if (!in.good()) return meta;
  if (meta.sizes.size() != meta.strides.size() || meta.sizes.size() > 64 ||
      !checked_element_count(meta.sizes))
    in.malformed(fmt::format("impossible shape {}", to_string(meta.sizes)));
  return meta;
}

TensorName read_tensor_name(Reader& in, dom::element value) {
  return {in.string_field(value, "name")};
}

template <class Result, class Read>
Result read_list(Reader& in, dom::element value, std::string_view what, Read read) {
  Result result;
  const dom::array list = in.array(value, what);
  if (!in.good()) return result;
  for (const dom::element entry : list) {
    result.push_back(read(entry));
    if (!in.good()) break;
  }
  return result;
}

using ArgumentReader = Argument (*)(Reader&, dom::element);

Argument read_optional_tensor(Reader& in, dom::element value) {
  const auto [tag, content] = in.tagged(value, "optional tensor");
  if (!in.good() || tag != "as_tensor") return {};
  return read_tensor_name(in, content);
}

Argument read_subgraph(Reader& in, dom::element value);

constexpr std::pair<std::string_view, ArgumentReader> kArgumentReaders[] = {
    {"as_tensor", [](Reader& in, dom::element v) -> Argument { return read_tensor_name(in, v); }},
    {"as_int", [](Reader& in, dom::element v) -> Argument { return in.integer(v, "as_int"); }},
    {"as_ints",
     [](Reader& in, dom::element v) -> Argument {
       return read_list<Ints>(in, v, "as_ints",
                              [&](dom::element e) { return in.integer(e, "as_ints"); });
     }},
    {"as_float", [](Reader& in, dom::element v) -> Argument { return in.number(v, "as_float"); }},
    {"as_bool", [](Reader& in, dom::element v) -> Argument { return in.boolean(v, "as_bool"); }},
    {"as_complex",
     [](Reader& in, dom::element v) -> Argument {
       const dom::element real = in.field(v, "real"), imaginary = in.field(v, "imag");
       if (!in.good()) return {};
       return std::complex(in.number(real, "real"), in.number(imaginary, "imag"));
     }},
    {"as_none", [](Reader&, dom::element) -> Argument { return std::monostate{}; }},
    {"as_scalar_type",
     [](Reader& in, dom::element v) -> Argument {
       return ScalarType{
           static_cast<int>(std::clamp<int64_t>(in.integer(v, "as_scalar_type"), -1, 1000))};
     }},
    {"as_tensors",
     [](Reader& in, dom::element v) -> Argument {
       return read_list<std::vector<TensorName>>(
           in, v, "as_tensors", [&](dom::element e) { return read_tensor_name(in, e); });
     }},
    {"as_floats",
     [](Reader& in, dom::element v) -> Argument {
       return read_list<Floats>(in, v, "as_floats",
                                [&](dom::element e) { return in.number(e, "as_floats"); });
     }},
    {"as_string", [](Reader& in, dom::element v) -> Argument { return in.string(v, "as_string"); }},
    {"as_optional_tensor", read_optional_tensor},
    {"as_optional_tensors",
     [](Reader& in, dom::element v) -> Argument {
       return read_list<std::vector<TensorName>>(in, v, "as_optional_tensors", [&](dom::element e) {
         const Argument entry = read_optional_tensor(in, e);
         const auto* named = std::get_if<TensorName>(&entry);
         return named == nullptr ? TensorName{} : *named;
       });
     }},
    {"as_memory_format",
     [](Reader& in, dom::element v) -> Argument {
       return MemoryFormat{
           static_cast<int>(std::clamp<int64_t>(in.integer(v, "as_memory_format"), -1, 1000))};
     }},
    {"as_graph", read_subgraph},
};

// as_sym_int, as_sym_ints, …: a name is symbolic, a plain number is not.
Argument read_symbolic(Reader& in, std::string_view tag, dom::element value) {
  if (tag == "as_sym_ints") {
    Ints ints;
    const dom::array list = in.array(value, tag);
    if (!in.good()) return {};
    for (const dom::element entry : list) {
      const auto [kind, content] = in.tagged(entry, tag);
      if (!in.good()) return {};
      if (kind == "as_name") {
        const std::string_view name = in.string(content, kind);
        const auto at = in.numbers.find(name);
        const auto size = at == in.numbers.end() ? std::nullopt : as_integer(at->second);
        if (!size) return Symbolic{name};
        ints.push_back(*size);
      } else {
        ints.push_back(in.integer(content, kind));
      }
    }
    return ints;
  }
  dom::object fields;
  if (value.get(fields) != simdjson::SUCCESS) return Symbolic{tag};
  const auto [kind, content] = in.tagged(value, tag);
  if (!in.good()) return {};
  if (kind == "as_int") return in.integer(content, kind);
  if (kind == "as_float") return in.number(content, kind);
  if (kind == "as_bool") return in.boolean(content, kind);
  const std::string_view name = in.string(content, kind);
  const auto at = in.numbers.find(name);
  if (at == in.numbers.end()) return Symbolic{name};
  if (tag == "as_sym_float") return as_double(at->second);
  if (tag == "as_sym_bool") return as_double(at->second) != 0;
  if (const auto size = as_integer(at->second)) return *size;
  return Symbolic{name};
}

Argument read_argument(Reader& in, dom::element value) {
  const auto [tag, content] = in.tagged(value, "argument");
  if (!in.good()) return {};
  for (const auto& [name, read] : kArgumentReaders)
    if (tag == name) return read(in, content);
  if (tag.starts_with("as_sym_")) return read_symbolic(in, tag, content);
  return OtherArgument{tag};
}

Node read_node(Reader& in, dom::element value) {
  Node node;
  node.target = in.string_field(value, "target");
  if (!in.good()) return node;
  const dom::array inputs = in.array(in.field(value, "inputs"), "inputs");
  if (!in.good()) return node;
  for (const dom::element entry : inputs) {
    const std::string_view name = in.string_field(entry, "name");
    if (!in.good()) return node;
    const dom::element arg = in.field(entry, "arg");
    if (!in.good()) return node;
    node.inputs.emplace_back(name, read_argument(in, arg));
  }
  const dom::array outputs = in.array(in.field(value, "outputs"), "outputs");
  if (!in.good()) return node;
  for (const dom::element entry : outputs) {
    const Argument output = read_argument(in, entry);
    if (const auto* one = std::get_if<TensorName>(&output)) {
      node.outputs.push_back(one->name);
    } else if (const auto* many = std::get_if<std::vector<TensorName>>(&output)) {
      for (const TensorName& each : *many) node.outputs.push_back(each.name);
    } else {
      node.outputs.emplace_back();
    }
  }
  // Its first result is the token that orders it behind other operators with effects.
  if (node.target == "torch.ops.higher_order.with_effects" && !node.outputs.empty())
    node.outputs.front() = {};
  if (const auto name = Reader::optional(value, "name")) node.name = in.string(*name, "name");
  if (node.name.empty() && !node.outputs.empty()) node.name = node.outputs.front();
  if (node.name.empty()) node.name = node.target;
  if (const auto metadata = Reader::optional(value, "metadata")) {
    if (const auto trace = Reader::optional(*metadata, "stack_trace"))
      node.stack_trace = in.string(*trace, "stack_trace");
    if (const auto stack = Reader::optional(*metadata, "nn_module_stack"))
      node.module_stack = in.string(*stack, "nn_module_stack");
  }
  return node;
}

// Name of the tensor in {"arg": {"name": …}} or {"arg": {"as_tensor": {"name": …}}}; empty if it is
// no tensor.
std::string_view read_spec_name(Reader& in, dom::element spec) {
  const dom::element arg = in.field(spec, "arg");
  if (!in.good()) return {};
  if (const auto name = Reader::optional(arg, "name")) return in.string(*name, "name");
  if (const auto tensor = Reader::optional(arg, "as_tensor"))
    return in.string_field(*tensor, "name");
  return {};
}

InputSpec read_input_spec(Reader& in, dom::element value) {
  const auto [kind, spec] = in.tagged(value, "input spec");
  if (!in.good()) return {};
  struct Known {
    std::string_view kind;
    InputKind as;
    std::string_view target;
  };
  constexpr Known kKnown[] = {
      {"user_input", InputKind::kUser, ""},
      {"parameter", InputKind::kParameter, "parameter_name"},
      {"buffer", InputKind::kBuffer, "buffer_name"},
      {"tensor_constant", InputKind::kTensorConstant, "tensor_constant_name"}};
  InputSpec result{.kind = InputKind::kOther, .name = {}, .target = {}, .description = kind};
  for (const Known& known : kKnown) {
    if (kind != known.kind) continue;
    result.kind = known.as;
    result.name = read_spec_name(in, spec);
    if (in.good() && !known.target.empty()) result.target = in.string_field(spec, known.target);
    if (in.good() && result.name.empty()) result.kind = InputKind::kOther;
  }
  return result;
}

OutputSpec read_output_spec(Reader& in, dom::element value) {
  const auto [kind, spec] = in.tagged(value, "output spec");
  if (!in.good()) return {};
  OutputSpec result{.kind = kind, .name = read_spec_name(in, spec), .target = {}};
  for (const std::string_view key : {"buffer_name", "parameter_name", "user_input_name"})
    if (const auto target = Reader::optional(spec, key)) result.target = in.string(*target, key);
  return result;
}

Result<dom::element> parse_json(JsonText& text, std::string_view json, const Place& place) {
  dom::element document;
  const auto error = text.parser().parser.parse(json.data(), json.size(), true).get(document);
  if (error == simdjson::MEMALLOC)
    return tl::unexpected(out_of_memory("the graph of the model", place));
  if (error != simdjson::SUCCESS)
    return fail(DiagnosticId::kPt2Invalid,
                fmt::format("not valid JSON: {}", simdjson::error_message(error)),
                "export the model again with torch.export.save", place);
  return document;
}

Number read_number(Reader& in, std::string_view kind, dom::element value) {
  if (kind == "as_int") return in.integer(value, kind);
  if (kind == "as_bool") return int64_t{in.boolean(value, kind)};
  return in.number(value, kind);
}

// Binds the symbols that stand for known numbers: {"item": {"as_expr": {"expr_str":
// "Symbol('u0', integer=True)"}}}.
void bind_numbers(Reader& in, dom::element module, const KnownNumbers& numbers) {
  for (const auto& [name, number] : numbers)
    if (name.size() > 1 && name[0] == 'u' &&
        std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; }))
      in.symbols.emplace(name, number);
  const auto graph = Reader::optional(module, "graph");
  if (!graph) return;
  for (const std::string_view key : {"sym_int_values", "sym_float_values"}) {
    const auto values = Reader::optional(*graph, key);
    if (!values) continue;
    for (const dom::key_value_pair entry : in.object(*values, key)) {
      const auto known = numbers.find(entry.key);
      const auto expression = Reader::optional(entry.value, "as_expr");
      if (known == numbers.end() || !expression) continue;
      std::string_view text = in.string_field(*expression, "expr_str");
      constexpr std::string_view kSymbol = "Symbol('";
      if (!in.good() || !text.starts_with(kSymbol)) continue;
      text.remove_prefix(kSymbol.size());
      in.symbols.emplace(text.substr(0, text.find('\'')), known->second);
    }
  }
}

// sym_int_values and the like: {"mul_1": {"as_expr": {"expr_str": …}}}.
void read_numbers(Reader& in, dom::element graph) {
  for (const std::string_view key : {"sym_int_values", "sym_float_values", "sym_bool_values"}) {
    const auto numbers = Reader::optional(graph, key);
    if (!numbers) continue;
    for (const dom::key_value_pair entry : in.object(*numbers, key)) {
      // What the export decided on, and asserts.
      for (const std::string_view known : {"as_int", "as_float", "as_bool"})
        if (const auto value = Reader::optional(entry.value, known))
          in.numbers.emplace(entry.key, read_number(in, known, *value));
      const auto expression = Reader::optional(entry.value, "as_expr");
      if (!expression) continue;
      const std::string_view text = in.string_field(*expression, "expr_str");
      if (!in.good()) return;
      if (const auto number = in.value_of(text)) in.numbers.emplace(entry.key, *number);
    }
  }
}

// x[:, i] with an integer tensor i of one element: the export takes its number with .item(), which
// is not known when the model compiles. The tensor itself becomes the index.
void index_by_tensors(std::vector<Node>& nodes) {
  std::unordered_map<std::string_view, TensorName> tensor_of;  // by name of the number
  for (Node& node : nodes) {
    const bool takes_number = node.target == "torch.ops.aten.item.default" ||
                              node.target == "torch.ops.aten._local_scalar_dense.default";
    if (takes_number && node.inputs.size() == 1)
      if (const auto* tensor = std::get_if<TensorName>(&node.inputs.front().second))
        tensor_of.emplace(node.name, *tensor);
    if (node.target != "torch.ops.aten.select.int") continue;
    for (auto& [argument, value] : node.inputs) {
      const auto* number = std::get_if<Symbolic>(&value);
      if (number == nullptr || argument != "index") continue;
      if (const auto tensor = tensor_of.find(number->name); tensor != tensor_of.end())
        value = tensor->second;
    }
  }
}

// Values and nodes of a graph.
Result<void> read_values(Reader& in, dom::element graph, ExportedGraph& to) {
  const std::unordered_map<std::string_view, Number> outer = std::exchange(in.numbers, in.known);
  const dom::object tensors = in.object(in.field(graph, "tensor_values"), "tensor_values");
  DTR_TRY(in.status());
  to.tensors.reserve(tensors.size());
  for (const dom::key_value_pair entry : tensors) {
    if (!to.tensors.emplace(entry.key, read_meta(in, entry.value)).second)
      in.malformed(fmt::format("two tensors are named `{}`", entry.key));
    DTR_TRY(in.status());
  }
  read_numbers(in, graph);
  DTR_TRY(in.status());
  const dom::element nodes = in.field(graph, "nodes");
  DTR_TRY(in.status());
  to.nodes = read_list<std::vector<Node>>(in, nodes, "nodes",
                                          [&](dom::element e) { return read_node(in, e); });
  index_by_tensors(to.nodes);
  in.numbers = outer;
  return in.status();
}

// {"name": "true_graph_0", "graph": {…}}
Argument read_subgraph(Reader& in, dom::element value) {
  ExportedGraph graph;
  graph.name = in.string_field(value, "name");
  if (!in.good()) return {};
  const dom::element content = in.field(value, "graph");
  if (!in.good() || !read_values(in, content, graph)) return {};
  const auto names = [&](std::string_view key) {
    const dom::element list = in.field(content, key);
    if (!in.good()) return std::vector<std::string_view>();
    return read_list<std::vector<std::string_view>>(in, list, key, [&](dom::element e) {
      const Argument argument = read_argument(in, e);
      const auto* tensor = std::get_if<TensorName>(&argument);
      return tensor == nullptr ? std::string_view() : tensor->name;
    });
  };
  graph.operands = names("inputs");
  graph.results = names("outputs");
  in.subgraphs.push_back(std::move(graph));
  return Subgraph{in.subgraphs.size() - 1};
}

InputSize read_input_size(Reader& in, dom::element value) {
  const auto [tag, content] = in.tagged(value, "size");
  if (!in.good()) return {};
  if (tag != "as_expr") return {.expression = {}, .fixed = in.integer(content, tag)};
  InputSize size{.expression = in.string_field(content, "expr_str")};
  if (const auto hint = Reader::optional(content, "hint")) {
    const auto [kind, example] = in.tagged(*hint, "hint");
    if (kind == "as_int") size.example = in.integer(example, kind);
  }
  return size;
}

// What the file says about sizes of the inputs; only about those of the user.
Result<OpenShapes> read_open_shapes(Reader& in, dom::element document, dom::element module) {
  OpenShapes shapes;
  const dom::element graph = in.field(module, "graph");
  const dom::element signature = in.field(module, "signature");
  DTR_TRY(in.status());
  const dom::element tensors = in.field(graph, "tensor_values");
  const dom::array specs = in.array(in.field(signature, "input_specs"), "input_specs");
  DTR_TRY(in.status());
  for (const dom::element entry : specs) {
    const InputSpec spec = read_input_spec(in, entry);
    DTR_TRY(in.status());
    if (spec.kind != InputKind::kUser) continue;
    OpenInput& input = shapes.inputs.emplace_back(OpenInput{.name = spec.name, .sizes = {}});
    const auto meta = Reader::optional(tensors, spec.name);
    if (!meta) continue;
    const dom::element sizes = in.field(*meta, "sizes");
    DTR_TRY(in.status());
    input.sizes = read_list<std::vector<InputSize>>(
        in, sizes, "sizes", [&](dom::element e) { return read_input_size(in, e); });
    DTR_TRY(in.status());
  }
  if (const auto ranges = Reader::optional(document, "range_constraints"))
    for (const dom::key_value_pair entry : in.object(*ranges, "range_constraints")) {
      SymbolRange range{.name = entry.key};
      if (const auto least = Reader::optional(entry.value, "min_val"))
        range.least = in.integer(*least, "min_val");
      if (const auto most = Reader::optional(entry.value, "max_val"))
        range.most = in.integer(*most, "max_val");
      shapes.ranges.push_back(range);
    }
  if (const auto guards = Reader::optional(document, "guards_code"))
    for (const dom::element guard : in.array(*guards, "guards_code"))
      shapes.guards.push_back(in.string(guard, "guards_code"));
  DTR_TRY(in.status());
  return shapes;
}

Result<void> read_graph(Reader& in, dom::element module, ExportedProgram& program) {
  const dom::element graph = in.field(module, "graph");
  DTR_TRY(in.status());
  DTR_TRY(read_values(in, graph, program));
  const dom::element signature = in.field(module, "signature");
  DTR_TRY(in.status());
  const dom::element inputs = in.field(signature, "input_specs");
  DTR_TRY(in.status());
  program.inputs = read_list<std::vector<InputSpec>>(
      in, inputs, "input_specs", [&](dom::element e) { return read_input_spec(in, e); });
  DTR_TRY(in.status());
  const dom::element outputs = in.field(signature, "output_specs");
  DTR_TRY(in.status());
  program.outputs = read_list<std::vector<OutputSpec>>(
      in, outputs, "output_specs", [&](dom::element e) { return read_output_spec(in, e); });
  program.subgraphs = std::move(in.subgraphs);
  return in.status();
}

}  // namespace

std::optional<DType> dtype_of(int scalar_type) {
  const ScalarTypeInfo* found = find_scalar_type(scalar_type);
  return found == nullptr ? std::nullopt : found->dtype;
}

bool has_sixteen_bits(int scalar_type) {
  return scalar_type == kHalfType || scalar_type == kBfloatType;
}

bool is_complex(int scalar_type) {
  return scalar_type >= kHalfComplexType && scalar_type <= kDoubleComplexType;
}

DType part_dtype_of(int scalar_type) {
  return scalar_type == kDoubleComplexType ? DType::kFloat64 : DType::kFloat32;
}

int scalar_type_of(DType dtype) {
  const auto found =
      std::find_if(kScalarTypes.begin(), kScalarTypes.end(), [&](const ScalarTypeInfo& entry) {
        return entry.dtype == dtype && !has_sixteen_bits(entry.number);
      });
  DTR_CHECK(found != kScalarTypes.end());
  return found->number;
}

std::string_view scalar_type_name(int scalar_type) {
  const ScalarTypeInfo* found = find_scalar_type(scalar_type);
  return found == nullptr ? "unknown" : found->name;
}

Result<ExportedProgram> parse_exported_program(std::string_view json, const Place& place,
                                               const DimensionSizes* sizes,
                                               const KnownNumbers& numbers) {
  ExportedProgram program;
  DTR_ASSIGN(const dom::element document, parse_json(program.text, json, place));
  Reader in(place);
  const dom::element version = in.field(document, "schema_version");
  DTR_TRY(in.status());
  program.major = in.integer(in.field(version, "major"), "major");
  DTR_TRY(in.status());
  program.minor = in.integer(in.field(version, "minor"), "minor");
  DTR_TRY(in.status());
  if (const auto torch = Reader::optional(document, "torch_version"))
    program.torch_version = in.string(*torch, "torch_version");
  // What may be in the graph: "TRAINING" as it is exported, "ATEN" after run_decompositions().
  if (const auto verifiers = Reader::optional(document, "verifiers"))
    for (const dom::element verifier : in.array(*verifiers, "verifiers"))
      program.decomposed = program.decomposed || in.string(verifier, "verifiers") == "ATEN";
  DTR_TRY(in.status());
  if (program.major != kMajor)
    return fail(DiagnosticId::kPt2Version,
                fmt::format("schema version {}.{} (PyTorch {}), version {} is read", program.major,
                            program.minor, program.torch_version, kMajor),
                "export the model with PyTorch 2.13", place);
  const dom::element module = in.field(document, "graph_module");
  DTR_TRY(in.status());
  if (sizes != nullptr) {
    DTR_ASSIGN(const OpenShapes shapes, read_open_shapes(in, document, module));
    DTR_ASSIGN(BoundDimensions bound, bind_dimensions(shapes, *sizes, place.file));
    in.symbols.insert(bound.sizes.begin(), bound.sizes.end());
    program.dimension_notes = std::move(bound.notes);
  }
  bind_numbers(in, module, numbers);
  for (const auto& [name, number] : numbers) in.known.emplace(name, number);
  DTR_TRY(read_graph(in, module, program));
  return program;
}

Result<PayloadTable> parse_payloads(std::string_view json, const Place& place) {
  PayloadTable table;
  DTR_ASSIGN(const dom::element document, parse_json(table.text, json, place));
  Reader in(place);
  const dom::object entries = in.object(in.field(document, "config"), "config");
  DTR_TRY(in.status());
  for (const dom::key_value_pair entry : entries) {
    Payload payload;
    payload.path_name = in.string_field(entry.value, "path_name");
    DTR_TRY(in.status());
    payload.pickled = in.boolean(in.field(entry.value, "use_pickle"), "use_pickle");
    if (const auto meta = Reader::optional(entry.value, "tensor_meta")) {
      payload.meta = read_meta(in, *meta);
    } else {
      payload.pickled = true;  // a custom object
    }
    DTR_TRY(in.status());
    table.entries.emplace(entry.key, std::move(payload));
  }
  return table;
}

}  // namespace dtr::pt2
