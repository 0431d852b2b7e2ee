#include "host/simulator/staging.h"

#include <map>

namespace dtr::simulator {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

// Ranges of scratch that hold constants: start → (end, offset of the constant at the start).
class Staged {
 public:
  explicit Staged(const Target& target, std::vector<std::optional<StagedOperands>>& result)
      : target_(target), result_(result) {}

  Status operator()(uint32_t, const Copy& command) {
    if (command.destination.region != kScratch) return Status::kOk;
    overwrite(command.destination.offset, command.bytes);
    ranges_[command.destination.offset] = {uint64_t{command.destination.offset} + command.bytes,
                                           command.source.offset};
    return Status::kOk;
  }
  Status operator()(uint32_t index, const Conv2d& command) { return convolution(index, command); }
  Status operator()(uint32_t index, const Depthwise& command) {
    return convolution(index, command);
  }
  template <class Command>
  Status operator()(uint32_t, const Command& command) {
    written(command);
    return Status::kOk;
  }

 private:
  struct Held {
    uint64_t end;
    uint64_t constant;
  };

  template <class Command>
  Status convolution(uint32_t index, const Command& command) {
    const Accesses touched = accesses(target_, command);  // input, weights, parameters, …
    const auto weights = constant_at(touched.list[1]), parameters = constant_at(touched.list[2]);
    if (weights && parameters) result_[index] = StagedOperands{*weights, *parameters};
    written(command);
    return Status::kOk;
  }
  template <class Command>
  void written(const Command& command) {
    const Accesses touched = accesses(target_, command);
    for (const Access& access : touched.all())
      if (access.write && access.address.region == kScratch)
        overwrite(access.address.offset, access.bytes);
  }

  std::optional<uint32_t> constant_at(const Access& access) const {
    if (access.address.region == kConstants) return access.address.offset;
    if (access.address.region != kScratch) return std::nullopt;
    auto next = ranges_.upper_bound(access.address.offset);
    if (next == ranges_.begin()) return std::nullopt;
    const auto& [start, held] = *--next;
    if (access.address.offset + access.bytes > held.end) return std::nullopt;
    return static_cast<uint32_t>(held.constant + (access.address.offset - start));
  }

  // Forgets constants in [start, start + bytes).
  void overwrite(uint64_t start, uint64_t bytes) {
    const uint64_t end = start + bytes;
    auto at = ranges_.upper_bound(start);
    if (at != ranges_.begin()) --at;
    while (at != ranges_.end() && at->first < end) {
      const auto [first, held] = *at;
      if (held.end <= start) {
        ++at;
        continue;
      }
      at = ranges_.erase(at);
      if (first < start) ranges_[first] = {start, held.constant};
      if (held.end > end) ranges_[end] = {held.end, held.constant + (end - first)};
    }
  }

  const Target& target_;
  std::vector<std::optional<StagedOperands>>& result_;
  std::map<uint64_t, Held> ranges_;
};

}  // namespace

std::vector<std::optional<StagedOperands>> staged_operands(const Target& target,
                                                           const Payload& payload) {
  std::vector<std::optional<StagedOperands>> result(payload.header.command_count);
  visit(payload, Staged(target, result));
  return result;
}

}  // namespace dtr::simulator
