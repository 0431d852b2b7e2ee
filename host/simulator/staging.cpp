#include "host/simulator/staging.h"

#include <iterator>
#include <map>
#include <type_traits>

namespace dtr::simulator {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

// Ranges of scratch that copies have filled.
class CopiedRanges {
 public:
  struct Held {
    uint64_t end;
    uint64_t constant;  // offset of the constant at the start
    uint32_t copy;      // the command
  };
  void copy(uint32_t index, const Copy& command) {
    const uint32_t start = command.destination.offset;
    overwrite(start, command.bytes);
    ranges_[start] = {uint64_t{start} + command.bytes, command.source.offset, index};
  }
  // Forgets [start, start + bytes).
  void overwrite(uint64_t start, uint64_t bytes) {
    const uint64_t end = start + bytes;
    for (auto at = first_after(start); at != ranges_.end() && at->first < end;) {
      const auto [first, held] = *at;
      at = ranges_.erase(at);
      if (first < start) ranges_[first] = {start, held.constant, held.copy};
      if (held.end > end) ranges_[end] = {held.end, held.constant + (end - first), held.copy};
    }
  }
  // Forgets what a command writes.
  void written(std::span<const Access> accesses) {
    for (const Access& access : accesses)
      if (access.write && access.address.region == kScratch)
        overwrite(access.address.offset, access.bytes);
  }
  // Calls visit(start, held) for each range that overlaps [start, start + bytes).
  template <class Visit>
  void overlapping(uint64_t start, uint64_t bytes, Visit visit) const {
    for (auto at = first_after(start); at != ranges_.end() && at->first < start + bytes; ++at)
      visit(at->first, at->second);
  }

 private:
  // The first range that ends behind `start`.
  std::map<uint64_t, Held>::const_iterator first_after(uint64_t start) const {
    auto at = ranges_.upper_bound(start);
    if (at != ranges_.begin() && std::prev(at)->second.end > start) --at;
    return at;
  }
  std::map<uint64_t, Held> ranges_;  // by start
};

class Staged {
 public:
  explicit Staged(const Target& target, std::vector<std::optional<StagedOperands>>& result)
      : target_(target), result_(result) {}

  Status operator()(uint32_t index, const Copy& command) {
    if (command.destination.region == kScratch) ranges_.copy(index, command);
    return Status::kOk;
  }
  Status operator()(uint32_t index, const Conv2d& command) { return convolution(index, command); }
  Status operator()(uint32_t index, const Depthwise& command) {
    return convolution(index, command);
  }
  template <class Command>
  Status operator()(uint32_t, const Command& command) {
    const Accesses touched = accesses(target_, command);
    ranges_.written(touched.all());
    return Status::kOk;
  }

 private:
  template <class Command>
  Status convolution(uint32_t index, const Command& command) {
    const Accesses touched = accesses(target_, command);  // input, weights, parameters, …
    const auto weights = constant_at(touched.list[1]), parameters = constant_at(touched.list[2]);
    if (weights && parameters) result_[index] = StagedOperands{*weights, *parameters};
    ranges_.written(touched.all());
    return Status::kOk;
  }

  std::optional<uint32_t> constant_at(const Access& access) const {
    if (access.address.region == kConstants) return access.address.offset;
    if (access.address.region != kScratch) return std::nullopt;
    const uint64_t first = access.address.offset;
    std::optional<uint32_t> constant;
    ranges_.overlapping(first, 1, [&](uint64_t start, const CopiedRanges::Held& held) {
      if (first + access.bytes <= held.end)
        constant = static_cast<uint32_t>(held.constant + (first - start));
    });
    return constant;
  }

  const Target& target_;
  std::vector<std::optional<StagedOperands>>& result_;
  CopiedRanges ranges_;
};

class Needed {
 public:
  Needed(const Target& target, const std::function<bool(uint32_t)>& reads_packed,
         std::vector<bool>& result)
      : target_(target), reads_packed_(reads_packed), result_(result) {}

  Status operator()(uint32_t index, const Copy& command) {
    result_[index] = command.destination.region != kScratch;
    if (!result_[index]) ranges_.copy(index, command);
    return Status::kOk;
  }
  template <class Command>
  Status operator()(uint32_t index, const Command& command) {
    const Accesses touched = accesses(target_, command);
    constexpr bool kConvolves =
        std::is_same_v<Command, Conv2d> || std::is_same_v<Command, Depthwise>;
    for (size_t i = 0; i < touched.count; ++i) {
      const bool packed = kConvolves && (i == 1 || i == 2) && reads_packed_(index);
      if (!touched.list[i].write && !packed) read(touched.list[i]);
    }
    // What a call writes stays a copy's: the span of its output may have gaps.
    return Status::kOk;
  }

 private:
  void read(const Access& access) {
    if (access.address.region != kScratch) return;
    ranges_.overlapping(
        access.address.offset, access.bytes,
        [&](uint64_t, const CopiedRanges::Held& held) { result_[held.copy] = true; });
  }

  const Target& target_;
  const std::function<bool(uint32_t)>& reads_packed_;
  std::vector<bool>& result_;
  CopiedRanges ranges_;
};

}  // namespace

std::vector<std::optional<StagedOperands>> staged_operands(const Target& target,
                                                           const Payload& payload) {
  std::vector<std::optional<StagedOperands>> result(payload.header.command_count);
  visit(payload, Staged(target, result));
  return result;
}

std::vector<bool> needed_copies(const Target& target, const Payload& payload,
                                const std::function<bool(uint32_t)>& reads_packed) {
  std::vector<bool> result(payload.header.command_count, true);
  visit(payload, Needed(target, reads_packed, result));
  return result;
}

}  // namespace dtr::simulator
