#include "compiler/frontends/pt2/describe.h"

#include <fmt/format.h>

#include <map>

#include "compiler/frontends/pt2/archive.h"
#include "compiler/frontends/pt2/operators.h"
#include "compiler/support/encode.h"
#include "compiler/support/file_contents.h"

namespace dtr::pt2 {
namespace {

std::string type_text(const TensorMeta& meta) {
  if (!meta.symbol.empty())
    return fmt::format("{} symbolic ({})", scalar_type_name(meta.scalar_type), meta.symbol);
  return fmt::format("{} {}", scalar_type_name(meta.scalar_type), to_string(meta.sizes));
}

std::string value_line(const ExportedProgram& program, std::string_view name) {
  const auto at = program.tensors.find(name);
  return terminal_format("  {:<32} {}\n", name,
                         at == program.tensors.end() ? "?" : type_text(at->second));
}

int64_t stored_bytes(const TensorMeta& meta) {
  const auto dtype = dtype_of(meta.scalar_type);
  if (!dtype) return 0;
  const size_t element = has_sixteen_bits(meta.scalar_type) ? 2 : byte_size(*dtype);
  return element_count(meta.sizes) * static_cast<int64_t>(element);
}

}  // namespace

Result<std::string> describe_pt2(const std::string& path) {
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  DTR_ASSIGN(const Archive archive, Archive::open(file.bytes(), path));
  const ExportedProgram& program = archive.program();

  std::string inputs;
  std::string parameters;
  size_t parameter_count = 0;
  int64_t parameter_bytes = 0;
  for (const InputSpec& spec : program.inputs) {
    if (spec.kind == InputKind::kUser) {
      inputs += value_line(program, spec.name);
    } else if (spec.kind == InputKind::kOther) {
      inputs += terminal_format("  {}\n", spec.description);
    } else {
      const Payload* payload = archive.find_payload(spec.target);
      const int64_t bytes = payload == nullptr ? 0 : stored_bytes(payload->meta);
      parameters +=
          terminal_format("  {:<48} {:<24} {:>10} bytes\n", spec.target,
                          payload == nullptr ? "missing" : type_text(payload->meta), bytes);
      ++parameter_count;
      parameter_bytes += bytes;
    }
  }
  std::string outputs;
  for (const OutputSpec& spec : program.outputs)
    outputs += spec.kind == "user_output" ? value_line(program, spec.name)
                                          : terminal_format("  {} {}\n", spec.kind, spec.target);
  std::map<std::string_view, size_t> operators;
  for (const Node& node : program.nodes)
    ++operators[node.target.substr(node.target.starts_with("torch.ops.") ? 10 : 0)];
  std::string table;
  for (const auto& [target, count] : operators)
    table += terminal_format("  {:>5} × {}{}\n", count, target,
                             find_operator(target).row == nullptr ? "  (not supported)" : "");

  return terminal_format(
      "{}: PyTorch export, schema {}.{}, PyTorch {}\ninputs\n{}outputs\n{}parameters and buffers: "
      "{}, {} bytes\n{}operators: {} nodes\n{}",
      path, program.major, program.minor, program.torch_version, EncodedLines{inputs},
      EncodedLines{outputs}, parameter_count, parameter_bytes, EncodedLines{parameters},
      program.nodes.size(), EncodedLines{table});
}

}  // namespace dtr::pt2
