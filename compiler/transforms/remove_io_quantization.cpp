// Makes an input that is quantized at once an int8 input, and an output that is dequantized last an
// int8 output (`deuteron compile --io int8`).
//
// Decides for each input and output alone. An input stays float if it has a float reader, or none.
// An output stays float if a caller could not read it with one scale and zero point: quantized per
// channel, or a bias of int32.
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

Result<size_t> remove_io_quantization(Module&, Graph& graph, Remarks& remarks) {
  Rewriter rewriter(graph);
  size_t changes = 0;
  std::vector<ValueId> outputs = graph.outputs();
  for (ValueId& output : std::span(outputs).first(graph.user_output_count())) {
    const OpId dequantize = graph.producer_if(output, ops::kDequantize);
    if (!dequantize.valid()) continue;
    const ValueId integers = graph.op(dequantize).operands[0];
    const Type& type = graph.type(integers);
    if (type.dtype != DType::kInt8 || type.quantization->per_channel()) {
      remarks.add(dequantize,
                  "the output `" + graph.value(output).name + "` is not int8 with one scale");
      continue;
    }
    output = integers;
    ++changes;
  }
  const std::vector<ValueId> old = graph.outputs();
  rewriter.set_outputs(std::move(outputs));
  for (const ValueId output : old)
    if (const OpId op = graph.producer_if(output, ops::kDequantize);
        op.valid() && !graph.op(op).erased)
      erase_if_unused(rewriter, op);
  for (const ValueId input : std::span(graph.inputs()).first(graph.user_input_count())) {
    const std::vector<Use> uses = graph.value(input).uses;
    const OpId first = uses.empty() ? OpId{} : uses.front().op;
    if (!first.valid() || graph.op(first).def != &ops::kQuantize) continue;
    const Type type = graph.type(graph.op(first).results[0]);
    const bool same_type_and_quantization =
        graph.value(input).output_uses == 0 &&
        std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
          return graph.op(use.op).def == &ops::kQuantize &&
                 graph.type(graph.op(use.op).results[0]) == type;
        });
    if (!same_type_and_quantization) {
      remarks.add(first, "the input `" + graph.value(input).name +
                             "` is also read in float or in another quantization");
      continue;
    }
    rewriter.set_element_type(input, type.dtype, type.quantization);
    for (const Use& use : uses) rewriter.replace(use.op, input);
    ++changes;
  }
  return changes;
}

}  // namespace

constinit const PassDef kRemoveIoQuantization{
    .name = "remove_io_quantization",
    .summary = "remove quantize at inputs and dequantize at outputs, which become int8",
    .exactness = Exactness::kExact,
    .run = remove_io_quantization};

}  // namespace dtr::passes
