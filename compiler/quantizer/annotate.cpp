#include "compiler/quantizer/annotate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/ops/ops.h"
#include "compiler/quantizer/places.h"

namespace dtr {
namespace {

using Kind = QuantSpec::Kind;

// Groups under construction. Two that turn out to be one are joined (union-find); the indices are
// made dense at the end.
class Groups {
 public:
  int add(QuantSpec spec, ValueId observed) {
    groups_.push_back(
        {.spec = spec,
         .observed = spec.is_given() ? std::vector<ValueId>{} : std::vector{observed}});
    parent_.push_back(static_cast<int>(parent_.size()));
    return parent_.back();
  }
  int find(int group) {
    while (parent_[index(group)] != group)
      group = parent_[index(group)] = parent_[index(parent_[index(group)])];
    return group;
  }
  QuantizationGroup& at(int group) { return groups_[index(find(group))]; }

  void observe(int group, ValueId value) {
    if (!at(group).spec.is_given()) at(group).observed.push_back(value);
  }
  // Joins two groups if one quantization can serve both.
  bool unite(int a, int b) {
    a = find(a);
    b = find(b);
    if (a == b) return true;
    QuantizationGroup& into = groups_[index(a)];
    QuantizationGroup& from = groups_[index(b)];
    if (into.spec.kind == Kind::kFixed || from.spec.kind == Kind::kFixed) {
      if (into.spec != from.spec) return false;
    } else if (from.spec.kind == Kind::kSymmetric) {
      into.spec = from.spec;
    }
    into.observed.insert(into.observed.end(), from.observed.begin(), from.observed.end());
    from.observed.clear();
    parent_[index(b)] = a;
    return true;
  }
  // True if a reader with `spec` can use the group's quantization; an affine group becomes
  // symmetric where one reader needs that.
  bool accept(int group, const QuantSpec& spec) {
    QuantizationGroup& existing = at(group);
    switch (spec.kind) {
      case Kind::kAffine:
        return true;
      case Kind::kSymmetric:
        if (existing.spec.kind == Kind::kFixed)
          return existing.spec.is_given() && existing.spec.zero_point == 0;
        existing.spec = spec;
        return true;
      default:
        return existing.spec == spec;
    }
  }

  // The groups that are left; `renumber` is applied to every index that callers hold.
  std::vector<QuantizationGroup> finish(std::vector<int>& renumber) {
    std::vector<QuantizationGroup> result;
    renumber.assign(groups_.size(), Annotation::kNoGroup);
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (parent_[i] != static_cast<int>(i)) continue;
      renumber[i] = static_cast<int>(result.size());
      std::vector<ValueId>& observed = groups_[i].observed;
      std::sort(observed.begin(), observed.end());
      observed.erase(std::unique(observed.begin(), observed.end()), observed.end());
      result.push_back(std::move(groups_[i]));
    }
    for (size_t i = 0; i < groups_.size(); ++i)
      renumber[i] = renumber[index(find(static_cast<int>(i)))];
    return result;
  }

 private:
  static size_t index(int group) { return static_cast<size_t>(group); }
  std::vector<QuantizationGroup> groups_;
  std::vector<int> parent_;
};

class Annotator {
 public:
  Annotator(const Graph& graph, std::span<const std::unique_ptr<QuantizationPatterns>> patterns,
            const Separations& separations)
      : graph_(graph), patterns_(patterns), separations_(separations) {
    annotation_.ops.resize(graph.op_slots());
    annotation_.reasons.resize(graph.op_slots());
    annotation_.verdicts.resize(graph.op_slots());
    annotation_.group_of_value.assign(graph.value_slots(), Annotation::kNoGroup);
  }

  Annotation run() {
    std::vector<std::optional<OpAnnotation>> specs(graph_.op_slots());
    for (const OpId op : graph_.ops()) {
      order_.push_back(op);
      auto answer = ask(op);
      if (answer) {
        specs[op.index] = std::move(*answer);
      } else {
        annotation_.reasons[op.index] = std::move(answer).error();
      }
    }
    keep_divisors_float(specs);
    keep_indices_float(specs);
    for (const ReadExactly as : {ReadExactly::kFactorizations, ReadExactly::kPlaces})
      keep_exact_float(specs, as);
    keep_selections_float(specs);
    for (const OpId op : order_) {
      if (!specs[op.index]) continue;
      if (stands_alone(op, specs)) {
        annotation_.reasons[op.index] =
            jumps(*graph_.op(op).def)
                ? FloatReason{"quantizer-alone",
                              "its result jumps and its operand is float; in int8 operands on "
                              "either side of a jump share a code",
                              "quantize the operator that makes its operand"}
                : FloatReason{"quantizer-alone",
                              "int8 would cost accuracy for one elementwise operator; what it "
                              "reads and who reads it are float",
                              "quantize what is around it, or make it the model's output"};
      } else {
        apply(op, std::move(*specs[op.index]));
      }
    }
    share_states();
    std::vector<int> renumber;
    annotation_.groups = groups_.finish(renumber);
    observe_what_is_selected();
    const auto update = [&](int& group) {
      if (group != Annotation::kNoGroup) group = renumber[static_cast<size_t>(group)];
    };
    for (int& group : annotation_.group_of_value) update(group);
    for (std::optional<AnnotatedOp>& op : annotation_.ops)
      if (op)
        for (int& group : op->operand_groups) update(group);
    return std::move(annotation_);
  }

 private:
  tl::expected<OpAnnotation, FloatReason> ask(OpId id) {
    const Op& op = graph_.op(id);
    const auto empty = [&](ValueId value) {
      return value.valid() && graph_.type(value).elements() == 0;
    };
    for (const std::vector<ValueId>* values : {&op.operands, &op.results})
      if (const auto at = std::find_if(values->begin(), values->end(), empty); at != values->end())
        return tl::unexpected(
            FloatReason{"quantizer-empty",
                        fmt::format("a range comes from elements; `{}` has none, its shape is {}",
                                    graph_.value(*at).name, to_string(graph_.type(*at).shape)),
                        "remove the operator: it computes nothing"});
    if (op.origin.keeps_float)
      return tl::unexpected(FloatReason{
          "quantizer-exact",
          "int8 has too few codes for it: a step of a factorization, a function or a mask",
          "nothing, if float is fast enough; else compute it outside of the model"});
    if (std::ranges::find(separations_.kept_float, id) != separations_.kept_float.end())
      return tl::unexpected(
          FloatReason{"quantizer-unlike",
                      "it joins values of unlike ranges; in one scale the small ones would be lost",
                      "return them as outputs of their own, or scale them alike in the model"});
    if (std::ranges::find(separations_.small_divisors, id) != separations_.small_divisors.end())
      return tl::unexpected(FloatReason{
          "quantizer-small-divisor",
          "calibration found divisors below 1/32 of the greatest, or on both sides of zero; int8 "
          "has too few codes for them",
          "bound the divisor from below in the model, or normalize before the product"});
    if (std::ranges::find(separations_.steep, id) != separations_.steep.end())
      return tl::unexpected(FloatReason{
          "quantizer-steep",
          "a steep function (logarithm, root, reciprocal, division, sine) reads it or follows from "
          "it; "
          "on the calibration samples its int8 codes leave less than 20 dB of what is computed",
          "nothing, if float is fast enough; else compute features outside of the model, or bound "
          "what the function reads from below"});
    if (std::ranges::find(separations_.asked_float, id) != separations_.asked_float.end())
      return tl::unexpected(FloatReason{"quantizer-kept-float", "it is kept float as asked for",
                                        "leave it out of --keep-float"});
    if (std::ranges::find(separations_.not_finite, id) != separations_.not_finite.end())
      return tl::unexpected(
          FloatReason{"quantizer-not-finite",
                      "calibration found NaN or infinity in what it computes or reads; int8 has "
                      "neither",
                      "use large numbers in the model instead, such as -1e4 in a mask"});
    if (const auto at = separations_.between_floats.find(id);
        at != separations_.between_floats.end())
      return tl::unexpected(at->second);
    if (std::ranges::find(separations_.scaling, id) != separations_.scaling.end())
      return tl::unexpected(
          FloatReason{"quantizer-scales-input",
                      "it scales the channels of an input, which one scale of int8 holds only then",
                      "scale the channels alike before they are given to the model"});
    FloatReason reason{"quantizer-no-pattern",
                       "no backend of the target has a quantization pattern for it"};
    for (const auto& pattern : patterns_) {
      auto specs = pattern->annotate(graph_, id);
      annotation_.verdicts[id.index].push_back(
          {pattern->name(), specs ? std::nullopt : std::optional(specs.error())});
      if (specs) {
        DTR_CHECK(specs->operands.size() == op.operands.size() &&
                  specs->results.size() == op.results.size());
        if (auto other = find_not_float(op, *specs)) return tl::unexpected(std::move(*other));
        return specs;
      }
      reason = std::move(specs).error();
    }
    if (auto other = find_not_float(op, {})) return tl::unexpected(std::move(*other));
    return tl::unexpected(std::move(reason));
  }

  // Functions whose result jumps: a rounded operand may lie on the other side.
  static bool jumps(const OpDef& def) {
    constexpr const OpDef* kJumping[] = {&ops::kCeil, &ops::kFloor, &ops::kRound, &ops::kSign,
                                         &ops::kTrunc};
    return std::ranges::find(kJumping, &def) != std::end(kJumping);
  }

  // An elementwise operator between float ones, or one that jumps behind a float one: to quantize
  // and dequantize costs more than it, and codes that are a good range for it need not be one for
  // who reads it (a division by small numbers).
  bool stands_alone(OpId id, const std::vector<std::optional<OpAnnotation>>& specs) const {
    const Op& op = graph_.op(id);
    if (!op.def->has_trait(kElementwise)) return false;
    for (const ValueId operand : op.operands)
      if (const OpId producer = operand.valid() ? graph_.producer(operand) : OpId{};
          producer.valid() && specs[producer.index])
        return false;
    if (jumps(*op.def)) return true;
    for (const ValueId result : op.results) {
      const Value& value = graph_.value(result);
      if (value.output_uses > 0 || value.uses.empty()) return false;
      for (const Use& use : value.uses)
        if (specs[use.op.index]) return false;
    }
    return true;
  }

  // Lengths and deviations by which an operator divides in float, from where they leave the rest of
  // the graph: roots and what makes or bounds nothing else. In int8 the sum of small squares would
  // be zero, and the quotient no number.
  void keep_divisors_float(std::vector<std::optional<OpAnnotation>>& specs) {
    std::vector<bool> divides(graph_.op_slots()), of_root(graph_.op_slots());
    const auto reads_to_divide = [&](const Use& use) {
      return divides[use.op.index] || (graph_.op(use.op).def == &ops::kDivTensor &&
                                       !specs[use.op.index] && use.operand == 1);
    };
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const Op& op = graph_.op(*id);
      const bool light = op.def->has_trait(kElementwise) || op.def->has_trait(kMovesData) ||
                         op.def == &ops::kSumDim || op.def == &ops::kMeanDim ||
                         op.def == &ops::kAmax || op.def == &ops::kAmin;
      if (!specs[id->index] || !light || op.results.size() != 1) continue;
      const Value& value = graph_.value(op.results[0]);
      if (value.output_uses > 0 || value.uses.empty() ||
          !std::ranges::all_of(value.uses, reads_to_divide))
        continue;
      divides[id->index] = true;
      of_root[id->index] =
          op.def == &ops::kSqrt ||
          std::ranges::any_of(value.uses, [&](const Use& use) { return of_root[use.op.index]; });
    }
    for (const OpId id : order_) {
      if (!divides[id.index]) continue;
      const auto from_root = [&](ValueId operand) {
        const OpId producer = operand.valid() ? graph_.producer(operand) : OpId{};
        return producer.valid() && of_root[producer.index];
      };
      if (!of_root[id.index])
        of_root[id.index] = std::ranges::any_of(graph_.op(id).operands, from_root);
      if (!of_root[id.index]) continue;
      leave_float(
          specs, id,
          FloatReason{"quantizer-divisor",
                      "a float operator divides by the root that it makes; in int8 a small one "
                      "would be zero",
                      "divide by a constant, or multiply by a reciprocal that the model computes"});
    }
  }

  void leave_float(std::vector<std::optional<OpAnnotation>>& specs, OpId id, FloatReason reason) {
    specs[id.index].reset();
    annotation_.reasons[id.index] = std::move(reason);
  }

  // The index of the greatest or least element of what is float otherwise: elements of one code
  // would have another index in int8 than in float. What only moves the elements there stays float
  // with it.
  void keep_indices_float(std::vector<std::optional<OpAnnotation>>& specs) {
    for (const OpId id : order_) {
      const Op& op = graph_.op(id);
      if (!specs[id.index] || (op.def != &ops::kArgmax && op.def != &ops::kArgmin)) continue;
      std::vector<OpId> chain{id};
      const auto is_read_by_others = [&](ValueId value) {
        return std::ranges::any_of(graph_.value(value).uses, [&](const Use& use) {
          return specs[use.op.index] && use.op != chain.back();
        });
      };
      ValueId value = op.operands[0];
      while (!is_read_by_others(value)) {
        const OpId producer = graph_.producer(value);
        if (!producer.valid() || !specs[producer.index]) {
          for (const OpId each : chain) {
            leave_float(specs, each,
                        FloatReason{"quantizer-alone",
                                    "the index of an extreme of floats would be another one in "
                                    "int8, where elements "
                                    "near it have the same code",
                                    "quantize the operator that makes its operand"});
          }
          break;
        }
        if (!graph_.op(producer).def->has_trait(kMovesData) ||
            graph_.op(producer).operands.size() != 1 || graph_.value(value).output_uses > 0)
          break;
        chain.push_back(producer);
        value = graph_.op(producer).operands[0];
      }
    }
  }

  static std::vector<bool> are_quantized(const std::vector<std::optional<OpAnnotation>>& specs) {
    std::vector<bool> quantized(specs.size());
    for (size_t i = 0; i < specs.size(); ++i) quantized[i] = specs[i].has_value();
    return quantized;
  }

  void keep_selections_float(std::vector<std::optional<OpAnnotation>>& specs) {
    for (const OpId id : find_selecting(graph_, are_quantized(specs))) {
      leave_float(
          specs, id,
          FloatReason{"quantizer-selection",
                      "it is part of a selection (topk, argmax of probabilities); in int8 near "
                      "elements have "
                      "one code, so that others would be selected",
                      "nothing, if float is fast enough; else select by what a layer computes"});
    }
  }

  void keep_exact_float(std::vector<std::optional<OpAnnotation>>& specs, ReadExactly as) {
    for (const OpId id : find_read_exactly(graph_, are_quantized(specs), as)) {
      leave_float(
          specs, id,
          as == ReadExactly::kPlaces
              ? FloatReason{"quantizer-places",
                            "it computes places of elements; in int8 they would be those of others",
                            "compute what does not depend on the input before the export"}
              : FloatReason{
                    "quantizer-exact",
                    "a factorization or a mask reads it, for which int8 has too few codes",
                    "nothing, if float is fast enough; else compute it outside of the model"});
    }
  }

  // Only f32 becomes int8. Indices and masks stay as they are, where the specs say so.
  std::optional<FloatReason> find_not_float(const Op& op, const OpAnnotation& specs) const {
    const auto find = [&](const std::vector<ValueId>& values,
                          const std::vector<QuantSpec>& wanted) {
      for (size_t i = 0; i < values.size(); ++i)
        if (values[i].valid() && graph_.type(values[i]).dtype != DType::kFloat32 &&
            (wanted.empty() || wanted[i].kind != Kind::kNone))
          return values[i];
      return ValueId{};
    };
    ValueId other = find(op.operands, specs.operands);
    if (!other.valid()) other = find(op.results, specs.results);
    if (!other.valid()) return std::nullopt;
    return FloatReason{"quantizer-dtype",
                       fmt::format("only f32 is quantized; `{}` is {}", graph_.value(other).name,
                                   name(graph_.type(other).dtype)),
                       "convert the model to float32 where it need not be of another dtype"};
  }

  void apply(OpId id, OpAnnotation specs) {
    const Op& op = graph_.op(id);
    std::vector<int> operand_groups(op.operands.size(), Annotation::kNoGroup);
    const bool leaves_fixed = joins_more_than_fixed(op, specs);
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i].valid())
        operand_groups[i] = is_apart({id, static_cast<uint32_t>(i)}) || (i == 0 && leaves_fixed)
                                ? read_apart(id, op.operands[i], specs.operands[i], operand_groups)
                                : read(id, op.operands[i], specs.operands[i], operand_groups);
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueId result = op.results[i];
      const QuantSpec& spec = specs.results[i];
      int& group = annotation_.group_of_value[result.index];
      if (spec.kind == Kind::kNone) continue;
      if (spec.kind == Kind::kShared) {
        group = operand_groups[spec.operand];
        DTR_CHECK(group != Annotation::kNoGroup);
        if (spec.widens) groups_.observe(group, result);
      } else {
        DTR_CHECK(spec.kind == Kind::kAffine || spec.kind == Kind::kSymmetric ||
                  spec.kind == Kind::kFixed);
        group = groups_.add(spec, result);
      }
    }
    annotation_.ops[id.index] =
        AnnotatedOp{.specs = std::move(specs), .operand_groups = std::move(operand_groups)};
  }

  // Whether the first operand has a fixed quantization, as probabilities have, and what shares it
  // may have elements outside of that.
  bool joins_more_than_fixed(const Op& op, const OpAnnotation& specs) {
    const auto group_of = [&](ValueId value) { return annotation_.group_of_value[value.index]; };
    if (op.operands.empty() || !op.operands[0].valid() ||
        group_of(op.operands[0]) == Annotation::kNoGroup)
      return false;
    const QuantSpec fixed = groups_.at(group_of(op.operands[0])).spec;
    if (fixed.kind != Kind::kFixed) return false;
    for (size_t i = 1; i < op.operands.size(); ++i) {
      if (specs.operands[i].kind != Kind::kShared) continue;
      const int other = group_of(op.operands[i]);
      if (other == Annotation::kNoGroup || groups_.at(other).spec != fixed) return true;
    }
    return std::ranges::any_of(specs.results, [](const QuantSpec& spec) { return spec.widens; });
  }

  bool is_apart(const Use& use) const {
    return std::ranges::any_of(separations_.apart, [&](const Use& each) {
      return each.op == use.op && each.operand == use.operand;
    });
  }

  // The group in which an operand is read that has another one by itself.
  int read_apart(OpId reader, ValueId value, const QuantSpec& spec,
                 const std::vector<int>& operand_groups) {
    int& own = annotation_.group_of_value[value.index];
    if (own == Annotation::kNoGroup) own = groups_.add(QuantSpec::affine(), value);
    annotation_.conflicts.push_back({.value = value, .reader = reader, .shared = true});
    if (spec.kind != Kind::kShared) return groups_.add(spec, value);
    const int wanted = operand_groups[spec.operand];
    groups_.observe(wanted, value);
    return wanted;
  }

  // What a run writes to a state is what the next one reads: both have one quantization.
  void share_states() {
    for (size_t i = 0; i < graph_.state_count(); ++i) {
      const int read = annotation_.group_of_value[graph_.state(i).index];
      const int written = annotation_.group_of_value[graph_.next_state(i).index];
      if (read != Annotation::kNoGroup && written != Annotation::kNoGroup)
        groups_.unite(read, written);
    }
  }

  // The group in which an operand is read; operands before it have theirs.
  int read(OpId reader, ValueId value, const QuantSpec& spec,
           const std::vector<int>& operand_groups) {
    int& group = annotation_.group_of_value[value.index];
    switch (spec.kind) {
      case Kind::kNone:
      case Kind::kPerChannel:
      case Kind::kBias:
        return Annotation::kNoGroup;
      case Kind::kShared: {
        const int wanted = operand_groups[spec.operand];
        DTR_CHECK(wanted != Annotation::kNoGroup);
        if (group != Annotation::kNoGroup && groups_.unite(wanted, group)) return wanted;
        if (group != Annotation::kNoGroup)
          annotation_.conflicts.push_back({.value = value, .reader = reader, .shared = true});
        groups_.observe(wanted, value);
        if (group == Annotation::kNoGroup && !graph_.is_constant(value)) group = wanted;
        return wanted;
      }
      default:
        if (graph_.is_constant(value))
          return groups_.add(spec, value);  // each reader has its own copy of a constant
        if (group == Annotation::kNoGroup) return group = groups_.add(spec, value);
        if (groups_.accept(group, spec)) return group;
        annotation_.conflicts.push_back({.value = value, .reader = reader});
        return groups_.add(spec, value);
    }
  }

  // Ranges come from the elements that somebody selects, where all readers of a value select.
  void observe_what_is_selected() {
    selected_.resize(graph_.value_slots());
    annotation_.windows.resize(graph_.value_slots());
    for (auto id = order_.rbegin(); id != order_.rend(); ++id)
      for (const ValueId result : graph_.op(*id).results)
        selected_[result.index] = selected(result);
    for (const ValueId input : graph_.inputs()) selected_[input.index] = selected(input);
    for (uint32_t i = 0; i < selected_.size(); ++i)
      if (!selected_[i].empty()) annotation_.selected.push_back({i});
    for (QuantizationGroup& group : annotation_.groups) {
      std::vector<ValueId> observed;
      for (const ValueId value : group.observed) {
        const std::vector<ValueId>& instead = selected_[value.index];
        observed.insert(observed.end(), instead.begin(), instead.end());
        if (instead.empty()) observed.push_back(value);
      }
      std::sort(observed.begin(), observed.end());
      observed.erase(std::unique(observed.begin(), observed.end()), observed.end());
      group.observed = std::move(observed);
    }
  }

  // What a use tells apart; none: all elements.
  std::optional<ReadWindow> window_of(const Use& use) const {
    const Op& op = graph_.op(use.op);
    if (use.operand != 0) return std::nullopt;
    if (op.def != &ops::kNeg) return annotation_.ops[use.op.index]->specs.window;
    const ValueId result = op.results[0];
    std::optional<ReadWindow> window = annotation_.windows[result.index];
    if (!window || selected_[result.index] != std::vector{result}) return std::nullopt;
    window->mirrored = !window->mirrored;
    return window;
  }

  // The values that hold all that is selected from `value`, behind ops that move data, too: itself,
  // if readers tell only elements in a window apart. Empty: all of its elements count. Later values
  // are known.
  std::vector<ValueId> selected(ValueId value) {
    constexpr size_t kMost = 8;  // so that chains of wide branches take linear time
    const Value& v = graph_.value(value);
    if (v.output_uses > 0) return {};
    std::vector<ValueId> found;
    std::optional<ReadWindow> window;
    for (const Use& use : v.uses) {
      const Op& op = graph_.op(use.op);
      const std::optional<AnnotatedOp>& annotated = annotation_.ops[use.op.index];
      if (!annotated || op.results.size() != 1) return {};
      if (const std::optional<ReadWindow> own = window_of(use); own) {
        if (window && window != own) return {};
        if (!window) found.push_back(value);
        window = own;
        continue;
      }
      const std::vector<ValueId>& behind = selected_[op.results[0].index];
      if (!annotated->specs.selects && (behind.empty() || !op.def->has_trait(kMovesData)))
        return {};
      found.insert(found.end(), behind.begin(), behind.end());
      if (behind.empty()) found.push_back(op.results[0]);
      if (found.size() > kMost) return {};
    }
    annotation_.windows[value.index] = window;
    return found;
  }

  const Graph& graph_;
  std::span<const std::unique_ptr<QuantizationPatterns>> patterns_;
  const Separations& separations_;
  Annotation annotation_;
  Groups groups_;
  std::vector<OpId> order_;
  std::vector<std::vector<ValueId>> selected_;  // by value slot
};

}  // namespace

std::optional<int> channel_axis(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  if (op.operands.size() < 2 || !graph.is_constant(op.operands[1]) ||
      graph.is_constant(op.operands[0]))
    return std::nullopt;
  const auto rank = static_cast<int>(graph.type(op.operands[0]).rank());
  if (op.def == &ops::kLinear) return rank - 1;
  if (op.def == &ops::kConvolution && rank >= 3 && !op.attributes.get<bool>("transposed")) return 1;
  return std::nullopt;
}

Annotation annotate(const Graph& graph,
                    std::span<const std::unique_ptr<QuantizationPatterns>> patterns,
                    const Separations& separations) {
  return Annotator(graph, patterns, separations).run();
}

}  // namespace dtr
