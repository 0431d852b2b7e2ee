#include "compiler/backends/neutron/schedule/shared_weights.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "compiler/backends/neutron/lowering/weights.h"
#include "compiler/backends/neutron/schedule/schedule.h"
#include "compiler/ir/constant_pool.h"

namespace dtr::neutron {
namespace {

// Fewer bytes are about as many as the parameters that each call has beside them.
constexpr uint64_t kFewestBytes = 1024;
// A further copy may add half of the time that the weights themselves take.
constexpr uint64_t kTimesFurtherCopy = 2;

// The bytes of the call's block that are its weights; none if the block does not have them.
struct Part {
  size_t offset = 0, bytes = 0;
};
Part weights_of(const npu::Target& target, const Call& call) {
  const auto part = [](const npu::Address& address, const PackedSize& size) {
    return address.region == kOwnConstants ? Part{address.offset, size.weights} : Part{};
  };
  if (call.constants.empty()) return {};
  if (const auto* conv = std::get_if<npu::Conv2d>(&call.kernel))
    return part(conv->weights, packed_conv2d(conv->window, conv->packing, target));
  if (const auto* depthwise = std::get_if<npu::Depthwise>(&call.kernel))
    return part(depthwise->weights, packed_depthwise(depthwise->window, target));
  return {};
}

bool is_worth_a_copy(const npu::Target& target, uint64_t bytes) {
  const uint64_t setup = npu::copy_cycles(target, npu::Copy{.bytes = 0});
  const uint64_t all = npu::copy_cycles(target, npu::Copy{.bytes = static_cast<uint32_t>(bytes)});
  return all - setup >= kTimesFurtherCopy * (setup + target.copy_host_cycles);
}

// Takes the weights out of the call's block. What is behind them moves to where they began.
void remove_weights(Call& call, const Part& weights) {
  const size_t end = std::min<size_t>(
      call.constants.size(),
      npu::round_up(static_cast<uint32_t>(weights.offset + weights.bytes), npu::kAlignment));
  const std::vector<ConstantBlock::Piece> kept{
      {.from = 0, .bytes = weights.offset, .at = 0},
      {.from = end, .bytes = call.constants.size() - end, .at = weights.offset}};
  const auto removed = static_cast<uint32_t>(end - weights.offset);
  call.constants = call.constants.with(kept, call.constants.size() - removed);
  visit_addresses(call.kernel, [&](npu::Address& address, Access) {
    if (address.region == kOwnConstants && address.offset >= end) address.offset -= removed;
  });
  visit_weights(call.kernel, [](npu::Address& address) { address = {kSharedWeights, 0}; });
}

// Where weights of calls before are.
struct Known {
  uint32_t stored_by, staged_by;
  uint32_t last_reader;
};

class Sharing {
 public:
  Sharing(const Machine& machine, std::span<Call> calls, std::span<const uint64_t> live_bytes,
          bool stay)
      : machine_(machine),
        calls_(calls),
        used_(live_bytes.begin(), live_bytes.end()),
        last_(last_readers(calls)),
        stay_(stay) {
    for (uint32_t i = 0; i < calls.size(); ++i) use(i, last_[i], calls[i].constants.size());
  }

  void run() {
    for (uint32_t i = 0; i < calls_.size(); ++i) {
      const SharedWeights& weights = calls_[i].weights;
      if (weights.set == 0 || calls_[i].constants.empty()) continue;
      const auto [entry, added] =
          known_.try_emplace({weights.set, weights.begin, weights.bytes}, Known{i, i, last_[i]});
      if (!added) share(i, entry->second);
    }
  }

 private:
  void use(uint32_t first, uint32_t last, uint64_t bytes) {
    for (uint32_t step = first; step <= last; ++step) used_[step] += bytes;
  }

  // True if the block of `staging` may stay in SRAM from the call behind `last_reader` to `call`,
  // whose own block then has fewer bytes.
  bool stays(uint32_t staging, uint32_t last_reader, uint32_t call) const {
    if (machine_.options.constants_in_sram) return true;
    if (!stay_) return false;
    const uint64_t bytes = staged_bytes(calls_[staging]);
    for (uint32_t step = last_reader + 1; step < call; ++step)
      if (used_[step] + bytes > machine_.target.sram_bytes) return false;
    return used_[call] - calls_[call].weights.bytes + bytes <= machine_.target.sram_bytes;
  }

  void share(uint32_t index, Known& known) {
    Call& call = calls_[index];
    const Part part = weights_of(machine_.target, call);
    // Stripes of this call read its block at the offsets that it has now.
    const bool has_own_stripes = last_[index] != index;
    const bool equal = call.constants.same_as(calls_[known.stored_by].constants);
    const bool stay = !has_own_stripes && stays(known.staged_by, known.last_reader, index);
    const bool in_sram = machine_.options.constants_in_sram;
    const bool is_apart =
        !has_own_stripes && !equal && is_worth_a_copy(machine_.target, part.bytes);
    const bool removes = in_sram ? stay && !equal : stay || is_apart;
    if (!removes) {  // its own block has the weights
      known.staged_by = index;
      known.last_reader = last_[index];
      return;
    }
    const uint64_t before = call.constants.size();
    remove_weights(call, part);
    call.weights.stored_by = known.stored_by;
    if (stay) {
      call.weights.staged_by = known.staged_by;
      use(known.last_reader + 1, index, staged_bytes(calls_[known.staged_by]));
    } else {
      known.staged_by = index;
    }
    used_[index] -= before - staged_bytes(call);
    known.last_reader = index;
  }

  const Machine& machine_;
  std::span<Call> calls_;
  std::vector<uint64_t> used_;  // by call: bytes of SRAM
  const std::vector<uint32_t> last_;
  const bool stay_;
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, Known> known_;  // by set and bytes of it
};

}  // namespace

void find_shared_weights(const npu::Target& target, std::span<LoweredGraph> graphs) {
  struct Found {
    const ConstantBlock* block;
    Part part;
    uint32_t set;
  };
  std::unordered_multimap<uint64_t, Found> found;
  std::vector<std::byte> buffer, other_buffer;
  const auto bytes_of = [](const ConstantBlock& block, const Part& part,
                           std::vector<std::byte>& scratch) {
    return block.bytes(scratch).subspan(part.offset, part.bytes);
  };
  // A set of one call in a graph is not shared there.
  uint32_t sets = 0;
  for (LoweredGraph& graph : graphs) {
    std::unordered_map<uint32_t, Call*> first_of;
    for (Call& call : graph.calls) {
      const Part part = weights_of(target, call);
      if (part.bytes < kFewestBytes) continue;
      const std::span<const std::byte> bytes = bytes_of(call.constants, part, buffer);
      const uint64_t hash = content_hash(bytes);
      const auto [first, last] = found.equal_range(hash);
      auto same = std::find_if(first, last, [&](const auto& entry) {
        const Found& other = entry.second;
        return other.part.bytes == part.bytes &&
               std::ranges::equal(bytes_of(*other.block, other.part, other_buffer), bytes);
      });
      if (same == last) same = found.emplace(hash, Found{&call.constants, part, ++sets});
      const uint32_t set = same->second.set;
      const auto [earlier, is_first] = first_of.try_emplace(set, &call);
      if (is_first) continue;
      for (Call* of : {earlier->second, &call})
        of->weights = {.set = set, .begin = 0, .bytes = part.bytes};
    }
  }
}

void share_weights(const Machine& machine, std::span<Call> calls,
                   std::span<const uint64_t> live_bytes, bool stay) {
  Sharing(machine, calls, live_bytes, stay).run();
}

bool has_shared_weights(std::span<const Call> calls) {
  return std::ranges::any_of(calls, [](const Call& call) { return call.weights.set != 0; });
}

}  // namespace dtr::neutron
