#include "compiler/frontends/onnx/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "compiler/ir/verifier.h"
#include "compiler/ops/ops.h"
#include "compiler/plugins/plugins.h"
#include "compiler/support/file_contents.h"

namespace dtr::onnx {
namespace {

constexpr std::string_view kExportAgain = "Export or download the model again.";
constexpr size_t kMostNodes = size_t{1} << 18;  // with those of functions and loops, repeated
constexpr size_t kMostDepth = 64;               // of calls and branches in one another
// Versions of ai.onnx. Operators of newer ones with the attributes of older ones mean the same.
constexpr int64_t kOldest = 7, kNewest = 28;

std::string key_of(std::string_view domain, std::string_view name, std::string_view overload) {
  return fmt::format("{}\n{}\n{}", plain_domain(domain), name, overload);
}

// The name of a node in messages.
std::string name_of(const pb::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : node.op_type();
}

// Calls visit(name) for the names that a node reads, also those that its branches read from
// outside.
template <class Visit>
void for_each_read(const pb::NodeProto& node, size_t depth, const Visit& visit) {
  for (const std::string& name : node.input())
    if (!name.empty()) visit(name);
  if (depth == 0) return;
  const auto inside = [&](const pb::GraphProto& graph) {
    for (const pb::NodeProto& inner : graph.node()) for_each_read(inner, depth - 1, visit);
    for (const pb::ValueInfoProto& output : graph.output()) visit(output.name());
  };
  for (const pb::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) inside(attribute.g());
    for (const pb::GraphProto& graph : attribute.graphs()) inside(graph);
  }
}

// torch.onnx stores a node's place as a list of Python with the names of the modules around it and
// its own name: "['', 'features', 'features.3', 'conv2d']".
std::string innermost_module(std::string_view scopes) {
  std::vector<std::string_view> names;
  for (size_t begin = scopes.find('\''); begin != std::string_view::npos;) {
    const size_t end = scopes.find('\'', begin + 1);
    if (end == std::string_view::npos) break;
    names.push_back(scopes.substr(begin + 1, end - begin - 1));
    begin = scopes.find('\'', end + 1);
  }
  return names.size() < 2 ? std::string() : std::string(names[names.size() - 2]);
}

// The last line of a trace of Python that names a file: `File "net.py", line 7, in forward`.
std::string innermost_line(std::string_view trace) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ";
  const size_t file = trace.rfind(kFile);
  if (file == std::string_view::npos) return {};
  trace.remove_prefix(file + kFile.size());
  const size_t line = trace.find(kLine);
  if (line == std::string_view::npos) return {};
  std::string_view path = trace.substr(0, line);
  path.remove_prefix(std::min(path.size(), path.rfind('/') + 1));
  trace.remove_prefix(line + kLine.size());
  const size_t digits = std::min(trace.find_first_not_of("0123456789"), trace.size());
  return fmt::format("{}:{}", path, trace.substr(0, digits));
}

Versions versions_of(const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports) {
  Versions versions;
  for (const pb::OperatorSetIdProto& import : imports)
    versions[std::string(plain_domain(import.domain()))] = import.version();
  return versions;
}

}  // namespace

Importer::Importer(pb::ModelProto& model, const std::string& path, const DimensionSizes& sizes,
                   size_t release_step)
    : model_(model),
      sizes_(sizes),
      module_([&] {
        Module module;
        module.file = path;
        module.graphs.resize(1);
        return module;
      }()),
      rewriter_(module_.graphs[0]),
      tensors_(path),
      release_(release_step),
      nodes_left_(kMostNodes) {}

tl::unexpected<Diagnostic> Importer::invalid(std::string reason, std::string node) const {
  return fail(DiagnosticId::kOnnxInvalid, std::move(reason), std::string(kExportAgain),
              place(std::move(node)));
}

void Importer::note(DiagnosticId id, std::string reason, std::string fix, std::string node) {
  module_.notes.push_back({.id = id,
                           .reason = std::move(reason),
                           .fix = std::move(fix),
                           .place = place(std::move(node)),
                           .severity = Severity::kNote});
}

Result<Module> Importer::run() && {
  DTR_TRY(read_versions());
  for (const pb::FunctionProto& function : model_.functions()) {
    functions_[key_of(function.domain(), function.name(), function.overload())] = &function;
    function_versions_[&function] = versions_of(function.opset_import());
  }
  DTR_TRY(check_operators());
  Scope scope{.versions = &versions_};
  add_stored(model_.graph(), scope);
  for (pb::TensorProto& tensor : *model_.mutable_graph()->mutable_initializer())
    unread_.emplace(&tensor, &tensor);
  DTR_TRY(add_inputs(scope));
  std::vector<std::string> outputs;
  for (const pb::ValueInfoProto& output : model_.graph().output()) outputs.push_back(output.name());
  DTR_TRY(import_nodes(model_.graph().node(), scope, outputs));
  DTR_TRY(finish(scope));
  return std::move(module_);
}

Result<void> Importer::read_versions() {
  versions_ = versions_of(model_.opset_import());
  const auto at = versions_.find("");
  if (at == versions_.end()) return {};
  if (at->second < kOldest || at->second > kNewest)
    return fail(DiagnosticId::kOnnxUnsupportedOption,
                fmt::format("the model has operators of version (opset) {}, supported are {} to {}",
                            at->second, kOldest, kNewest),
                "Export it again with opset_version=18, or convert it with "
                "onnx.version_converter.",
                place({}));
  return {};
}

const pb::FunctionProto* Importer::find_function(const pb::NodeProto& node) const {
  const auto at = functions_.find(key_of(node.domain(), node.op_type(), node.overload()));
  return at == functions_.end() ? nullptr : at->second;
}

Result<void> Importer::check_operators(const Nodes& nodes, const Versions& versions, size_t depth,
                                       std::map<std::string, size_t>& missing, std::string& fix) {
  if (depth == kMostDepth) return invalid("its branches are nested too deeply", {});
  for (const pb::NodeProto& node : nodes) {
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g())
        DTR_TRY(check_operators(attribute.g().node(), versions, depth + 1, missing, fix));
      for (const pb::GraphProto& graph : attribute.graphs())
        DTR_TRY(check_operators(graph.node(), versions, depth + 1, missing, fix));
    }
    if (find_function(node) != nullptr) continue;
    const std::string_view domain = plain_domain(node.domain());
    if (find_operator(domain, node.op_type()) != nullptr) continue;
    const auto [needs, what_to_do] = why_refused(domain, node.op_type());
    if (fix.empty() || !needs.empty()) fix = what_to_do;
    if (is_foreign(domain))
      fix += fmt::format(" {}", plugin_remedy(plugin_kernel_name(domain, node.op_type())));
    ++missing[fmt::format("{}{}{}{}", domain, domain.empty() ? "" : ".", node.op_type(),
                          needs.empty() ? "" : fmt::format(" ({})", needs))];
  }
  return {};
}

Result<void> Importer::check_operators() {
  std::map<std::string, size_t> missing;
  std::string fix;
  DTR_TRY(check_operators(model_.graph().node(), versions_, 0, missing, fix));
  for (const pb::FunctionProto& function : model_.functions())
    DTR_TRY(check_operators(function.node(), function_versions_[&function], 0, missing, fix));
  if (missing.empty()) return {};
  std::string list;
  for (const auto& [name, count] : missing)
    list += fmt::format("{}{} ({}×)", list.empty() ? "" : ", ", name, count);
  return fail(DiagnosticId::kOnnxUnsupportedOperator,
              fmt::format("the model has operators that are not supported: {}", list),
              std::move(fix), place({}));
}

// ---- inputs

// A size that the user gave for dimension `dim` of an input, by the name of either.
std::optional<int64_t> Importer::given_size(const std::string& input, size_t dim,
                                            const std::string& name) {
  const std::string places[] = {name, fmt::format("{}.{}", input, dim),
                                fmt::format("{}[{}]", input, dim), dim == 0 ? "batch" : ""};
  for (const std::string& place : places)
    for (const auto& [key, size] : sizes_.given)
      if (!place.empty() && key == place) {
        used_sizes_.insert(key);
        return size;
      }
  return std::nullopt;
}

// The size of a dimension that the file leaves open; std::nullopt if nothing gives one.
Result<std::optional<int64_t>> Importer::open_size(const pb::ValueInfoProto& input, size_t dim,
                                                   size_t rank, size_t index, size_t inputs) {
  const std::string& name =
      input.type().tensor_type().shape().dim(static_cast<int>(dim)).dim_param();
  open_dimensions_.push_back(name.empty() ? fmt::format("{}.{}", input.name(), dim)
                                          : fmt::format("{} ({}.{})", name, input.name(), dim));
  std::optional<int64_t> size = given_size(input.name(), dim, name);
  if (!size && sizes_.sampled) {
    DTR_ASSIGN(const std::optional<Shape> array, sizes_.sampled(input.name(), index, inputs));
    if (array) size = sampled_size(*array, rank, dim);
  }
  const auto known = open_sizes_.find(name);
  if (name.empty() || known == open_sizes_.end()) {
    if (size && !name.empty()) open_sizes_[name] = *size;
    return size;
  }
  if (size && *size != known->second)
    return fail(DiagnosticId::kOnnxUnsupportedShape,
                fmt::format("dimension {} is {}, and `{}` has the size {} elsewhere", dim, *size,
                            name, known->second),
                "Give inputs whose sizes agree.", place(input.name()));
  return std::optional(known->second);
}

Result<Shape> Importer::shape_of_input(const pb::ValueInfoProto& input, size_t index,
                                       size_t inputs) {
  const pb::TypeProto& type = input.type();
  if (!type.has_tensor_type())
    return fail(DiagnosticId::kOnnxUnsupportedDtype,
                "it is an input that is no tensor (a sequence, map or optional)",
                "Export the model with tensors as inputs.", place(input.name()));
  if (!type.tensor_type().has_shape())
    return fail(DiagnosticId::kOnnxUnsupportedShape, "it is an input without a shape",
                "Export the model with fixed shapes (in PyTorch without dynamic_axes and "
                "dynamic_shapes).",
                place(input.name()));
  Shape shape;
  std::vector<std::string> open, options;
  bool open_batch = false;
  const auto rank = static_cast<size_t>(type.tensor_type().shape().dim_size());
  for (const pb::TensorShapeProto::Dimension& dim : type.tensor_type().shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      shape.push_back(dim.dim_value());
      continue;
    }
    DTR_ASSIGN(const std::optional<int64_t> size,
               open_size(input, shape.size(), rank, index, inputs));
    if (!size && shape.empty()) {
      open_batch = true;
    } else if (!size) {
      const std::string name = dim.dim_param().empty() ? "?" : dim.dim_param();
      open.push_back(fmt::format("{} (dimension {})", name, shape.size()));
      options.push_back(fmt::format(
          "--dim {}=N", dim.dim_param().empty() ? fmt::format("{}.{}", input.name(), shape.size())
                                                : dim.dim_param()));
    }
    shape.push_back(size.value_or(1));
  }
  if (!open.empty())
    return fail(DiagnosticId::kOnnxUnsupportedShape,
                fmt::format("its shape has open dimensions: {}", fmt::join(open, ", ")),
                fmt::format("Give their sizes: {}, or samples of that size with --calibrate.",
                            fmt::join(options, " ")),
                place(input.name()));
  const auto elements = checked_element_count(shape);
  if (shape.size() > kMaxRank || !elements || *elements > INT32_MAX)
    return invalid(fmt::format("it is an input of shape [{}]", fmt::join(shape, ", ")),
                   input.name());
  if (open_batch)
    note(DiagnosticId::kOnnxUnsupportedShape,
         fmt::format("its batch is open and read as 1, so that its shape is {}", to_string(shape)),
         "Give --dim batch=N for another batch.", input.name());
  return shape;
}

Result<void> Importer::add_inputs(Scope& scope) {
  // Before version 4 of the format, stored tensors are inputs too.
  const auto is_stored = [&](const pb::ValueInfoProto& input) {
    return scope.stored.contains(input.name()) || scope.stored_sparse.contains(input.name());
  };
  const auto inputs = static_cast<size_t>(model_.graph().input_size() -
                                          std::ranges::count_if(model_.graph().input(), is_stored));
  size_t index = 0;
  for (const pb::ValueInfoProto& input : model_.graph().input()) {
    if (is_stored(input)) continue;
    DTR_ASSIGN(Shape shape, shape_of_input(input, index++, inputs));
    const int32_t element = input.type().tensor_type().elem_type();
    const std::optional<DType> dtype = dtype_of(element);
    if (!dtype || element == kInt4 || element == kUint4)
      return fail(DiagnosticId::kOnnxUnsupportedDtype,
                  fmt::format("it is an input of {}", name_of_type(element)),
                  "Export the model with floats, integers or bools as inputs.",
                  place(input.name()));
    has_wide_unsigned_ = has_wide_unsigned_ || is_wide_unsigned(element);
    if (element == kDouble || element == kFloat16 || element == kBfloat16 ||
        is_wide_unsigned(element))
      note(DiagnosticId::kOnnxUnsupportedDtype,
           fmt::format("it is an input of {}, which is read as {}", name_of_type(element),
                       *dtype == DType::kFloat32 ? "float32" : dtr::name(*dtype)),
           {}, input.name());
    const ValueId value =
        rewriter_.add_input({.dtype = *dtype, .shape = std::move(shape)}, input.name());
    if (!scope.bindings.emplace(input.name(), Binding{value}).second)
      return invalid("two inputs have this name", input.name());
  }
  for (const auto& [name, size] : sizes_.given) {
    if (used_sizes_.contains(name)) continue;
    if (open_dimensions_.empty())
      return check_no_dimensions({.given = {{name, size}}}, "this .onnx file", "Leave --dim away.",
                                 module_.file);
    return fail(DiagnosticId::kOnnxUnsupportedShape,
                fmt::format("`{}` is no open dimension of the model, which has {}", name,
                            fmt::join(open_dimensions_, ", ")),
                "Give one of these names, or the input and its dimension (--dim INPUT.0=1).",
                {.file = module_.file});
  }
  return {};
}

void Importer::add_stored(const pb::GraphProto& graph, Scope& scope) {
  for (const pb::TensorProto& tensor : graph.initializer()) scope.stored[tensor.name()] = &tensor;
  for (const pb::SparseTensorProto& tensor : graph.sparse_initializer())
    scope.stored_sparse[tensor.values().name()] = &tensor;
}

// ---- nodes

Result<ValueId> Importer::add_constant(const Tensor& tensor, const std::string& name) {
  const ConstantId id = module_.constants.add(tensor.dtype(), tensor.bytes());
  return rewriter_.add_constant({.dtype = tensor.dtype(), .shape = tensor.shape()}, id, name);
}

Result<Binding> Importer::lookup(const std::string& name, const Scope& scope, const Place& place) {
  for (const Scope* at = &scope; at != nullptr; at = at->outer) {
    if (const auto found = at->bindings.find(name); found != at->bindings.end())
      return found->second;
    const auto stored = at->stored.find(name);
    const auto sparse = at->stored_sparse.find(name);
    if (stored == at->stored.end() && sparse == at->stored_sparse.end()) continue;
    DTR_ASSIGN(const Tensor tensor, stored != at->stored.end() ? tensors_.read(*stored->second)
                                                               : tensors_.read(*sparse->second));
    has_wide_unsigned_ = has_wide_unsigned_ || (stored != at->stored.end() &&
                                                is_wide_unsigned(stored->second->data_type()));
    DTR_ASSIGN(const ValueId value, add_constant(tensor, name));
    if (stored != at->stored.end() &&
        (stored->second->data_type() == kInt4 || stored->second->data_type() == kUint4))
      four_bits_.insert(value.index);
    // The main graph is imported once, so that none of its tensors is read again.
    if (const auto unread =
            stored != at->stored.end() ? unread_.find(stored->second) : unread_.end();
        unread != unread_.end() && unread->second->has_raw_data())
      const std::unique_ptr<std::string> elements(unread->second->release_raw_data());
    return at->bindings.emplace(name, Binding{value}).first->second;
  }
  return fail(DiagnosticId::kOnnxInvalid,
              fmt::format("it reads `{}`, which nothing before it makes (a cycle, or nodes out of "
                          "order)",
                          name),
              std::string(kExportAgain), place);
}

const pb::AttributeProto* Importer::find_attribute(const pb::NodeProto& node, const Scope& scope,
                                                   const std::string& name) const {
  for (const pb::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.ref_attr_name().empty()) return &attribute;
    const Scope* body = &scope;
    while (body != nullptr && body->call == nullptr) body = body->outer;
    if (body == nullptr) return nullptr;
    const pb::AttributeProto* const given =
        find_attribute(*body->call, *body->call_scope, attribute.ref_attr_name());
    if (given != nullptr) return given;
    for (const pb::AttributeProto& fallback : body->function->attribute_proto())
      if (fallback.name() == attribute.ref_attr_name()) return &fallback;
    return nullptr;
  }
  return nullptr;
}

Result<void> Importer::import_nodes(const Nodes& nodes, Scope& scope,
                                    const std::vector<std::string>& outputs) {
  std::unordered_map<std::string, int> last_use;  // by name
  for (const std::string& name : outputs) last_use.emplace(name, nodes.size());
  std::vector<bool> live(static_cast<size_t>(nodes.size()));
  for (int i = nodes.size(); i-- > 0;) {
    const pb::NodeProto& node = nodes.Get(i);
    live[static_cast<size_t>(i)] = std::ranges::any_of(
        node.output(), [&](const std::string& name) { return last_use.contains(name); });
    if (live[static_cast<size_t>(i)])
      for_each_read(node, kMostDepth, [&](const std::string& name) { last_use.emplace(name, i); });
  }
  for (int i = 0; i < nodes.size(); ++i) {
    if (!live[static_cast<size_t>(i)]) continue;
    DTR_TRY(import_node(nodes.Get(i), scope));
    if (scope.depth == 0) release_constants(scope, i, last_use);
  }
  return {};
}

void Importer::release_constants(const Scope& scope, int index,
                                 const std::unordered_map<std::string, int>& last_use) {
  ConstantPool& pool = module_.constants;
  if (!release_.is_due(pool)) return;
  const Graph& graph = module_.forward();
  std::vector<bool> used(pool.size());
  graph.mark_constants(used);
  const auto keep = [&](ValueId value) {
    if (value.valid() && graph.is_constant(value))
      used.at(graph.value(value).constant.index) = true;
  };
  for (const auto& [name, binding] : scope.bindings) {
    const auto use = last_use.find(name);
    if (use == last_use.end() || use->second <= index) continue;
    keep(binding.value);
    for (const ValueId value : binding.sequence) keep(value);
  }
  release_.release(pool, used);
}

Result<void> Importer::import_node(const pb::NodeProto& node, Scope& scope) {
  if (nodes_left_-- == 0)
    return fail(DiagnosticId::kOnnxUnsupportedOption,
                fmt::format("its functions and loops make more than {} nodes", kMostNodes),
                "Export a model with fewer steps.", place(name_of(node)));
  if (const pb::FunctionProto* function = find_function(node))
    return call_function(node, *function, scope);
  const Operator& row = *find_operator(plain_domain(node.domain()), node.op_type());
  const auto source = static_cast<uint32_t>(module_.sources.size());
  module_.sources.push_back({.name = scope.prefix + name_of(node), .target = node.op_type()});
  for (const pb::StringStringEntryProto& entry : node.metadata_props()) {
    if (entry.key() == "pkg.torch.onnx.name_scopes")
      module_.sources.back().module_path = innermost_module(entry.value());
    if (entry.key() == "pkg.torch.onnx.stack_trace")
      module_.sources.back().source_line = innermost_line(entry.value());
  }
  NodeImport import(*this, node, scope, row, source);
  if (import.inputs() > row.max_inputs || import.outputs() == 0)
    return import.invalid(
        fmt::format("it has {} inputs and {} outputs", import.inputs(), import.outputs()));
  for (size_t i = 0; i < row.min_inputs; ++i)
    if (!import.has(i)) return import.invalid(fmt::format("input {} is absent", i));
  const size_t first_new = module_.forward().value_slots();
  Values results;
  if (row.build != nullptr) {
    DTR_ASSIGN(results, row.build(import));
  } else {
    DTR_ASSIGN(Values operands, import.values());
    Attributes attributes;
    for (const AttributeRule& rule : row.attributes) {
      if (rule.kind == AttributeKind::kInt) {
        DTR_ASSIGN(const int64_t number,
                   import.integer(rule.name, static_cast<int64_t>(rule.fallback)));
        attributes.set(rule.attribute, number);
      } else {
        DTR_ASSIGN(const double number, import.number(rule.name, rule.fallback));
        attributes.set(rule.attribute, number);
      }
    }
    DTR_ASSIGN(results.emplace_back(), import.emit(row.op, std::move(operands), attributes));
  }
  DTR_TRY(import.check_all_read());
  const auto bind = [&](size_t i, Binding binding) -> Result<void> {
    if (!import.wants(i)) return {};
    if (!scope.bindings.emplace(node.output(static_cast<int>(i)), std::move(binding)).second)
      return import.invalid(fmt::format("`{}` is made by another node too, or an input",
                                        node.output(static_cast<int>(i))));
    return {};
  };
  for (const auto& [output, values] : import.sequences())
    DTR_TRY(bind(output, Binding{.sequence = values, .is_sequence = true}));
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].valid()) continue;
    DTR_TRY(bind(i, Binding{results[i]}));
    if (import.wants(i) && results[i].index >= first_new)
      rewriter_.rename(results[i], scope.prefix + node.output(static_cast<int>(i)));
  }
  for (size_t i = 0; i < import.outputs(); ++i)
    if (import.wants(i) && !scope.bindings.contains(node.output(static_cast<int>(i))))
      return import.unsupported(fmt::format("its output {} is used", i));
  return {};
}

Result<void> Importer::call_function(const pb::NodeProto& node, const pb::FunctionProto& function,
                                     Scope& scope) {
  if (scope.depth == kMostDepth)
    return invalid("its functions call one another too deeply, or themselves", name_of(node));
  Scope body{.call = &node,
             .function = &function,
             .call_scope = &scope,
             .versions = &function_versions_[&function],
             .prefix = scope.prefix + name_of(node) + "/",
             .depth = scope.depth + 1};
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size())
    return invalid(fmt::format("it has {} inputs and {} outputs, its function `{}` fewer",
                               node.input_size(), node.output_size(), function.name()),
                   name_of(node));
  for (int i = 0; i < node.input_size(); ++i) {
    if (node.input(i).empty()) continue;
    DTR_ASSIGN(Binding operand, lookup(node.input(i), scope, place(name_of(node))));
    body.bindings.emplace(function.input(i), std::move(operand));
  }
  std::vector<std::string> outputs;
  for (int i = 0; i < node.output_size(); ++i)
    if (!node.output(i).empty()) outputs.push_back(function.output(i));
  DTR_TRY(import_nodes(function.node(), body, outputs));
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    DTR_ASSIGN(Binding result, lookup(function.output(i), body, place(name_of(node))));
    if (!scope.bindings.emplace(node.output(i), std::move(result)).second)
      return invalid(fmt::format("`{}` is made by another node too, or an input", node.output(i)),
                     name_of(node));
  }
  return {};
}

Result<std::vector<Binding>> Importer::import_subgraph(const pb::GraphProto& graph,
                                                       const Scope& outer,
                                                       const std::vector<Binding>& inputs,
                                                       const std::string& prefix) {
  if (outer.depth == kMostDepth) return invalid("its branches are nested too deeply", graph.name());
  Scope scope{.outer = &outer,
              .versions = outer.versions,
              .prefix = outer.prefix + prefix + "/",
              .depth = outer.depth + 1};
  add_stored(graph, scope);
  if (static_cast<size_t>(graph.input_size()) != inputs.size())
    return invalid(
        fmt::format("its subgraph has {} inputs, expected {}", graph.input_size(), inputs.size()),
        graph.name());
  for (int i = 0; i < graph.input_size(); ++i)
    scope.bindings.emplace(graph.input(i).name(), inputs[static_cast<size_t>(i)]);
  std::vector<std::string> names;
  for (const pb::ValueInfoProto& output : graph.output()) names.push_back(output.name());
  DTR_TRY(import_nodes(graph.node(), scope, names));
  std::vector<Binding> results;
  for (const std::string& name : names) {
    DTR_ASSIGN(results.emplace_back(), lookup(name, scope, place(graph.name())));
  }
  return results;
}

// ---- outputs

Result<void> Importer::finish(const Scope& scope) {
  std::vector<ValueId> outputs;
  for (const pb::ValueInfoProto& output : model_.graph().output()) {
    DTR_ASSIGN(const Binding binding, lookup(output.name(), scope, place(output.name())));
    if (binding.is_sequence)
      return fail(DiagnosticId::kOnnxUnsupportedDtype, "it is an output that is a sequence",
                  "Let the model return the tensors of the sequence.", place(output.name()));
    ValueId value = binding.value;
    if (unsigned_.contains(value.index)) {
      DTR_ASSIGN(value, as_in_file(value));
    }
    outputs.push_back(value);
  }
  if (outputs.empty()) return invalid("the model has no output", {});
  rewriter_.set_outputs(outputs);
  if (Result<void> verified = verify(module_); !verified) {
    Diagnostic diagnostic = std::move(verified).error();
    diagnostic.id = DiagnosticId::kOnnxInvalid;
    diagnostic.place.file = module_.file;
    return tl::unexpected<Diagnostic>(std::move(diagnostic));
  }
  return {};
}

Result<ValueId> Importer::as_in_file(ValueId value) {
  const auto source = static_cast<uint32_t>(module_.sources.size());
  const std::string name = rewriter_.graph().value(value).name;
  module_.sources.push_back({.name = name, .target = "UINT8"});
  static const pb::NodeProto no_node;
  static const Operator no_row{};
  const Scope scope{.versions = &versions_};
  NodeImport node(*this, no_node, scope, no_row, source);
  return node.plain(value);
}

// ---- files

bool looks_like_onnx(std::span<const std::byte> head) {
  const auto byte = [&](size_t at) {
    return at < head.size() ? std::to_integer<uint32_t>(head[at]) : 256u;
  };
  // Field 1, a number below 64, then the tag of one of the other fields.
  if (byte(0) != 0x08 || byte(1) == 0 || byte(1) >= 64) return false;
  constexpr uint32_t kTags[] = {0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72};
  return std::ranges::find(kTags, byte(2)) != std::end(kTags);
}

Result<Module> import_onnx(std::span<const std::byte> bytes, const std::string& path,
                           const DimensionSizes& sizes, size_t release_step) {
  DTR_ASSIGN(pb::ModelProto model, parse(bytes, path));
  return Importer(model, path, sizes, release_step).run();
}

Result<Module> read_onnx(FileContents file, const std::string& path, const DimensionSizes& sizes) {
  std::optional<pb::ModelProto> model;
  {
    const FileContents parsed = std::move(file);
    DTR_ASSIGN(model, parse(parsed.bytes(), path));
  }
  return Importer(*model, path, sizes, ConstantRelease::kStep).run();
}

}  // namespace dtr::onnx
