// Parses the JSON of a .pt2 file to structures: torch.export's serialization schema, major version
// 8. Strings refer to the parsed text.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/frontends/pt2/dimensions.h"
#include "compiler/frontends/pt2/expression.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/type.h"
#include "compiler/support/result.h"

namespace dtr::pt2 {

// Owns the text that the string_views of the structures refer to.
class JsonText {
 public:
  JsonText();
  ~JsonText();
  JsonText(JsonText&&) noexcept;
  JsonText& operator=(JsonText&&) noexcept;
  struct Parser;
  Parser& parser() { return *parser_; }

 private:
  std::unique_ptr<Parser> parser_;
};

struct TensorMeta {
  int scalar_type = 0;  // torch's ScalarType in the schema's numbering (dtype_of)
  Shape sizes;
  std::vector<int64_t> strides;  // elements
  int64_t storage_offset = 0;    // elements
  int layout = 0;                // torch's Layout (kStridedLayout)
  // expression of the first symbolic size; empty if all sizes are static
  std::string_view symbol = {};
};

constexpr int kHalfType = 6, kBfloatType = 13;  // ScalarType numbers of float16 and bfloat16
constexpr int kHalfComplexType = 9, kComplexType = 10, kDoubleComplexType = 11;  // of two each

// Our dtype of a ScalarType number, float32 for floats of sixteen bits; std::nullopt if it is not
// supported (scalar_type_name gives its name).
std::optional<DType> dtype_of(int scalar_type);
bool has_sixteen_bits(int scalar_type);  // and is a float
bool is_complex(int scalar_type);
DType part_dtype_of(int scalar_type);                // of complex numbers: float32, or float64
std::string_view scalar_type_name(int scalar_type);  // "float16"
int scalar_type_of(DType dtype);
constexpr int kStridedLayout = 7;  // torch's Layout
constexpr int kPositional = 1;     // kind of an argument
constexpr int kKeyword = 2;

struct TensorName {
  std::string_view name;  // empty: None
};
struct Symbolic {
  std::string_view name;  // of a symbolic integer, float or bool without a known value
};
struct Subgraph {    // argument of a control flow operator
  size_t index = 0;  // in ExportedProgram::subgraphs
};
struct ScalarType {
  int number = 0;
};
struct MemoryFormat {
  int number = 0;
};
struct OtherArgument {
  std::string_view kind;  // "as_device", "as_layout", …
};
// Value of an argument; monostate is None.
using Argument = std::variant<std::monostate, TensorName, std::vector<TensorName>, bool, int64_t,
                              double, std::complex<double>, std::string_view, Ints, Floats,
                              Symbolic, Subgraph, ScalarType, MemoryFormat, OtherArgument>;

struct Node {
  std::string_view target;  // "torch.ops.aten.conv2d.default"
  std::string_view name;
  std::vector<std::pair<std::string_view, Argument>> inputs;
  std::vector<std::string_view> outputs;  // empty name: not a tensor
  std::string_view stack_trace;
  std::string_view module_stack;
};

enum class InputKind : uint8_t { kUser, kParameter, kBuffer, kTensorConstant, kOther };
struct InputSpec {
  InputKind kind = InputKind::kUser;
  std::string_view name;         // of the value in the graph
  std::string_view target;       // name of the parameter, buffer or constant in the module
  std::string_view description;  // key in the file, for messages about kOther
};

struct OutputSpec {
  std::string_view kind;    // "user_output", "buffer_mutation", …
  std::string_view name;    // of the value in the graph; empty if it is no tensor
  std::string_view target;  // what is mutated
};

// The program's graph, or a branch or body of a control flow operator.
struct ExportedGraph {
  std::string_view name;  // of a subgraph
  std::vector<Node> nodes;
  std::unordered_map<std::string_view, TensorMeta> tensors;
  // Of a subgraph: its operands and results; an empty name is no tensor.
  std::vector<std::string_view> operands, results;
};

struct ExportedProgram : ExportedGraph {
  JsonText text;
  int64_t major = 0;
  int64_t minor = 0;
  std::string_view torch_version;
  bool decomposed = false;  // by run_decompositions()
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<ExportedGraph> subgraphs;      // a subgraph follows those that it contains
  std::vector<std::string> dimension_notes;  // BoundDimensions
};

// Where the data of a parameter, buffer or constant are in the archive.
struct Payload {
  std::string_view path_name;  // member beside the configuration file
  bool pickled = false;
  TensorMeta meta;
};
struct PayloadTable {
  JsonText text;
  std::unordered_map<std::string_view, Payload> entries;  // by the name in the module
};

// Elements of constants that the model makes Python numbers (`.item()`), by the node's name, and
// sizes that follow from them, by their symbol ("u1").
using KnownNumbers = std::map<std::string, Number, std::less<>>;

// Sizes over symbols have the values that follow from `sizes` and `numbers`; without them they stay
// symbolic (TensorMeta::symbol). Errors: kPt2Invalid, kPt2Version, those of bind_dimensions.
// `place` names file and archive member.
Result<ExportedProgram> parse_exported_program(std::string_view json, const Place& place,
                                               const DimensionSizes* sizes = nullptr,
                                               const KnownNumbers& numbers = {});
Result<PayloadTable> parse_payloads(std::string_view json, const Place& place);

}  // namespace dtr::pt2
