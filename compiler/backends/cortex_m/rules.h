// What the kernels run: one row an operator, one table a file, and what the rows share.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "compiler/partitioner/backend.h"
#include "device/numerics/cortex_m_scratch.h"
#include "device/numerics/requantize.h"

namespace dtr::cortex_m {

// An op of verified operands, quantized as the rows want it.
struct CallContext {
  Module& module;
  const Graph& graph;
  const Op& op;
  const OpView& view;
  Core core;

  // An operand as an argument; none where it is absent.
  KernelArgument operand(size_t index) const;
  // A constant of int32 or int8 values.
  KernelArgument values(std::span<const int32_t> values) const;
  KernelArgument values(std::span<const int8_t> values, Shape shape) const;
};

// Estimated instructions, each taken as a cycle: for an element of the result, or of the operand if
// that has more, and for a product.
struct Work {
  double element = 25, product = 1.5;
};
// By core: Core::kDsp, Core::kMve.
using WorkByCore = std::array<Work, 2>;
constexpr WorkByCore elements(double dsp, double mve) { return {{{dsp, 0}, {mve, 0}}}; }
constexpr WorkByCore elements(double any) { return elements(any, any); }

struct KernelRule {
  const OpDef* op;
  LayoutChoice (*layouts)(const Graph& graph, const Op& op);
  KernelCall (*call)(const CallContext& context);
  // Beside kInt8, which holds for all but conversions.
  std::span<const Condition* const> conditions = {};
  bool any_dtype = false;  // operands or results may be of other types: kInt8 does not hold
  WorkByCore work = {};    // fitted to counts under QEMU (docs/targets.md)
  WorkByCore (*work_of)(const OpView& view) = nullptr;  // where it depends on the operator's form
};

// Operands that are not constant, and the results, are int8 with one scale and zero point a tensor.
extern const Condition kInt8;
// Operands after the first are constants.
extern const Condition kConstantWeights;
inline constexpr const Condition* kConstantWeightsAlone[] = {&kConstantWeights};

std::span<const KernelRule> convolution_rules();
std::span<const KernelRule> elementwise_rules();
std::span<const KernelRule> product_rules();
// For every function of one int8 value; null for other operators.
const KernelRule* function_rule(const OpDef& op);
std::span<const KernelRule> reduction_rules();

// Images: channels-last alone. Functions of elements: any order, the same for all, if operands have
// the rank of the result.
LayoutChoice channels_last(const Graph& graph, const Op& op);
LayoutChoice contiguous(const Graph& graph, const Op& op);
LayoutChoice any_layout(const Graph& graph, const Op& op);
LayoutChoice any_to_any(const Graph& graph,
                        const Op& op);  // the result in another order than the operand, for nothing

inline void push(KernelCall& call, int32_t integer) {
  call.arguments.emplace_back(int64_t{integer});
}
void push(KernelCall& call, numerics::Requantization by);
void push(KernelCall& call, numerics::Range range);

}  // namespace dtr::cortex_m
