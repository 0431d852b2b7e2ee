#include "compiler/quantizer/small_divisors.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "compiler/ops/ops.h"

namespace dtr {
namespace {

// A divisor of 1/32 of the greatest has 8 of the 255 codes: half a step is 6 % of it.
constexpr double kSmallest = 1.0 / 32;
// Below it the code is that of zero.
constexpr double kHalfStep = 1.0 / 510;
// Of the greatest dividend in the greatest quotient times the least divisor.
constexpr double kSmallQuotient = 1.0 / 16;
// Of the graph's multiplications in one product that becomes float.
constexpr int64_t kPartOfProduct = 8;

class Finder {
 public:
  Finder(const Graph& graph, const Annotation& annotation, const CalibrationResult& calibration)
      : graph_(graph), annotation_(annotation), calibration_(calibration) {
    for (const OpId id : graph.ops()) all_macs_ += macs(id);
  }

  std::vector<OpId> find() {
    seen_.assign(graph_.op_slots(), false);
    for (const OpId id : graph_.ops()) {
      const Op& op = graph_.op(id);
      if (op.def != &ops::kDivTensor) continue;
      const double least = least_of(op.operands[1]);
      const bool rounds_to_zero = least > 0 && least < kHalfStep && !is_small_too(op);
      if (rounds_to_zero || (least < kSmallest && comes_from_product(op.operands[1])))
        keep_float(id);
    }
    std::vector<OpId> annotated;
    for (const OpId id : graph_.ops())
      if (seen_[id.index] && annotation_.ops[id.index]) annotated.push_back(id);
    return annotated;
  }

 private:
  int64_t macs(OpId id) const {
    const BoundOpView view(graph_, id);
    return view->def->macs == nullptr ? 0 : view->def->macs(*view);
  }

  // Whether the dividend is small where the divisor is: so are the quotients. False if calibration
  // does not know them.
  bool is_small_too(const Op& division) const {
    const double dividend = most_of(division.operands[0]), quotient = most_of(division.results[0]),
                 divisor = most_of(division.operands[1]);
    return dividend > 0 && quotient > 0 &&
           quotient * least_of(division.operands[1]) * divisor < kSmallQuotient * dividend;
  }

  // What calibration saw; std::nullopt if it is not known.
  std::optional<Range> range_of(ValueId value) const {
    const auto at = calibration_.values.find(graph_.value(value).name);
    if (at == calibration_.values.end() || at->second.empty()) return std::nullopt;
    return at->second.range();
  }

  // The greatest magnitude; 0 if it is not known.
  double most_of(ValueId value) const {
    const Range range = range_of(value).value_or(Range{0, 0});
    return std::max(std::abs(static_cast<double>(range.min)),
                    std::abs(static_cast<double>(range.max)));
  }

  // The divisor nearest to zero as a part of the farthest; 0 where both signs or zeros were seen, 1
  // if nothing is known.
  double least_of(ValueId divisor) const {
    const double most = most_of(divisor);
    if (most == 0) return 1;
    const Range range = *range_of(divisor);
    const double least = range.min > 0 ? range.min : range.max < 0 ? -range.max : 0;
    return least / most;
  }

  bool comes_from_product(ValueId divisor) const {
    std::vector<bool> seen(graph_.op_slots(), false);
    std::vector<ValueId> open{divisor};
    while (!open.empty()) {
      const OpId id = annotated_producer(open.back());
      open.pop_back();
      if (!id.valid() || seen[id.index] || !may_be_float(id)) continue;
      seen[id.index] = true;
      const Op& op = graph_.op(id);
      if (op.def->macs != nullptr) return true;
      open.insert(open.end(), op.operands.begin(), op.operands.end());
    }
    return false;
  }

  // The division, which may be float already, and what makes its operands.
  void keep_float(OpId division) {
    std::vector<OpId> open{division};
    while (!open.empty()) {
      const OpId id = open.back();
      open.pop_back();
      if (seen_[id.index]) continue;
      seen_[id.index] = true;
      const Op& op = graph_.op(id);
      for (const ValueId operand : op.operands) {
        const OpId producer = annotated_producer(operand);
        if (!producer.valid() || !may_be_float(producer)) continue;
        if (op.def->macs == nullptr || is_made_by_product(operand)) open.push_back(producer);
      }
    }
  }

  OpId annotated_producer(ValueId value) const {
    const OpId producer = value.valid() ? graph_.producer(value) : OpId{};
    return producer.valid() && annotation_.ops[producer.index] ? producer : OpId{};
  }

  // Whether a product that may be float makes the value, perhaps behind ops that move its elements.
  bool is_made_by_product(ValueId value) const {
    OpId id = annotated_producer(value);
    while (id.valid() && graph_.op(id).def->macs == nullptr) {
      if (!graph_.op(id).def->has_trait(kMovesData) || graph_.op(id).operands.size() != 1)
        return false;
      id = annotated_producer(graph_.op(id).operands[0]);
    }
    return id.valid() && may_be_float(id);
  }

  bool may_be_float(OpId id) const {
    const Op& op = graph_.op(id);
    if (op.def->macs != nullptr)
      return std::ranges::none_of(
                 op.operands,
                 [&](ValueId each) { return each.valid() && graph_.is_constant(each); }) &&
             macs(id) <= all_macs_ / kPartOfProduct;
    return op.def->has_trait(kElementwise) || op.def->has_trait(kMovesData) ||
           op.def == &ops::kSumDim || op.def == &ops::kMeanDim;
  }

  const Graph& graph_;
  const Annotation& annotation_;
  const CalibrationResult& calibration_;
  int64_t all_macs_ = 0;
  std::vector<bool> seen_;  // by op slot
};

}  // namespace

std::vector<OpId> find_small_divisors(const Graph& graph, const Annotation& annotation,
                                      const CalibrationResult& calibration) {
  return Finder(graph, annotation, calibration).find();
}

}  // namespace dtr
