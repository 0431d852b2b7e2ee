// The rules of the Cortex-M backend: a row per operator, a table per source file, and shared
// helpers.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "compiler/partitioner/backend.h"
#include "device/numerics/cortex_m_scratch.h"
#include "device/numerics/requantize.h"

namespace dtr::cortex_m {

// The op that a kernel call is made for; its operands have been verified and its conditions hold.
struct CallContext {
  Module& module;
  const Graph& graph;
  const Op& op;
  const OpView& view;
  Core core;

  // An operand as an argument; std::monostate if it is absent.
  KernelArgument operand(size_t index) const;
  // A constant of int32 or int8 values.
  KernelArgument values(std::span<const int32_t> values) const;
  KernelArgument values(std::span<const int8_t> values, Shape shape) const;
};

// Estimated instructions, counted as a cycle each: for an element of the result (or of the operand,
// if it has more), and for a product.
struct Work {
  double element = 25, product = 1.5;
};
// By core: Core::kDsp, Core::kMve.
using WorkByCore = std::array<Work, 2>;
constexpr WorkByCore elements(double dsp, double mve) { return {{{dsp, 0}, {mve, 0}}}; }
constexpr WorkByCore elements(double any) { return elements(any, any); }

// How the backend runs one operator.
struct KernelRule {
  const OpDef* op;
  LayoutChoice (*layouts)(const Graph& graph, const Op& op);
  KernelCall (*call)(const CallContext& context);
  // In addition to kInt8, which applies to all operators except conversions.
  std::span<const Condition* const> conditions = {};
  bool any_dtype = false;  // kInt8 does not apply: operands or results may have other types
  WorkByCore work = {};    // fitted to counts under QEMU (docs/targets.md)
  // replaces `work` if the cost depends on the op
  WorkByCore (*work_of)(const OpView& view) = nullptr;
};

// Computed operands and the results are int8 and quantized per tensor.
extern const Condition kInt8;
// Operands after the first are constants.
extern const Condition kConstantWeights;
inline constexpr const Condition* kConstantWeightsAlone[] = {&kConstantWeights};

std::span<const KernelRule> convolution_rules();
std::span<const KernelRule> elementwise_rules();
std::span<const KernelRule> product_rules();
// The rule of every function of one int8 tensor; null for other operators.
const KernelRule* function_rule(const OpDef& op);
std::span<const KernelRule> reduction_rules();

// Layouts of ops: images are channels-last; elementwise functions take any layout, the same for all
// operands of the result's rank.
LayoutChoice channels_last(const Graph& graph, const Op& op);
LayoutChoice contiguous(const Graph& graph, const Op& op);
LayoutChoice any_layout(const Graph& graph, const Op& op);
LayoutChoice any_to_any(const Graph& graph,
                        // the result may have another layout than the operand at no cost
                        const Op& op);

inline void push(KernelCall& call, int32_t integer) {
  call.arguments.emplace_back(int64_t{integer});
}
void push(KernelCall& call, numerics::Requantization by);
void push(KernelCall& call, numerics::Range range);

}  // namespace dtr::cortex_m
