// Mutations for formats that plain damage does not get into. Each is a body of
// LLVMFuzzerCustomMutator: it changes `data` in place, at most to `max_size` bytes, and returns the
// new size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace dtr::fuzz {

// A value at which sizes, counts, offsets and products go wrong, or one near `value`.
int64_t hostile_integer(std::minstd_rand& random, int64_t value);

// A file of 32-bit words, the first `fixed` bytes left alone most of the time.
size_t mutate_words(uint8_t* data, size_t size, size_t max_size, unsigned seed, size_t fixed);

// A zip archive: changes one entry, as JSON if it is that, and writes the archive again, stored,
// with right sizes and checksums. What is no archive any more, and a part of those that are, is
// damaged as bytes.
size_t mutate_zip(uint8_t* data, size_t size, size_t max_size, unsigned seed);

// JSON: a value becomes hostile, one of another kind or one from another place; a member goes,
// comes twice or takes another name. What is no JSON any more, and a part of what is, is damaged as
// bytes.
size_t mutate_json(uint8_t* data, size_t size, size_t max_size, unsigned seed);

// Text of words and numbers: one becomes another one of the text, or a number hostile; a line goes,
// comes twice or trades places with another. A part is damaged as bytes.
size_t mutate_text(uint8_t* data, size_t size, size_t max_size, unsigned seed);

}  // namespace dtr::fuzz
