#include "compiler/ir/constant_pool.h"

#include "compiler/ir/constant_release.h"
#include "compiler/support/heap.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace dtr {

static_assert(std::endian::native == std::endian::little, "files and hashes are little-endian");

namespace {

// Four lanes of multiply and rotate over 32-byte blocks, then a mix of what is left: fast enough
// that hashing the weights of a model does not show in compile time.
class ContentHash {
 public:
  explicit ContentHash(uint64_t seed) : lanes_{seed ^ 1, seed ^ 2, seed ^ 3, seed ^ 4} {}

  void add(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    size_ += bytes.size();
    if (held_ > 0) {
      const size_t taken = std::min(bytes.size(), kBlock - held_);
      std::memcpy(block_ + held_, bytes.data(), taken);
      held_ += taken;
      bytes = bytes.subspan(taken);
      if (held_ < kBlock) return;
      add_block(block_);
    }
    for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) add_block(bytes.data());
    held_ = bytes.size();
    if (held_ > 0) std::memcpy(block_, bytes.data(), held_);
  }

  uint64_t value() const {
    uint64_t state = size_;
    for (const uint64_t lane : lanes_) state = mix(state, lane);
    size_t at = 0;
    for (; at + 8 <= held_; at += 8) state = mix(state, load(block_ + at));
    for (; at < held_; ++at) state = mix(state, static_cast<uint64_t>(block_[at]));
    state ^= state >> 32;
    state *= kMultiplier;
    return state ^ (state >> 29);
  }

 private:
  static constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;
  static constexpr size_t kBlock = 32;
  static uint64_t mix(uint64_t state, uint64_t word) {
    return std::rotl((state ^ word) * kMultiplier, 29);
  }
  static uint64_t load(const std::byte* from) {
    uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return word;
  }
  void add_block(const std::byte* block) {
    for (size_t lane = 0; lane < 4; ++lane)
      lanes_[lane] = mix(lanes_[lane], load(block + 8 * lane));
  }

  uint64_t lanes_[4];
  uint64_t size_ = 0;
  size_t held_ = 0;  // bytes of a block that is not full
  std::byte block_[kBlock];
};

}  // namespace

uint64_t content_hash(std::span<const std::byte> bytes, uint64_t seed) {
  ContentHash hash(seed);
  hash.add(bytes);
  return hash.value();
}

uint64_t content_hash(std::span<const std::byte> bytes, std::span<const DetachedBytes> detached) {
  ContentHash hash(0);
  size_t at = 0;
  for (const DetachedBytes& part : detached) {
    hash.add(bytes.subspan(at, part.offset - at));
    hash.add(part.bytes);
    at = part.offset + part.bytes.size();
  }
  hash.add(bytes.subspan(at));
  return hash.value();
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
  Entry entry{.dtype = dtype, .hash = hash, .bytes = bytes, .owned = nullptr};
  if (copy && !bytes.empty()) {
    entry.owned.reset(new std::byte[bytes.size()]);
    std::memcpy(entry.owned.get(), bytes.data(), bytes.size());
    entry.bytes = {entry.owned.get(), bytes.size()};
    owned_bytes_ += bytes.size();
  }
  const auto index = static_cast<uint32_t>(entries_.size());
  entries_.push_back(std::move(entry));
  by_hash_.emplace(hash, index);
  return {index};
}

void ConstantPool::release_unused(const std::vector<bool>& used) {
  DTR_CHECK(used.size() == entries_.size());
  for (uint32_t index = 0; index < entries_.size(); ++index) {
    Entry& entry = entries_[index];
    if (used[index] || entry.owned == nullptr) continue;
    owned_bytes_ -= entry.bytes.size();
    entry.owned.reset();
    entry.bytes = {};
    entry.released = true;
    const auto [begin, end] = by_hash_.equal_range(entry.hash);
    by_hash_.erase(
        std::find_if(begin, end, [&](const auto& known) { return known.second == index; }));
  }
}

void ConstantRelease::release(ConstantPool& pool, const std::vector<bool>& used) {
  pool.release_unused(used);
  kept_ = pool.owned_bytes();
  return_free_memory();
}

}  // namespace dtr
