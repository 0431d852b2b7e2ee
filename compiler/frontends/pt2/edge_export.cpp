#include "compiler/frontends/pt2/edge_export.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "compiler/frontends/pt2/archive.h"
#include "compiler/frontends/pt2/torch_file.h"
#include "compiler/support/zip_archive.h"

namespace dtr::pt2 {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kModelPath = "models/model.json";
constexpr std::string_view kTorchOps = "torch.ops.", kHigherOrder = "torch.ops.higher_order.";
constexpr std::string_view kEdgeOps = "executorch.exir.dialects.edge.ops.";

// exir refuses fields that its schema does not have; torch's has grown since.
Json only(const Json& of, std::initializer_list<const char*> keys) {
  Json kept = Json::object();
  for (const char* const key : keys)
    if (of.contains(key)) kept[key] = of[key];
  return kept;
}

// "140…,stem,Sequential;140…,stem.0,Conv2d" → "stem,stem,Sequential;stem.0,stem.0,Conv2d": keys of
// torch are addresses.
std::string keyed_by_path(std::string_view module_stack) {
  std::string keyed;
  while (!module_stack.empty()) {
    const std::string_view entry = module_stack.substr(0, module_stack.find(';'));
    module_stack.remove_prefix(std::min(entry.size() + 1, module_stack.size()));
    const size_t comma = entry.find(',');
    const std::string_view rest =
        comma == std::string_view::npos ? std::string_view() : entry.substr(comma + 1);
    const std::string_view path = rest.substr(0, rest.find(','));
    keyed += keyed.empty() ? "" : ";";
    keyed += path.empty() ? std::string(entry) : std::string(path) + "," + std::string(rest);
  }
  return keyed;
}

std::string edge_target(const std::string& target) {
  if (!target.starts_with(kTorchOps) || target.starts_with(kHigherOrder)) return target;
  return std::string(kEdgeOps) + target.substr(kTorchOps.size());
}

class Converter {
 public:
  Converter(const Archive& archive, const std::map<std::string, uint32_t, std::less<>>& handles)
      : archive_(archive), handles_(handles) {}

  Result<EdgeExport> convert(const Json& model) {
    const Json& module = model.at("graph_module");
    Json edge{{"graph_module",
               {{"graph", graph(module.at("graph"))},
                {"signature", only(module.at("signature"), {"input_specs", "output_specs"})},
                {"module_call_graph", module_calls(module.at("module_call_graph"))}}},
              {"opset_version", model.at("opset_version")},
              {"range_constraints", Json::object()},
              {"schema_version", {{"major", 5}, {"minor", 4}}},
              {"dialect", "TRAINING"},
              {"verifiers", Json::array({"TRAINING"})}};  // takes every operator
    DTR_TRY(read_tensors(module.at("signature").at("input_specs")));
    return EdgeExport{.json = edge.dump(),
                      .state_dict = to_torch_file(saved_),
                      .constants = to_torch_file(constants_)};
  }

 private:
  Json graph(const Json& of) const {
    Json kept = only(of, {"inputs", "outputs", "tensor_values", "sym_int_values", "sym_bool_values",
                          "is_single_tensor_return", "custom_obj_values"});
    kept["nodes"] = Json::array();
    for (const Json& each : of.at("nodes")) kept["nodes"].push_back(node(each));
    return kept;
  }

  Json node(const Json& of) const {
    const std::string name = of.contains("name") && of["name"].is_string()
                                 ? of["name"].get<std::string>()
                                 : std::string();
    Json inputs = Json::array();
    for (const Json& input : of.at("inputs")) inputs.push_back(only(input, {"name", "arg"}));
    Json metadata =
        only(of.at("metadata"), {"stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn"});
    if (metadata.contains("nn_module_stack"))
      metadata["nn_module_stack"] = keyed_by_path(metadata["nn_module_stack"].get<std::string>());
    if (const auto handle = handles_.find(name); handle != handles_.end())
      metadata["debug_handle"] = std::to_string(handle->second);
    return {{"name", name},
            {"target", edge_target(of.at("target").get<std::string>())},
            {"inputs", std::move(inputs)},
            {"outputs", of.at("outputs")},
            {"metadata", std::move(metadata)}};
  }

  // Only the whole program's: those of its modules matter to nothing that reads a record.
  static Json module_calls(const Json& of) {
    Json kept = Json::array();
    for (const Json& call : of)
      if (call.at("fqn") == "")
        kept.push_back({{"fqn", ""},
                        {"signature", only(call.at("signature"),
                                           {"inputs", "outputs", "in_spec", "out_spec"})}});
    return kept;
  }

  Result<void> read_tensors(const Json& specs) {
    for (const Json& spec : specs) {
      for (const auto& [kind, key] :
           {std::pair("parameter", "parameter_name"), std::pair("buffer", "buffer_name"),
            std::pair("tensor_constant", "tensor_constant_name")}) {
        if (!spec.contains(kind)) continue;
        const std::string target = spec[kind].at(key).get<std::string>();
        const bool saved = spec.contains("parameter") ||
                           (spec.contains("buffer") && spec["buffer"].value("persistent", true));
        const Payload* payload = archive_.find_payload(target);
        if (payload == nullptr) continue;  // only what the graph does not use may be missing
        DTR_ASSIGN(const Archive::Elements elements, archive_.read(target));
        Tensor tensor(elements.dtype, payload->meta.sizes);
        if (!elements.bytes.empty())
          std::memcpy(tensor.view().data, elements.bytes.data(), elements.bytes.size());
        (saved ? saved_ : constants_)
            .push_back({target, std::move(tensor), spec.contains("parameter")});
      }
    }
    return {};
  }

  const Archive& archive_;
  const std::map<std::string, uint32_t, std::less<>>& handles_;
  std::vector<TorchTensor> saved_, constants_;
};

}  // namespace

Result<EdgeExport> to_edge_export(std::span<const std::byte> bytes, const std::string& file,
                                  const std::map<std::string, uint32_t, std::less<>>& handles) {
  DTR_ASSIGN(const Archive archive, Archive::open(bytes, file));
  DTR_ASSIGN(const ZipArchive zip, ZipArchive::open(bytes, file));
  const std::string& first = zip.entries().front().name;
  const ZipEntry* const model =
      zip.find(first.substr(0, first.find('/') + 1) + std::string(kModelPath));
  DTR_CHECK(model != nullptr);  // `archive` has read it
  DTR_ASSIGN(const ZipData data, zip.read_text(*model));
  try {
    // What `archive` has read is well formed; the rest is used here as it is written.
    return Converter(archive, handles).convert(Json::parse(data.text()));
  } catch (const Json::exception&) {  // the library reports so what is missing or of another kind
    return fail(DiagnosticId::kPt2Invalid, "the graph is not as torch.export.save writes it",
                "export the model with PyTorch 2.13",
                {.file = file, .node = std::string(kModelPath)});
  }
}

}  // namespace dtr::pt2
