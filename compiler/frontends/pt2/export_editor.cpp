#include "compiler/frontends/pt2/export_editor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "compiler/frontends/pt2/archive.h"
#include "compiler/frontends/pt2/inline_regions.h"
#include "compiler/support/zip_writer.h"

namespace dtr::pt2 {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kModelPath = "models/model.json";
constexpr std::string_view kWeightsTable = "data/weights/model_weights_config.json";
constexpr std::string_view kWeightsFolder = "data/weights/";

Json meta_of(DType dtype, const Shape& shape) {
  Json sizes = Json::array(), steps = Json::array();
  for (const int64_t size : shape) sizes.push_back({{"as_int", size}});
  for (const int64_t step : strides(shape, Layout::kContiguous))
    steps.push_back({{"as_int", step}});
  return {{"dtype", scalar_type_of(dtype)}, {"sizes", std::move(sizes)},
          {"requires_grad", false},         {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"strides", std::move(steps)},    {"storage_offset", {{"as_int", 0}}},
          {"layout", kStridedLayout}};
}

Json tensor_argument(std::string_view name) { return {{"as_tensor", {{"name", name}}}}; }

// JSON has no infinities: the file has them as texts.
Json json_of(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
}

Json json_of(const ExportEditor::Argument& argument) {
  if (std::holds_alternative<std::monostate>(argument)) return {{"as_none", true}};
  if (const auto* name = std::get_if<ExportEditor::Name>(&argument))
    return tensor_argument(name->text);
  if (const auto* names = std::get_if<std::vector<ExportEditor::Name>>(&argument)) {
    Json list = Json::array();
    for (const ExportEditor::Name& each : *names) list.push_back({{"name", each.text}});
    return {{"as_tensors", std::move(list)}};
  }
  if (const auto* whole = std::get_if<int64_t>(&argument)) return {{"as_int", *whole}};
  if (const auto* real = std::get_if<double>(&argument)) return {{"as_float", json_of(*real)}};
  if (const auto* truth = std::get_if<bool>(&argument)) return {{"as_bool", *truth}};
  if (const auto* text = std::get_if<std::string>(&argument)) return {{"as_string", *text}};
  if (const auto* dtype = std::get_if<DType>(&argument))
    return {{"as_scalar_type", scalar_type_of(*dtype)}};
  if (const auto* reals = std::get_if<std::vector<double>>(&argument)) {
    Json list = Json::array();
    for (const double each : *reals) list.push_back(json_of(each));
    return {{"as_floats", std::move(list)}};
  }
  return {{"as_ints", std::get<std::vector<int64_t>>(argument)}};
}

// Calls visit(name) for every tensor in an argument of any kind.
template <class Visit>
void for_each_tensor(Json& argument, Visit visit) {
  if (!argument.is_structured()) return;
  if (argument.is_object() && argument.contains("name") && argument["name"].is_string())
    return visit(argument["name"]);
  for (Json& each : argument) for_each_tensor(each, visit);
}

tl::unexpected<Diagnostic> not_as_written(const std::string& file) {
  return fail(DiagnosticId::kPt2Invalid, "the graph is not as torch.export.save writes it",
              "export the model with PyTorch 2.13",
              {.file = file, .node = std::string(kModelPath)});
}

}  // namespace

struct ExportEditor::State {
  Archive archive;
  ZipArchive zip;
  std::string root;  // "float/"
  Json model;
  Json weights;
  size_t user_inputs_at = 0;  // index of the first user input among the inputs
  std::map<size_t, std::vector<Json>>
      added;  // nodes, by the node of the file that they stand before
  std::map<std::string, std::vector<std::byte>> members;
  std::unordered_map<std::string, std::vector<Json*>>
      uses;  // by name: where arguments and outputs of the file have it
  std::set<std::string, std::less<>> names;
  std::set<size_t> removed;
  size_t buffers = 0;
  std::map<std::string, Shape, std::less<>> shapes;  // of what was added
  std::map<std::string, DType, std::less<>> dtypes;

  Json& graph() { return model["graph_module"]["graph"]; }
  Json& node(size_t index) { return graph()["nodes"][index]; }
  // Where the name of a tensor that is an argument by itself stands; nullptr if it is none.
  Json* find_argument(size_t index, std::string_view argument) {
    for (Json& input : node(index)["inputs"]) {
      if (input["name"] != argument || !input["arg"].contains("as_tensor")) continue;
      Json& tensor = input["arg"]["as_tensor"];
      if (tensor.is_object() && tensor["name"].is_string()) return &tensor["name"];
    }
    return nullptr;
  }
  void note_uses() {
    const auto note = [&](Json& name) { uses[name.get<std::string>()].push_back(&name); };
    for (Json& each : graph()["nodes"]) {
      const bool copies = each["target"] == "torch.ops.aten.copy_.default";
      for (Json& input : each["inputs"])
        if (!copies || input["name"] != "self") for_each_tensor(input["arg"], note);
    }
    for_each_tensor(graph()["outputs"], note);
    for_each_tensor(model["graph_module"]["signature"]["output_specs"], note);
  }
  std::string unique(std::string_view wanted) {
    std::string name(wanted);
    for (int i = 1; !names.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    return name;
  }
};

ExportEditor::ExportEditor(std::unique_ptr<State> state) : state_(std::move(state)) {}
ExportEditor::~ExportEditor() = default;
ExportEditor::ExportEditor(ExportEditor&&) noexcept = default;
ExportEditor& ExportEditor::operator=(ExportEditor&&) noexcept = default;

Result<ExportEditor> ExportEditor::open(std::span<const std::byte> bytes, const std::string& file) {
  DTR_ASSIGN(Archive archive, Archive::open(bytes, file));
  DTR_ASSIGN(ZipArchive zip, ZipArchive::open(bytes, file));
  const std::string& first = zip.entries().front().name;
  auto state = std::make_unique<State>(State{.archive = std::move(archive),
                                             .zip = std::move(zip),
                                             .root = first.substr(0, first.find('/') + 1)});
  const auto parse = [&](std::string_view path) -> Result<Json> {
    DTR_ASSIGN(const ZipData data,
               state->zip.read_text(*state->zip.find(state->root + std::string(path))));
    return Json::parse(data.text(), nullptr, false);
  };
  DTR_ASSIGN(state->model, parse(kModelPath));
  DTR_ASSIGN(state->weights, parse(kWeightsTable));
  try {
    // What `archive` has read is well formed; the rest is used here as it is written.
    const Json& graph = state->model.at("graph_module").at("graph");
    const Json& specs = state->model.at("graph_module").at("signature").at("input_specs");
    for (const auto& [name, meta] : graph.at("tensor_values").items()) state->names.insert(name);
    state->user_inputs_at = specs.size();
    for (size_t i = specs.size(); i-- > 0;)
      if (specs[i].contains("user_input")) state->user_inputs_at = i;
    bool good = graph.at("inputs").is_array() && specs.is_array() &&
                graph.at("inputs").size() == specs.size() &&
                graph.at("tensor_values").is_object() && graph.at("nodes").is_array() &&
                state->weights.at("config").is_object();
    for (const Json& node : graph.at("nodes")) {
      good = good && node.at("metadata").is_object() && node.at("inputs").is_array();
      for (const Json& input : node.at("inputs")) good = good && input.is_object();
    }
    state->note_uses();
    if (good) return ExportEditor(std::move(state));
  } catch (const Json::exception&) {  // the library reports so what is missing or of another kind
  }
  return not_as_written(file);
}

Result<std::vector<std::byte>> ExportEditor::without_regions(std::span<const std::byte> bytes,
                                                             const std::string& file) {
  DTR_ASSIGN(ExportEditor editor, open(bytes, file));
  try {
    if (!inline_regions(editor.state_->graph())) return std::vector<std::byte>();
  } catch (const Json::exception&) {
    return not_as_written(file);
  }
  return editor.finish();
}

std::string ExportEditor::add_buffer(std::string_view target, const Tensor& content) {
  std::string flat(target);
  std::replace(flat.begin(), flat.end(), '.', '_');
  std::string name = state_->unique("b_" + flat);
  Json& graph = state_->graph();
  const auto at = static_cast<std::ptrdiff_t>(state_->user_inputs_at++);
  graph["inputs"].insert(graph["inputs"].begin() + at, tensor_argument(name));
  Json& specs = state_->model["graph_module"]["signature"]["input_specs"];
  specs.insert(
      specs.begin() + at,
      Json::object({{"buffer",
                     {{"arg", {{"name", name}}}, {"buffer_name", target}, {"persistent", true}}}}));
  graph["tensor_values"][name] = meta_of(content.dtype(), content.shape());
  state_->shapes[name] = content.shape();
  state_->dtypes[name] = content.dtype();

  std::string path;
  do {  // a file that was edited before has such members
    path = fmt::format("quantization_{}", state_->buffers++);
  } while (state_->zip.find(state_->root + std::string(kWeightsFolder) + path) != nullptr);
  state_->weights["config"][std::string(target)] = {
      {"path_name", path},
      {"is_param", false},
      {"use_pickle", false},
      {"tensor_meta", meta_of(content.dtype(), content.shape())}};
  state_->members[std::string(kWeightsFolder) + path] = {content.bytes().begin(),
                                                         content.bytes().end()};
  return name;
}

std::string ExportEditor::add_node(size_t before, size_t like, std::string_view target,
                                   const Arguments& arguments, std::string_view name, DType dtype,
                                   const Shape& shape) {
  std::string result = state_->unique(name);
  Json inputs = Json::array();
  for (const auto& [argument, value] : arguments)
    inputs.push_back({{"name", argument},
                      {"arg", json_of(value)},
                      {"kind", argument == "alpha" ? kKeyword : kPositional}});
  Json metadata = Json::object();
  const Json& model = state_->node(like)["metadata"];
  for (const char* const key : {"stack_trace", "nn_module_stack"})
    if (model.contains(key)) metadata[key] = model[key];
  state_->added[before].push_back({{"target", fmt::format("torch.ops.{}", target)},
                                   {"inputs", std::move(inputs)},
                                   {"outputs", Json::array({tensor_argument(result)})},
                                   {"metadata", std::move(metadata)},
                                   {"is_hop_single_tensor_return", nullptr},
                                   {"name", result}});
  state_->graph()["tensor_values"][result] = meta_of(dtype, shape);
  state_->shapes[result] = shape;
  state_->dtypes[result] = dtype;
  return result;
}

void ExportEditor::remove_node(size_t node) {
  state_->removed.insert(node);
  for (Json& input : state_->node(node)["inputs"])
    for_each_tensor(input["arg"],
                    [&](Json& name) { std::erase(state_->uses[name.get<std::string>()], &name); });
  for (const std::string& name : results(node)) state_->names.erase(name);
}

void ExportEditor::set_target(size_t node, std::string_view target) {
  state_->node(node)["target"] = fmt::format("torch.ops.{}", target);
}

std::string ExportEditor::buffer(std::string_view target) const {
  for (const InputSpec& spec : state_->archive.program().inputs)
    if (spec.kind == InputKind::kBuffer && spec.target == target) return std::string(spec.name);
  return {};
}

std::vector<std::string> ExportEditor::parameters() const {
  std::vector<std::string> names;
  for (const InputSpec& spec : state_->archive.program().inputs)
    if (spec.kind == InputKind::kParameter) names.emplace_back(spec.name);
  return names;
}

bool ExportEditor::has(std::string_view name) const { return state_->names.contains(name); }

bool ExportEditor::is_read(std::string_view name) const {
  const auto at = state_->uses.find(std::string(name));
  return at != state_->uses.end() && !at->second.empty();
}

std::vector<std::string> ExportEditor::results(size_t node) const {
  const auto& results = state_->archive.program().nodes[node].outputs;
  return {results.begin(), results.end()};
}

std::vector<std::string> ExportEditor::outputs() const {
  std::vector<std::string> names;
  for (const OutputSpec& spec : state_->archive.program().outputs)
    if (spec.kind == "user_output" && !spec.name.empty()) names.emplace_back(spec.name);
  return names;
}

void ExportEditor::replace_output(std::string_view from, std::string_view to) {
  const auto replace = [&](Json& name) {
    if (name != from) return;
    name = to;
    state_->uses[std::string(to)].push_back(&name);
  };
  for_each_tensor(state_->graph()["outputs"], replace);
  for (Json& spec : state_->model["graph_module"]["signature"]["output_specs"])
    if (spec.contains("user_output")) for_each_tensor(spec, replace);
}

std::string ExportEditor::result(size_t node) const {
  const std::vector<std::string_view>& results = state_->archive.program().nodes[node].outputs;
  return results.empty() ? std::string() : std::string(results.front());
}

std::string ExportEditor::argument(size_t node, std::string_view argument) const {
  const Json* const name = state_->find_argument(node, argument);
  return name == nullptr ? std::string() : name->get<std::string>();
}

void ExportEditor::set_argument(size_t node, std::string_view argument, std::string_view name) {
  Json* const found = state_->find_argument(node, argument);
  DTR_CHECK(found != nullptr);
  *found = name;
  state_->uses[std::string(name)].push_back(found);
}

void ExportEditor::set_bias(size_t node, std::string_view name) {
  Json& inputs = state_->node(node)["inputs"];
  const auto is = [](std::string_view wanted) {
    return [wanted](const Json& input) { return input["name"] == wanted; };
  };
  auto bias = std::find_if(inputs.begin(), inputs.end(), is("bias"));
  if (bias == inputs.end()) {  // its place is behind the weight
    const auto weight = std::find_if(inputs.begin(), inputs.end(), is("weight"));
    DTR_CHECK(weight != inputs.end());
    bias = inputs.insert(weight + 1,
                         Json::object({{"name", "bias"}, {"arg", nullptr}, {"kind", kPositional}}));
  }
  (*bias)["arg"] = tensor_argument(name);
  state_->uses[std::string(name)].push_back(&(*bias)["arg"]["as_tensor"]["name"]);
}

std::optional<double> ExportEditor::number(size_t node, std::string_view argument) const {
  for (const Json& input : state_->node(node)["inputs"]) {
    if (input["name"] != argument) continue;
    for (const char* const kind : {"as_float", "as_int"})
      if (input["arg"].contains(kind) && input["arg"][kind].is_number())
        return input["arg"][kind].get<double>();
  }
  return std::nullopt;
}

std::vector<int64_t> ExportEditor::integers(size_t node, std::string_view argument) const {
  std::vector<int64_t> list;
  for (const Json& input : state_->node(node)["inputs"])
    if (input["name"] == argument && input["arg"].contains("as_ints"))
      for (const Json& each : input["arg"]["as_ints"])
        if (each.is_number_integer()) list.push_back(each.get<int64_t>());
  return list;
}

bool ExportEditor::takes_sizes(size_t node) const {
  return std::ranges::any_of(state_->node(node)["inputs"], [](const Json& input) {
    return input["arg"].contains("as_sym_int") || input["arg"].contains("as_sym_ints");
  });
}

void ExportEditor::clear_argument(size_t node, std::string_view argument) {
  for (Json& input : state_->node(node)["inputs"]) {
    if (input["name"] != argument) continue;
    for_each_tensor(input["arg"],
                    [&](Json& name) { std::erase(state_->uses[name.get<std::string>()], &name); });
    input["arg"] = {{"as_none", true}};
  }
}

std::vector<std::string> ExportEditor::tensors(size_t node) const {
  std::vector<std::string> names;
  for (Json& input : state_->node(node)["inputs"])
    for_each_tensor(input["arg"],
                    [&](const Json& name) { names.push_back(name.get<std::string>()); });
  return names;
}

bool ExportEditor::takes(size_t node, std::string_view name) const {
  const std::vector<std::string> names = tensors(node);
  return std::ranges::find(names, name) != names.end();
}

void ExportEditor::replace_argument(size_t node, std::string_view from, std::string_view to) {
  for (Json& input : state_->node(node)["inputs"])
    for_each_tensor(input["arg"], [&](Json& name) {
      if (name != from) return;
      name = to;
      state_->uses[std::string(to)].push_back(&name);
    });
}

void ExportEditor::replace_uses(std::string_view from, std::string_view to) {
  const auto users = state_->uses.extract(std::string(from));
  if (users.empty()) return;
  for (Json* const name : users.mapped()) {
    if (*name != from) continue;  // set to another since
    *name = to;
    state_->uses[std::string(to)].push_back(name);
  }
}

Shape ExportEditor::shape(std::string_view name) const {
  if (const auto added = state_->shapes.find(name); added != state_->shapes.end())
    return added->second;
  const auto& tensors = state_->archive.program().tensors;
  const auto stated = tensors.find(name);
  return stated == tensors.end() ? Shape() : stated->second.sizes;
}

std::optional<DType> ExportEditor::dtype(std::string_view name) const {
  const auto added = state_->dtypes.find(name);
  if (added != state_->dtypes.end()) return added->second;
  const auto& tensors = state_->archive.program().tensors;
  const auto stated = tensors.find(name);
  return stated == tensors.end() ? std::nullopt : dtype_of(stated->second.scalar_type);
}

Result<std::vector<std::byte>> ExportEditor::finish() {
  Json nodes = Json::array();
  Json& old = state_->graph()["nodes"];
  for (size_t i = 0; i <= old.size(); ++i) {
    for (Json& node : state_->added[i]) nodes.push_back(std::move(node));
    if (i < old.size() && !state_->removed.contains(i)) nodes.push_back(std::move(old[i]));
  }
  old = std::move(nodes);
  state_->model["verifiers"] =
      Json::array({"TRAINING"});  // the dialect whose nodes may write to buffers
  const auto text = [](const Json& json) {
    const std::string dumped = json.dump();
    const auto bytes = std::as_bytes(std::span(dumped));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  state_->members[std::string(kModelPath)] = text(state_->model);
  state_->members[std::string(kWeightsTable)] = text(state_->weights);

  ZipWriter writer;
  for (const ZipEntry& entry : state_->zip.entries()) {
    const bool inside = entry.name.starts_with(state_->root);
    const auto changed =
        state_->members.extract(inside ? entry.name.substr(state_->root.size()) : std::string());
    if (!changed.empty()) {
      writer.add(entry.name, changed.mapped());
      continue;
    }
    DTR_ASSIGN(const ZipData data, state_->zip.read(entry));
    writer.add(entry.name, data.bytes);
  }
  for (const auto& [path, bytes] : state_->members) writer.add(state_->root + path, bytes);
  return writer.finish();
}

}  // namespace dtr::pt2
