#include "compiler/backends/neutron/schedule/stripes.h"

#include <algorithm>
#include <array>

#include "compiler/backends/neutron/memory/trails.h"
#include "compiler/backends/neutron/schedule/row_access.h"
#include "compiler/backends/neutron/schedule/schedule.h"
#include "compiler/support/arena_planner.h"

namespace dtr::neutron {
namespace {

constexpr uint32_t kMaxChain = 24;
constexpr std::array<uint32_t, 20> kStripes{2,  3,  4,  5,  6,  7,  8,  10, 12, 14,
                                            16, 20, 24, 28, 32, 40, 48, 56, 64, 112};
constexpr uint64_t kNever = UINT64_MAX;

// The calls of a graph with the rows that they read and the uses of their storages.
class Rows {
 public:
  explicit Rows(const LoweredGraph& graph)
      : graph_(graph),
        pitches_(graph.storages.size(), 0),
        first_(graph.storages.size(), UINT32_MAX),
        last_(graph.storages.size(), 0) {
    find_pitches(graph.calls, pitches_);
    for (uint32_t call = 0; call < graph.calls.size(); ++call) {
      access_.push_back(row_access(graph.calls[call].kernel, pitches_));
      visit_addresses(graph.calls[call].kernel, [&](const npu::Address& address, Access) {
        if (address.region == kOwnConstants) return;
        first_[address.region] = std::min(first_[address.region], call);
        last_[address.region] = std::max(last_[address.region], call);
      });
    }
    const auto end = static_cast<uint32_t>(graph.calls.size());
    for (size_t i = 0; i < graph.storages.size(); ++i) {
      if (graph.storages[i].kind == Storage::Kind::kInput) first_[i] = 0;
      if (graph.storages[i].kind == Storage::Kind::kOutput) last_[i] = end;
    }
  }

  const LoweredGraph& graph() const { return graph_; }
  const std::optional<RowAccess>& access(uint32_t call) const { return access_[call]; }
  uint32_t pitch(uint32_t storage) const { return pitches_[storage]; }
  uint32_t rows(uint32_t storage) const {
    return graph_.storages[storage].bytes / pitches_[storage];
  }
  uint32_t first(uint32_t storage) const { return first_[storage]; }
  uint32_t last(uint32_t storage) const { return last_[storage]; }
  // All accesses to the storage are by calls `from` to `to`.
  bool inside(uint32_t storage, uint32_t from, uint32_t to) const {
    return graph_.storages[storage].kind == Storage::Kind::kInterior && first_[storage] >= from &&
           last_[storage] <= to;
  }

 private:
  const LoweredGraph& graph_;
  Pitches pitches_;
  std::vector<uint32_t> first_, last_;  // by storage: calls that access it
  std::vector<std::optional<RowAccess>> access_;
};

// The rows of one stripe.
struct Stripe {
  std::vector<RowRange> results;  // by call of the chain: rows of its result; may be empty
  std::vector<RowRange> held;     // by storage of the chain: rows of it
};

// One candidate: calls `first` to `last`.
class ChainRows {
 public:
  // std::nullopt: some call does not compute by rows.
  static std::optional<ChainRows> make(const Rows& rows, uint32_t first, uint32_t last) {
    ChainRows chain(rows, first, last);
    if (!chain.collect()) return std::nullopt;
    return chain;
  }

  uint32_t most_stripes() const { return most_stripes_; }
  const std::vector<uint32_t>& storages() const { return storages_; }
  bool striped(size_t local) const { return striped_[local]; }
  size_t local(uint32_t storage) const {
    return static_cast<size_t>(std::ranges::find(storages_, storage) - storages_.begin());
  }

  // Stripe `index` of `count`. `done` is updated: for each call of the chain whose storage stays
  // whole the row of that storage behind those that it wrote in earlier stripes, or the row of its
  // result if it does not write by rows of the storage. Calls that write channels of one storage
  // may have come to different rows.
  Stripe stripe(uint32_t index, uint32_t count, std::vector<uint32_t>& done) const {
    Stripe made{std::vector<RowRange>(last_ - first_ + 1), std::vector<RowRange>(storages_.size())};
    const auto end_of = [&](uint64_t rows) {
      return static_cast<uint32_t>(rows * (index + 1) / count);
    };
    for (size_t i = 0; i < storages_.size(); ++i)
      if (!striped_[i] && written_[i] && rows_.pitch(storages_[i]) != 0)
        made.held[i] = {0, end_of(rows_.rows(storages_[i]))};
    for (uint32_t call = last_ + 1; call-- > first_;) {
      const RowAccess& access = *rows_.access(call);
      const RowOperand& output = access.operands.back();
      const size_t to = local(output.address.region);
      uint32_t& written = done[call - first_];
      RowRange& result = made.results[call - first_];
      if (output.pitch == 0) {
        result = {written, end_of(access.rows)};
        written = result.end;
      } else if (striped_[to]) {
        result = operand_rows(output, made.held[to]);
      } else {
        result = operand_rows(output, {written, made.held[to].end});
        written = std::max(written, made.held[to].end);
      }
      if (result.empty()) continue;
      for (const RowOperand& operand : access.operands) {
        if (operand.access == Access::kWrite || operand.pitch == 0) continue;
        const RowRange read = operand.windowed ? access.read_for(result, operand.rows) : result;
        const size_t at = local(operand.address.region);
        if (!written_[at]) continue;
        const RowRange rows = storage_rows(operand, read);
        if (striped_[at]) made.held[at].include(rows);
        // Earlier rows of a tensor that stays whole are there.
        else
          made.held[at].end = std::max(made.held[at].end, rows.end);
      }
    }
    return made;
  }

  // Bytes of the stripe's own tensors at its call `call`.
  uint64_t live(const Stripe& stripe, uint32_t call) const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < storages_.size(); ++i)
      if (striped_[i] && rows_.first(storages_[i]) <= call && call <= rows_.last(storages_[i]))
        bytes += round_up(uint64_t{stripe.held[i].count()} * rows_.pitch(storages_[i]));
    return bytes;
  }

 private:
  ChainRows(const Rows& rows, uint32_t first, uint32_t last)
      : rows_(rows), first_(first), last_(last) {}

  static uint64_t round_up(uint64_t bytes) {
    return (bytes + npu::kAlignment - 1) / npu::kAlignment * npu::kAlignment;
  }

  bool collect() {
    bool any_whole = false;
    for (uint32_t call = first_; call <= last_; ++call) {
      const std::optional<RowAccess>& access = rows_.access(call);
      if (!access || access->operands.empty() || access->operands.back().access != Access::kWrite)
        return false;
      for (const RowOperand& operand : access->operands) {
        const uint32_t storage = operand.address.region;
        size_t at = local(storage);
        if (at == storages_.size()) {
          storages_.push_back(storage);
          striped_.push_back(rows_.inside(storage, first_, last_));
          written_.push_back(false);
        }
        written_[at] = written_[at] || operand.access == Access::kWrite;
      }
    }
    for (uint32_t call = first_; call <= last_; ++call)
      for (const RowOperand& operand : rows_.access(call)->operands) {
        const size_t at = local(operand.address.region);
        if (!written_[at]) continue;
        const uint32_t pitch = rows_.pitch(storages_[at]);
        // What is written in another order than by rows, nobody else may touch.
        if (operand.pitch == 0 ? striped_[at] || uses(storages_[at]) != 1
                               : rows_.graph().storages[storages_[at]].bytes % pitch != 0)
          return false;
        if (striped_[at]) continue;
        any_whole = true;
        most_stripes_ = std::max(most_stripes_, operand.pitch == 0 ? rows_.access(call)->rows
                                                                   : rows_.rows(storages_[at]));
      }
    return any_whole;
  }

  // Operands of calls of the chain in the storage.
  ptrdiff_t uses(uint32_t storage) const {
    ptrdiff_t count = 0;
    for (uint32_t call = first_; call <= last_; ++call)
      count += std::ranges::count_if(rows_.access(call)->operands, [&](const RowOperand& operand) {
        return operand.address.region == storage;
      });
    return count;
  }

  const Rows& rows_;
  uint32_t first_, last_;
  uint32_t most_stripes_ = 1;
  std::vector<uint32_t> storages_;  // that the calls of the chain access
  std::vector<bool> striped_, written_;
};

uint64_t call_cycles(const npu::Target& target, const Kernel& kernel) {
  return target.call_host_cycles + cycles(target, kernel).total;
}
uint64_t copy_cost(const npu::Target& target, uint64_t bytes) {
  return target.copy_host_cycles +
         npu::copy_cycles(target, npu::Copy{.bytes = static_cast<uint32_t>(bytes)});
}

// Into how many parts a call's constants must be split to fit into `room`; 0: they do not fit.
uint32_t parts_within(const npu::Target& target, const Call& call, uint64_t room) {
  uint32_t parts = 1;
  while (slice_bytes(target, call, parts) > room) {
    if (parts >= most_slices(target, call)) return 0;
    ++parts;
  }
  return parts;
}

class ChainSearch {
 public:
  ChainSearch(const Machine& machine, const LoweredGraph& graph, const MemoryPlan& memory,
              uint64_t limit)
      : machine_(machine),
        target_(machine.target),
        graph_(graph),
        memory_(memory),
        limit_(limit),
        rows_(graph) {}

  ChainChoice run(uint32_t fewest_calls) {
    const auto count = static_cast<uint32_t>(graph_.calls.size());
    whole_.resize(count);
    for (uint32_t call = 0; call < count; ++call) whole_[call] = whole_cycles(call);
    for (const Call& call : graph_.calls)
      least_slice_.push_back(slice_bytes(target_, call, most_slices(target_, call)));
    std::vector<uint32_t> misfits_before(count + 1, 0);
    for (uint32_t call = 0; call < count; ++call)
      misfits_before[call + 1] = misfits_before[call] + (whole_[call] == kNever ? 1 : 0);

    std::vector<uint64_t> best(count + 1, kNever);
    std::vector<std::optional<Chain>> through(count + 1);  // the chain that ends before the call
    best[0] = 0;
    uint32_t reached = 0;
    for (uint32_t first = 0; first < count; ++first) {
      if (best[first] == kNever) continue;
      reached = first;
      if (whole_[first] != kNever && best[first] + whole_[first] < best[first + 1]) {
        best[first + 1] = best[first] + whole_[first];
        through[first + 1].reset();
      }
      if (machine_.options.nxp_like()) continue;
      for (uint32_t last = first + fewest_calls - 1; last < std::min(count, first + kMaxChain);
           ++last) {
        if (!rows_.access(last) || !rows_.access(first)) break;
        if (misfits_before[last + 1] == misfits_before[first]) continue;
        Chain chain{.first = first, .last = last};
        const uint64_t least = best[first] + least_cycles(first, last);
        if (least >= best[last + 1]) continue;
        const uint64_t cost = cheapest(chain);
        if (cost == kNever || best[first] + cost >= best[last + 1]) continue;
        best[last + 1] = best[first] + cost;
        through[last + 1] = chain;
      }
    }
    ChainChoice choice;
    if (best[count] == kNever) {
      choice.too_large = reached;
      return choice;
    }
    for (uint32_t end = count; end > 0;) {
      if (!through[end]) {
        --end;
        continue;
      }
      choice.chains.push_back(*through[end]);
      end = through[end]->first;
    }
    std::ranges::reverse(choice.chains);
    return choice;
  }

 private:
  // Cycles of the call alone with its tensors whole; kNever if it does not fit.
  uint64_t whole_cycles(uint32_t index) const {
    const Call& call = graph_.calls[index];
    const uint64_t live = memory_.live_bytes[index];
    if (live > limit_) return kNever;
    if (machine_.options.constants_in_sram) return call_cycles(target_, call.kernel);
    const uint32_t parts = parts_within(target_, call, limit_ - live);
    if (parts == 0) return kNever;
    return call_cycles(target_, call.kernel) +
           (parts - 1) * (target_.call_host_cycles + target_.call_npu_cycles);
  }

  // A bound for any way to run the calls in stripes.
  uint64_t least_cycles(uint32_t first, uint32_t last) const {
    uint64_t least = 0;
    for (uint32_t call = first; call <= last; ++call)
      least += call_cycles(target_, graph_.calls[call].kernel) + target_.call_host_cycles;
    return least;
  }

  // Tensors in use while the chain runs that are not of its stripes.
  struct Outside {
    uint64_t bytes = 0;  // what is written in place counted once
    // Storages that the chain reads last, and those that it writes first, in memory of their own.
    std::vector<uint32_t> operands, results;
  };
  Outside outside_of(const Chain& chain) const {
    std::vector<uint32_t> used;
    uint64_t bytes = 0;
    for (uint32_t storage = 0; storage < graph_.storages.size(); ++storage)
      if (memory_.buffer_of[storage] < memory_.buffers.size() &&
          rows_.first(storage) <= chain.last && rows_.last(storage) >= chain.first &&
          !rows_.inside(storage, chain.first, chain.last)) {
        used.push_back(storage);
        bytes += graph_.storages[storage].bytes;
      }
    std::vector<bool> shares(graph_.storages.size(), false);
    for (const uint32_t operand : used)
      for (const uint32_t result : used)
        if (operand != result && memory_.buffer_of[operand] == memory_.buffer_of[result]) {
          shares[operand] = shares[result] = true;
          if (rows_.last(operand) == rows_.first(result) &&
              !is_read_before(operand, chain.first, rows_.first(result)))
            bytes -= graph_.storages[result].bytes;
        }
    Outside outside{.bytes = bytes};
    for (const uint32_t storage : used) {
      const Storage::Kind kind = graph_.storages[storage].kind;
      if (shares[storage]) continue;
      const bool is_there = kind == Storage::Kind::kInput || rows_.first(storage) < chain.first;
      if (kind != Storage::Kind::kOutput && is_there && rows_.last(storage) <= chain.last)
        outside.operands.push_back(storage);
      if (kind != Storage::Kind::kInput && rows_.first(storage) >= chain.first &&
          rows_.last(storage) > chain.last)
        outside.results.push_back(storage);
    }
    return outside;
  }

  // Bytes that results of the chain share with operands, as find_trails will see it. `sampled`:
  // looks at few stripes.
  uint64_t shared_bytes(const ChainRows& rows, const Chain& chain, const Outside& outside,
                        bool sampled) const {
    uint64_t most = 0;
    for (const uint32_t result : outside.results)
      for (const uint32_t operand : outside.operands) {
        const int64_t from = graph_.storages[operand].bytes, to = graph_.storages[result].bytes;
        if (static_cast<uint64_t>(std::min(from, to)) <= most) continue;
        const std::optional<int64_t> lag = lag_of(rows, chain, operand, result, sampled);
        if (lag) most = std::max(most, static_cast<uint64_t>(trail_overlap(from, to, *lag)));
      }
    return most;
  }

  std::optional<int64_t> lag_of(const ChainRows& rows, const Chain& chain, uint32_t operand,
                                uint32_t result, bool sampled) const {
    std::optional<int64_t> most;
    TrailLag lag;
    std::vector<uint32_t> done(chain.last - chain.first + 1, 0);
    bool written = false;
    const auto add = [&](uint32_t index) {
      const Stripe stripe = rows.stripe(index, chain.stripes, done);
      for (uint32_t call = chain.first; call <= chain.last; ++call) {
        const RowRange of = stripe.results[call - chain.first];
        if (of.empty()) continue;
        ByteRange read, write;
        std::optional<Kernel> part;
        for (const RowOperand& touched : rows_.access(call)->operands) {
          const uint32_t storage = touched.address.region;
          if (storage != operand && storage != result) continue;
          if (!part) part = rows_of(graph_.calls[call].kernel, *rows_.access(call), of);
        }
        if (!part) continue;
        visit_addresses(*part, [&](const npu::Address& address, Access access) {
          if (address.region != operand && address.region != result) return;
          const ByteRange bytes = footprint(*part, address, graph_.storages[address.region].bytes);
          if (address.region == operand) {
            read.include(bytes);
            written |= access == Access::kWrite;
          } else if (access == Access::kWrite) {
            write.include(bytes);
          }
        });
        lag.add_call(read, write);
      }
    };
    if (!sampled) {
      for (uint32_t index = 0; index < chain.stripes; ++index) add(index);
      most = lag.lag();
    } else {
      const uint32_t last = chain.stripes - 2;  // with the stripe behind it
      for (const uint32_t index : {0u, std::min(chain.stripes / 2, last), last}) {
        lag = {};
        for (uint32_t call = chain.first; call <= chain.last; ++call)
          done[call - chain.first] = first_row(call, index, chain);
        add(index);
        add(index + 1);
        most = std::max(most.value_or(INT64_MIN), lag.lag());
      }
    }
    return written || most == INT64_MIN ? std::nullopt : most;
  }
  // A call of the chain before `writer` reads the tensor: in the next stripe it would find what
  // `writer` wrote in its place.
  bool is_read_before(uint32_t storage, uint32_t first, uint32_t writer) const {
    for (uint32_t call = first; call < writer; ++call)
      for (const RowOperand& operand : rows_.access(call)->operands)
        if (operand.address.region == storage) return true;
    return false;
  }

  uint64_t bytes_of(const std::vector<uint32_t>& storages) const {
    uint64_t bytes = 0;
    for (const uint32_t storage : storages) bytes += graph_.storages[storage].bytes;
    return bytes;
  }

  // The cost of the chain with the fewest stripes that fits, which it stores in `chain`.
  uint64_t cheapest(Chain& chain) const {
    const Outside outside = outside_of(chain);
    const uint64_t least_outside =
        outside.operands.empty() || outside.results.empty()
            ? outside.bytes
            : outside.bytes - std::min(bytes_of(outside.operands), bytes_of(outside.results));
    if (least_outside >= limit_) return kNever;
    const std::optional<ChainRows> rows = ChainRows::make(rows_, chain.first, chain.last);
    if (!rows) return kNever;
    uint64_t constants = 0;
    for (uint32_t call = chain.first; call <= chain.last; ++call)
      constants += graph_.calls[call].constants.size();
    if (machine_.options.constants_in_sram) constants = 0;

    // As many stripes as rows last: they need the least memory.
    std::vector<uint32_t> stripes;
    for (const uint32_t each : kStripes)
      if (each < rows->most_stripes()) stripes.push_back(each);
    if (rows->most_stripes() > 1)
      stripes.push_back(std::min(rows->most_stripes(), kStripes.back()));
    const size_t count = stripes.size();
    // By number of stripes; 0: not known yet.
    struct Known {
      uint64_t beside = 0;  // bytes of tensors that are not of the stripes
      std::optional<Needs> needs;
    };
    std::array<std::array<Known, 2>, kStripes.size() + 1> known{};
    const auto beside = [&](size_t at, bool sampled) {
      uint64_t& bytes = known[at][sampled ? 1 : 0].beside;
      if (bytes == 0) {
        const Chain of{chain.first, chain.last, stripes[at], false};
        bytes = outside.bytes - shared_bytes(*rows, of, outside, sampled);
      }
      return bytes;
    };
    const auto needs = [&](size_t at, bool sampled) {
      std::optional<Needs>& made = known[at][sampled ? 1 : 0].needs;
      if (!made)
        made = needs_of(*rows, {chain.first, chain.last, stripes[at], false}, sampled,
                        limit_ - least_outside);
      return *made;
    };
    uint64_t best = kNever;
    for (const bool keeps : {true, false}) {
      if (keeps && least_outside + constants >= limit_) continue;
      if (!keeps && machine_.options.constants_in_sram) continue;
      Chain tried{chain.first, chain.last, 1, keeps};
      const auto fits = [&](size_t at, bool sampled) {
        const Needs of = needs(at, sampled);
        const uint64_t bytes = keeps ? of.kept + constants : of.copied;
        return least_outside + bytes <= limit_ && beside(at, sampled) + bytes <= limit_;
      };
      if (count == 0 || !fits(count - 1, true)) continue;
      // The fewest stripes: more of them never need more memory, up to a row of rounding.
      size_t low = 0, high = count - 1;
      while (low < high) {
        const size_t middle = (low + high) / 2;
        if (fits(middle, true))
          high = middle;
        else
          low = middle + 1;
      }
      while (low < count && !fits(low, false)) ++low;
      if (low == count) continue;
      tried.stripes = stripes[low];
      const uint64_t cycles = cost(*rows, tried, beside(low, false) + (keeps ? constants : 0));
      if (cycles >= best) continue;
      best = cycles;
      chain = tried;
    }
    return best;
  }

  // Calls visit(index, call, rows of the result, the stripe) in the order of execution until it
  // returns false; `sampled`: for the first, middle and last stripe only.
  void visit_stripes(const ChainRows& rows, const Chain& chain, bool sampled, auto visit) const {
    std::vector<uint32_t> done(chain.last - chain.first + 1, 0);
    const auto visit_stripe = [&](uint32_t index) {
      const Stripe stripe = rows.stripe(index, chain.stripes, done);
      for (uint32_t call = chain.first; call <= chain.last; ++call)
        if (const RowRange result = stripe.results[call - chain.first]; !result.empty())
          if (!visit(index, call, result, stripe)) return false;
      return true;
    };
    if (!sampled) {
      for (uint32_t index = 0; index < chain.stripes; ++index)
        if (!visit_stripe(index)) return;
      return;
    }
    for (const uint32_t index : {0u, chain.stripes / 2, chain.stripes - 1}) {
      for (uint32_t call = chain.first; call <= chain.last; ++call)
        done[call - chain.first] = first_row(call, index, chain);
      if (!visit_stripe(index)) return;
    }
  }

  // Most bytes that the stripes need at once; more than `most`: at least so many.
  struct Needs {
    uint64_t kept = 0;    // of their tensors
    uint64_t copied = 0;  // and the smallest parts of their constants
  };
  Needs needs_of(const ChainRows& rows, const Chain& chain, bool sampled, uint64_t most) const {
    Needs needs;
    visit_stripes(rows, chain, sampled,
                  [&](uint32_t, uint32_t call, RowRange, const Stripe& stripe) {
                    const uint64_t live = rows.live(stripe, call);
                    needs.kept = std::max(needs.kept, live);
                    needs.copied = std::max(needs.copied, live + least_slice_[call]);
                    return needs.kept <= most;
                  });
    return needs;
  }

  // Cycles of the chain, which fits beside `outside` bytes of SRAM.
  uint64_t cost(const ChainRows& rows, const Chain& chain, uint64_t outside) const {
    uint64_t cycles = 0;
    visit_stripes(rows, chain, false,
                  [&](uint32_t index, uint32_t call, RowRange result, const Stripe& stripe) {
                    const Call& whole = graph_.calls[call];
                    cycles +=
                        call_cycles(target_, rows_of(whole.kernel, *rows_.access(call), result));
                    if (chain.keeps_constants || whole.constants.empty()) return true;
                    const uint64_t room = limit_ - outside - rows.live(stripe, call);
                    cycles += (parts_within(target_, whole, room) - 1) *
                              (target_.call_host_cycles + target_.call_npu_cycles);
                    if (index > 0) cycles += copy_cost(target_, whole.constants.size());
                    return true;
                  });
    return cycles;
  }
  // About the row that the call has come to before stripe `index`, as ChainRows::stripe counts it.
  uint32_t first_row(uint32_t call, uint32_t index, const Chain& chain) const {
    const RowAccess& access = *rows_.access(call);
    const RowOperand& output = access.operands.back();
    const uint32_t rows = output.pitch == 0 ? access.rows : rows_.rows(output.address.region);
    return static_cast<uint32_t>(uint64_t{rows} * index / chain.stripes);
  }

  const Machine& machine_;
  const npu::Target& target_;
  const LoweredGraph& graph_;
  const MemoryPlan& memory_;
  uint64_t limit_;
  Rows rows_;
  std::vector<uint64_t> whole_;        // by call: whole_cycles
  std::vector<uint64_t> least_slice_;  // by call: bytes of the smallest part of its constants
};

// Appends the stripes of a chain to the calls of `made`.
void append_chain(const Rows& rows, const Chain& chain, LoweredGraph& made,
                  std::vector<uint32_t>& last_part) {
  const LoweredGraph& graph = rows.graph();
  const std::optional<ChainRows> of = ChainRows::make(rows, chain.first, chain.last);
  DTR_CHECK(of.has_value());
  std::vector<uint32_t> done(chain.last - chain.first + 1, 0);
  std::vector<uint32_t> block(chain.last - chain.first + 1, kNoCall);
  struct Part {
    uint32_t call;  // of `made`
    uint32_t rows;
  };
  std::vector<std::vector<Part>> parts(chain.last - chain.first + 1);
  for (uint32_t index = 0; index < chain.stripes; ++index) {
    const Stripe stripe = of->stripe(index, chain.stripes, done);
    std::vector<uint32_t> region(of->storages().begin(), of->storages().end());
    for (size_t i = 0; i < region.size(); ++i) {
      if (!of->striped(i) || stripe.held[i].empty()) continue;
      const Storage& whole = graph.storages[of->storages()[i]];
      region[i] = static_cast<uint32_t>(made.storages.size());
      made.storages.push_back({Storage::Kind::kInterior, 0,
                               stripe.held[i].count() * rows.pitch(of->storages()[i]), whole.name});
    }
    for (uint32_t call = chain.first; call <= chain.last; ++call) {
      const RowRange result = stripe.results[call - chain.first];
      if (result.empty()) continue;
      const Call& whole = graph.calls[call];
      Call part{.kernel = rows_of(whole.kernel, *rows.access(call), result),
                .constants = {},
                .origin = whole.origin,
                .rearranges = whole.rearranges};
      visit_addresses(part.kernel, [&](npu::Address& address, Access) {
        if (address.region == kOwnConstants) return;
        const size_t at = of->local(address.region);
        if (!of->striped(at)) return;
        address.offset -= stripe.held[at].begin * rows.pitch(of->storages()[at]);
        address.region = region[at];
      });
      if (part.origin.parts == 1) {
        part.origin.part = index;
        part.origin.parts = chain.stripes;
      }
      uint32_t& kept = block[call - chain.first];
      if (chain.keeps_constants && kept != kNoCall && !whole.constants.empty()) {
        part.block_of = kept;
      } else {
        part.constants = whole.constants;
        part.weights = whole.weights;
        kept = static_cast<uint32_t>(made.calls.size());
      }
      last_part[call] = static_cast<uint32_t>(made.calls.size());
      parts[call - chain.first].push_back({last_part[call], result.count()});
      made.calls.push_back(std::move(part));
    }
  }
  // Rows that two stripes compute are products of the operator's definition once.
  for (uint32_t call = chain.first; call <= chain.last; ++call) {
    const int64_t macs = graph.calls[call].macs;
    int64_t computed = 0, before = 0;
    for (const Part& part : parts[call - chain.first]) computed += part.rows;
    for (const Part& part : parts[call - chain.first]) {
      made.calls[part.call].macs =
          macs * (before + part.rows) / computed - macs * before / computed;
      before += part.rows;
    }
  }
}

}  // namespace

ChainChoice choose_chains(const Machine& machine, const LoweredGraph& graph,
                          const MemoryPlan& memory, uint64_t limit, uint32_t fewest_calls) {
  return ChainSearch(machine, graph, memory, limit).run(fewest_calls);
}

uint32_t most_stripes(const LoweredGraph& graph, uint32_t first, uint32_t last) {
  const Rows rows(graph);
  for (uint32_t call = first; call <= last; ++call)
    if (!rows.access(call)) return 1;
  const std::optional<ChainRows> chain = ChainRows::make(rows, first, last);
  return chain ? chain->most_stripes() : 1;
}

LoweredGraph in_stripes(const LoweredGraph& graph, const std::vector<Chain>& chains) {
  if (chains.empty()) return graph;
  const Rows rows(graph);
  LoweredGraph made{graph.storages, {}, graph.values};
  std::vector<uint32_t> last_part(graph.calls.size(), 0);
  size_t next = 0;
  for (uint32_t call = 0; call < graph.calls.size(); ++call) {
    if (next < chains.size() && chains[next].first == call) {
      append_chain(rows, chains[next], made, last_part);
      call = chains[next++].last;
      continue;
    }
    last_part[call] = static_cast<uint32_t>(made.calls.size());
    made.calls.push_back(graph.calls[call]);
  }
  for (std::optional<Location>& value : made.values) {
    if (!value) continue;
    const uint32_t storage = value->storage;
    const bool whole = std::ranges::none_of(
        chains, [&](const Chain& chain) { return rows.inside(storage, chain.first, chain.last); });
    if (!whole)
      value.reset();
    else if (value->after_call < last_part.size())
      value->after_call = last_part[value->after_call];
  }
  return made;
}

}  // namespace dtr::neutron
