#include "compiler/ir/verifier.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>

#include "compiler/ir/printer.h"

namespace dtr {
namespace {

tl::unexpected<Diagnostic> broken(std::string reason) {
  return fail(DiagnosticId::kIrInvalid, std::move(reason));
}

bool well_formed(std::string_view name) {
  if (name.empty() || (std::isalpha(static_cast<unsigned char>(name[0])) == 0 && name[0] != '_'))
    return false;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.') return false;
  return true;
}

// What the op is called in messages: "`conv` (aten.convolution)".
std::string describe(const Graph& graph, const Op& op) {
  const std::string_view name =
      op.results.empty() ? "?" : std::string_view(graph.value(op.results.front()).name);
  return fmt::format("`{}` ({})", name, op.def->name);
}

Result<void> verify_contents(const Module& module, const Value& value, ConstantId constant,
                             std::string_view what) {
  if (constant.index >= module.constants.size())
    return broken(fmt::format("{} `{}` is not in the pool", what, value.name));
  if (module.constants.released(constant) && value.unused()) return {};
  const size_t bytes = module.constants.bytes(constant).size();
  if (module.constants.dtype(constant) != value.type.dtype ||
      bytes != static_cast<size_t>(value.type.bytes()))
    return broken(fmt::format("{} `{}` of type {} has {} bytes of {}", what, value.name,
                              print(value.type), bytes, name(module.constants.dtype(constant))));
  return {};
}

// Where each value is defined and each operand used, to compare with the lists that the graph
// keeps.
class GraphVerifier {
 public:
  GraphVerifier(const Module& module, const Graph& graph) : module_(module), graph_(graph) {
    defined_.resize(graph.value_slots());
    uses_.resize(graph.value_slots());
  }

  Result<void> run() {
    DTR_TRY(verify_values());
    for (const ValueId input : graph_.inputs()) {
      if (graph_.value(input).kind != ValueKind::kInput)
        return broken(fmt::format("input `{}` is not of kind input", graph_.value(input).name));
      defined_[input.index] = true;
    }
    size_t count = 0;
    OpId previous;
    for (const OpId id : graph_.ops()) {
      if (++count > graph_.op_slots()) return broken("the list of ops has a cycle");
      if (graph_.op(id).previous != previous)
        return broken(
            fmt::format("{}: the list of ops is broken", describe(graph_, graph_.op(id))));
      previous = id;
      DTR_TRY(verify_order(id));
      DTR_TRY(verify_op(module_, graph_, id));
    }
    if (previous != graph_.last_op() || count != graph_.op_count())
      return broken("the list of ops is broken");
    DTR_TRY(verify_uses());
    return verify_states(module_, graph_);
  }

 private:
  Result<void> verify_values() {
    std::unordered_set<std::string_view> names;
    for (uint32_t i = 0; i < graph_.value_slots(); ++i) {
      const Value& value = graph_.value({i});
      if (value.erased) continue;
      if (!well_formed(value.name)) return broken(fmt::format("malformed name `{}`", value.name));
      if (!names.insert(value.name).second)
        return broken(fmt::format("two values are called `{}`", value.name));
      if (!checked_element_count(value.type.shape))
        return broken(
            fmt::format("`{}`: impossible shape {}", value.name, to_string(value.type.shape)));
      if (const Result<void> status = verify_quantization(value.type); !status)
        return broken(fmt::format("`{}`: {}", value.name, status.error().reason));
      if (value.kind == ValueKind::kConstant) DTR_TRY(verify_constant(value));
      if (value.kind == ValueKind::kConstant) defined_[i] = true;
    }
    return {};
  }

  Result<void> verify_constant(const Value& value) const {
    return verify_contents(module_, value, value.constant, "constant");
  }

  Result<void> verify_order(OpId id) {
    const Op& op = graph_.op(id);
    if (op.erased)
      return broken(fmt::format("{}: erased, but in the list of ops", describe(graph_, op)));
    for (const ValueId operand : op.operands) {
      if (!operand.valid()) continue;
      if (graph_.value(operand).erased || !defined_[operand.index])
        return broken(fmt::format("{}: operand `{}` is used before it is defined",
                                  describe(graph_, op), graph_.value(operand).name));
      ++uses_[operand.index];
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      const Value& result = graph_.value(op.results[i]);
      if (result.kind != ValueKind::kResult || result.producer != id || result.result != i ||
          result.erased)
        return broken(fmt::format("{}: result `{}` does not belong to it", describe(graph_, op),
                                  result.name));
      defined_[op.results[i].index] = true;
    }
    return {};
  }

  Result<void> verify_uses() {
    std::vector<uint32_t> output_uses(graph_.value_slots());
    for (const ValueId output : graph_.outputs()) {
      if (!output.valid() || graph_.value(output).erased || !defined_[output.index])
        return broken("an output of the graph is not defined");
      ++output_uses[output.index];
    }
    for (uint32_t i = 0; i < graph_.value_slots(); ++i) {
      const Value& value = graph_.value({i});
      if (value.erased) continue;
      bool consistent = value.uses.size() == uses_[i] && value.output_uses == output_uses[i];
      for (size_t slot = 0; consistent && slot < value.uses.size(); ++slot) {
        const Use& use = value.uses[slot];
        const Op& op = graph_.op(use.op);
        consistent = !op.erased && op.operands.at(use.operand) == ValueId{i} &&
                     op.use_slots.at(use.operand) == slot;
      }
      if (!consistent)
        return broken(fmt::format("`{}`: its list of uses is not that of the ops", value.name));
    }
    return {};
  }

  const Module& module_;
  const Graph& graph_;
  std::vector<bool> defined_;
  std::vector<uint32_t> uses_;
};

}  // namespace

Result<void> verify_states(const Module& module, const Graph& graph) {
  const size_t count = graph.state_count();
  if (graph.inputs().size() < count || graph.outputs().size() < count)
    return broken(fmt::format("{} states, but {} outputs", count, graph.outputs().size()));
  for (size_t i = 0; i < count; ++i) {
    const Value& state = graph.value(graph.state(i));
    const Value& next = graph.value(graph.next_state(i));
    DTR_TRY(verify_contents(module, state, graph.initial_state(i), "initial state of"));
    if (state.type.dtype != next.type.dtype || state.type.shape != next.type.shape ||
        state.type.quantization != next.type.quantization)
      return broken(fmt::format("state `{}` is {}, but its next value `{}` is {}", state.name,
                                print(state.type), next.name, print(next.type)));
  }
  return {};
}

Result<void> verify_op(const Module& module, const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  const BoundOpView view(graph, id);
  if (const Result<void> status = verify_op(*view); !status)
    return broken(fmt::format(
        "{}{}", op.results.empty() ? "" : fmt::format("`{}`: ", graph.value(op.results[0]).name),
        status.error().reason));
  const std::vector<Type> inferred = op.def->infer(*view);
  if (inferred.size() != op.results.size())
    return broken(fmt::format("{}: {} results, expected {}", describe(graph, op), op.results.size(),
                              inferred.size()));
  for (size_t i = 0; i < inferred.size(); ++i) {
    const Type& type = graph.type(op.results[i]);
    if (type.dtype != inferred[i].dtype || type.shape != inferred[i].shape)
      return broken(
          fmt::format("{}: result `{}` is {}, but the op gives {}", describe(graph, op),
                      graph.value(op.results[i]).name, print(type),
                      print(Type{.dtype = inferred[i].dtype, .shape = inferred[i].shape})));
  }
  for (size_t i = 0; i < op.origin.sources.size(); ++i) {
    const uint32_t source = op.origin.sources[i];
    if (source >= module.sources.size())
      return broken(
          fmt::format("{}: origin {} is not in the table of sources", describe(graph, op), source));
    if (i != 0 && source <= op.origin.sources[i - 1])
      return broken(fmt::format("{}: sources of its origin are not sorted", describe(graph, op)));
  }
  if (op.origin.part >= op.origin.parts)
    return broken(
        fmt::format("{}: part {} of {}", describe(graph, op), op.origin.part, op.origin.parts));
  return {};
}

Result<void> verify_quantization(const Type& type) {
  if (!type.quantized()) return {};
  const Quantization& quantization = *type.quantization;
  if (is_float(type.dtype) || type.dtype == DType::kInt64 || type.dtype == DType::kBool)
    return broken(fmt::format("quantization on {}", name(type.dtype)));
  const IntegerRange range = integer_range(type.dtype);
  if (quantization.qmin >= quantization.qmax || quantization.qmin < range.min ||
      quantization.qmax > range.max)
    return broken(fmt::format("quantized range {}..{} is not inside {}", quantization.qmin,
                              quantization.qmax, name(type.dtype)));
  size_t entries = 1;
  if (quantization.per_channel()) {
    if (static_cast<size_t>(quantization.axis) >= type.rank())
      return broken(fmt::format("quantization axis {} of a tensor of rank {}", quantization.axis,
                                type.rank()));
    entries = static_cast<size_t>(type.shape[static_cast<size_t>(quantization.axis)]);
  }
  if (entries == 0 || quantization.scales.size() != entries ||
      quantization.zero_points.size() != entries)
    return broken(fmt::format("{} scales and {} zero points, expected {}",
                              quantization.scales.size(), quantization.zero_points.size(),
                              entries));
  for (const float scale : quantization.scales)
    if (!std::isfinite(scale) ||
        scale <= 0)  // which sign a NaN has differs from machine to machine
      return broken(fmt::format("scale {} is not finite and positive",
                                std::isnan(scale) ? std::abs(scale) : scale));
  for (const int32_t zero_point : quantization.zero_points)
    if (zero_point < quantization.qmin || zero_point > quantization.qmax)
      return broken(fmt::format("zero point {} is not in {}..{}", zero_point, quantization.qmin,
                                quantization.qmax));
  return {};
}

Result<void> verify(const Module& module, const Graph& graph) {
  return GraphVerifier(module, graph).run();
}

Result<void> verify(const Module& module) {
  for (const Graph& graph : module.graphs) DTR_TRY(verify(module, graph));
  return {};
}

}  // namespace dtr
