#include "test/fuzz/mutators.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "compiler/support/zip_archive.h"
#include "compiler/support/zip_writer.h"

namespace dtr::fuzz {
namespace {

constexpr size_t kGrowth = 256;  // bytes by which an entry of an archive may become longer

constexpr std::array<int64_t, 24> kEdges{
    0,   1,   2,   3,   4,     7,     8,     15,      16,        17,        -1,         -2,
    127, 128, 255, 256, 32767, 65535, 65536, 1 << 30, INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX};

}  // namespace

int64_t hostile_integer(std::minstd_rand& random, int64_t value) {
  const auto wide = static_cast<uint64_t>(value);
  switch (random() % 8) {
    case 0:
    case 1:
    case 2:
      return kEdges[random() % kEdges.size()];
    case 3:
      return static_cast<int64_t>(wide + 1);
    case 4:
      return static_cast<int64_t>(wide - 1);
    case 5:
      return static_cast<int64_t>(wide << (1 + random() % 8));
    case 6:
      return static_cast<int64_t>(wide >> (1 + random() % 3));
    default:
      return static_cast<int64_t>(random() % 33);
  }
}

size_t mutate_words(uint8_t* data, size_t size, size_t max_size, unsigned seed, size_t fixed) {
  std::minstd_rand random(seed);
  if (size < fixed + 4 || random() % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const auto word = [&] { return data + fixed + 4 * (random() % ((size - fixed) / 4)); };
  uint8_t* const to = word();
  int32_t value = 0;
  std::memcpy(&value, to, sizeof value);
  if (random() % 4 == 0) {
    std::memcpy(&value, word(), sizeof value);  // what another field holds
  } else {
    value = static_cast<int32_t>(hostile_integer(random, value));
  }
  std::memcpy(to, &value, sizeof value);
  return size;
}

size_t mutate_zip(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::minstd_rand random(seed);
  const auto archive =
      random() % 8 == 0
          ? tl::unexpected(Diagnostic{})
          : ZipArchive::open(
                std::as_bytes(std::span(data, size)), "",
                {.entries = 256, .inflated_bytes = 1 << 20, .verify_checksums = false});
  if (!archive) return LLVMFuzzerMutate(data, size, max_size);
  const size_t chosen = random() % archive->entries().size();
  ZipWriter writer;
  for (size_t i = 0; i < archive->entries().size(); ++i) {
    const Result<ZipData> entry = archive->read(archive->entries()[i]);
    if (!entry) return LLVMFuzzerMutate(data, size, max_size);
    std::vector<std::byte> bytes(entry->bytes.begin(), entry->bytes.end());
    if (i == chosen) {
      const size_t before = bytes.size();
      bytes.resize(before + kGrowth);
      auto* const first = reinterpret_cast<uint8_t*>(bytes.data());
      const bool json = before > 0 && (first[0] == '{' || first[0] == '[');
      bytes.resize(json ? mutate_json(first, before, bytes.size(), static_cast<unsigned>(random()))
                        : LLVMFuzzerMutate(first, before, bytes.size()));
    }
    writer.add(archive->entries()[i].name, bytes);
  }
  const std::vector<std::byte> made = writer.finish();
  if (made.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, made.data(), made.size());
  return made.size();
}

}  // namespace dtr::fuzz
