// The texts of a conversion. ExecuTorch's NXP backend reads the log to find which operators an
// event of a profile stands for: the operators as imported, behind the first "Graphs:"; under
// "= Extract Graphs =" the kernels of each part of a graph; and, behind the second "Graphs:", the
// operators of each part with the names of their tensors. A third "Graphs:" makes it read nothing.
#include <fmt/format.h>

#include <algorithm>

#include "host/commands/convert.h"
#include "host/commands/neutron_graph.h"

namespace dtr {
namespace {

// An operator with its tensors; absent ones are left out.
std::string operator_text(const tflite::ModelFile& file, size_t index) {
  const tflite::OperatorInfo& op = file.operators[index];
  std::string text = fmt::format("    Type: {}\n", op.name);
  for (const auto& [title, list] : {std::pair("Inputs", &op.inputs), {"Outputs", &op.outputs}}) {
    text += fmt::format("      {}:\n", title);
    for (size_t i = 0; i < list->size(); ++i)
      if ((*list)[i] >= 0)
        text += fmt::format("        [{}]: {}\n", i,
                            file.tensors[static_cast<size_t>((*list)[i])].name);
  }
  return text + fmt::format("      Location: {}\n", index);
}

std::string interface_text(const tflite::ModelFile& file, const tflite::OperatorSubset& subset) {
  std::string text;
  for (const auto& [title, list] :
       {std::pair("Inputs", &subset.inputs), {"Outputs", &subset.outputs}}) {
    text += fmt::format("  {}:\n", title);
    for (size_t i = 0; i < list->size(); ++i)
      text += fmt::format("    [{}]: {}\n", i, file.tensors[static_cast<size_t>((*list)[i])].name);
  }
  return text;
}

// The tensors that a step reads from others and makes for others.
tflite::OperatorSubset interface_of(const tflite::ModelFile& file,
                                    const std::vector<size_t>& operators) {
  tflite::OperatorSubset found;
  std::vector<int32_t> made;
  for (const size_t i : operators)
    for (const int32_t output : file.operators[i].outputs) made.push_back(output);
  for (const size_t i : operators)
    for (const int32_t input : file.operators[i].inputs)
      if (input >= 0 && std::ranges::find(made, input) == made.end()) found.inputs.push_back(input);
  if (!operators.empty()) found.outputs = file.operators[operators.back()].outputs;
  return found;
}

}  // namespace

std::string conversion_log(const tflite::ModelFile& file, std::span<const NeutronGraph> graphs,
                           std::string_view target) {
  std::string imported, extracted, generated;
  for (size_t i = 0; i < file.operators.size(); ++i) imported += operator_text(file, i);
  size_t number = 0, kernels = 0;
  for (const NeutronGraph& graph : graphs) {
    const size_t graph_number = number + graph.steps.size();
    extracted += fmt::format("  NeutronGraph \"subgraph_{:03}\":\n", graph_number);
    for (const NeutronStep& step : graph.steps) {
      extracted +=
          fmt::format("    NeutronOperator \"subgraph_{:03}\":\n      Operators:\n", number);
      for (const size_t op : step.operators)
        extracted += fmt::format("        {}\n", file.operators[op].name);
      extracted += "      Kernels:\n";
      for (const std::string& kernel : step.kernels)
        extracted += fmt::format("        {}\n", kernel);
      kernels += step.kernels.size();
      generated += fmt::format("  Name: subgraph_{:03}\n", number++);
      generated += interface_text(file, interface_of(file, step.operators)) + "  Tensors:\n";
      generated += "  Nodes:\n";
      for (const size_t op : step.operators) generated += operator_text(file, op);
    }
    extracted += "  ====\n";
    generated += fmt::format("  Name: subgraph_{:03}\n", number++);
    generated += interface_text(file, graph.subset) + "  Tensors:\n";
    generated += fmt::format("Statistics for NeutronGraph \"subgraph_{:03}\":\n", graph_number);
    generated += fmt::format("  Microcode bytes: {}\n", graph.microcode.size());
    generated += fmt::format("  Scratch bytes: {}\n", graph.scratch_bytes);
  }
  size_t converted = 0;
  for (const NeutronGraph& graph : graphs) converted += graph.subset.operators.size();
  return fmt::format(
      "Deuteron converts for {}\nGraphs:\n{}= Optimize Graph =\n= Extract Graphs =\n{}"
      "Generate code for NeutronGraph\nGraphs:\n{}"
      "Number of operators imported: {}\nNumber of operators converted: {}\n"
      "NeutronGraphs, number of: {}\nNumber of kernels: {}\n",
      target, imported, extracted, generated, file.operators.size(), converted, graphs.size(),
      kernels);
}

std::string kernel_selection(std::span<const NeutronGraph> graphs) {
  std::vector<std::string> names;
  for (const NeutronGraph& graph : graphs)
    for (const NeutronStep& step : graph.steps)
      names.insert(names.end(), step.kernels.begin(), step.kernels.end());
  return kernel_table(std::move(names));
}

std::string kernel_table(std::vector<std::string> names) {
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text =
      "// Kernels of the NPU that the model calls; a firmware may leave out the others.\n"
      "#include <stdint.h>\n\ntypedef enum NeutronKernelKind {\n";
  for (const std::string& name : names) text += fmt::format("  NEUTRON_KERNEL_{},\n", name);
  text += "  NEUTRON_KERNEL_COUNT\n} NeutronKernelKind;\n\n";
  for (const std::string& name : names)
    text += fmt::format("int32_t neutronKernel{}(const void* arguments);\n", name);
  text += "\nint32_t (*neutronKernels[NEUTRON_KERNEL_COUNT + 1])(const void* arguments) = {\n";
  for (const std::string& name : names) text += fmt::format("    neutronKernel{},\n", name);
  return text + "    0,\n};\n";
}

}  // namespace dtr
