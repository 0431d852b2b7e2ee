#include "test/conformance/neutron_ir.h"

#include <algorithm>

#include "compiler/backends/neutron_ir/neutron_ir.h"
#include "compiler/executors/executor.h"
#include "compiler/frontends/tflite/model_file.h"
#include "compiler/frontends/tflite/tflite.h"
#include "compiler/ir/parser.h"
#include "compiler/ir/reorder.h"
#include "compiler/partitioner/layout.h"
#include "compiler/partitioner/partition.h"
#include "compiler/pipeline/compile.h"
#include "compiler/program/reader.h"

namespace dtr::conformance {
namespace {

// Indices are small.
Tensor pseudo_random(const Type& type, uint64_t seed) {
  Tensor tensor(type.dtype, type.shape);
  const std::vector<std::byte> bytes =
      seeded_values(type.dtype, static_cast<size_t>(type.elements()), seed);
  if (type.dtype == DType::kInt8) std::ranges::copy(bytes, tensor.view().data);
  return tensor;
}

Shape lies_as(const Type& type) {
  Shape shape;
  for (const int dim : dim_order(type.layout, type.rank()))
    shape.push_back(type.shape[static_cast<size_t>(dim)]);
  return shape;
}

NamedTensor as_it_lies(std::string name, const Type& type, const Tensor& tensor) {
  NamedTensor array{std::move(name), Tensor(type.dtype, lies_as(type))};
  to_physical(type, tensor.bytes().data(), array.tensor.view().data);
  return array;
}

Result<std::vector<NamedTensor>> run(const Module& module, const Graph& graph,
                                     std::span<const Tensor> inputs,
                                     std::span<const Type> output_types,
                                     const std::string& prefix) {
  std::vector<TensorView> views;
  for (const Tensor& input : inputs) views.push_back(input.view());
  DTR_ASSIGN(const std::vector<Tensor> results, make_reference_executor(module, graph)->run(views));
  std::vector<NamedTensor> arrays;
  for (size_t i = 0; i < results.size(); ++i)
    arrays.push_back(as_it_lies(prefix + std::to_string(i), output_types[i], results[i]));
  return arrays;
}

Result<NeutronIrCase> make_case(const Module& module, const Graph& graph, uint64_t seed) {
  NeutronIrCase made{.model = write_neutron_ir(module, graph).model};
  std::vector<Tensor> inputs;
  std::vector<Type> output_types;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Type& type = graph.type(graph.inputs()[i]);
    inputs.push_back(pseudo_random(type, seed + i));
    made.inputs.push_back(as_it_lies("input_" + std::to_string(i), type, inputs.back()));
  }
  for (const ValueId output : graph.outputs()) output_types.push_back(graph.type(output));
  DTR_ASSIGN(made.outputs, run(module, graph, inputs, output_types, "output_"));

  const AlignedBytes bytes(made.model);
  DTR_ASSIGN(const tflite::ModelFile file,
             tflite::ModelFile::open(bytes.bytes(), "neutron_ir.tflite"));
  for (const tflite::OperatorInfo& op : file.operators) made.operators.push_back(op.name);
  DTR_ASSIGN(const tflite::Import read, tflite::parse_tflite(bytes.bytes(), "neutron_ir.tflite"));
  const Graph& read_graph = read.module.forward();
  const auto as_file = [](Type type) {  // the frontend takes four dimensions for (N, H, W, C)
    if (type.rank() == 4) type.layout = Layout::kChannelsLast;
    return type;
  };
  std::vector<Tensor> read_inputs;
  std::vector<Type> read_types;
  for (size_t i = 0; i < read_graph.inputs().size(); ++i) {
    const Type type = as_file(read_graph.type(read_graph.inputs()[i]));
    read_inputs.emplace_back(type.dtype, type.shape);
    to_logical(type, made.inputs[i].tensor.bytes().data(), read_inputs.back().view().data);
  }
  for (const ValueId output : read_graph.outputs())
    read_types.push_back(as_file(read_graph.type(output)));
  DTR_ASSIGN(made.read_back, run(read.module, read_graph, read_inputs, read_types, "read_back_"));
  return made;
}

}  // namespace

Result<std::vector<NeutronIrCase>> neutron_ir_cases(const std::string& path,
                                                    const Samples* samples) {
  const TargetDescription& target = *find_target("imxrt700");
  const CompileSettings settings{.target = &target,
                                 .backend = {.converter = {.command = "none"}},
                                 .samples = samples,
                                 .weigh_costs = false,
                                 .threads = 1};
  DTR_ASSIGN(Compilation model, quantize_model(path, settings));
  Module& module = model.module;
  Graph& graph = module.forward();
  const PlacementOptions options{.weigh_costs = false};
  const Recipe recipe = make_recipe(target, recipe_of(settings));
  DTR_ASSIGN(Placement placement, place(module, graph, recipe, options));
  DTR_TRY(assign_layouts(graph, recipe, placement));
  std::vector<NeutronIrCase> cases;
  for (const Partition& partition : make_partitions(graph, placement, recipe))
    if (recipe[partition.backend]->as_delegate() != nullptr) {
      DTR_ASSIGN(cases.emplace_back(),
                 make_case(module, extract(graph, partition), 1 + 100 * cases.size()));
    }
  return cases;
}

}  // namespace dtr::conformance
