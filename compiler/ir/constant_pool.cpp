#include "compiler/ir/constant_pool.h"

#include <bit>
#include <cstring>

namespace dtr {

static_assert(std::endian::native == std::endian::little, "files and hashes are little-endian");

// Four lanes of multiply and rotate over 32-byte blocks, then a mix of what is left: fast enough
// that hashing the weights of a model does not show in compile time.
uint64_t content_hash(std::span<const std::byte> bytes, uint64_t seed) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;
  const auto mix = [](uint64_t state, uint64_t word) {
    return std::rotl((state ^ word) * kMultiplier, 29);
  };
  const auto load = [&](size_t at) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    return word;
  };
  uint64_t lanes[4] = {seed ^ 1, seed ^ 2, seed ^ 3, seed ^ 4};
  size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32)
    for (size_t lane = 0; lane < 4; ++lane) lanes[lane] = mix(lanes[lane], load(at + 8 * lane));
  uint64_t state = mix(mix(mix(mix(bytes.size(), lanes[0]), lanes[1]), lanes[2]), lanes[3]);
  for (; at + 8 <= bytes.size(); at += 8) state = mix(state, load(at));
  for (; at < bytes.size(); ++at) state = mix(state, static_cast<uint64_t>(bytes[at]));
  state ^= state >> 32;
  state *= kMultiplier;
  return state ^ (state >> 29);
}

ConstantId ConstantPool::add(DType dtype, std::span<const std::byte> bytes) {
  return find_or_add(dtype, bytes, true);
}

ConstantId ConstantPool::add_in_place(DType dtype, std::span<const std::byte> bytes) {
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % byte_size(dtype) == 0;
  return find_or_add(dtype, bytes, !aligned);
}

ConstantId ConstantPool::find_or_add(DType dtype, std::span<const std::byte> bytes, bool copy) {
  const uint64_t hash = content_hash(bytes, static_cast<uint64_t>(dtype));
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    const Entry& entry = entries_[at->second];
    const bool same =
        entry.dtype == dtype && entry.bytes.size() == bytes.size() &&
        (bytes.empty() || std::memcmp(entry.bytes.data(), bytes.data(), bytes.size()) == 0);
    if (same) return {at->second};
  }
  Entry entry{dtype, hash, bytes, nullptr};
  if (copy && !bytes.empty()) {
    entry.owned.reset(new std::byte[bytes.size()]);
    std::memcpy(entry.owned.get(), bytes.data(), bytes.size());
    entry.bytes = {entry.owned.get(), bytes.size()};
  }
  const auto index = static_cast<uint32_t>(entries_.size());
  entries_.push_back(std::move(entry));
  by_hash_.emplace(hash, index);
  return {index};
}

}  // namespace dtr
