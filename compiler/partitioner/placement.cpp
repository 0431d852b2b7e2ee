#include "compiler/partitioner/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/rewriter.h"
#include "compiler/ops/ops.h"
#include "compiler/partitioner/float_fallback.h"
#include "compiler/partitioner/layout.h"
#include "compiler/partitioner/partition.h"
#include "compiler/support/encode.h"
#include "compiler/support/text.h"

namespace dtr {
namespace {

// Conversions between backends, which implement no operator of the model.
bool is_conversion(const Op& op) {
  return op.def == &ops::kQuantize || op.def == &ops::kDequantize || op.def == &ops::kRequantize ||
         op.def == &ops::kToDimOrderCopy;
}

bool works_on_float(const Graph& graph, const Op& op) {
  const auto quantized = [&](ValueId value) {
    return value.valid() && graph.type(value).quantized();
  };
  return std::none_of(op.operands.begin(), op.operands.end(), quantized) &&
         std::none_of(op.results.begin(), op.results.end(), quantized);
}

class Placer {
 public:
  Placer(Module& module, Graph& graph, const Recipe& recipe, const PlacementOptions& options)
      : module_(module), graph_(graph), recipe_(recipe), options_(options) {
    while (host_ < recipe.size() && recipe[host_]->as_delegate() != nullptr) ++host_;
    for (const OpId op : graph.ops())
      for (const ValueId result : graph.op(op).results)
        model_is_quantized_ |= graph.type(result).quantized();
  }

  Result<Placement> run() {
    grow();
    for (const OpId op : ops()) DTR_TRY(choose(op));
    DTR_TRY(check_all_placed());
    while (true) {
      DTR_ASSIGN(const bool moved, move_partitions_to_host());
      if (!moved) break;
    }
    DTR_TRY(legalize());
    DTR_TRY(check_all_placed());
    find_roots();
    return std::move(placement_);
  }

 private:
  Result<void> check_all_placed() const {
    if (unplaced_.empty()) return {};
    return fail(DiagnosticId::kNoBackend,
                "no backend of the target runs these operators:" + unplaced_,
                "replace the operators, or choose a target whose recipe has a backend for them",
                unplaced_place_);
  }
  std::vector<OpId> ops() const {
    std::vector<OpId> list;
    for (const OpId op : graph_.ops()) list.push_back(op);
    return list;
  }
  void grow() {
    placement_.backend.resize(graph_.op_slots(), Placement::kNowhere);
    placement_.reasons.resize(graph_.op_slots());
  }
  PlacementOverride override_of(OpId op) const {
    return op.index < options_.overrides.size() && !is_conversion(graph_.op(op))
               ? options_.overrides[op.index]
               : PlacementOverride::kNone;
  }
  bool is_delegate(uint8_t backend) const { return recipe_[backend]->as_delegate() != nullptr; }
  bool excluded(OpId op, size_t backend) const {
    return op.index < options_.excluded.size() &&
           (options_.excluded[op.index] >> backend & 1U) != 0;
  }

  // The first backend that is no delegate and takes the op as it is; null if none does.
  const Backend* taking_host(OpId op) const {
    for (size_t i = host_; i < recipe_.size(); ++i)
      if (!refusal_of(i, op)) return recipe_[i].get();
    return nullptr;
  }
  bool some_host_takes(const Graph& graph, OpId op) const {
    return std::any_of(
        recipe_.begin() + static_cast<ptrdiff_t>(host_), recipe_.end(),
        [&](const std::unique_ptr<Backend>& backend) { return !backend->refuse(graph, op); });
  }

  // ---- the first backend that takes the op

  Result<void> choose(OpId op) {
    std::vector<std::pair<size_t, Refusal>> refusals;
    for (size_t i = 0; i < recipe_.size(); ++i) {
      std::optional<Refusal> refusal = refusal_of(i, op);
      if (!refusal) {
        placement_.backend[op.index] = static_cast<uint8_t>(i);
        if (!refusals.empty()) explain(op, refusals);
        follow_known_root(op);
        return {};
      }
      if (override_of(op) == PlacementOverride::kForceOn && i + 1 == host_)
        return fail(DiagnosticId::kPlacementForced,
                    fmt::format("{} cannot run {}: {}", recipe_[i]->name(), graph_.op(op).def->name,
                                refusal->reason),
                    refusal->remedy, place_of(module_, graph_, op));
      refusals.emplace_back(i, std::move(*refusal));
    }
    if (alone_in_float(op)) {
      explain(op, refusals);
      return run_in_float(op);
    }
    const Place place = place_of(module_, graph_, op);
    if (unplaced_.empty()) unplaced_place_ = place;
    unplaced_ += terminal_format("\n  `{}` ({})", place.node, graph_.op(op).def->name);
    for (const auto& [backend, refusal] : refusals)
      unplaced_ += terminal_format("\n    {}: {}", recipe_[backend]->name(), refusal.reason);
    return {};
  }

  // Why the op does not run on backend `backend` of the recipe; std::nullopt: it runs there.
  std::optional<Refusal> refusal_of(size_t backend, OpId op) const {
    if (excluded(op, backend))
      return Refusal{
          "kept-off",
          fmt::format("a constraint of the recipe keeps it off `{}`", recipe_[backend]->name()),
          "change the recipe"};
    if (backend >= host_) return recipe_[backend]->refuse(graph_, op);
    if (override_of(op) == PlacementOverride::kKeepOff)
      return Refusal{"kept-off", "the options of the compilation keep it off the NPU",
                     "omit --keep-off"};
    if (const auto known = options_.known.find(op); known != options_.known.end())
      return known->second.refusal;
    if (std::optional<Refusal> refusal = why_float(*recipe_[backend], op)) return refusal;
    return recipe_[backend]->refuse(graph_, op);
  }

  static bool has_weights(const Op& op) {
    return op.def == &ops::kConvolution || op.def == &ops::kLinear;
  }
  // Constants that need no quantization: a bias is quantized by the operands beside it, parameters
  // of normalizations are float.
  static bool stays_float(const Op& op, size_t operand) {
    const bool normalizes =
        op.def == &ops::kLayerNorm || op.def == &ops::kRmsNorm || op.def == &ops::kGroupNorm;
    return (has_weights(op) && operand == 2) ||
           ((normalizes || op.def == &ops::kBatchNorm) && operand > 0);
  }

  // Why an op of a model that came quantized is float although the backend could run it in int8;
  // std::nullopt: it is not float, or the backend could not.
  std::optional<Refusal> why_float(const Backend& backend, OpId id) const {
    const Op& op = graph_.op(id);
    if (!model_is_quantized_ || is_conversion(op) || !works_on_float(graph_, op))
      return std::nullopt;
    const bool becomes_convolution =
        op.def == &ops::kBatchNorm;  // between dequantize and quantize (convolve_batch_norm)
    if (!backend.support(becomes_convolution ? ops::kConvolution : *op.def)) return std::nullopt;
    constexpr std::string_view kRemedy =
        "quantize the float model with Deuteron, or let the exporting quantizer annotate the "
        "operator and those around it";
    const std::string limit =
        "an operator runs in int8 where the model quantizes its operands and its result";
    const auto refusal = [&](std::string value) {
      return Refusal{"not-quantized-in-model", fmt::format("{}; {}", limit, value),
                     std::string(kRemedy), limit, value};
    };
    for (const ValueId result : op.results) {
      const Value& value = graph_.value(result);
      const bool quantized = std::any_of(value.uses.begin(), value.uses.end(), [&](const Use& use) {
        return graph_.op(use.op).def == &ops::kQuantize;
      });
      if (!quantized)
        return refusal(fmt::format("its result `{}` has no quantization", value.name));
      if (value.uses.size() + value.output_uses > 1)
        return refusal(fmt::format("its result `{}` is also read in float", value.name));
    }
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId operand = op.operands[i];
      if (!operand.valid() || (graph_.is_constant(operand) && stays_float(op, i))) continue;
      if (graph_.type(operand).dtype != DType::kFloat32) continue;  // indices, masks
      const OpId dequantize = graph_.producer_if(operand, ops::kDequantize);
      if (!dequantize.valid())
        return refusal(
            fmt::format("its operand `{}` has no quantization", graph_.value(operand).name));
      const Quantization& quantization =
          *graph_.type(graph_.op(dequantize).operands[0]).quantization;
      const auto shifted = std::ranges::find_if(quantization.zero_points,
                                                [](int32_t zero_point) { return zero_point != 0; });
      if (i == 1 && has_weights(op) && shifted != quantization.zero_points.end())
        return refusal(fmt::format("its weight `{}` has the zero point {} in place of 0",
                                   graph_.value(operand).name, *shifted));
    }
    return refusal("the quantizations of its operands and result do not fit its integer form");
  }

  // The reason that an op had before it was left float has its root as well.
  void follow_known_root(OpId op) {
    const auto known = options_.known.find(op);
    if (known != options_.known.end() && placement_.reasons[op.index])
      placement_.reasons[op.index]->because_of = known->second.because_of;
  }

  void explain(OpId op, const std::vector<std::pair<size_t, Refusal>>& refusals) {
    const auto& [backend, refusal] = refusals.front();
    if (const DelegateBackend* delegate = recipe_[backend]->as_delegate())
      explain(op, *delegate, refusal);
  }
  void explain(OpId op, const DelegateBackend& delegate, Refusal refusal) {
    if (is_conversion(graph_.op(op))) return;
    const BoundOpView view(graph_, op);
    placement_.reasons[op.index] =
        Reason{.backend = delegate.name(),
               .refusal = std::move(refusal),
               .macs = view->def->macs == nullptr ? 0 : view->def->macs(*view),
               .host_cycles = host_cycles(op),
               .bound_cycles = delegate.bound(graph_, op)};
  }

  // Estimated cycles of the op on the CPU, with the conversions between int8 and float around it.
  uint64_t host_cycles(OpId id) const {
    if (host_ == recipe_.size()) return 0;
    const Op& op = graph_.op(id);
    const Backend* const host = taking_host(id);
    uint64_t cycles = (host == nullptr ? *recipe_.back() : *host).cost(graph_, id);
    if (host == nullptr) {  // it falls back to float
      if (!can_fall_back_to_float(graph_, id)) return cycles;
      for (const ValueId value : op.operands)
        if (value.valid() && !graph_.is_constant(value) && graph_.type(value).quantized())
          cycles += conversion_cycles(graph_.type(value), ops::kDequantize);
      for (const ValueId value : op.results)
        if (graph_.type(value).quantized())
          cycles += conversion_cycles(graph_.type(value), ops::kQuantize);
    } else if (works_on_float(graph_, op)) {
      for (const ValueId value : op.operands)
        if (const OpId from = value.valid() ? graph_.producer_if(value, ops::kDequantize) : OpId{};
            from.valid() && !graph_.is_constant(graph_.op(from).operands[0]))
          cycles += cost_on_host(graph_, from);
      for (const ValueId value : op.results)
        for (const Use& use : graph_.value(value).uses)
          if (graph_.op(use.op).def == &ops::kQuantize) cycles += cost_on_host(graph_, use.op);
      cycles -= std::min(cycles, cycles_at_borders(op));
    }
    return cycles;
  }

  // What an op in float saves where the program takes or gives what it reads or makes in float: on
  // the NPU it would need the conversions.
  uint64_t cycles_at_borders(const Op& op) const {
    uint64_t cycles = 0;
    const auto add = [&](ValueId value, const OpDef& def) {
      Type type = graph_.type(value);
      if (type.dtype != DType::kFloat32) return;
      type.dtype = DType::kInt8;
      type.quantization = Quantization::per_tensor(1, 0);
      cycles += conversion_cycles(type, def);
    };
    for (const ValueId value : op.operands)
      if (value.valid() && !graph_.producer(value).valid() && !graph_.is_constant(value))
        add(value, ops::kQuantize);
    for (const ValueId value : op.results)
      if (graph_.value(value).output_uses > 0) add(value, ops::kDequantize);
    return cycles;
  }

  // Of the first host that takes the op; of the last one, which takes all floats, if none does.
  uint64_t cost_on_host(const Graph& graph, OpId op) const {
    for (size_t i = host_; i < recipe_.size(); ++i)
      if (!recipe_[i]->refuse(graph, op)) return recipe_[i]->cost(graph, op);
    return recipe_.back()->cost(graph, op);
  }

  // Of an op by itself that converts a tensor of the type to float or from float.
  uint64_t conversion_cycles(const Type& quantized, const OpDef& def) const {
    Type real = quantized;
    real.dtype = DType::kFloat32;
    real.quantization.reset();
    const bool to_float = &def == &ops::kDequantize;
    Graph part;
    Rewriter rewriter(part);
    OpSpec spec{.def = &def, .operands = {rewriter.add_input(to_float ? quantized : real, "x")}};
    if (!to_float) spec.quantization = quantized.quantization;
    const Result<OpId> op = rewriter.insert(OpId{}, std::move(spec));
    DTR_CHECK(op.has_value());  // any quantized type has both conversions
    return cost_on_host(part, *op);
  }

  // Replaces the op by a float op between conversions, and gives its reason to the float op.
  Result<void> run_in_float(OpId op) {
    const OpDef* const def = graph_.op(op).def;
    const std::optional<Reason> reason = std::move(placement_.reasons[op.index]);
    const size_t known = graph_.op_slots();
    DTR_TRY(fall_back_to_float(module_, graph_, op));
    grow();
    for (auto index = static_cast<uint32_t>(known); index < graph_.op_slots(); ++index) {
      const OpId made{index};
      DTR_TRY(choose_on_host(made));
      if (graph_.op(made).def != def) continue;
      placement_.reasons[index] = reason;
      placement_.in_float.emplace(op, made);
    }
    return {};
  }

  // The op by itself as it would run in float; nullopt if it has no float form.
  std::optional<Graph> alone_in_float(OpId id) {
    if (!can_fall_back_to_float(graph_, id)) return std::nullopt;
    Graph part = extract(graph_, make_partition(graph_, Placement::kNowhere, {id}));
    if (!fall_back_to_float(module_, part, part.first_op())) return std::nullopt;
    return part;
  }

  bool runs_on_host(OpId op) {
    if (taking_host(op) != nullptr) return true;
    const std::optional<Graph> part = alone_in_float(op);
    if (!part) return false;
    bool taken = true;
    for (const OpId made : part->ops()) taken = taken && some_host_takes(*part, made);
    return taken;
  }

  Result<void> choose_on_host(OpId op) {
    for (size_t i = host_; i < recipe_.size(); ++i) {
      if (refusal_of(i, op)) continue;
      placement_.backend[op.index] = static_cast<uint8_t>(i);
      return {};
    }
    return choose(op);  // fails with all reasons
  }

  // ---- partitions that are not worth a delegate

  // Moves partitions to the CPU. Returns true if one moved: its neighbours may then have less work
  // next to the CPU's, so that the caller repeats this.
  Result<bool> move_partitions_to_host() {
    bool moved = false;
    for (const Partition& partition : make_partitions(graph_, placement_, recipe_)) {
      const DelegateBackend* delegate = recipe_[partition.backend]->as_delegate();
      if (delegate == nullptr) continue;
      if (std::any_of(partition.ops.begin(), partition.ops.end(),
                      [&](OpId op) { return override_of(op) == PlacementOverride::kForceOn; }))
        continue;
      if (host_ == recipe_.size()) continue;
      std::optional<Reason> reason = computes_nothing(partition);
      if (!reason && options_.weigh_costs) reason = costs_more(partition);
      if (!reason || !std::all_of(partition.ops.begin(), partition.ops.end(),
                                  [&](OpId op) { return runs_on_host(op); }))
        continue;
      for (const OpId op : partition.ops) {
        explain(op, *delegate, reason->refusal);
        if (std::optional<Reason>& of_op = placement_.reasons[op.index]) {
          of_op->because_of = reason->because_of;
          // Nothing is lost by those that need a call of their own. What follows another operator
          // may share that one's call.
          if (reason->because_of.empty()) of_op->bound_cycles = of_op->host_cycles;
        }
        if (taking_host(op) != nullptr) {
          DTR_TRY(choose_on_host(op));
        } else {
          DTR_TRY(run_in_float(op));
        }
      }
      moved = true;
    }
    return moved;
  }

  std::optional<Reason> computes_nothing(const Partition& partition) const {
    const auto is_view = [&](OpId op) {
      return graph_.op(op).def == &ops::kView || graph_.op(op).def == &ops::kToDimOrderCopy;
    };
    if (!std::all_of(partition.ops.begin(), partition.ops.end(), is_view)) return std::nullopt;
    return Reason{
        .refusal = {"only-views", "a call of the NPU that has only views computes nothing", {}},
        .because_of = neighbour_on_host(partition)};
  }

  // Why a partition next to ops of the CPU is faster there: its own cycles decide, because the NPU
  // has no neighbour that would join the call.
  std::optional<Reason> costs_more(const Partition& partition) const {
    const std::string neighbour = neighbour_on_host(partition);
    if (neighbour.empty()) return std::nullopt;
    uint64_t on_delegate = recipe_[partition.backend]->as_delegate()->dispatch_cycles(),
             on_host = 0;
    for (const OpId op : partition.ops) {
      on_delegate += recipe_[partition.backend]->cost(graph_, op);
      on_host += host_cycles(op);
    }
    if (on_delegate <= on_host) return std::nullopt;
    // That was each op in a call of its own.
    on_delegate = cycles_of_call(partition).value_or(on_delegate);
    if (on_delegate <= on_host) return std::nullopt;
    const std::string limit =
        "an operator next to one on the CPU runs on the NPU if that saves cycles";
    const std::string value = fmt::format(
        "moving {} to the NPU costs {} cycles including the call; the CPU needs {}",
        partition.ops.size() == 1 ? std::string("this operator")
                                  : fmt::format("these {} operators", partition.ops.size()),
        with_thousands(on_delegate), with_thousands(on_host));
    return Reason{
        .refusal = {"costs-more", fmt::format("{}; {}", limit, value),
                    "force it with --force-on, or bring its neighbour to the NPU", limit, value},
        .because_of = neighbour};
  }

  // Of the partition as it would be compiled; std::nullopt: the delegate does not tell.
  std::optional<uint64_t> cycles_of_call(const Partition& partition) const {
    const DelegateBackend& delegate = *recipe_[partition.backend]->as_delegate();
    // Partitions that moved before it may have made other values of its inputs and outputs.
    Graph part = extract(graph_, make_partition(graph_, partition.backend, partition.ops));
    Placement all{.backend = std::vector<uint8_t>(part.op_slots(), partition.backend),
                  .reasons = std::vector<std::optional<Reason>>(part.op_slots())};
    if (!assign_layouts(part, recipe_, all)) return std::nullopt;
    return delegate.call_cycles(module_, part);
  }

  // The name of an operator on the CPU that is the next one before or behind the partition,
  // conversions not counted; empty if there is none.
  std::string neighbour_on_host(const Partition& partition) const {
    const auto named = [&](OpId op) -> std::string {
      return op.valid() && placement_.reasons[op.index] ? place_of(module_, graph_, op).node
                                                        : std::string();
    };
    for (ValueId input : partition.inputs) {
      OpId from = graph_.producer(input);
      while (from.valid() && is_conversion(graph_.op(from)))
        from = graph_.producer(graph_.op(from).operands[0]);
      if (std::string name = named(from); !name.empty()) return name;
    }
    for (const ValueId output : partition.outputs)
      for (const Use& use : graph_.value(output).uses) {
        if (std::string name = named(use.op); !name.empty()) return name;
        if (!is_conversion(graph_.op(use.op))) continue;
        for (const Use& next : graph_.value(graph_.op(use.op).results[0]).uses)
          if (std::string name = named(next.op); !name.empty()) return name;
      }
    return {};
  }

  // ---- rewriting by backends, and chains of causes

  Result<void> legalize() {
    for (const OpId op : ops()) {
      const size_t known = graph_.op_slots();
      const KernelBackend* kernels = recipe_[placement_.backend[op.index]]->as_kernels();
      if (kernels == nullptr) continue;
      DTR_ASSIGN(const bool rewritten, kernels->legalize(module_, graph_, op));
      if (!rewritten) continue;
      grow();
      for (auto index = static_cast<uint32_t>(known); index < graph_.op_slots(); ++index) {
        const OpId made{index};
        if (graph_.op(made).erased) continue;
        DTR_TRY(choose_on_host(made));
      }
    }
    return {};
  }

  // Names the op that is the cause for ops that only move the result of an op on the CPU, and for
  // those that are float only because that result has no quantization.
  void find_roots() {
    std::map<std::string, std::string> root_of;
    for (const OpId id : graph_.ops()) {
      std::optional<Reason>& reason = placement_.reasons[id.index];
      if (!reason) continue;
      const std::string name = place_of(module_, graph_, id).node;
      if (reason->because_of.empty() && reason->refusal.id == "not-quantized-in-model" &&
          follows_operands(id))
        for (const ValueId operand : graph_.op(id).operands) {
          const OpId from = graph_.producer(operand);
          if (!from.valid() || !placement_.reasons[from.index]) continue;
          reason->because_of = place_of(module_, graph_, from).node;
          break;
        }
      if (const auto at = root_of.find(reason->because_of); at != root_of.end())
        reason->because_of = at->second;
      if (reason->because_of == name) reason->because_of.clear();
      if (!reason->because_of.empty()) root_of[name] = reason->because_of;
    }
  }

  bool follows_operands(OpId id) const {
    const Op& op = graph_.op(id);
    if (op.def->has_trait(kMovesData)) return true;
    return std::all_of(op.results.begin(), op.results.end(), [&](ValueId result) {
      const OpId user = graph_.sole_user(result);
      return user.valid() && graph_.op(user).def == &ops::kQuantize;
    });
  }

  Module& module_;
  Graph& graph_;
  const Recipe& recipe_;
  const PlacementOptions& options_;
  Placement placement_;
  size_t host_ = 0;  // first backend of the recipe that is no delegate
  bool model_is_quantized_ = false;
  std::string unplaced_;
  Place unplaced_place_;
};

}  // namespace

Result<Placement> place(Module& module, Graph& graph, const Recipe& recipe,
                        const PlacementOptions& options) {
  return Placer(module, graph, recipe, options).run();
}

}  // namespace dtr
