// Keeps a state as int8 between runs where the graph computes its next value in int8 and reads it
// in the same quantization: the state takes the quantized type, and the dequantize behind it and
// the quantize before its readers go.
//
// A state stays float if no op reads it in the quantization of its next value, or if that value is
// quantized per channel. Float readers of a state that becomes int8 dequantize it.
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

class QuantizeStates : public GraphPass {
 public:
  using GraphPass::GraphPass;

  Result<size_t> run() {
    for (size_t i = 0; i < graph_.state_count(); ++i) DTR_TRY(visit(i));
    return changes_;
  }

 private:
  Result<void> visit(size_t index) {
    const ValueId state = graph_.state(index);
    const OpId dequantize = graph_.producer_if(graph_.next_state(index), ops::kDequantize);
    if (graph_.type(state).dtype != DType::kFloat32 || !dequantize.valid()) return {};
    const ValueId integers = graph_.op(dequantize).operands[0];
    const Type type = graph_.type(integers);
    if (type.dtype != DType::kInt8 || type.quantization->per_channel()) {
      remarks_.add(dequantize,
                   "the state `" + graph_.value(state).name + "` has no int8 value with one scale");
      return {};
    }
    const auto takes_codes = [&](const Use& use) {
      const Op& op = graph_.op(use.op);
      return op.def == &ops::kQuantize && graph_.type(op.results[0]).dtype == DType::kInt8 &&
             graph_.type(op.results[0]).quantization == type.quantization;
    };
    const std::vector<Use> uses = graph_.value(state).uses;
    if (std::ranges::none_of(uses, takes_codes)) {
      remarks_.add(dequantize, "the state `" + graph_.value(state).name +
                                   "` is not read in the quantization of its next value");
      return {};
    }
    return convert(index, integers, uses, takes_codes);
  }

  template <class TakesCodes>
  Result<void> convert(size_t index, ValueId integers, const std::vector<Use>& uses,
                       const TakesCodes& takes_codes) {
    const ValueId state = graph_.state(index);
    const Type type = graph_.type(integers);
    const std::span<const float> initial(
        reinterpret_cast<const float*>(module_.constants.bytes(graph_.initial_state(index)).data()),
        static_cast<size_t>(type.elements()));
    std::vector<int8_t> codes;
    for (const float element : initial)
      codes.push_back(static_cast<int8_t>(code_of(element, *type.quantization)));

    // As an output, the float state is another output's value or the next value of another state.
    const OpId old_next = graph_.producer(graph_.next_state(index));
    std::vector<ValueId> outputs = graph_.outputs();
    outputs[graph_.user_output_count() + index] = integers;
    const bool needs_real =
        graph_.value(state).output_uses > 0 || !std::ranges::all_of(uses, takes_codes);
    rewriter_.set_outputs(outputs);
    rewriter_.set_element_type(state, type.dtype, type.quantization);
    rewriter_.set_initial_state(
        index, module_.constants.add(DType::kInt8, std::as_bytes(std::span(codes))));
    ValueId real;
    if (needs_real) {
      DTR_ASSIGN(real, rewriter_.insert_value(graph_.first_op(),
                                              {.def = &ops::kDequantize,
                                               .operands = {state},
                                               .origin = graph_.op(old_next).origin,
                                               .name = graph_.value(state).name + "_dq"}));
      for (ValueId& output : outputs)
        if (output == state) output = real;
      rewriter_.set_outputs(std::move(outputs));
    }
    for (const Use& use : uses) {
      if (takes_codes(use)) {
        rewriter_.replace(use.op, state);
      } else {
        rewriter_.set_operand(use.op, use.operand, real);
      }
    }
    erase_if_unused(rewriter_, old_next);
    ++changes_;
    return {};
  }
};

}  // namespace

constinit const PassDef kQuantizeStates{
    .name = "quantize_states",
    .summary = "keep a state as int8 if its next value is int8 and ops read it as such",
    .exactness = Exactness::kExact,
    .run = run_pass<QuantizeStates>};

}  // namespace dtr::passes
