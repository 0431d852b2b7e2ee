#include "test/unit/pt2_refusals.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "compiler/frontends/pt2/pt2.h"
#include "compiler/support/zip_writer.h"
#include "test/unit/test_files.h"

namespace dtr::test {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(separator, start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// One value, and what a list of such values is called.
std::pair<std::string, std::string> element(const std::string& text) {
  if (text.starts_with('%'))
    return {fmt::format(R"({{"name": "x{}"}})", text.substr(1)), "as_tensors"};
  if (text == "NaN" || text == "Infinity") return {'"' + text + '"', "as_floats"};
  if (text.find('.') != std::string::npos) return {text, "as_floats"};
  return {text, "as_ints"};
}

std::string argument(const std::string& text) {
  if (text.starts_with('[')) {
    std::string list, kind = "as_ints";
    for (const std::string& each : split(text.substr(1, text.size() - 2), ',')) {
      list += (list.empty() ? "" : ", ") + element(each).first;
      kind = element(each).second;
    }
    return fmt::format(R"({{"{}": [{}]}})", kind, list);
  }
  if (text.starts_with('\''))
    return fmt::format(R"({{"as_string": "{}"}})", text.substr(1, text.size() - 2));
  if (text == "true" || text == "false") return fmt::format(R"({{"as_bool": {}}})", text);
  if (text.starts_with("dtype:")) return fmt::format(R"({{"as_scalar_type": {}}})", text.substr(6));
  const auto [value, list] = element(text);
  return fmt::format(R"({{"{}": {}}})", list.substr(0, list.size() - 1), value);
}

// Numbers of PyTorch's scalar types in the file.
int scalar_type(std::string_view dtype) {
  constexpr std::pair<std::string_view, int> kTypes[] = {
      {"u8", 1}, {"i8", 2}, {"i16", 3}, {"i32", 4}, {"i64", 5}, {"f64", 8}, {"bool", 12}};
  for (const auto& [name, number] : kTypes)
    if (name == dtype) return number;
  return 7;
}

std::string tensor(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view dtype = colon == std::string_view::npos ? "" : text.substr(0, colon);
  std::string sizes, strides;
  int64_t stride = 1;
  const std::vector<std::string> extents =
      split(colon == std::string_view::npos ? text : text.substr(colon + 1), 'x');
  for (size_t i = extents.size(); i-- > 0;) {
    sizes = fmt::format(R"({{"as_int": {}}}{}{})", extents[i], sizes.empty() ? "" : ", ", sizes);
    strides = fmt::format(R"({{"as_int": {}}}{}{})", stride, strides.empty() ? "" : ", ", strides);
    stride *= std::stoll(extents[i]);
  }
  return fmt::format(
      R"({{"dtype": {}, "sizes": [{}], "requires_grad": false, "device": {{"type": "cpu", "index": null}},)"
      R"( "strides": [{}], "storage_offset": {{"as_int": 0}}, "layout": 7}})",
      scalar_type(dtype), sizes, strides);
}

std::string node(std::string_view target, std::string_view given, std::string_view output) {
  std::string arguments;
  for (const std::string& each : split(given, ' ')) {
    const size_t equals = each.find('=');
    arguments +=
        fmt::format(R"({}{{"name": "{}", "arg": {}, "kind": 1}})", arguments.empty() ? "" : ", ",
                    each.substr(0, equals), argument(each.substr(equals + 1)));
  }
  return fmt::format(
      R"({{"target": "torch.ops.{}", "inputs": [{}], "outputs": [{{"as_tensor": {{"name": "{}"}}}}],)"
      R"( "metadata": {{}}, "name": "{}"}})",
      target, arguments, output, output);
}

}  // namespace

std::vector<std::byte> program_of(const Refusal& refusal, std::string_view before) {
  std::string tensors = "\"y\": " + tensor("1"), inputs, nodes;
  if (!before.empty()) {
    nodes = node(refusal.target, before, "z") + ", ";
    tensors += ", \"z\": " + tensor("2x3");
  }
  nodes += node(refusal.target, refusal.arguments, "y");
  for (size_t i = 0; i < refusal.inputs.size(); ++i) {
    tensors += fmt::format(R"(, "x{}": {})", i, tensor(refusal.inputs[i]));
    inputs += fmt::format(R"({}{{"user_input": {{"arg": {{"as_tensor": {{"name": "x{}"}}}}}}}})",
                          i == 0 ? "" : ", ", i);
  }
  const std::string model = fmt::format(
      R"({{"graph_module": {{"graph": {{"nodes": [{}], "tensor_values": {{{}}}}}, "signature": {{"input_specs": [{}], "output_specs":)"
      R"( [{{"user_output": {{"arg": {{"as_tensor": {{"name": "y"}}}}}}}}{}]}}}}, "schema_version": {{"major": 8, "minor": 20}}}})",
      nodes, tensors, inputs,
      before.empty() ? "" : R"(, {"user_output": {"arg": {"as_tensor": {"name": "z"}}}})");
  ZipWriter writer;
  const auto add = [&](const std::string& name, const std::string& content) {
    writer.add("m/" + name, std::as_bytes(std::span(content)));
  };
  add("models/model.json", model);
  add("data/weights/model_weights_config.json", R"({"config": {}})");
  add("data/constants/model_constants_config.json", R"({"config": {}})");
  add("byteorder", "little");
  return writer.finish();
}

void expect_refused(std::span<const Refusal> refusals) {
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(fmt::format("{} {}", refusal.target, refusal.arguments));
    const auto program = pt2::parse_pt2(program_of(refusal), "one.pt2");
    if (program.has_value()) {
      ADD_FAILURE() << "was accepted";
      continue;
    }
    const Diagnostic& problem = program.error();
    EXPECT_EQ(info(problem.id).name, "pt2-unsupported-argument");
    EXPECT_EQ(problem.place.node, "y");
    const std::string prefix = std::string(refusal.target) + ": ";
    EXPECT_EQ(problem.reason.substr(problem.reason.starts_with(prefix) ? prefix.size() : 0),
              refusal.reason);
    EXPECT_EQ(problem.fix, refusal.fix);
  }
}

}  // namespace dtr::test
